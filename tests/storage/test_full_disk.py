"""A disk that is full or read-only: one sentence, nothing lost, and it goes on afterwards."""

from pathlib import Path

import apsw
import pytest

from silas.kernel import DatabaseError
from silas.storage import DatabaseReadOnly, DiskFull, Durability, SqliteDatabase, load_migrations
from silas.storage.errors import translate
from silas.storage.migrations import migrate
from silas.testing import FakeClock
from tests.storage.held_writer import insert, names, run_as_group
from tests.tiny_disk import fill, make_read_only, tiny_disk


async def insert_without_end(database: SqliteDatabase, acknowledged: list[str]) -> None:
    while True:
        name = f"{len(acknowledged)} " + "x" * 2000
        await database.transaction(insert(name), durability=Durability.TRUST)
        acknowledged.append(name)


async def test_a_full_disk_takes_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=400) as disk:
        something_to_delete = fill(disk, kilobytes=100)
        database = SqliteDatabase.open(disk / "silas.db")
        await database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        acknowledged: list[str] = []
        with pytest.raises(DiskFull, match="What was written before is kept"):
            await insert_without_end(database, acknowledged)
        assert len(acknowledged) > 10
        # With some space again, what is small enough fits, also beside something that is not.
        something_to_delete.unlink()
        results = await run_as_group(database, [insert("small"), insert("y" * 300_000)])
        assert [type(each) for each in results] == [int, DiskFull]
        await database.close()
        again = SqliteDatabase.open(disk / "silas.db")
        assert await names(again) == [*acknowledged, "small"]
        assert await again.fetch_one("PRAGMA integrity_check") == ("ok",)
        await again.close()


async def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=100) as disk:
        ballast = fill(disk)
        with pytest.raises(DiskFull):
            SqliteDatabase.open(disk / "silas.db")
        ballast.unlink()
        database = SqliteDatabase.open(disk / "silas.db")
        await database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        await database.close()


def test_an_error_that_does_not_say_so_is_known_by_the_disk(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=100) as disk:
        vague, path = apsw.IOError("disk I/O error"), str(disk / "silas.db")
        assert type(translate(vague, path=path)) is DatabaseError
        fill(disk)
        assert type(translate(vague, path=path)) is DiskFull


async def test_a_migration_on_a_full_disk_leaves_nothing_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    migrations = load_migrations("runtime")
    with tiny_disk(tmp_path / "disk", kilobytes=2000) as disk:
        database = SqliteDatabase.open(disk / "silas.db")
        await database.execute("SELECT 1")
        ballast = fill(disk)
        with pytest.raises(DiskFull):
            await migrate(database, migrations, clock=FakeClock())
        ballast.unlink()
        assert await migrate(database, migrations, clock=FakeClock()) == [m.id for m in migrations]
        await database.close()


async def test_a_disk_that_is_read_only(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=400) as disk:
        database = SqliteDatabase.open(disk / "silas.db")
        await database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        await database.close()
        before = (disk / "silas.db").read_bytes()
        make_read_only(disk)
        with pytest.raises(DatabaseReadOnly):
            SqliteDatabase.open(disk / "silas.db")
        with pytest.raises(DatabaseReadOnly):
            SqliteDatabase.open(disk / "new" / "silas.db")
        assert (disk / "silas.db").read_bytes() == before
