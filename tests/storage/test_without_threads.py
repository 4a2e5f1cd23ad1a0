"""A database without a thread of its own, and on a disk that somebody names."""

import asyncio
import threading
from pathlib import Path

import pytest

from silas.kernel import DatabaseError
from silas.storage import Durability, SqliteDatabase, Transaction


async def test_transactions_run_on_the_event_loop(tmp_path: Path) -> None:
    database = SqliteDatabase.open(tmp_path / "a.db", threaded=False)
    here = threading.get_ident()
    where: list[int] = []

    def body(tx: Transaction) -> None:
        where.append(threading.get_ident())
        tx.execute("CREATE TABLE IF NOT EXISTS t (x)")
        tx.execute("INSERT INTO t VALUES (1)")

    try:
        await asyncio.gather(
            database.transaction(body),
            database.transaction(body, durability=Durability.TRUST),
        )
        assert where == [here, here]
        assert await database.fetch_one("SELECT count(*) FROM t") == (2,)
    finally:
        await database.close()


async def test_what_was_submitted_is_finished_when_it_is_closed(tmp_path: Path) -> None:
    database = SqliteDatabase.open(tmp_path / "a.db", threaded=False)
    task = asyncio.ensure_future(database.execute("CREATE TABLE t (x)"))
    await asyncio.sleep(0)
    await database.close()
    await task
    again = SqliteDatabase.open(tmp_path / "a.db")
    try:
        assert await again.fetch_all("SELECT * FROM t") == []
    finally:
        await again.close()


def test_a_disk_that_nobody_made(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="no such vfs"):
        SqliteDatabase.open(tmp_path / "a.db", vfs="nobody-made-this")
