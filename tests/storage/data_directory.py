"""A data directory to back up, and what is done with the backup."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import apsw

from silas.storage.archive import Manifest
from silas.storage.backup import BackupSource, BackupStamp, write_backup
from silas.storage.restore import Restored, restore_backup

STAMP = BackupStamp(moment=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), silas_version="1.2.3")


def quiet(_what: str, _done: int, _total: int) -> None:
    """Nobody looks at the progress."""


def content(_folder: Path) -> None:
    """Nothing to object to."""


def make_data(data_dir: Path, *, rows: int = 500) -> BackupSource:
    data_dir.mkdir(parents=True)
    for name in ("silas.db", "journal.db"):
        connection = apsw.Connection(str(data_dir / name))
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute(
            "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?)"
            "INSERT INTO t (name) SELECT ? || n FROM c",
            (rows, name),
        )
        connection.close()
    (data_dir / "vault.json").write_bytes(b'{"sealed":"..."}')
    (data_dir / "owner.pub").write_bytes(b"public key")
    (data_dir / "audit.checkpoint").write_bytes(b"checkpoint")
    return source_of(data_dir)


def source_of(data_dir: Path) -> BackupSource:
    return BackupSource(
        databases={name: data_dir / name for name in ("silas.db", "journal.db")},
        steady_files={name: data_dir / name for name in ("vault.json", "owner.pub")},
        leading_files={"audit.checkpoint": data_dir / "audit.checkpoint"},
        following_files=lambda: {
            f"archive/{path.name}": path for path in (data_dir / "archive").glob("*.jsonl")
        },
    )


def back_up(target: Path, source: BackupSource, *, replace: bool = False) -> Manifest:
    return write_backup(target, source, stamp=STAMP, replace=replace, check=content, progress=quiet)


def bring_back(archive: Path, data_dir: Path, *, replace: bool = False) -> Restored:
    return restore_backup(
        archive,
        data_dir,
        moment=STAMP.moment,
        replace=replace,
        prepare=content,
        progress=quiet,
    )


def rows_in(path: Path) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT * FROM t ORDER BY id").fetchall()
    connection.close()
    return rows


def tree(folder: Path) -> dict[str, str]:
    """Everything below a folder, with the hash of each file: to see that nothing has changed."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
