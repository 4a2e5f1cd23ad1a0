"""Activity: what was decided, by whom and how, and a way to what it is about."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from silas.approval import ApprovalDecision, ApprovalVerdict
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Line, Place, TestDevice
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_browser import FITS

_LONGEST_WAIT = 60


async def activity(line: Line) -> list[dict[str, Any]]:
    await line.send({"type": "activity_request", "count": 60})
    return list((await line.until("activity"))["entries"])


async def activity_with(line: Line, event: str) -> dict[str, dict[str, Any]]:
    """What happened, once this is part of it."""
    async with asyncio.timeout(_LONGEST_WAIT):
        while True:
            told = {each["event"]: each for each in await activity(line)}
            if event in told:
                return told
            await asyncio.sleep(0.05)


async def test_a_decision_says_how_and_where_it_was_made(place: Place) -> None:
    device: TestDevice = await place.device("Phone")
    async with device.conversation() as line:
        await line.say("create a file a.txt with hello")
        card = await line.until("approval_request", state="open")
        asked = next(each for each in await activity(line) if each["event"] == "card_asked")
        assert asked["card_id"] == card["request_id"]
        await line.send(line.decision(card, "approved"))
        told = await activity_with(line, "work_done")
        assert told["card_decided"]["text"] == (
            "You approved “Write a.txt”, with a tap on “Phone”."
        )
        assert told["card_decided"]["tone"] == "good"
        for event in ("card_decided", "work_done"):
            assert told[event]["work_item_id"] == card["items"][0]["id"]


async def test_a_terminal_is_named_and_the_same_again_is_one_line(place: Place) -> None:
    device = await place.device("Phone")
    for _ in range(3):
        await place.core.audit.log("goal_checked", work_item_id="goal-x", passed=False, failed=[])
    async with device.conversation() as line:
        checked = [each for each in await activity(line) if each["event"] == "goal_checked"]
        assert [(each["times"], each["tone"]) for each in checked] == [(3, "bad")]
        assert checked[0]["work_item_id"] is None, "work that is not there is not offered"
        await line.say("create a file a.txt with hello")
        card = await line.until("approval_request", state="open")
        no = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
        await place.house.cards.decide_with_vault(card["request_id"], no)
        told = {each["event"]: each["text"] for each in await activity(line)}
        assert told["card_decided"] == "You declined “Write a.txt”, at the terminal."


@pytest.mark.slow
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_what_happened_can_be_opened(
    place: Place, browser: Browser, size: ViewportSize
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await person.say("create a file a.txt with hello")
    await page.get_by_role("button", name="Look at the plan").last.wait_for()
    await page.locator("[data-tab=activity]:visible").click()
    await page.get_by_role("button", name="I asked for your decision on “Write a.txt”").click()
    await person.card_is_awake()
    await person.approve()
    await person.sees_it_done()
    await page.locator("[data-tab=activity]:visible").click()
    done = page.get_by_role("button", name="“Write a.txt” was done, and checked")
    await done.click()
    await expect(done).to_have_attribute("aria-expanded", "true")
    entry = page.locator(".entry", has=done)
    await expect(entry).to_contain_text("added a.txt")
    assert await violations_by_day_and_night(person) == []
    assert await page.evaluate(FITS)
    assert person.complaints == []
