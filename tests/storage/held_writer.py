"""A writer that is held up, so that a test decides which transactions wait together."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from silas.storage import Durability, SqliteDatabase, Transaction

Body = Callable[[Transaction], Any]


@asynccontextmanager
async def held(database: SqliteDatabase) -> AsyncIterator[None]:
    """While this is open, the writer is busy; what is submitted meanwhile becomes one group."""
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(_tx: Transaction) -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait()

    holding = asyncio.create_task(database.transaction(wait))
    await started.wait()
    try:
        yield
    finally:
        release.set()
        await holding


async def submit(
    database: SqliteDatabase, body: Body, *, durability: Durability = Durability.ORDINARY
) -> "asyncio.Task[Any]":
    """Start a transaction and let it reach the writer's queue."""
    task = asyncio.create_task(database.transaction(body, durability=durability))
    await asyncio.sleep(0)
    return task


async def run_as_group(database: SqliteDatabase, bodies: Sequence[Body]) -> list[Any]:
    """Run these in one group; returns each result or exception."""
    async with held(database):
        tasks = [await submit(database, body) for body in bodies]
    return await asyncio.gather(*tasks, return_exceptions=True)


def insert(name: str) -> Body:
    """A transaction that adds one row and returns how many there are."""

    def body(tx: Transaction) -> int:
        tx.execute("INSERT INTO t (name) VALUES (?)", (name,))
        row = tx.fetch_one("SELECT count(*) FROM t")
        return int(row[0]) if row else 0

    return body


async def names(database: SqliteDatabase) -> list[str]:
    return [name for (name,) in await database.fetch_all("SELECT name FROM t ORDER BY id")]
