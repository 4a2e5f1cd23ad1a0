"""`silas backup` and `silas restore`, as real processes on a real data directory."""

import asyncio
import json
import os
import stat
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import apsw
import pytest

from silas.app.backup import back_up
from silas.app.core import Core, open_core
from silas.approval import ApprovalToken, ChannelMessage, SignedMessage
from silas.kernel import SystemClock, TaintLevel
from silas.settings.load import load_settings
from silas.storage.archive import TREES
from silas.testing import FakePlan
from tests.approval.desk import YES
from tests.cli.machine import Machine, failure_of, output_of
from tests.cli.test_start import running
from tests.storage.data_directory import tree
from tests.tiny_disk import make_read_only, tiny_disk

T = TypeVar("T")
PLAN = FakePlan()


def on_core(machine: Machine, work: Callable[[Core], Awaitable[T]]) -> T:
    """Do something with the wired core of this machine."""

    async def inside() -> T:
        loaded = load_settings(
            data_dir=str(machine.data_dir), config_file=None, environ={}, cwd=machine.data_dir
        )
        async with open_core(loaded, environ=machine.environ) as core:
            return await work(core)

    return asyncio.run(inside())


def elsewhere(machine: Machine, data_dir: Path) -> Machine:
    """The same person on another machine, with nothing but the passphrase."""
    return Machine(data_dir, {**machine.environ, "SILAS_DATA_DIR": str(data_dir)})


def test_everything_comes_back_on_another_machine(owner: Machine, tmp_path: Path) -> None:
    secret = owner.run("secrets", "set", "api", "--stdin", stdin="s3cret value")
    assert secret.returncode == 0, secret.stderr
    file = tmp_path / "b.tar"
    written = json.loads(output_of(owner.run("backup", str(file), "--json")))
    names = [entry["name"] for entry in written["manifest"]["files"]]
    assert names == [
        *("audit.checkpoint", "owner.pub", "silas.yaml", "vault.json"),
        *("journal.db", "silas.db", "customer_context.tar", "skills.tar"),
    ]
    assert written["size"] == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    (tmp_path / "other").mkdir()
    other = elsewhere(owner, tmp_path / "other")
    said = output_of(other.run("restore", str(file)))
    assert f"Restored {other.data_dir}" in said
    assert "kept in" not in said
    for name in ("vault.json", "owner.pub", "audit.checkpoint", "silas.yaml"):
        assert (other.data_dir / name).read_bytes() == (owner.data_dir / name).read_bytes()
    keys = [json.loads(output_of(each.run("keys", "show", "--json"))) for each in (owner, other)]
    assert keys[0] == keys[1]
    stored = json.loads(output_of(other.run("secrets", "list", "--json")))["secrets"]
    assert "api" in [entry["name"] for entry in stored]
    assert stat.S_IMODE(other.data_dir.stat().st_mode) == 0o700


def test_a_kind_of_companion_that_the_owner_wrote_comes_back(
    owner: Machine, tmp_path: Path
) -> None:
    kinds = owner.data_dir / "companions"
    kinds.mkdir(mode=0o700, exist_ok=True)
    (kinds / "gardener.yaml").write_text("name: gardener\n")
    file = tmp_path / "b.tar"
    written = json.loads(output_of(owner.run("backup", str(file), "--json")))
    assert "companions.tar" in [entry["name"] for entry in written["manifest"]["files"]]

    (tmp_path / "other").mkdir()
    other = elsewhere(owner, tmp_path / "other")
    output_of(other.run("restore", str(file)))
    assert (other.data_dir / "companions" / "gardener.yaml").read_text() == "name: gardener\n"


@pytest.mark.parametrize("name", TREES)
def test_every_directory_of_a_backup_may_be_in_one(
    owner: Machine, tmp_path: Path, name: str
) -> None:
    (owner.data_dir / name).mkdir(mode=0o700, exist_ok=True)
    (owner.data_dir / name / "kept").write_text("this")
    loaded = load_settings(
        data_dir=str(owner.data_dir), config_file=None, environ={}, cwd=owner.data_dir
    )
    manifest = back_up(
        loaded.paths,
        tmp_path / "b.tar",
        clock=SystemClock(),
        replace=False,
        progress=lambda *_: None,
    )
    assert f"{name}.tar" in [entry.name for entry in manifest.files]


def test_the_audit_log_holds_before_and_after_and_tells_of_the_restore(
    owner: Machine, tmp_path: Path
) -> None:
    file = str(tmp_path / "b.tar")
    output_of(owner.run("backup", file))
    output_of(owner.run("restore", file, "--force"))

    async def look(core: Core) -> tuple[bool, list[tuple[str]]]:
        ok, _ = await core.audit.verify_chain()
        sql = "SELECT body FROM audit_log ORDER BY seq DESC LIMIT 1"
        return ok, await core.database.fetch_all(sql)

    ok, newest = on_core(owner, look)
    assert ok
    assert json.loads(newest[0][0])["event"] == "backup_restored"


