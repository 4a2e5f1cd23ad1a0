"""The workshop of the tests of work."""

from pathlib import Path

import pytest

from silas.storage import SqliteDatabase
from silas.testing import FakeClock
from tests.work.shop import Shop


@pytest.fixture
def shop(database: SqliteDatabase, clock: FakeClock, tmp_path: Path) -> Shop:
    return Shop(database, clock, tmp_path)
