from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.memory.room import Room, open_room


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    room = await open_room(tmp_path / "silas.db")
    yield room
    await room.desk.database.close()
