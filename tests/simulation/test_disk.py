"""The disk that fails on purpose does what it says: what was synced is there, the rest perhaps."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from silas.kernel import DatabaseError
from silas.storage import DiskFull, Durability, SqliteDatabase
from silas.testing.disk import Fault, FaultyDisk, Touch

FINE = Fault.NONE


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    disk = FaultyDisk(lambda _: FINE)
    yield disk
    disk.drop_connections()
    disk.close()


async def opened(disk: FaultyDisk, folder: Path) -> SqliteDatabase:
    database = SqliteDatabase.open(folder / "a.db", vfs=disk.name)
    await database.execute("CREATE TABLE IF NOT EXISTS t (x)", durability=Durability.TRUST)
    return database


async def put(database: SqliteDatabase, value: int, durability: Durability) -> None:
    await database.execute("INSERT INTO t VALUES (?)", (value,), durability=durability)


async def found_after(disk: FaultyDisk, folder: Path, *, power: bool) -> list[int]:
    disk.die(power=power)
    disk.drop_connections()
    disk.restart()
    database = await opened(disk, folder)
    rows = [x for (x,) in await database.fetch_all("SELECT x FROM t ORDER BY x")]
    await database.close()
    return rows


async def test_a_killed_process_loses_nothing(disk: FaultyDisk, tmp_path: Path) -> None:
    database = await opened(disk, tmp_path)
    await put(database, 1, Durability.TRUST)
    await put(database, 2, Durability.ORDINARY)
    assert await found_after(disk, tmp_path, power=False) == [1, 2]


async def test_a_power_cut_takes_only_what_was_not_synced(tmp_path: Path) -> None:
    seen = set()
    for seed in range(12):
        folder = tmp_path / str(seed)
        disk = FaultyDisk(lambda _: FINE, chance=Random(seed))
        database = await opened(disk, folder)
        await put(database, 1, Durability.TRUST)
        for value in range(2, 6):
            await put(database, value, Durability.ORDINARY)
        rows = await found_after(disk, folder, power=True)
        disk.close()
        assert rows == list(range(1, len(rows) + 1)), "later ones without earlier ones"
        seen.add(len(rows))
    assert min(seen) == 1
    assert len(seen) > 1


async def test_a_torn_write_is_no_commit(tmp_path: Path) -> None:
    armed = False

    def plan(touch: Touch) -> Fault:
        return Fault.TORN if armed and touch.kind == "write" else FINE

    disk = FaultyDisk(plan)
    database = await opened(disk, tmp_path)
    await put(database, 1, Durability.TRUST)
    armed = True
    with pytest.raises(DatabaseError, match="power"):
        await put(database, 2, Durability.TRUST)
    armed = False
    assert await found_after(disk, tmp_path, power=True) == [1]
    disk.close()


async def test_a_full_disk_says_so_and_recovers(tmp_path: Path) -> None:
    full = False
    disk = FaultyDisk(lambda touch: Fault.FULL if full and touch.kind == "write" else FINE)
    database = await opened(disk, tmp_path)
    full = True
    with pytest.raises(DiskFull):
        await put(database, 1, Durability.TRUST)
    full = False
    await put(database, 2, Durability.TRUST)
    assert await database.fetch_all("SELECT x FROM t") == [(2,)]
    await database.close()
    disk.close()


def test_a_disk_that_was_closed_is_gone(tmp_path: Path) -> None:
    disk = FaultyDisk(lambda _: FINE)
    disk.close()
    with pytest.raises(DatabaseError, match="no such vfs"):
        SqliteDatabase.open(tmp_path / "a.db", vfs=disk.name)
