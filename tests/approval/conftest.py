from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.approval.desk import Desk, open_desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = await open_desk(tmp_path / "silas.db")
    yield desk
    await desk.database.close()
