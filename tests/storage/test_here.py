"""Brief transactions: on the event loop if nobody writes, else in line, and once either way."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from silas.kernel import DatabaseError
from silas.storage import DatabaseBusy, Durability, Reader, SqliteDatabase, Transaction
from tests.storage.held_writer import held, insert, names

FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
PAGE = 4096


def thread_of(_tx: Transaction) -> threading.Thread:
    return threading.current_thread()


def synced(tx: Transaction) -> int:
    row = tx.fetch_one("PRAGMA synchronous")
    return int(row[0]) if row else -1


async def test_it_runs_on_the_loop_and_is_committed_when_it_returns(
    database: SqliteDatabase,
) -> None:
    assert await database.transaction(thread_of, brief=True) is threading.current_thread()
    assert await database.transaction(thread_of) is not threading.current_thread()
    assert await database.transaction(insert("a"), brief=True) == 1
    assert await names(database) == ["a"]
    assert await database.transaction(insert("b")) == 2


async def test_those_of_one_turn_share_a_commit_and_others_in_line_take_them_along(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    many = [database.transaction(insert(str(n)), brief=True) for n in range(200)]
    assert await asyncio.gather(*many) == list(range(1, 201))
    mixed = [database.transaction(thread_of, brief=bool(n % 2)) for n in range(4)]
    assert threading.current_thread() not in await asyncio.gather(*mixed)


async def test_of_one_that_fails_nothing_remains_and_its_caller_hears_of_it(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    def fails(tx: Transaction) -> int:
        insert("a")(tx)
        raise LookupError

    beside = asyncio.create_task(database.transaction(insert("b"), brief=True))
    with pytest.raises(LookupError):
        await database.transaction(fails, brief=True)
    await beside
    other = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    other.execute("BEGIN IMMEDIATE; ROLLBACK")
    other.close()
    assert await names(database) == ["b"]


async def test_one_that_was_cancelled_before_its_turn_is_not_run(
    database: SqliteDatabase,
) -> None:
    task = asyncio.create_task(database.transaction(insert("a"), brief=True))
    async with held(database):
        task.cancel()
    assert await database.transaction(insert("b"), brief=True) >= 1
    assert "b" in await names(database)


async def test_the_loop_does_not_wait_for_the_writer(database: SqliteDatabase) -> None:
    async with held(database):
        task = asyncio.create_task(database.transaction(insert("a"), brief=True))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
    assert await task == 1


async def test_the_loop_does_not_wait_for_another_process(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    other = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    other.execute("BEGIN IMMEDIATE")
    database._writer._busy_timeout_ms = 1
    database._writer._connection.set_busy_timeout(1)
    with pytest.raises(DatabaseBusy):
        await database.transaction(insert("a"), brief=True)
    other.execute("ROLLBACK")
    other.close()
    assert await database.transaction(insert("a"), brief=True) == 1


async def test_a_long_statement_is_stopped_and_left_to_the_thread(
    database: SqliteDatabase,
) -> None:
    ran_on: list[threading.Thread] = []

    def long(tx: Transaction) -> int:
        ran_on.append(threading.current_thread())
        return len(tx.fetch_all(FOREVER.replace("FROM n)", "FROM n LIMIT 300000)")))

    assert await database.transaction(long, brief=True) == 1
    assert ran_on[0] is threading.current_thread()
    assert ran_on[-1] is not threading.current_thread()


async def test_it_never_syncs_and_what_needs_it_still_does(database: SqliteDatabase) -> None:
    normal, full = 1, 2
    assert await database.transaction(synced, durability=Durability.TRUST, brief=True) == full
    assert await database.transaction(synced, brief=True) == normal
    assert await database.transaction(synced, durability=Durability.TRUST) == full


async def test_a_body_cannot_end_the_transaction(database: SqliteDatabase) -> None:
    def commits(tx: Transaction) -> int:
        insert("a")(tx)
        return tx.execute("COMMIT")

    with pytest.raises(DatabaseError):
        await database.transaction(commits, brief=True)
    assert await names(database) == []


async def test_the_log_is_folded_in_time_by_the_thread(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    await database.execute("CREATE TABLE big (data BLOB)")

    def body(tx: Transaction) -> int:
        return tx.execute("INSERT INTO big VALUES (?)", (b"x" * 25 * PAGE,))

    for _ in range(400):
        await database.transaction(body, brief=True)
    assert await database.fetch_one("SELECT count(*) FROM big") == (400,)
    assert (tmp_path / "data" / "silas.db-wal").stat().st_size < 4100 * PAGE


async def test_small_reads_see_one_view_and_long_ones_are_left_to_a_thread(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    await database.transaction(insert("a"))
    other = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    seen: list[int] = []

    def count(reader: Reader) -> tuple[int, ...]:
        for _ in range(2):
            seen.append(len(reader.fetch_all("SELECT name FROM t")))
            other.execute("INSERT INTO t (name) VALUES ('b')")
        return tuple(seen)

    assert database.snapshot_here(count) == (1, 1)
    assert database.snapshot_here(lambda reader: reader.fetch_one(FOREVER)) is None
    assert await names(database) == ["a", "b", "b"]
    with pytest.raises(DatabaseError):
        database.snapshot_here(lambda reader: reader.fetch_all("SELECT nothing FROM nowhere"))
    assert database.snapshot_here(count) == (1, 1, 3, 3), "no view is left open"
    other.close()
