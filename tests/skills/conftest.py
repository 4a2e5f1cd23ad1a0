"""A data directory for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.skills.place import SkillPlace, open_place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SkillPlace]:
    async with open_place(tmp_path) as place:
        yield place
