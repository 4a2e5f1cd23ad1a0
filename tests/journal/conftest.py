from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.journal.place import Place, opened


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "journal.db") as place:
        yield place
