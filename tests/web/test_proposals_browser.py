"""In a real Chromium: what another program asks is shown whole, and allowed with a slide."""

import re

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.place import Place

pytestmark = pytest.mark.slow
EDIT = {"tool_name": "Edit", "cwd": "/srv/shop"}
REQUEST = {
    "tool_name": "Bash",
    "tool_input": {"command": "rm -rf build && make\u202e"},
    "cwd": "/srv/shop",
}


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_a_request_is_allowed_on_its_card(
    place: Place, browser: Browser, size: ViewportSize
) -> None:
    person = await Person.at(browser, size)
    page, proposals = person.page, place.house.proposals.service
    await person.pair(place.web.link())
    token = (await proposals.add_client("Claude Code")).token
    asked = await proposals.propose(token, "run a command", REQUEST)
    if size is PHONE:
        await person.go("review")
    await person.card_is_awake()
    card = page.locator(".card-of-proposal")
    await expect(card).to_contain_text("Claude Code asks: run a command")
    await expect(card).to_contain_text("/srv/shop")
    await expect(card.locator(".proposal")).to_contain_text("rm -rf build && makeU+202E")
    await expect(card).to_contain_text("outside Silas's sandbox")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    await page.get_by_role("button", name="Allow it once").click()
    slide = page.get_by_role("slider")
    await slide.wait_for()
    await person.card_is_awake()
    await slide.press("End")
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
    told = await proposals.status(token, asked.proposal_id, REQUEST)
    assert told.answer == "allow"
    more = {"tool_name": "Read", "tool_input": {"path": "a.txt"}, "and_then": "rm -rf /"}
    await proposals.propose(token, "look", more, rendering="It only reads")
    await expect(card).to_contain_text("and_then")  # what is signed is shown, whatever its form
    await expect(card).to_contain_text("Nobody checked it")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert person.complaints == []


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_programs_are_added_seen_asked_less_and_removed(
    place: Place, browser: Browser, size: ViewportSize
) -> None:
    person = await Person.at(browser, size)
    page, service = person.page, place.house.proposals.service
    await person.pair(place.web.link())
    await person.say("/settings")
    await (
        page.get_by_role("button", name="Show: Programs")
        .or_(page.locator("li", has_text="Programs").get_by_role("button"))
        .first.click()
    )
    dialog = page.get_by_role("dialog", name="Programs")
    await expect(dialog).to_contain_text("No other program may ask you.")
    await dialog.get_by_label("The name of the program").fill("Claude Code")
    await dialog.get_by_role("button", name="Add").click()
    await expect(dialog.get_by_role("status")).to_contain_text("Claude Code may ask.")
    await expect(dialog.locator(".program-token")).to_have_text(re.compile(r"\S{40,}"))
    token = await dialog.locator(".program-token").inner_text()
    for number in range(3):
        path = f"/srv/shop/src/{number}.py"
        request = {**EDIT, "tool_input": {"file_path": path, "new_string": str(number)}}
        made = await service.propose(token, "edit a file", request)
        answer = {"selected_value": "approve"}
        await service.questions.answer_with_vault(made.proposal_id, answer)
        assert (await service.status(token, made.proposal_id, request)).answer == "allow"
    await dialog.get_by_role("button", name="Show Claude Code").click()
    await expect(dialog).to_contain_text("file_path is a file below /srv/shop/src")
    await expect(dialog).to_contain_text("it asks every time")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    await dialog.get_by_role("button", name="Allow Edit without asking").click()
    await expect(dialog).to_contain_text("A card waits in Review")
    [question] = await service.questions.open()
    answer = {"selected_value": "approve"}
    await service.questions.answer_with_vault(question.question_id, answer)
    await expect(dialog.get_by_role("button", name="Take back Edit")).to_be_visible()
    remove = dialog.get_by_role("button", name="Remove Claude Code")
    await remove.click()
    await dialog.get_by_role("button", name="Remove Claude Code: really").click()
    await expect(dialog).to_contain_text("No other program may ask you.")
    assert person.complaints == []
