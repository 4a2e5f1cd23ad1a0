from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.web.place import Place, TestDevice, environ_for, open_place


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A whole Silas with its web page, in this process."""
    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with open_place(tmp_path, environ) as place:
        yield place


@pytest.fixture
async def device(place: Place) -> TestDevice:
    """A paired device."""
    return await place.device()
