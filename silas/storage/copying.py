"""Copies of a database that is in use, and whether a copy is sound."""

from contextlib import closing
from pathlib import Path

import apsw

from silas.storage.errors import DatabaseCorrupt, translated
from silas.storage.ports import Progress

_PAGES_AT_ONCE = 512


def copy_database(source: Path, target: Path, *, progress: Progress) -> None:
    """Write a copy of the database as it is at one moment, while others go on writing.

    The copy is page by page, so that row ids, which some indexes refer to, stay what they are.
    """
    with (
        translated(str(source)),
        closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)) as reading,
        closing(apsw.Connection(str(target))) as copy,
    ):
        reading.set_busy_timeout(5000)
        # The transaction pins the moment: without it, each write would start the copy anew.
        reading.execute("BEGIN")
        reading.execute("SELECT * FROM sqlite_schema LIMIT 1").fetchall()
        copy.execute("PRAGMA synchronous=OFF")
        with copy.backup("main", reading, "main") as backup:
            while not backup.done:
                backup.step(_PAGES_AT_ONCE)
                done = backup.page_count - backup.remaining
                progress(f"copying {source.name}", done, backup.page_count)
        # In this mode the copy is one file that needs no others beside it. It is changed with the
        # help of shared memory, and what has no room for that is the disk of the copy.
        with translated(str(target)):
            copy.execute("PRAGMA journal_mode=DELETE")


def check_database(path: Path) -> None:
    """Raise if SQLite finds anything wrong in the file, which nobody else may be using."""
    with translated(str(path)), closing(apsw.Connection(str(path))) as connection:
        problems = [text for (text,) in connection.execute("PRAGMA integrity_check(3)")]
    if problems != ["ok"]:
        raise DatabaseCorrupt(
            f"{path.name}: {DatabaseCorrupt.sentence()} ({'; '.join(map(str, problems))})"
        )


def applied_in(path: Path) -> dict[str, str]:
    """The migrations that a database file records, with their checksums; none if it has none."""
    with (
        translated(str(path)),
        closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection,
    ):
        connection.set_busy_timeout(5000)
        look = "SELECT 1 FROM sqlite_schema WHERE name = 'applied_migrations'"
        if not connection.execute(look).fetchall():
            return {}
        rows = connection.execute("SELECT id, checksum FROM applied_migrations").fetchall()
    return {str(migration_id): str(checksum) for migration_id, checksum in rows}
