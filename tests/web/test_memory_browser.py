"""In a real Chromium: a person looks at what is remembered, puts it right, and has it forgotten."""

import pytest
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect

from silas.memory.models import MODEL_WORDING
from tests.memory.room import a_memory
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_browser import FITS

pytestmark = pytest.mark.slow


async def open_memory(page: Page, size: ViewportSize) -> None:
    if size is DESK:
        await page.locator("[data-tab=memory]:visible").click()
        return
    await page.get_by_role("button", name="Settings").click()
    await page.get_by_role("button", name="Open: Memory").click()


def item(page: Page, text: str) -> Locator:
    return page.locator(".memory-item", has_text=text)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_memory_is_seen_put_right_and_forgotten(
    place: Place, browser: Browser, size: ViewportSize
) -> None:
    store = place.house.memory.memories.of("owner")
    await store.store(
        a_memory("Anna likes tea", memory_id="mem_a", taint="auth", source_kind=MODEL_WORDING)
    )
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await person.say("Remember that the old boat lies in the harbour")
    await page.get_by_text("I will remember: the old boat").wait_for()
    await open_memory(page, size)
    await expect(item(page, "the old boat")).to_contain_text("Your words")
    await expect(item(page, "Anna likes tea")).to_contain_text("Unsure: these are not your words")
    assert await violations_by_day_and_night(person) == []

    await item(page, "Anna").get_by_role("button", name="Correct").click()
    text = page.get_by_label("In your own words")
    await expect(text).to_be_focused()
    await text.fill("Anna likes coffee")
    assert await violations_by_day_and_night(person) == []
    await page.get_by_role("button", name="Save").click()
    await expect(item(page, "Anna likes coffee")).to_contain_text("As you said it")
    await page.locator("#memory .memory-note").get_by_role("button", name="Undo").click()
    await expect(item(page, "Anna likes tea")).to_contain_text("Worded by a model")

    await page.get_by_label("Search what Silas remembers").fill("boat")
    await page.keyboard.press("Enter")
    await expect(page.locator(".memory-item")).to_have_count(1)
    forget = item(page, "the old boat").get_by_role("button", name="Forget")
    await forget.focus()
    await page.keyboard.press("Enter")
    asked = page.get_by_role("group", name="Forget this")
    await expect(asked).to_contain_text("2 passages of the conversation below")
    await expect(asked).to_contain_text("It cannot be undone")
    assert await violations_by_day_and_night(person) == []
    await expect(asked.get_by_role("button", name="Forget it for good")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#memory .memory-note")).to_have_text(
        "Forgotten, and gone from the conversation as well."
    )
    await page.get_by_label("Search what Silas remembers").fill("")
    await expect(page.locator(".memory-item")).to_have_count(1)
    await page.get_by_text("What was changed").click()
    await expect(page.locator(".memory-changes")).to_contain_text("Undone")
    await page.get_by_role("button", name="As it was said").click()
    await expect(page.locator("#memory .memory-list")).to_contain_text("Nothing yet")
    assert await page.evaluate(FITS)
    assert person.complaints == []
    found = await store.search_keyword("boat harbour", 5)
    assert found == []


async def test_a_long_list_is_read_page_by_page(place: Place, browser: Browser) -> None:
    store = place.house.memory.memories.of("owner")
    await store.store_many([a_memory(f"number {n}", memory_id=f"mem_{n:04}") for n in range(120)])
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await open_memory(page, PHONE)
    await expect(page.locator(".memory-item")).to_have_count(50)
    await page.get_by_role("button", name="Show more").click()
    await expect(page.locator(".memory-item")).to_have_count(100)
    # Whoever goes on by keyboard is at the first of the new ones.
    await expect(item(page, "number 69").get_by_role("button").first).to_be_focused()
    await page.get_by_role("button", name="Show more").click()
    await expect(page.locator(".memory-item")).to_have_count(120)
    await expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    assert person.complaints == []
