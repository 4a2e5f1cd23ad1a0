"""Backups: consistent under load, checked before they get their name, or not there at all."""

import os
import stat
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from silas.kernel import AuditError, BackupError, strict_loads
from silas.storage import DatabaseCorrupt, DatabaseNotOpened, DiskFull
from silas.storage.backup import check_database, copy_database, write_backup
from silas.storage.errors import BackupExists, BackupNotWritten, BackupUnsettled
from tests.storage.data_directory import (
    STAMP,
    back_up,
    bring_back,
    content,
    make_data,
    quiet,
    rows_in,
    source_of,
    tree,
)
from tests.tiny_disk import make_read_only, tiny_disk

NAMES = ["audit.checkpoint", "owner.pub", "vault.json", "journal.db", "silas.db"]


def test_a_backup_is_an_ordinary_tar_file_with_the_manifest_first(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    manifest = back_up(tmp_path / "b.tar", source)
    with tarfile.open(tmp_path / "b.tar") as archive:
        assert archive.getnames() == ["manifest.json", *NAMES]
        first = archive.extractfile("manifest.json")
        assert first is not None
        listed = strict_loads(first.read())
    assert listed["format"] == "silas-backup-v1"
    assert listed["created_at"] == "2026-01-02T03:04:05.000000Z"
    assert listed["silas_version"] == "1.2.3"
    assert [entry["name"] for entry in listed["files"]] == NAMES
    assert manifest.model_dump(mode="json") == listed


def test_it_is_the_owner_s_alone_and_leaves_nothing_else(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    (tmp_path / "out").mkdir()
    back_up(tmp_path / "out" / "b.tar", source)
    assert stat.S_IMODE((tmp_path / "out" / "b.tar").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.tar"]


def test_the_data_is_not_touched_and_comes_back(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    before = tree(tmp_path / "data")
    back_up(tmp_path / "b.tar", source)
    assert tree(tmp_path / "data") == before
    bring_back(tmp_path / "b.tar", tmp_path / "again")
    assert sorted(tree(tmp_path / "again")) == sorted(NAMES)
    for name in ("silas.db", "journal.db"):
        assert rows_in(tmp_path / "again" / name) == rows_in(tmp_path / "data" / name)
    for name in ("vault.json", "owner.pub", "audit.checkpoint"):
        assert tree(tmp_path / "again")[name] == before[name]


def test_what_is_only_in_the_log_is_in_the_backup(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    running = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    running.execute("PRAGMA wal_autocheckpoint=0").fetchall()
    running.execute("INSERT INTO t (name) VALUES ('in the log')")
    running.execute("BEGIN IMMEDIATE")
    running.execute("INSERT INTO t (name) VALUES ('not committed')")
    back_up(tmp_path / "b.tar", source)
    running.close()
    bring_back(tmp_path / "b.tar", tmp_path / "again")
    assert rows_in(tmp_path / "again" / "silas.db")[-1] == (501, "in the log")


def test_row_ids_stay_what_they_are(tmp_path: Path) -> None:
    """A full-text index refers to rows by id; VACUUM would number them anew."""
    (tmp_path / "data").mkdir()
    connection = apsw.Connection(str(tmp_path / "data" / "x.db"))
    connection.execute("CREATE TABLE t (key TEXT PRIMARY KEY)")
    connection.execute("INSERT INTO t VALUES ('a'), ('b'), ('c'); DELETE FROM t WHERE key = 'a'")
    connection.close()
    copy_database(tmp_path / "data" / "x.db", tmp_path / "copy.db", progress=quiet)
    copy = apsw.Connection(str(tmp_path / "copy.db"))
    assert copy.execute("SELECT rowid, key FROM t").fetchall() == [(2, "b"), (3, "c")]
    assert copy.execute("PRAGMA journal_mode").fetchall() == [("delete",)]
    copy.close()


BUSY_PROCESS = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(60_000)
connection.execute("CREATE TABLE IF NOT EXISTS a (n INTEGER, filler TEXT)")
connection.execute("CREATE TABLE IF NOT EXISTS b (n INTEGER, filler TEXT)")
number = 0
while True:
    number += 1
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO a VALUES (?, hex(randomblob(500)))", (number,))
    connection.execute("INSERT INTO b VALUES (?, hex(randomblob(500)))", (number,))
    connection.execute("COMMIT")
    if number % 50 == 0:
        print(number, flush=True)
"""


def test_under_load_a_backup_is_the_state_of_one_moment(tmp_path: Path) -> None:
    """Another process writes pairs without pause; no backup ever holds half a pair."""
    source = make_data(tmp_path / "data", rows=20_000)
    command = [sys.executable, "-c", BUSY_PROCESS, str(tmp_path / "data" / "silas.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as busy:
        assert busy.stdout is not None
        seen = [0]
        for number in range(3):
            while (acknowledged := int(busy.stdout.readline())) <= seen[-1]:
                pass  # it has to get on first, however busy the machine is
            back_up(tmp_path / f"{number}.tar", source)
            bring_back(tmp_path / f"{number}.tar", tmp_path / f"again {number}")
            copy = apsw.Connection(str(tmp_path / f"again {number}" / "silas.db"))
            (first,) = copy.execute("SELECT count(*), max(n) FROM a").fetchall()
            (second,) = copy.execute("SELECT count(*), max(n) FROM b").fetchall()
            copy.close()
            assert first == second
            assert first[0] >= acknowledged
            assert first[0] > seen[-1]
            seen.append(first[0])
        busy.kill()


def test_a_copy_goes_on_while_others_write_between_its_steps(tmp_path: Path) -> None:
    make_data(tmp_path / "data", rows=200_000)
    writer = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    steps: list[int] = []

    def write_between(_what: str, done: int, _total: int) -> None:
        steps.append(done)
        writer.execute("UPDATE t SET name = 'changed' WHERE id = ?", (len(steps),))

    copy_database(tmp_path / "data" / "silas.db", tmp_path / "copy.db", progress=write_between)
    writer.close()
    assert len(steps) > 2
    assert steps == sorted(steps), "it never started again from the beginning"
    assert not any(name == "changed" for _, name in rows_in(tmp_path / "copy.db"))


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "directory"])
def test_what_is_there_is_not_replaced(tmp_path: Path, kind: str) -> None:
    source = make_data(tmp_path / "data")
    target = tmp_path / "b.tar"
    if kind == "file":
        target.write_text("precious")
    elif kind == "directory":
        target.mkdir()
    else:
        target.symlink_to("elsewhere" if kind == "dangling link" else "data/vault.json")
    before = tree(tmp_path)
    with pytest.raises(BackupExists, match=r"b\.tar"):
        back_up(target, source)
    assert tree(tmp_path) == before


def test_with_force_a_file_is_replaced_and_a_directory_is_not(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    (tmp_path / "b.tar").write_text("old")
    back_up(tmp_path / "b.tar", source, replace=True)
    assert tarfile.is_tarfile(tmp_path / "b.tar")
    (tmp_path / "d").mkdir()
    with pytest.raises(BackupExists):
        back_up(tmp_path / "d", source, replace=True)


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    target = tmp_path / "b.tar"
    with pytest.raises(BackupExists):
        write_backup(
            target,
            source,
            stamp=STAMP,
            replace=False,
            check=lambda _folder: target.write_text("precious") and None,
            progress=quiet,
        )
    assert target.read_text() == "precious"


def test_a_check_that_fails_leaves_nothing(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    (tmp_path / "out").mkdir()

    def object_to(folder: Path) -> None:
        assert rows_in(folder / "silas.db")
        raise AuditError("The chain is broken.")

    with pytest.raises(AuditError, match="The chain is broken"):
        write_backup(
            tmp_path / "out" / "b.tar",
            source,
            stamp=STAMP,
            replace=False,
            check=object_to,
            progress=quiet,
        )
    assert list((tmp_path / "out").iterdir()) == []


def test_a_damaged_database_is_not_backed_up_silently(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data", rows=5000)
    path = tmp_path / "data" / "journal.db"
    damaged = bytearray(path.read_bytes())
    damaged[4096 * 3 :] = b"\xa5" * (len(damaged) - 4096 * 3)
    path.write_bytes(damaged)
    with pytest.raises(DatabaseCorrupt, match=r"journal\.db"):
        back_up(tmp_path / "b.tar", source)
    assert not (tmp_path / "b.tar").exists()
    with pytest.raises(DatabaseCorrupt):
        check_database(path)


def test_keys_that_change_during_the_copy_are_copied_again(tmp_path: Path) -> None:
    """The new key must not be missing from a backup whose database already refers to it."""
    source = make_data(tmp_path / "data")
    rotations: list[str] = []

    def rotate_once(what: str, _done: int, _total: int) -> None:
        if what == "copying silas.db" and not rotations:
            rotations.append("once")
            (tmp_path / "data" / "vault.json").write_bytes(b"new key")
            connection = apsw.Connection(str(tmp_path / "data" / "silas.db"))
            connection.execute("INSERT INTO t VALUES (9999, 'signed with the new key')")
            connection.close()

    write_backup(
        tmp_path / "b.tar", source, stamp=STAMP, replace=False, check=content, progress=rotate_once
    )
    bring_back(tmp_path / "b.tar", tmp_path / "again")
    assert (tmp_path / "again" / "vault.json").read_bytes() == b"new key"
    assert rows_in(tmp_path / "again" / "silas.db")[-1] == (9999, "signed with the new key")


def test_keys_that_never_rest_are_not_backed_up(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    vault = tmp_path / "data" / "vault.json"

    def rotate_always(what: str, _done: int, _total: int) -> None:
        if what == "copying silas.db":
            vault.write_bytes(vault.read_bytes() + b"x")

    with pytest.raises(BackupUnsettled):
        write_backup(
            tmp_path / "b.tar",
            source,
            stamp=STAMP,
            replace=False,
            check=content,
            progress=rotate_always,
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_the_witness_may_move_on_but_is_never_newer_than_the_database(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    witness = tmp_path / "data" / "audit.checkpoint"

    def move_on(what: str, _done: int, _total: int) -> None:
        if what.startswith("copying"):
            witness.write_bytes(b"newer")

    write_backup(
        tmp_path / "b.tar", source, stamp=STAMP, replace=False, check=content, progress=move_on
    )
    bring_back(tmp_path / "b.tar", tmp_path / "again")
    assert (tmp_path / "again" / "audit.checkpoint").read_bytes() == b"checkpoint"


def test_what_is_moved_out_of_a_database_meanwhile_is_not_lost(tmp_path: Path) -> None:
    """The audit log moves old entries to a file: the file is written first, then they are removed.

    If that happens just before the database is copied, the file must be in the backup.
    """
    source = make_data(tmp_path / "data")

    def archive(what: str, _done: int, _total: int) -> None:
        if what == "copying silas.db" and not (tmp_path / "data" / "archive").exists():
            (tmp_path / "data" / "archive").mkdir()
            (tmp_path / "data" / "archive" / "audit-before-2026-01-01.jsonl").write_text("old")

    write_backup(
        tmp_path / "b.tar", source, stamp=STAMP, replace=False, check=content, progress=archive
    )
    bring_back(tmp_path / "b.tar", tmp_path / "again")
    archived = tmp_path / "again" / "archive" / "audit-before-2026-01-01.jsonl"
    assert archived.read_text() == "old"
    assert stat.S_IMODE(archived.stat().st_mode) == 0o600
    assert stat.S_IMODE(archived.parent.stat().st_mode) == 0o700


def test_a_source_that_is_missing_is_named(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    (tmp_path / "data" / "vault.json").unlink()
    with pytest.raises(BackupError, match=r"vault\.json"):
        back_up(tmp_path / "b.tar", source)
    missing = replace(source_of(tmp_path / "data"), steady_files={})
    (tmp_path / "data" / "journal.db").unlink()
    with pytest.raises(DatabaseNotOpened, match=r"journal\.db"):
        back_up(tmp_path / "b.tar", missing)
    assert not (tmp_path / "data" / "journal.db").exists()


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    with pytest.raises(BackupNotWritten, match="nowhere"):
        back_up(tmp_path / "nowhere" / "b.tar", source)


@pytest.mark.parametrize("kilobytes", [8, 60, 200])
def test_a_full_disk_leaves_no_partial_file(tmp_path: Path, kilobytes: int) -> None:
    source = make_data(tmp_path / "data", rows=3000)
    before = tree(tmp_path / "data")
    with tiny_disk(tmp_path / "disk", kilobytes=kilobytes) as disk:
        with pytest.raises(DiskFull):
            back_up(disk / "b.tar", source)
        assert list(disk.iterdir()) == []
    assert tree(tmp_path / "data") == before


def test_a_full_disk_keeps_the_backup_that_was_to_be_replaced(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data", rows=3000)
    with tiny_disk(tmp_path / "disk", kilobytes=200) as disk:
        (disk / "b.tar").write_bytes(b"the last good one")
        with pytest.raises(DiskFull):
            back_up(disk / "b.tar", source, replace=True)
        assert (disk / "b.tar").read_bytes() == b"the last good one"
        assert os.listdir(disk) == ["b.tar"]  # noqa: PTH208


def test_a_read_only_disk(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")
    with tiny_disk(tmp_path / "disk", kilobytes=200) as disk:
        make_read_only(disk)
        with pytest.raises(BackupNotWritten, match="Read-only"):
            back_up(disk / "b.tar", source)


def test_an_interrupted_backup_leaves_nothing(tmp_path: Path) -> None:
    source = make_data(tmp_path / "data")

    def interrupt(what: str, _done: int, _total: int) -> None:
        if what.startswith("writing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_backup(
            tmp_path / "b.tar",
            source,
            stamp=STAMP,
            replace=False,
            check=content,
            progress=interrupt,
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
