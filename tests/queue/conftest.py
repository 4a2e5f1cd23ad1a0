"""A real database with the real schema, and a store on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.kernel import IdFactory
from silas.queue import Bus, QueueStore
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ids(clock: FakeClock) -> IdFactory:
    return IdFactory(clock)


@pytest.fixture
async def database(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase.open(tmp_path / "silas.db")
    await migrate(database, load_migrations("runtime"), clock=clock)
    yield database
    await database.close()


@pytest.fixture
def store(database: SqliteDatabase, clock: FakeClock, ids: IdFactory) -> QueueStore:
    return QueueStore(database, clock=clock, ids=ids, holder="here", bus=Bus(poll_seconds=0.01))
