"""In a real Chromium: an answer grows, the page says at which stage it is, and Stop ends it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ViewportSize, expect

from tests.web.browsing import DESK, PHONE, Person
from tests.web.test_answering import FIRST, MODEL, SECOND, SlowModel, Talk, talking

pytestmark = pytest.mark.slow
SHOWN = FIRST.strip()


@pytest_asyncio.fixture(loop_scope="session")
async def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Talk]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with talking(tmp_path, SlowModel()) as talk:
        yield talk
        talk.model.may_end.set()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_an_answer_grows_survives_a_reload_and_stops(
    talk: Talk, browser: Browser, size: ViewportSize
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await person.pair(talk.place.web.link())
    stop = page.get_by_role("button", name="Stop this answer")
    await expect(stop).to_be_hidden()
    await person.say("What do you think of bread?")
    stage = page.locator(".stage")
    await expect(stage).to_contain_text(f"Asking {MODEL}")
    await expect(page.locator(".growing")).to_contain_text(SHOWN)
    await expect(stop).to_be_visible()
    await expect(page.locator(".stage-time")).to_contain_text(" s")
    await page.reload()
    await person.is_in()
    await expect(stage).to_have_count(1)
    await expect(stage).to_contain_text(f"Asking {MODEL}")
    await expect(page.locator(".growing")).to_contain_text(SHOWN)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await stop.click()
    answer = page.locator(".message.silas:not(.growing)")
    await expect(answer).to_contain_text("You stopped this answer.")
    await expect(answer).to_contain_text(SHOWN)
    await expect(stage).to_have_count(0)
    await expect(page.locator(".growing")).to_have_count(0)
    await expect(stop).to_be_hidden()
    assert person.complaints == []


async def test_escape_stops_and_the_next_answer_comes(talk: Talk, browser: Browser) -> None:
    person = await Person.at(browser, DESK)
    page = person.page
    await person.pair(talk.place.web.link())
    await person.say("What do you think of bread?")
    await expect(page.locator(".growing")).to_contain_text(SHOWN)
    # What is typed meanwhile stays; a list of commands takes the key for itself.
    box = page.get_by_label("Message to Silas")
    await box.fill("/re")
    await box.press("Escape")
    await expect(page.locator(".growing")).to_contain_text(SHOWN)
    await box.fill("And of butter?")
    await box.press("Escape")
    await expect(page.locator(".message.silas").last).to_contain_text("You stopped this answer.")
    await expect(box).to_have_value("And of butter?")
    talk.model.may_end.set()
    await box.press("Enter")
    await expect(page.locator(".message.silas").last).to_contain_text(SECOND)
    await expect(page.locator(".stage")).to_have_count(0)
    assert person.complaints == []


async def test_another_message_does_not_hide_the_stage(talk: Talk, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(talk.place.web.link())
    await person.say("What do you think of bread?")
    await expect(page.locator(".growing")).to_contain_text(SHOWN)
    other = await talk.place.device("Another")
    async with other.conversation() as line:
        await line.say("And of butter?")
    await expect(page.locator(".message.owner")).to_have_count(2)
    await expect(page.locator(".stage")).to_contain_text(f"Asking {MODEL}")
    await expect(page.locator(".growing")).to_contain_text(SHOWN)
    talk.model.may_end.set()
    await expect(page.locator(".message.silas:not(.growing)")).to_have_count(2)
    await expect(page.locator(".stage")).to_have_count(0)
    assert person.complaints == []
