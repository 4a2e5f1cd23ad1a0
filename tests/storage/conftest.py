from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.storage import SqliteDatabase


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open database with one table `t`."""
    database = SqliteDatabase.open(tmp_path / "data" / "silas.db")
    await database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    yield database
    await database.close()
