"""In a real Chromium: cards use the screen, nothing scrolls in them, nothing reaches beyond it."""

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from tests.web.browsing import (
    BEYOND_THE_EDGE,
    DESK,
    PHONE,
    SCROLLS_IN_A_CARD,
    Person,
)
from tests.web.place import Place

pytestmark = pytest.mark.slow
LONG = "\n".join(
    f"line {n} has words enough to be broken on a phone, and a {'w' * 60}" for n in range(30)
)
CUT = """() => [...document.querySelectorAll(".tab")].filter((tab) => {
    const word = tab.querySelector("span").getBoundingClientRect();
    const room = tab.getBoundingClientRect();
    return word.left < room.left || word.right > room.right || word.right > innerWidth - 2;
}).map((tab) => tab.textContent)"""


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_a_long_plan_scrolls_with_its_surface_alone(
    place: Place, browser: Browser, size: ViewportSize
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(reduced_motion="reduce")
    await person.pair(place.web.link())
    await person.say(f"create notes.txt:\n```\n{LONG}\n```")
    await person.look_at_plan()
    card = page.locator(".review-active .card")
    await card.get_by_text("Everything that is signed").click()
    await card.get_by_text("The exact text that is signed").click()
    await card.locator(".hash").wait_for()
    assert await page.evaluate(SCROLLS_IN_A_CARD) == []
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    body = await card.locator(".card-body").bounding_box()
    surface = await page.locator(".review").bounding_box()
    assert body is not None
    assert surface is not None
    assert body["height"] > 300, "the plan is shown whole"
    # Whoever reads the end has the buttons in view, and whoever reads the beginning as well.
    for place_of in (0, 100_000):
        await page.locator(".review").evaluate("(node, at) => node.scrollTo(0, at)", place_of)
        await expect(card.get_by_role("button", name="Approve and run")).to_be_in_viewport()
    assert person.complaints == []


async def test_on_a_phone_every_surface_stays_within_the_edges(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await page.emulate_media(reduced_motion="reduce")
    await person.pair(place.web.link())
    await person.say("what can you do?")
    await page.get_by_text("I am the offline brain").wait_for()
    for surface in ("stream", "review", "activity", "journal", "companions"):
        await person.go(surface)
        await page.locator(f".surface[data-surface={surface}][data-current]").wait_for()
        assert await page.evaluate(CUT) == [], surface
        assert await page.evaluate(BEYOND_THE_EDGE) == [], surface
    bars = (
        "() => [...document.querySelectorAll('.companions, .companions *')]"
        ".filter((node) => node.offsetParent && node.scrollHeight > node.clientHeight + 1"
        " && ['auto', 'scroll'].includes(getComputedStyle(node).overflowY)).length"
    )
    assert await page.evaluate(bars) <= 1, "one thing scrolls, at most"
