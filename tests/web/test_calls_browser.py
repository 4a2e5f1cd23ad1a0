"""In a real Chromium: calls that wait together, on one card, each with a tick of its own."""

import pytest
from playwright.async_api import Browser, expect

from tests.web.place import Place
from tests.web.test_calls import CALL, OTHER, let_it_wait, verdicts
from tests.web.test_cards import looks_right, paired

pytestmark = pytest.mark.slow


async def test_where_strangers_had_a_part_each_call_is_ticked_by_hand(
    place: Place, browser: Browser
) -> None:
    await let_it_wait(place, CALL, OTHER)
    person = await paired(place, browser)
    page = person.page
    await expect(page.locator(".card-intent")).to_have_text("2 calls")
    ticks = page.get_by_role("checkbox", name="Let send_mail happen")
    await expect(ticks).to_have_count(2)
    assert await ticks.nth(0).is_checked() is await ticks.nth(1).is_checked() is False
    await looks_right(person, "desk-calls")

    async def let_happen() -> None:
        await page.get_by_role("button", name="Let the ticked calls happen").click()
        await page.get_by_role("slider").wait_for()
        await person.card_is_awake()
        await page.get_by_role("slider").press("End")

    await let_happen()
    await expect(page.get_by_role("alert")).to_have_text("Tick the calls that may happen.")
    await ticks.nth(1).check()
    await let_happen()
    await expect(page.locator(".card-intent")).to_have_text("Call send_mail")
    await expect(page.locator(".review-active .card")).to_contain_text("a@example.org")
    assert await verdicts(place) == [(None, False), ("approved", True)]
    await person.card_is_awake()
    await page.get_by_role("button", name="Do not make it").click()
    await expect(page.locator(".review-active .empty")).to_contain_text("Nothing waits for you")
    assert await verdicts(place) == [("declined", False), ("approved", True)]
