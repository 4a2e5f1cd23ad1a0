from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock
from tests.context.making import NOW


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
async def database(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase.open(tmp_path / "silas.db")
    await migrate(database, load_migrations("runtime"), clock=clock)
    yield database
    await database.close()
