"""In a real Chromium: the first run, and the choice of a model later on."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from pydantic_ai.models import override_allow_model_requests

from silas.agents.models.detection import LocalServer
from silas.testing.model_server import ModelServer, model_server
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place, environ_for, open_place
from tests.web.test_onboarding import KEY, thinks

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture(loop_scope="session")
async def server() -> AsyncIterator[ModelServer]:
    with override_allow_model_requests(True):
        async with model_server(thinks) as server:
            yield server


@pytest_asyncio.fixture(loop_scope="session")
async def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ModelServer
) -> AsyncIterator[Place]:
    environ = environ_for(tmp_path, SILAS_MODELS__BASE_URL=server.url)
    monkeypatch.setenv("HOME", environ["HOME"])
    known = [LocalServer("Test", int(re.findall(r":(\d+)", server.url)[0]))]
    async with asyncio.timeout(400), open_place(tmp_path, environ, servers=known) as place:
        place.ground.paths.first_run.unlink()
        yield place


async def test_four_taps_with_a_model_of_this_machine_and_never_again(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await page.get_by_role("button", name="Begin").click()
    await page.get_by_role("button", name="served-model").click()
    await expect(page.get_by_text("What shall I call you?")).to_be_visible()
    await page.get_by_label("Your name").fill("Ada")
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_text("Ready, Ada.")).to_be_visible()
    await page.get_by_role("button", name="Start").click()
    await expect(page.locator("dialog.first")).to_have_count(0)
    said = page.locator(".message.owner:not(.unsent) .bubble")
    await expect(said).to_have_text("Remember that my name is Ada")
    assert place.web.reload is not None
    assert place.web.reload().settings.models.proxy == "openai:served-model"
    await page.reload()
    await person.is_in()
    await expect(page.locator(".bubble")).to_be_visible()
    assert await page.locator("dialog.first").count() == 0
    assert person.complaints == []


async def test_with_the_keyboard_a_key_is_tested_and_a_wrong_one_changes_nothing(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, DESK)
    page = person.page
    await person.pair(place.web.link())
    await page.locator("button:focus", has_text="Begin").wait_for()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="served-model")).to_be_visible()
    await page.get_by_text("A provider's model").focus()
    await page.get_by_text("A provider's model").click()
    await page.get_by_label("Provider").select_option("openai")
    await page.get_by_label("Model").fill("gpt-4o-mini")
    await page.get_by_label("API key").fill("sk-wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert").last).to_contain_text("API key")
    assert await page.get_by_label("API key").input_value() == ""
    await page.get_by_label("API key").fill(KEY)
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("What shall I call you?")).to_be_visible()
    assert place.ground.vault.get("models/openai") == KEY.encode()
    await page.keyboard.press("Enter")
    await page.locator("button:focus", has_text="Start").wait_for()
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog.first")).to_have_count(0)
    await expect(page.locator("[data-brain]")).to_have_text("openai:gpt-4o-mini")


async def test_it_can_be_skipped_and_a_model_chosen_later(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, DESK)
    page = person.page
    await person.pair(place.web.link())
    await page.locator("button:focus", has_text="Begin").wait_for()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog.first")).to_have_count(0)
    await expect(page.get_by_text("What shall I do?")).to_be_visible()
    while not place.ground.paths.first_run.exists():  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0.01)
    await page.get_by_label("Message to Silas").fill("/mo")
    await expect(page.get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="served-model").click()
    await expect(page.locator(".setting").first).to_contain_text("served-model")
    await page.get_by_role("button", name="Close").click()
    await expect(page.locator("[data-brain]")).to_have_text("openai:served-model")
    assert person.complaints == []
