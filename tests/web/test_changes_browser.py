"""In a real Chromium: a folder is picked, a plan is sent back in words, and the revised one says
what is different. Without a model: the offline brain understands what is asked for here."""

import pytest
from playwright.async_api import Browser, expect

from tests.web.browsing import Person
from tests.web.place import Place
from tests.web.test_cards import looks_right, paired

pytestmark = pytest.mark.slow
ANOTHER_VERSION = """async (name) => {
    const { state, take } = await import("/state.js");
    const card = [...state.cards.values()].find((card) => card.title.includes("third.txt"));
    take({ ...card, request_id: name, state: "open", replaces: card.items[0].id });
}"""
"""A revised plan comes at a moment that the test knows; which plan it revises is what counts."""


async def what_somebody_has_touched_stays(person: Person) -> None:
    page = person.page
    shown = page.locator(".review-active .card-intent")
    await expect(shown).to_contain_text("third.txt")
    await person.say("run `touch fourth.txt`")
    await page.locator(".up-next button", has_text="fourth.txt").wait_for()
    await person.card_is_awake()
    await page.get_by_role("button", name="Ask for changes").click()
    words = page.get_by_role("textbox", name="What should be different?")
    await words.fill("paint it blue")  # nothing comes of it
    await page.get_by_role("button", name="Ask for changes").click()
    await expect(shown).to_contain_text("fourth.txt")
    await shown.click()
    await page.evaluate(ANOTHER_VERSION, "card_late")
    await page.locator(".up-next button", has_text="third.txt").wait_for()
    await expect(shown).to_contain_text("fourth.txt")


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
    await person.say("run `touch third.txt`")
    await page.locator(".up-next button", has_text="third.txt").wait_for()
    await expect(page.locator(".facts:not(.files)")).to_contain_text(str(folder))
    await page.get_by_role("button", name="Ask for changes").click()
    words = page.get_by_role("textbox", name="What should be different?")
    await words.fill("run `touch second.txt`")
    await page.get_by_role("button", name="Ask for changes").click()
    # The other plan is shown until the revised one comes, which then takes its place.
    await page.locator(".diff-added", has_text="second.txt").first.wait_for()
    await looks_right(person, "desk-changed-in-words")
    await person.approve()
    await page.get_by_text("Done, not checked").first.wait_for()
    assert [path.name for path in folder.iterdir()] == ["second.txt"]
    await what_somebody_has_touched_stays(person)
    await page.get_by_role("button", name="Back to the workspace").click()
    await expect(page.locator(".composer-folder")).to_be_hidden()
    assert person.complaints == []
