"""The driver: reads beside writes, a loop that is never blocked, an orderly end."""

import asyncio
import stat
import sys
import threading
from asyncio.subprocess import PIPE
from pathlib import Path

import apsw
import pytest

from silas.kernel import DatabaseError
from silas.storage import DatabaseNotOpened, DatabaseReadOnly, Reader, SqliteDatabase
from tests.storage.held_writer import held, insert, names, submit

COUNT_TO = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?)"


def listing(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def test_reads_see_what_was_committed(database: SqliteDatabase) -> None:
    for n in range(1, 50):
        await database.transaction(insert(f"row {n}"))
        assert await database.fetch_one("SELECT count(*) FROM t") == (n,)
    assert await database.fetch_one("SELECT name FROM t WHERE id = ?", (7,)) == ("row 7",)
    assert await database.fetch_one("SELECT name FROM t WHERE id = 99") is None
    assert await database.fetch_all("SELECT id FROM t WHERE id < ?", (3,)) == [(1,), (2,)]
    assert await database.fetch_all("SELECT id FROM t WHERE id > 99") == []


async def test_values_come_back_as_they_were(database: SqliteDatabase) -> None:
    values = (None, 2**62, 1.5, "text \U0001f600", b"\x00\xff")
    assert await database.fetch_one("SELECT ?, ?, ?, ?, ?", values) == values


async def test_reads_do_not_wait_for_a_writer(database: SqliteDatabase) -> None:
    async with held(database):
        waiting = await submit(database, insert("not yet"))
        assert await database.fetch_all("SELECT * FROM t") == []
        assert await database.snapshot(lambda reader: reader.fetch_all("SELECT * FROM t")) == []
    assert await waiting == 1


async def test_a_heavy_read_does_not_block_the_loop(database: SqliteDatabase) -> None:
    turns = 0
    for count in (1_000_000, 10_000_000, 50_000_000):
        sql = f"{COUNT_TO} SELECT count(*) FROM c"
        reading = asyncio.create_task(database.fetch_one(sql, (count,)))
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        assert await reading == (count,)
        if turns > 100:  # else this thread may only have been unlucky on a busy machine
            break
    assert turns > 100


async def test_a_heavy_result_is_whole(database: SqliteDatabase) -> None:
    rows = await database.fetch_all(f"{COUNT_TO} SELECT n FROM c", (50_000,))
    assert rows == [(n,) for n in range(1, 50_001)]


async def test_light_reads_take_no_thread(database: SqliteDatabase) -> None:
    """A read that finishes within its budget is done when its first step is done.

    However often it is run: the budget is for one read, not for all of them together.
    """
    for _ in range(5000):
        reading = database.fetch_one("SELECT count(*) + 42 FROM t WHERE name = ?", ("nobody",))
        with pytest.raises(StopIteration) as finished:
            reading.send(None)
        assert finished.value.value == (42,)


async def test_many_heavy_reads_at_once(database: SqliteDatabase) -> None:
    sql = f"{COUNT_TO} SELECT count(*) FROM c"
    counts = await asyncio.gather(
        *(database.fetch_one(sql, (100_000 + n,)) for n in range(12)),
    )
    assert counts == [(100_000 + n,) for n in range(12)]


async def test_a_snapshot_stays_the_same_while_others_write(database: SqliteDatabase) -> None:
    await database.transaction(insert("before"))
    looked, written = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def body(reader: Reader) -> tuple[object, ...]:
        first = reader.fetch_one("SELECT count(*) FROM t")
        loop.call_soon_threadsafe(looked.set)
        written.wait()
        one_by_one = list(reader.rows("SELECT name FROM t"))
        return first, reader.fetch_one("SELECT count(*) FROM t"), one_by_one

    snapshot = asyncio.create_task(database.snapshot(body))
    await looked.wait()
    await database.transaction(insert("meanwhile"))
    written.set()
    assert await snapshot == ((1,), (1,), [("before",)])
    assert await database.snapshot(lambda reader: reader.fetch_all("SELECT name FROM t")) == [
        ("before",),
        ("meanwhile",),
    ]


async def test_rows_left_open_do_not_keep_a_reader_in_the_past(database: SqliteDatabase) -> None:
    await database.transaction(insert("a"))
    await database.transaction(insert("b"))

    def leave_open(reader: Reader) -> object:
        rows = reader.rows("SELECT name FROM t")
        next(rows)
        return rows

    rows = await database.snapshot(leave_open)
    await database.transaction(insert("c"))
    sql = "SELECT count(*) FROM t"
    assert await database.snapshot(lambda reader: reader.fetch_one(sql)) == (3,)
    with pytest.raises(DatabaseError):
        next(rows)  # type: ignore[call-overload]


async def test_a_reader_cannot_be_used_after_its_end(database: SqliteDatabase) -> None:
    kept: list[Reader] = []
    await database.snapshot(kept.append)
    with pytest.raises(DatabaseError, match="has ended"):
        kept[0].fetch_one("SELECT 1")


@pytest.mark.parametrize("kind", [LookupError, OSError, StopAsyncIteration])
async def test_an_exception_of_a_snapshot_reaches_its_caller_unchanged(
    database: SqliteDatabase, kind: type[Exception]
) -> None:
    error = kind("mine")

    def body(_reader: Reader) -> None:
        raise error

    with pytest.raises(kind) as caught:
        await database.snapshot(body)
    assert caught.value is error
    assert await database.snapshot(lambda reader: reader.fetch_one("SELECT 1")) == (1,)


WRITES = [
    "INSERT INTO t (name) VALUES ('no')",
    "CREATE TABLE other (id INTEGER)",
    "DROP TABLE t",
    "PRAGMA query_only = OFF; INSERT INTO t (name) VALUES ('no')",
    "PRAGMA user_version = 7",
]


@pytest.mark.parametrize("sql", WRITES)
async def test_a_reading_connection_cannot_write(database: SqliteDatabase, sql: str) -> None:
    with pytest.raises(DatabaseReadOnly):
        await database.fetch_all(sql)
    with pytest.raises(DatabaseReadOnly):
        await database.fetch_one(sql)
    with pytest.raises(DatabaseReadOnly):
        await database.snapshot(lambda reader: reader.fetch_all(sql))
    with pytest.raises(DatabaseReadOnly):
        await database.snapshot(lambda reader: list(reader.rows(sql)))
    assert await names(database) == []


async def test_files_are_the_owner_s_alone(database: SqliteDatabase, tmp_path: Path) -> None:
    await database.transaction(insert("so that there is a log"))
    files = sorted((tmp_path / "data").iterdir())
    assert [file.name for file in files] == ["silas.db", "silas.db-shm", "silas.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


async def test_the_settings_of_the_file(database: SqliteDatabase) -> None:
    def setting(name: str) -> object:
        return writing.execute(f"PRAGMA {name}").fetchall()[0][0]

    writing = database._writer._connection
    assert setting("journal_mode") == "wal"
    assert setting("foreign_keys") == 1
    assert setting("trusted_schema") == 0
    assert setting("busy_timeout") == 5000
    assert setting("fullfsync") == 1


async def test_work_that_was_accepted_is_finished_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "silas.db"
    database = SqliteDatabase.open(path)
    await database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    sql = f"{COUNT_TO} SELECT count(*) FROM c"
    writes = [asyncio.create_task(database.transaction(insert(f"{n}"))) for n in range(50)]
    read = asyncio.create_task(database.fetch_one(sql, (300_000,)))
    await asyncio.sleep(0)
    await database.close()
    assert await asyncio.gather(*writes) == list(range(1, 51))
    assert await read == (300_000,)
    again = apsw.Connection(str(path))
    assert again.execute("SELECT count(*) FROM t").fetchall() == [(50,)]
    again.close()


async def test_after_the_end_nothing_works_and_closing_again_is_fine(
    database: SqliteDatabase,
) -> None:
    await database.close()
    await database.close()
    for use in (
        database.execute("SELECT 1"),
        database.fetch_one("SELECT 1"),
        database.fetch_all("SELECT 1"),
        database.transaction(insert("no")),
        database.snapshot(lambda reader: reader.fetch_one("SELECT 1")),
    ):
        with pytest.raises(DatabaseNotOpened, match="has been closed"):
            await use


async def test_the_end_leaves_one_file(tmp_path: Path) -> None:
    database = SqliteDatabase.open(tmp_path / "silas.db")
    await database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    await asyncio.gather(*(database.transaction(insert("x")) for _ in range(5)))
    await database.snapshot(lambda reader: reader.fetch_all("SELECT * FROM t"))
    await database.close()
    assert listing(tmp_path) == ["silas.db"]
    assert not [each for each in threading.enumerate() if str(tmp_path) in each.name]


COUNTING_PROCESS = """
import asyncio, sys
from pathlib import Path
from silas.storage import SqliteDatabase

def count_up(tx):
    (value,) = tx.fetch_one("SELECT value FROM counter")
    tx.execute("UPDATE counter SET value = ?", (value + 1,))

async def main():
    database = SqliteDatabase.open(Path(sys.argv[1]))
    for _ in range(10):
        await asyncio.gather(*(database.transaction(count_up) for _ in range(10)))
    await database.close()

asyncio.run(main())
"""


async def test_processes_share_a_database(database: SqliteDatabase, tmp_path: Path) -> None:
    await database.execute("CREATE TABLE counter (value INTEGER)")
    await database.execute("INSERT INTO counter VALUES (0)")
    path = str(tmp_path / "data" / "silas.db")
    command = [sys.executable, "-W", "error", "-c", COUNTING_PROCESS, path]
    children = [await asyncio.create_subprocess_exec(*command, stderr=PIPE) for _ in range(3)]
    for child in children:
        _, errors = await child.communicate()
        assert (child.returncode, errors) == (0, b"")
    assert await database.fetch_one("SELECT value FROM counter") == (300,)
