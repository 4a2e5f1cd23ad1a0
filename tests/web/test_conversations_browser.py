"""In a real Chromium: a new conversation, the list, renaming, deleting, and the search."""

import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place
from tests.web.test_accessibility import violations, violations_by_day_and_night

pytestmark = pytest.mark.slow
SIZES = pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])


async def two_conversations(person: Person) -> None:
    """One about tea, then one about a file, which is open."""
    page = person.page
    await person.say("Remember that tea is green")
    await page.get_by_text("I will remember: tea is green").wait_for()
    await page.locator(".talk-new").click()
    await expect(page.locator(".talk-title")).to_have_text("New conversation")
    await expect(page.locator(".message")).to_have_count(0)
    await person.say("create a file a.txt with hello")
    await page.get_by_role("button", name="Look at the plan").wait_for()
    await expect(page.locator(".talk-title")).to_have_text("create a file a.txt with hello")


async def open_drawer(page: Page) -> None:
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog", name="Conversations")).to_be_visible()
    await expect(page.locator("#find")).to_be_focused()


def row(page: Page, title: str):  # type: ignore[no-untyped-def]
    return page.locator("[data-conversation]").filter(has_text=title)


@SIZES
async def test_new_list_switch_and_reload(
    place: Place, browser: Browser, size: ViewportSize
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await person.pair(place.web.link())
    await two_conversations(person)
    await expect(page.get_by_text("I will remember")).to_have_count(0)
    await page.reload()
    await person.is_in()
    await expect(page.locator(".talk-title")).to_have_text("create a file a.txt with hello")
    await page.get_by_role("button", name="Look at the plan").wait_for()
    await open_drawer(page)
    await row(page, "Remember that tea").locator(".talk-go").click()
    await page.get_by_text("I will remember: tea is green").wait_for()
    await expect(page.get_by_role("button", name="Look at the plan")).to_have_count(0)
    await page.go_back()
    await page.get_by_role("button", name="Look at the plan").wait_for()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert person.complaints == []


@SIZES
async def test_search_opens_the_message_and_the_work(
    place: Place, browser: Browser, size: ViewportSize
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await person.pair(place.web.link())
    await two_conversations(person)
    await open_drawer(page)
    await page.locator("#find").fill("green")
    hits = page.locator("[data-hit=message]")
    await expect(hits).to_have_count(2)
    assert await violations_by_day_and_night(person) == []
    await hits.filter(has_text="I will remember").locator("button").click()
    await expect(page.locator(".message.found")).to_contain_text("I will remember: tea is green")
    await expect(page.locator(".talk-title")).to_have_text("Remember that tea is green")
    await open_drawer(page)
    await page.locator("#find").fill("a.txt")
    work = page.locator("[data-hit=work] > button")
    await work.click()
    await expect(work).to_have_attribute("aria-expanded", "true")
    await page.get_by_role("button", name="Open it in its conversation").click()
    await page.get_by_role("button", name="Look at the plan").wait_for()
    await open_drawer(page)
    await page.locator("#find").fill("///")
    await expect(page.locator(".talk-note")).to_contain_text("at least one letter")
    assert await violations(person) == []
    assert person.complaints == []


@SIZES
async def test_rename_and_delete(place: Place, browser: Browser, size: ViewportSize) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await person.pair(place.web.link())
    await two_conversations(person)
    await open_drawer(page)
    tea = row(page, "Remember that tea")
    await tea.get_by_role("button", name="More about").click()
    await tea.get_by_role("button", name="Rename").click()
    await page.get_by_role("textbox", name="Title").fill("Tea")
    await page.keyboard.press("Enter")
    tea = page.locator("[data-conversation=first]")
    await expect(tea.locator(".talk-name")).to_have_text("Tea")
    await tea.get_by_role("button", name="More about Tea").click()
    await tea.get_by_role("button", name="Delete…").click()
    await expect(tea).to_contain_text("What came of it stays: work and files")
    assert await violations_by_day_and_night(person) == []
    await tea.get_by_role("button", name="Delete for good").click()
    await expect(page.locator("[data-conversation]")).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog", name="Conversations")).not_to_be_visible()
    assert person.complaints == []


async def test_two_pages_at_once(place: Place, browser: Browser) -> None:
    one = await Person.at(browser, DESK)
    await one.pair(place.web.link())
    two = await Person.at(browser, PHONE)
    await two.pair(place.web.link())
    await one.say("Remember that tea is green")
    await two.page.get_by_text("I will remember: tea is green").wait_for()
    await open_drawer(two.page)
    await one.page.keyboard.press("Alt+n")
    await expect(one.page.locator(".talk-title")).to_have_text("New conversation")
    await one.say("What can you do?")
    await expect(row(two.page, "What can you do?")).to_have_count(1)
    await two.page.keyboard.press("Escape")
    await expect(two.page.locator(".talk-title")).to_have_text("Remember that tea is green")
    await expect(two.page.locator(".message.owner")).to_have_count(1)
    assert one.complaints == two.complaints == []
