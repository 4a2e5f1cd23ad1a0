"""In a real Chromium: a folder is picked, a plan is sent back in words, and the revised one says
what is different. Without a model: the offline brain understands what is asked for here."""

import pytest
from playwright.async_api import Browser, expect

from tests.web.place import Place
from tests.web.test_cards import looks_right, paired

pytestmark = pytest.mark.slow


async def test_a_plan_is_changed_in_words_in_the_folder_that_was_picked(
    place: Place, browser: Browser
) -> None:
    folder = place.home.parent / "shop"
    folder.mkdir()
    person = await paired(place, browser)
    page = person.page
    await page.locator("#say").fill("/folder")
    await page.locator("#say").press("Enter")
    await page.get_by_role("textbox", name="Folder to work in").fill(str(folder))
    await page.get_by_role("button", name="Use it").click()
    await expect(page.locator(".composer-folder")).to_contain_text(f"Works in {folder}")
    await person.say("run `touch first.txt`")
    await person.card_is_awake()
    await expect(page.locator(".facts:not(.files)")).to_contain_text(str(folder))
    await page.get_by_role("button", name="Ask for changes").click()
    words = page.get_by_role("textbox", name="What should be different?")
    await words.fill("run `touch second.txt`")
    await page.get_by_role("button", name="Ask for changes").click()
    await page.locator(".diff-added", has_text="second.txt").first.wait_for()
    await looks_right(person, "desk-changed-in-words")
    await person.approve()
    await page.get_by_text("Done, not checked").first.wait_for()
    assert [path.name for path in folder.iterdir()] == ["second.txt"]
    await page.get_by_role("button", name="Back to the workspace").click()
    await expect(page.locator(".composer-folder")).to_be_hidden()
    assert person.complaints == []