def test_what_was_approved_cannot_be_used_again_after_a_restore(
    owner: Machine, tmp_path: Path
) -> None:
    """Used once after the backup, the token would be unused again in the restored state."""
    token: ApprovalToken = on_core(owner, lambda core: core.approvals.issue_token(PLAN, YES))
    file = str(tmp_path / "b.tar")
    output_of(owner.run("backup", file))
    assert on_core(owner, lambda core: core.approvals.verify(token, PLAN))[0] is True
    restored = json.loads(output_of(owner.run("restore", file, "--force", "--json")))
    assert restored["voided_approvals"] == 1
    answer = on_core(owner, lambda core: core.approvals.verify(token, PLAN))
    assert answer == (False, answer[1])
    assert "restored from a backup" in answer[1]
    assert on_core(owner, lambda core: core.approvals.check(token, PLAN))[0] is False


def test_a_message_that_was_used_cannot_be_used_again_after_a_restore(
    owner: Machine, tmp_path: Path
) -> None:
    """Its nonce was consumed after the backup, so the restored state does not know it."""
    file = str(tmp_path / "b.tar")
    output_of(owner.run("backup", file))
    messages: list[SignedMessage] = []

    async def send(core: Core) -> TaintLevel:
        if not messages:
            message = ChannelMessage(
                channel="web", sender_id="x", text="pay", timestamp=core.clock.now()
            )
            unsigned = SignedMessage(message=message, signature=b"", nonce="n1")
            signature = core.keys.sign(unsigned.canonical_bytes())[1]
            messages.append(unsigned.model_copy(update={"signature": signature}))
        return (await core.messages.classify(messages[0], core.keys.public)).taint

    assert on_core(owner, send) is TaintLevel.OWNER
    said = output_of(owner.run("restore", file, "--force"))
    assert "Wait five minutes before you talk to Silas" in said
    assert on_core(owner, send) is TaintLevel.EXTERNAL


def test_people_are_told_about_void_approvals(owner: Machine, tmp_path: Path) -> None:
    for _ in range(2):
        on_core(owner, lambda core: core.approvals.issue_token(PLAN, YES))
    file = str(tmp_path / "b.tar")
    output_of(owner.run("backup", file))
    said = output_of(owner.run("restore", file, "--force"))
    assert "The approvals in it were made void (2)" in said
    assert "What was there before is kept in" in said
    # Restored once more, there is nothing left to void, and the first reason stays.
    output_of(owner.run("backup", file, "--force"))
    again = json.loads(output_of(owner.run("restore", file, "--force", "--json")))
    assert again["voided_approvals"] == 0


def test_a_running_server_is_backed_up_and_not_replaced(owner: Machine, tmp_path: Path) -> None:
    file = str(tmp_path / "b.tar")
    with running(owner) as server:
        output_of(owner.run("backup", file))
        with tarfile.open(file) as archive:
            names = archive.getnames()
        assert not {"silas.lock", "silas.sock", "silas.db-wal", "vault.json.lock"} & set(names)
        for options in ([], ["--force"]):
            code, said = failure_of(owner.run("restore", file, *options))
            assert (code, str(server.pid) in said) == (20, True)
        output_of(owner.run("stop"))
    output_of(owner.run("restore", file, "--force"))


def test_nothing_is_overwritten_without_being_told(owner: Machine, tmp_path: Path) -> None:
    file = tmp_path / "b.tar"
    output_of(owner.run("backup", str(file)))
    before = tree(tmp_path)
    assert failure_of(owner.run("backup", str(file)))[0] == 200
    code, said = failure_of(owner.run("restore", str(file)))
    assert (code, "--force" in said) == (200, True)
    after = tree(tmp_path)
    after.pop("data/silas.lock", None)
    assert after == before
    output_of(owner.run("backup", str(file), "--force"))


def test_other_databases_come_along_and_derived_ones_do_not(owner: Machine, tmp_path: Path) -> None:
    for name in ("journal.db", "embeddings.db"):
        connection = apsw.Connection(str(owner.data_dir / name))
        connection.execute("CREATE TABLE t (id INTEGER)")
        connection.close()
    (owner.data_dir / "my.key").write_bytes(b"k" * 32)
    (owner.data_dir / "archive").mkdir()
    (owner.data_dir / "archive" / "audit-before-2026-01-01.jsonl").write_text("old entries")
    written = json.loads(output_of(owner.run("backup", str(tmp_path / "b.tar"), "--json")))
    names = {entry["name"] for entry in written["manifest"]["files"]}
    assert "journal.db" in names
    assert not names & {"embeddings.db", "my.key"}
    output_of(owner.run("restore", str(tmp_path / "b.tar"), "--force"))
    archived = owner.data_dir / "archive" / "audit-before-2026-01-01.jsonl"
    assert archived.read_text() == "old entries"


