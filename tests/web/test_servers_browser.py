"""In a real Chromium: a tool server is asked for, given effects, approved, taken away."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.mcp.places import write_server
from tests.web.browsing import BEYOND_THE_EDGE, DESK, Person
from tests.web.place import Place
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_skills_browser import slide_yes

pytestmark = pytest.mark.slow


async def test_a_server_is_asked_for_looked_at_and_its_tools_get_effects(
    place: Place, browser: Browser, tmp_path: Path
) -> None:
    program, arguments = write_server(tmp_path / "server")
    person = await Person.at(browser, DESK)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await page.locator("[data-tab=servers]:visible").click()
    await page.get_by_label("Its name, such as").fill("written")
    await page.get_by_label("Its program with").fill(f"{program} {arguments[0]}")
    await page.get_by_label("Tool servers", exact=True).get_by_text("Look at it").last.click()
    start = page.locator(".card-of-tool_server")
    await expect(start).to_contain_text("Start it in the sandbox to read which tools written has?")
    await expect(start).to_contain_text("without network, and sees no file of yours")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []
    await say_yes_to_the_start(person)

    card = page.locator(".card-of-skill")
    await expect(card).to_contain_text("Install the tool server written?", timeout=60_000)
    await expect(card).to_contain_text("you have not said what it does, so it asks every time")
    await page.locator("[data-tab=servers]:visible").click()
    waiting = page.locator("[data-server=written]")
    await waiting.get_by_role("button", name="What its tools do").click()
    await waiting.get_by_label("What written_echo does").select_option("read")
    await waiting.get_by_role("button", name="Put this before me").click()
    await expect(card).to_contain_text("Tool written_echo: it only reads.")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    await slide_yes(person, card, "Install written")

    await page.locator("[data-tab=servers]:visible").click()
    shown = page.locator("[data-server=written]")
    await expect(shown).to_contain_text("1 tool")
    assert await violations_by_day_and_night(person) == []
    await shown.get_by_role("button", name="Check: written").click()
    await expect(page.get_by_text("written is as you have approved it.")).to_be_visible()
    await shown.get_by_role("button", name="Remove: written").click()
    await page.get_by_role("button", name="Remove it").click()
    await expect(shown).to_be_hidden()

    (tmp_path / "server" / "server.py").write_text("raise SystemExit('Set API_KEY.')")
    await page.get_by_label("Its name, such as").fill("written")
    await page.get_by_label("Its program with").fill(f"{program} {arguments[0]}")
    await page.get_by_label("Tool servers", exact=True).get_by_text("Look at it").last.click()
    await expect(start).to_contain_text("Start it in the sandbox")
    await say_yes_to_the_start(person)
    await page.locator("[data-tab=servers]:visible").click()
    await expect(shown).to_contain_text("Set API_KEY.", timeout=60_000)
    assert person.complaints == []


async def say_yes_to_the_start(person: Person) -> None:
    """A start is proven as its risk needs."""
    label = "Start it in the sandbox"
    slider = person.page.locator(".card-of-tool_server").get_by_role("slider")
    await person.card_is_awake()
    await person.page.get_by_role("button", name=label, exact=True).click()
    await person.card_is_awake()
    if await slider.count():
        await slider.press("End")
    else:
        await person.page.locator(".card-of-tool_server button.confirm").click()
    await expect(person.page.locator(".card-of-tool_server")).to_be_hidden()
