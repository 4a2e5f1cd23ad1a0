"""In a real Chromium: the first card of a plan shows what it writes, line by line, before a yes."""

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place
from tests.web.test_cards import looks_right

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("size", "name"), [(PHONE, "phone"), (DESK, "desk")])
async def test_the_first_card_shows_the_difference(
    place: Place, browser: Browser, size: ViewportSize, name: str
) -> None:
    files = place.home / "silas-files"
    files.mkdir(exist_ok=True)
    (files / "a.txt").write_text("<b>old</b>\nkept\n")
    person = await Person.at(browser, size)
    page = person.page
    await person.pair(place.web.link())
    await person.say("create a file a.txt with new")
    await person.look_at_plan()
    box = page.locator(".preview-file")
    await expect(box.locator("summary")).to_contain_text("changed a.txt: 1 line added, 2 removed")
    await expect(box.locator(".diff-removed").first).to_contain_text("<b>old</b>")
    await expect(box.locator(".diff-added")).to_contain_text("new")
    assert await page.locator(".preview-file b").count() == 0
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await looks_right(person, f"{name}-card-preview")
    assert (files / "a.txt").read_text() == "<b>old</b>\nkept\n", "it is only shown"
    assert person.complaints == []
