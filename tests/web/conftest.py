from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

import silas.agents.models.detection
import silas.web.socket
from tests.web.browsing import chromium
from tests.web.place import Place, TestDevice, environ_for, open_place

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """To start a Chromium takes longer than most tests; one that all share lives on one loop."""
    for item in items:
        if item.path.is_relative_to(_HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is slow, not wrong: whoever has seconds to answer gets a minute."""
    monkeypatch.setattr(silas.web.socket, "_AUTH_SECONDS", 60.0)
    monkeypatch.setattr(silas.web.socket, "_LAST_SECONDS", 60.0)
    monkeypatch.setattr(silas.agents.models.detection, "_SECONDS", 60.0)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def browser(shared_browser: Browser) -> AsyncIterator[Browser]:
    """A Chromium that nobody has used: what a test opens in it is closed and forgotten."""
    assert shared_browser.contexts == []
    yield shared_browser
    for context in shared_browser.contexts:
        await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def fresh_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A Silas of this test's own."""
    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with open_place(tmp_path, environ) as place:
        yield place


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """One Silas for all tests of a file that leave nothing behind."""
    directory = tmp_path_factory.mktemp("shared")
    environ = environ_for(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", environ["HOME"])
        async with open_place(directory, environ) as place:
            yield place


@pytest.fixture
def place(fresh_place: Place) -> Place:
    return fresh_place


@pytest_asyncio.fixture(loop_scope="session")
async def device(place: Place) -> TestDevice:
    """A paired device."""
    return await place.device()
