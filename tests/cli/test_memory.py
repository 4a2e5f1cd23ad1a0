import asyncio
import json
from pathlib import Path

from silas.kernel import SystemClock, TaintLevel
from silas.memory.changes import MemoryChanges
from silas.memory.errors import BundleRefused, MemoryUnknown, TrustRefused
from silas.memory.models import MemoryOp, MemoryOpType, Words
from silas.memory.preferences import INFERRED
from silas.memory.store import MemoryStores
from silas.storage import SqliteDatabase
from tests.cli.machine import Machine, failure_of, output_of
from tests.memory.room import a_memory


def remember(machine: Machine, *texts: str, **fields) -> None:
    async def store() -> None:
        database = SqliteDatabase.open(machine.data_dir / "silas.db")
        memories = MemoryStores(database, clock=SystemClock())
        await memories.of("owner").store_many(
            [a_memory(text, memory_id=text.split()[0], **fields) for text in texts]
        )
        await database.close()

    asyncio.run(store())


def answer(machine: Machine, *arguments: str):
    return json.loads(output_of(machine.run("memory", *arguments, "--json")))


def test_search_show_list_and_stats(owner: Machine) -> None:
    remember(owner, "tea is green", "boats are blue")
    remember(owner, "page says tea cures all", taint=TaintLevel.EXTERNAL)
    found = answer(owner, "search", "green tea")["memories"]
    assert found[0]["memory_id"] == "tea"
    assert found[0]["relevance"] == 1.0
    assert answer(owner, "search", "tea", "--strategy", "keyword", "--limit", "1")["memories"]
    assert answer(owner, "search", "tea", "--scope", "somebody")["memories"] == []
    assert answer(owner, "show", "boats")["memory"]["content"] == "boats are blue"
    assert [m["memory_id"] for m in answer(owner, "list")["memories"]] == ["page", "boats", "tea"]
    assert answer(owner, "stats")["taint"] == {"owner": 2, "external": 1}
    remember(owner, "The owner usually approves boats.", source_kind=INFERRED)
    listed = output_of(owner.run("memory", "list"))
    assert "boats are blue" in listed
    assert "You usually approve boats." in listed
    code, told = failure_of(owner.run("memory", "show", "nothing"))
    assert code == MemoryUnknown.exit_code
    assert "silas memory list" in told


def test_export_import_and_forget(owner: Machine, tmp_path: Path) -> None:
    remember(owner, "tea is green", "boats are blue")
    bundle = tmp_path / "memories.jsonl"
    assert answer(owner, "export", str(bundle))["count"] == 2
    assert bundle.stat().st_mode & 0o077 == 0
    assert owner.run("memory", "export", str(bundle)).returncode == 2
    assert owner.run("memory", "forget", "tea").returncode == 2  # nobody can be asked
    gone = answer(owner, "forget", "--query", "green tea", "--yes")
    assert (gone["memories"], gone["kept"]) == (1, [])
    assert answer(owner, "search", "green")["memories"] == []
    done = answer(owner, "import", str(bundle))
    assert (done["added"], done["kept"]) == (1, 1)
    assert answer(owner, "show", "tea")["memory"]["taint"] == "owner"
    log = output_of(owner.run("audit", "tail", "--json"))
    assert "memory_forgotten" in log
    assert "green" not in log


def test_a_broken_bundle_is_refused(owner: Machine, tmp_path: Path) -> None:
    bundle = tmp_path / "x.jsonl"
    bundle.write_text("{}\n")
    code, told = failure_of(owner.run("memory", "import", str(bundle)))
    assert code == BundleRefused.exit_code
    assert "bundle" in told


