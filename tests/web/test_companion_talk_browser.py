"""In a real Chromium: one talks with a companion, in its page and from the conversation."""

from typing import Literal

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from silas.journal import OWNER, dispatch
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place
from tests.web.test_accessibility import violations
from tests.web.test_companions_browser import make_planner

pytestmark = pytest.mark.slow


async def add_task(place: Place, category: str, title: str) -> None:
    journal = place.house.journal
    (found,) = [each for each in await journal.categories() if each.name == category]
    wanted = {"title": title, "category_id": found.id}
    await dispatch.call(journal, "create_task", wanted, scope=OWNER, actor="owner")


@pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "light"), (DESK, "dark")], ids=["phone, light", "desk, dark"]
)
async def test_one_talks_with_a_companion(
    place: Place, browser: Browser, size: ViewportSize, scheme: Literal["light", "dark"]
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await person.pair(place.web.link())
    await make_planner(person, "Gym")
    for title in ("Run long", "Run fast"):
        await add_task(place, "Gym", title)
    words = page.get_by_label("Say something to Planner")
    await words.fill("What is open?")
    await words.press("Enter")
    answer = page.locator(".talk-answer", has_text="Open:")
    await expect(answer).to_contain_text("“Run long”")
    await expect(words).to_be_focused()

    # Several are meant: it asks, and the choice is a tap.
    await words.fill("log 30 minutes on run")
    await page.locator(".talk-composer button").click()
    await expect(page.locator(".companion-question")).to_contain_text("Which of these do you mean")
    assert await violations(person) == []
    await page.get_by_role("button", name="Run long").click()
    await expect(page.locator(".talk-did li")).to_contain_text("waits for your decision")
    await expect(page.locator(".talk-asked")).to_contain_text("You said: Run long")
    assert await violations(person) == []
    # What it keeps of one's words is shown, and let go with a tap.
    await words.fill("Remember that I train in the morning.")
    await words.press("Enter")
    kept = page.locator(".companion-kept li")
    await expect(kept).to_contain_text("I train in the morning")
    await kept.get_by_role("button").click()
    await expect(kept).to_have_count(0)
    # A question is left without an answer.
    await words.fill("log 20 minutes on run")
    await words.press("Enter")
    await page.locator(".companion-question").get_by_role("button", name="Leave it").click()
    await expect(page.locator(".companion-question")).to_have_count(0)
    await page.get_by_role("button", name="End this conversation").click()
    await expect(page.get_by_role("button", name="End this conversation")).to_have_count(0)

    # From the conversation with Silas, by its name.
    if size == PHONE:  # at a desk it is beside the companions
        await person.go("stream")
    await person.say("ask the planner what is open")
    await expect(page.locator(".stream")).to_contain_text("I asked Planner.")
    await expect(page.locator(".stream")).to_contain_text("Planner: Open:")
    assert person.complaints == []
