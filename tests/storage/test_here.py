"""Small transactions on the caller's own thread: at once or not at all, and never waiting."""

from pathlib import Path

import apsw
import pytest

from silas.kernel import DatabaseError
from silas.storage import Durability, Reader, SqliteDatabase, Transaction
from tests.storage.held_writer import held, insert, names

FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
PAGE = 4096


def synced(tx: Transaction) -> int:
    row = tx.fetch_one("PRAGMA synchronous")
    return int(row[0]) if row else -1


async def test_it_is_committed_when_it_returns(database: SqliteDatabase) -> None:
    assert database.transaction_here(insert("a")) == 1
    assert await names(database) == ["a"]
    assert await database.transaction(insert("b")) == 2


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
async def test_of_one_that_fails_nothing_remains(
    database: SqliteDatabase, error: BaseException, tmp_path: Path
) -> None:
    def fails(tx: Transaction) -> int:
        insert("a")(tx)
        raise error

    if isinstance(error, Exception):
        assert database.transaction_here(fails) is None
    else:
        with pytest.raises(type(error)):
            database.transaction_here(fails)
    other = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    other.execute("BEGIN IMMEDIATE; ROLLBACK")
    other.close()
    assert await database.transaction(insert("b")) == 1


async def test_it_does_not_wait_for_the_writer(database: SqliteDatabase) -> None:
    async with held(database):
        assert database.transaction_here(insert("a")) is None
    assert await names(database) == []


async def test_it_does_not_wait_for_another_process(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    other = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    other.execute("BEGIN IMMEDIATE")
    waited: list[int] = []

    def body(_tx: Transaction) -> int:
        waited.append(1)
        return 1

    assert database.transaction_here(body) is None
    assert waited == []
    other.execute("ROLLBACK")
    other.close()
    # The thread is as patient as before.
    assert database._writer._connection.execute("PRAGMA busy_timeout").fetchall() == [(5000,)]


async def test_a_statement_without_end_is_stopped(database: SqliteDatabase) -> None:
    def endless(tx: Transaction) -> int:
        insert("a")(tx)
        return len(tx.fetch_all(FOREVER))

    assert database.transaction_here(endless) is None
    assert await names(database) == []


async def test_it_never_syncs_and_what_needs_it_still_does(database: SqliteDatabase) -> None:
    normal, full = 1, 2
    assert await database.transaction(synced, durability=Durability.TRUST) == full
    assert database.transaction_here(synced) == normal
    assert await database.transaction(synced, durability=Durability.TRUST) == full


async def test_a_body_cannot_end_the_transaction(database: SqliteDatabase) -> None:
    def commits(tx: Transaction) -> int:
        insert("a")(tx)
        return tx.execute("COMMIT")

    assert database.transaction_here(commits) is None
    assert await names(database) == []


async def test_the_log_is_folded_in_time_by_the_thread(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    await database.execute("CREATE TABLE big (data BLOB)")

    def body(tx: Transaction) -> int:
        return tx.execute("INSERT INTO big VALUES (?)", (b"x" * 25 * PAGE,))

    for _ in range(400):
        if database.transaction_here(body) is None:
            await database.transaction(body)
    assert await database.fetch_one("SELECT count(*) FROM big") == (400,)
    assert (tmp_path / "data" / "silas.db-wal").stat().st_size < 4100 * PAGE


async def test_small_reads_see_one_view_and_long_ones_are_left_to_a_thread(
    database: SqliteDatabase,
) -> None:
    await database.transaction(insert("a"))
    seen: list[int] = []

    def count(reader: Reader) -> tuple[int, ...]:
        for _ in range(2):
            seen.append(len(reader.fetch_all("SELECT name FROM t")))
            database.transaction_here(insert("b"))
        return tuple(seen)

    assert database.snapshot_here(count) == (1, 1)
    assert database.snapshot_here(lambda reader: reader.fetch_one(FOREVER)) is None
    assert await names(database) == ["a", "b", "b"]
    with pytest.raises(DatabaseError):
        database.snapshot_here(lambda reader: reader.fetch_all("SELECT nothing FROM nowhere"))
    assert database.snapshot_here(count) == (1, 1, 3, 3), "no view is left open"
