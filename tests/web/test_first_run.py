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
        place.core.paths.first_run.unlink()
        yield place


async def test_four_taps_with_a_model_of_this_machine_and_never_again(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await page.get_by_role("button", name="Begin").click()
    await page.get_by_role("button", name="served-model").click()
    await expect(page.get_by_text("It answers: the first answer took")).to_be_visible()
    await expect(page.get_by_text("It calls tools.")).to_be_visible()
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_label("Your name").fill("Ada")
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_text("Ready, Ada.")).to_be_visible()
    async with page.expect_response("**/api/setup/finish"):
        await page.get_by_role("button", name="Start").click()
    await expect(page.locator("dialog.first")).to_have_count(0)
    [name] = await place.house.memory.memories.of("owner").search_keyword("name", 5)
    assert (name.content, name.memory_type) == ("My name is Ada", "profile")
    # Nothing was put into her mouth, so that the suggestions are still there.
    await expect(page.locator(".message")).to_have_count(0)
    await expect(page.locator(".welcome h2")).to_contain_text("Ada")
    assert place.web.reload is not None
    assert place.web.reload().settings.models.proxy == "openai:served-model"
    await page.reload()
    await person.is_in()
    await expect(page.locator(".welcome h2")).to_contain_text("Ada")
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
    await page.get_by_label("Provider", exact=True).select_option("openai")
    await page.get_by_label("Model", exact=True).fill("gpt-4o-mini")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Type your key for OpenAI first.")).to_be_visible()
    await expect(page.get_by_label("API key")).to_be_focused()
    await page.get_by_label("API key").fill("sk-wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("does not accept this key")).to_be_visible()
    assert await page.get_by_label("API key").input_value() == ""
    await page.get_by_label("API key").fill(KEY)
    await page.keyboard.press("Enter")
    await page.locator("button:focus", has_text="Continue").wait_for()
    await page.keyboard.press("Enter")
    await page.locator("input:focus").wait_for()
    assert place.core.vault.get("models/openai") == KEY.encode()
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
    await expect(page.get_by_text("What would you like to do?")).to_be_visible()
    while not place.core.paths.first_run.exists():  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0.01)
    await page.get_by_label("Message to Silas").fill("/mo")
    await expect(page.get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="served-model").click()
    await page.get_by_role("button", name="Continue").click()
    await expect(page.locator(".setting").first).to_contain_text("served-model")
    await page.get_by_role("button", name="Close").click()
    await expect(page.locator("[data-brain]")).to_have_text("openai:served-model")
    assert person.complaints == []


async def test_a_server_that_starts_later_is_found_by_looking_again_or_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Browser
) -> None:
    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    known: list[LocalServer] = []
    with override_allow_model_requests(True):
        async with (
            model_server(thinks) as server,
            open_place(tmp_path, environ, servers=known) as p,
        ):
            p.core.paths.first_run.unlink()
            person = await Person.at(browser, PHONE)
            page = person.page
            await person.pair(p.web.link())
            await page.get_by_role("button", name="Begin").click()
            await expect(page.get_by_text("No model answers on this machine")).to_be_visible()
            known.append(LocalServer("Test", int(re.findall(r":(\d+)", server.url)[0])))
            await page.get_by_role("button", name="Look again").click()
            await expect(page.get_by_role("button", name="served-model")).to_be_visible()
            await page.get_by_text("A provider's model").click()
            await page.get_by_label("Provider", exact=True).select_option("anthropic")
            await expect(page.get_by_text("pydantic-ai-slim[anthropic]")).to_be_visible()
            await expect(page.get_by_role("button", name="Test and use").first).to_be_disabled()
            await page.get_by_text("A server of your own").click()
            await page.get_by_label("Address", exact=True).fill(server.url)
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("openai:served-model")).to_be_visible()
            await page.get_by_role("button", name="Continue").click()
            await expect(page.get_by_label("Your name")).to_be_visible()
            assert person.complaints == []
