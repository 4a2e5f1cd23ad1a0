"""The store of the bus on a real database."""

import pytest

from silas.kernel import IdFactory
from silas.queue import Bus, QueueStore
from silas.storage import SqliteDatabase
from silas.testing import FakeClock


@pytest.fixture
def ids(clock: FakeClock) -> IdFactory:
    return IdFactory(clock)


@pytest.fixture
def store(database: SqliteDatabase, clock: FakeClock, ids: IdFactory) -> QueueStore:
    return QueueStore(database, clock=clock, ids=ids, holder="here", bus=Bus(poll_seconds=0.01))