def test_a_configuration_from_elsewhere_goes_back_to_where_it_is_looked_for(
    owner: Machine, tmp_path: Path
) -> None:
    config = tmp_path / "config" / "silas.yaml"
    config.parent.mkdir()
    config.write_text(f"silas:\n  owner_id: me\n  data_dir: {owner.data_dir}\n")
    file = str(tmp_path / "b.tar")
    output_of(owner.run("--config", str(config), "backup", file))
    kept = json.loads(
        output_of(owner.run("--config", str(config), "restore", file, "--force", "--json"))
    )
    assert kept["config_file"] == str(owner.data_dir / "config.backup.yaml")
    other = elsewhere(owner, tmp_path / "other" / "data")
    other.data_dir.parent.mkdir()
    run = Machine(tmp_path, other.environ).run("restore", file, "--json")
    placed = json.loads(output_of(run))["config_file"]
    assert placed == str(other.data_dir / "silas.yaml")
    assert Path(placed).read_text() == config.read_text()
    assert not (other.data_dir / "config.backup.yaml").exists()


def damage(machine: Machine, sql: str) -> None:
    connection = apsw.Connection(str(machine.data_dir / "silas.db"))
    connection.execute(sql)
    connection.close()


def test_a_broken_audit_log_is_not_backed_up_as_if_it_were_whole(
    owner: Machine, tmp_path: Path
) -> None:
    damage(owner, "UPDATE audit_log SET body = replace(body, 'made', 'MADE') WHERE seq = 1")
    code, said = failure_of(owner.run("backup", str(tmp_path / "b.tar")))
    assert (code, "E_AUDIT_BROKEN" in said) == (50, True)
    assert not (tmp_path / "b.tar").exists()


def test_a_backup_from_a_newer_silas_is_refused(owner: Machine, tmp_path: Path) -> None:
    damage(owner, "INSERT INTO applied_migrations VALUES ('999_future', 'x', 'y')")
    file = str(tmp_path / "b.tar")
    output_of(owner.run("backup", file))
    before = tree(owner.data_dir)
    code, said = failure_of(owner.run("restore", file, "--force"))
    assert (code, "999_future" in said) == (20, True)
    assert {**tree(owner.data_dir), "silas.lock": ""} == {**before, "silas.lock": ""}
    damage(owner, "DELETE FROM applied_migrations WHERE id = '999_future'")
    connection = apsw.Connection(str(owner.data_dir / "future.db"))
    connection.execute("CREATE TABLE applied_migrations (id TEXT, checksum TEXT, applied_at TEXT)")
    connection.execute("INSERT INTO applied_migrations VALUES ('001_x', 'x', 'y')")
    connection.close()
    output_of(owner.run("backup", file, "--force"))
    code, said = failure_of(owner.run("restore", file, "--force"))
    assert (code, "future.db" in said) == (20, True)


def test_before_silas_is_set_up_there_is_nothing_to_back_up(
    machine: Machine, tmp_path: Path
) -> None:
    (machine.data_dir / "silas.db").unlink()
    assert failure_of(machine.run("backup", str(tmp_path / "b.tar")))[0] == 10


@pytest.mark.parametrize("content", [b"", b"x" * 5000])
def test_what_is_no_backup_is_refused_in_one_sentence(
    owner: Machine, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "b.tar").write_bytes(content)
    code, said = failure_of(owner.run("restore", str(tmp_path / "b.tar"), "--force"))
    assert code == 200
    assert said.count("\n") == 1
    assert failure_of(owner.run("restore", str(tmp_path / "none.tar"), "--force"))[0] == 200


def test_full_and_read_only_disks(owner: Machine, tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=100) as disk:
        code, said = failure_of(owner.run("backup", str(disk / "b.tar")))
        assert (code, said.count("\n")) == (20, 1)
        assert os.listdir(disk) == []  # noqa: PTH208
        make_read_only(disk)
        code, said = failure_of(owner.run("backup", str(disk / "b.tar")))
        assert (code, said.count("\n")) == (200, 1)


def test_on_a_terminal_it_shows_how_far_it_has_got(owner: Machine, tmp_path: Path) -> None:
    code, shown = owner.type("backup", str(tmp_path / "b.tar"), answers=[])
    assert code == 0
    assert "copying silas.db 100 %" in shown
    assert "checking silas.db 100 %" in shown
    assert shown.rstrip().endswith("Keep it elsewhere.")


def test_artifacts_and_customer_files_come_back(owner: Machine, tmp_path: Path) -> None:
    kept = owner.data_dir / "artifacts" / "plan" / "task" / "1" / "result.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("made by hand")
    (owner.data_dir / "customer_context" / "c1.json").write_text("{}")
    output_of(owner.run("backup", str(tmp_path / "b.tar")))
    elsewhere = Machine(
        tmp_path / "new", {**owner.environ, "SILAS_DATA_DIR": str(tmp_path / "new")}
    )
    output_of(elsewhere.run("restore", str(tmp_path / "b.tar"), cwd=tmp_path))
    back = elsewhere.data_dir / kept.relative_to(owner.data_dir)
    assert back.read_text() == "made by hand"
    assert (elsewhere.data_dir / "customer_context" / "c1.json").exists()
    assert not list(elsewhere.data_dir.glob("*.tar"))
