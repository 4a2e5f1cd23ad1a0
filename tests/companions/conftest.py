"""Real databases with the real schema: companions, the journal, the bus."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.companions.models import Companion
from silas.companions.store import CompanionStore
from silas.journal.store import Journal
from silas.kernel import IdFactory
from silas.queue import Bus, QueueStore
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock
from silas.testing.companions import CompanionDevice, opened_device
from silas.testing.fakes import with_schema
from tests.companions.making import make_companion


@pytest.fixture
def ids(clock: FakeClock) -> IdFactory:
    return IdFactory(clock)


@pytest.fixture
async def database(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteDatabase]:
    """`agent.db`."""
    database = SqliteDatabase.open(with_schema(tmp_path / "agent.db", "agent"))
    await migrate(database, load_migrations("agent"), clock=clock)
    yield database
    await database.close()


@pytest.fixture
def store(database: SqliteDatabase, clock: FakeClock, ids: IdFactory) -> CompanionStore:
    return CompanionStore(database, clock=clock, ids=ids, host_id="host-a")


@pytest.fixture
async def companion(store: CompanionStore) -> Companion:
    return await make_companion(store)


@pytest.fixture
async def journal(tmp_path: Path, clock: FakeClock, ids: IdFactory) -> AsyncIterator[Journal]:
    database = SqliteDatabase.open(with_schema(tmp_path / "journal.db", "journal"))
    await migrate(database, load_migrations("journal"), clock=clock)
    yield await Journal.open(database, clock=clock, ids=ids)
    await database.close()


@pytest.fixture
async def queue(tmp_path: Path, clock: FakeClock, ids: IdFactory) -> AsyncIterator[QueueStore]:
    database = SqliteDatabase.open(with_schema(tmp_path / "silas.db", "runtime"))
    await migrate(database, load_migrations("runtime"), clock=clock)
    yield QueueStore(database, clock=clock, ids=ids, holder="here", bus=Bus(poll_seconds=0.01))
    await database.close()


@pytest.fixture
async def device(tmp_path: Path) -> AsyncIterator[CompanionDevice]:
    async with opened_device(tmp_path) as device:
        yield device


@pytest.fixture
async def agent(device: CompanionDevice) -> str:
    return (await device.service.new("planner", category_ids=[device.categories["gym"]])).id