def test_trusted_memories_come_in_only_by_the_hash_of_what_is_shown(
    owner: Machine, tmp_path: Path
) -> None:
    remember(owner, "tea is green")
    bundle = tmp_path / "memories.jsonl"
    output_of(owner.run("memory", "export", str(bundle)))
    assert owner.run("memory", "import", str(bundle), "--approve", "0" * 64).returncode == 2
    shown = owner.run("memory", "import", str(bundle), "--confirm").stdout.decode()
    digest = shown.rsplit("hash ", 1)[1].split()[0]
    done = answer(owner, "import", str(bundle), "--approve", digest)
    assert done["kept"] == 1


def test_reindex(owner: Machine) -> None:
    remember(owner, "tea is green")
    assert answer(owner, "reindex") == {"embedded": 1, "removed": 0, "vectors": 1}
    assert "1 vectors" in output_of(owner.run("memory", "reindex"))


def test_changes_of_a_conversation_are_shown_and_undone(owner: Machine) -> None:
    remember(owner, "tea is green")
    op = MemoryOp(op=MemoryOpType.UPDATE, memory_id="tea", content="tea is black")

    async def change() -> str:
        database = SqliteDatabase.open(owner.data_dir / "silas.db")
        changes = MemoryChanges(MemoryStores(database, clock=SystemClock()))
        made = await changes.make(
            op, scope_id="owner", taint=TaintLevel.OWNER, words=Words.MODEL, key="k"
        )
        await database.close()
        return made.change_id

    name = asyncio.run(change())
    assert "worded by a model, not by the owner" in output_of(owner.run("memory", "list"))
    assert [each["change_id"] for each in answer(owner, "changes")["changes"]] == [name]
    assert "tea is green" in output_of(owner.run("memory", "undo", name))
    assert answer(owner, "show", "tea")["memory"]["taint"] == "owner"
    assert "undone already" in failure_of(owner.run("memory", "undo", name))[1]


def shown_hash(machine: Machine, *arguments: str) -> str:
    """What a confirmation would be over; nobody is there to give it."""
    run = machine.run("memory", "confirm", *arguments)
    assert run.returncode == TrustRefused.exit_code
    assert "It was not confirmed. Nothing was changed." in run.stderr.decode()
    return run.stdout.decode().rsplit("hash ", 1)[1].split()[0]


def test_what_the_owner_confirms_is_relied_on(owner: Machine) -> None:
    remember(owner, "tea is green", "boats are blue")
    remember(owner, "page says tea cures all", taint=TaintLevel.EXTERNAL)
    digest = shown_hash(owner, "tea")
    assert answer(owner, "show", "tea")["memory"]["trust_level"] == "working"
    assert owner.run("memory", "confirm", "boats", "--approve", digest).returncode == 2
    output_of(owner.run("memory", "confirm", "tea", "--approve", digest))
    assert answer(owner, "show", "tea")["memory"]["trust_level"] == "verified"
    yes = ("--constitutional", "--approve", shown_hash(owner, "boats", "--constitutional"))
    assert "boats is constitutional now." in output_of(
        owner.run("memory", "confirm", "boats", *yes)
    )
    assert answer(owner, "show", "boats")["memory"]["trust_level"] == "constitutional"
    # What came from outside is relied on by nobody's yes.
    assert owner.run("memory", "confirm", "page").returncode == TrustRefused.exit_code
    assert owner.run("memory", "confirm", "nothing").returncode == MemoryUnknown.exit_code


def test_a_memory_is_corrected_in_the_owners_words_and_put_back(owner: Machine) -> None:
    remember(owner, "tea is green")
    change = answer(owner, "correct", "tea", "tea is black")["change"]
    shown = answer(owner, "show", "tea")["memory"]
    assert (shown["content"], shown["origin"]) == ("tea is black", "Your words")
    output_of(owner.run("memory", "undo", change["change_id"]))
    assert answer(owner, "show", "tea")["memory"]["content"] == "tea is green"
    code, told = failure_of(owner.run("memory", "correct", "tea", "my pin is 1234"))
    assert code == MemoryUnknown.exit_code
    assert "`silas secrets set pin`" in told
