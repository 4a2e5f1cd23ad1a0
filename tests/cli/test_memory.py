import asyncio
import json
from pathlib import Path

from silas.kernel import SystemClock, TaintLevel
from silas.memory.errors import BundleRefused, MemoryUnknown
from silas.memory.store import Memories
from silas.storage import SqliteDatabase
from tests.cli.machine import Machine, failure_of, output_of
from tests.memory.room import a_memory


def remember(machine: Machine, *texts: str, **fields) -> None:
    async def store() -> None:
        database = SqliteDatabase.open(machine.data_dir / "silas.db")
        memories = Memories(database, clock=SystemClock())
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
    assert "boats are blue" in output_of(owner.run("memory", "list"))
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


LOCOMO = [
    {
        "sample_id": "c1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted a dog called Rex."},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Lovely, what breed is he?"},
                {"speaker": "Ann", "dia_id": "D1:3", "text": "A beagle, three years old."},
            ],
        },
        "qa": [{"question": "What breed is Rex?", "evidence": ["D1:3"], "category": 4}],
    }
]


def test_eval_locomo(owner: Machine, tmp_path: Path) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps(LOCOMO))
    report = json.loads(output_of(owner.run("eval", "locomo", str(file), "--json")))
    assert (report["turns"], report["questions"]) == (3, 1)
    assert report["systems"]["fused"]["recall@5"] == 1.0
    assert set(report["systems"]) >= {"keyword", "semantic", "fused with vectors", "causal"}
    table = output_of(owner.run("eval", "locomo", str(file)))
    assert "single-hop" in table
    file.write_text("[1]")
    assert owner.run("eval", "locomo", str(file)).returncode == 2
