"""Transactions that are shorter than a hop to the writer's thread."""

from collections.abc import Callable
from typing import TypeVar

from silas.storage.ports import Database, Transaction

T = TypeVar("T")


async def briefly(database: Database, body: Callable[[Transaction], T]) -> T:
    """An ordinary transaction of a few rows, done where the caller is if nobody writes just now."""
    done = database.transaction_here(lambda tx: (body(tx),))
    return done[0] if done is not None else await database.transaction(body)
