"""Brief transactions: where the caller is, if nobody writes; otherwise in line, once either way."""

import asyncio
from pathlib import Path

import pytest

from silas.storage import SqliteDatabase, Transaction, briefly


@pytest.fixture
async def database(tmp_path: Path):  # type: ignore[no-untyped-def]
    database = SqliteDatabase.open(tmp_path / "brief.db")
    await database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    yield database
    await database.close()


async def test_a_body_without_a_result_is_run_once(database: SqliteDatabase) -> None:
    runs: list[int] = []

    def body(tx: Transaction) -> None:
        runs.append(1)
        tx.execute("INSERT INTO t (n) VALUES (?)", (len(runs),))

    assert await briefly(database, body) is None
    assert len(runs) == 1
    assert await database.fetch_all("SELECT n FROM t") == [(1,)]


async def test_what_the_body_raises_reaches_the_caller_and_nothing_remains(
    database: SqliteDatabase,
) -> None:
    def body(tx: Transaction) -> None:
        tx.execute("INSERT INTO t (n) VALUES (1)")
        raise LookupError

    with pytest.raises(LookupError):
        await briefly(database, body)
    assert await database.fetch_all("SELECT n FROM t") == []


async def test_many_at_once_beside_the_writer_all_happen_once(database: SqliteDatabase) -> None:
    async def add(number: int) -> int:
        if number % 2:
            return await briefly(
                database, lambda tx: tx.execute("INSERT INTO t (n) VALUES (?)", (number,))
            )
        return await database.execute("INSERT INTO t (n) VALUES (?)", (number,))

    assert await asyncio.gather(*map(add, range(200))) == [1] * 200
    assert await database.fetch_one("SELECT count(*) FROM t") == (200,)
