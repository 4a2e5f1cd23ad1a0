"""In a real Chromium: a grant and a proposal are read whole, allowed, seen and taken back."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from silas.gates.envelopes import ActionEnvelope, ArgumentConstraint
from silas.proactive.calibrator import Knob
from silas.proactive.grants import StandingGrant
from silas.proactive.outcomes import ActionOutcome, record_outcome
from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.place import Place
from tests.web.questions import put

pytestmark = pytest.mark.slow
PICTURES = os.environ.get("SILAS_SCREENSHOTS")


async def decided(place: Place, count: int) -> None:
    """Decisions of the owner's about archiving, none of them corrected."""
    now = place.core.clock.now()
    for at in range(count):
        await place.core.database.transaction(
            lambda tx, at=at: record_outcome(
                tx,
                family="mail_archive",
                scope_id="owner",
                outcome=ActionOutcome.APPROVED,
                ref=f"item:{at}",
                at=now - timedelta(minutes=at),
            )
        )


def grant_of(place: Place) -> StandingGrant:
    envelope = ActionEnvelope(
        tool="mail_send",
        constraints={
            "account": ArgumentConstraint(equals="home"),
            "to": ArgumentConstraint(each_of=["ann@example.org"]),
            "text": ArgumentConstraint(any=True),
        },
        most=30,
    )
    return StandingGrant(
        grant_id="grant_1",
        scope_id="owner",
        tool="mail_send",
        family="send",
        envelope=envelope,
        most_a_day=5,
        until=place.core.clock.now() + timedelta(days=30),
    )


async def picture(person: Person, name: str, size: ViewportSize) -> None:
    if PICTURES:
        kind = "phone" if size is PHONE else "desk"
        await person.page.screenshot(path=Path(PICTURES) / f"{name}-{kind}.png")


async def slid(person: Person, button: str) -> None:
    await person.card_is_awake()
    await person.page.get_by_role("button", name=button).click()
    slide = person.page.get_by_role("slider")
    await slide.wait_for()
    await person.card_is_awake()
    await slide.press("End")


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_allowed_seen_in_activity_and_taken_back(
    place: Place, browser: Browser, size: ViewportSize
) -> None:
    person = await Person.at(browser, size)
    page, reviews = person.page, place.house.reviews
    await person.pair(place.web.link())
    asked = reviews.grants._card(grant_of(place), [], name="question_grant")
    await put(place, asked)
    if size is PHONE:
        await person.go("review")
    card = page.locator(".card-of-grant")
    await expect(card).to_contain_text("Let me use mail_send without asking")
    await expect(card).to_contain_text("to: only ann@example.org")
    await expect(card).to_contain_text("At most 5 a day and 30 in all")
    await expect(card).to_contain_text("stranger's text")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    await person.card_is_awake()
    await picture(person, "grant", size)
    await slid(person, "Allow this")
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
    await reviews.grants.answered(asked.about)  # what the runtime does as well, in its own time
    await decided(place, 40)
    now = place.core.clock.now()
    [question] = await reviews.autonomy.evaluate("owner", now)
    assert question.content.body["changes"][0]["key"] == Knob.BATCH_SIZE
    await put(place, question)
    proposal = page.locator(".card-of-autonomy")
    await expect(proposal).to_contain_text("You corrected 0 of the last 40 decisions")
    await expect(proposal).to_contain_text("20")
    await person.card_is_awake()
    await picture(person, "autonomy", size)
    await slid(person, "Change it for 90 days")
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
    answered = await reviews.questions.answered(question.question_id)
    assert answered is not None
    await reviews.autonomy.apply(answered)
    await page.keyboard.press("Alt+3")
    part = page.locator(".autonomy-part")
    await part.locator("summary").first.click()
    await expect(part).to_contain_text("Allowed: mail_send of home")
    await expect(part).to_contain_text("0 of 40 decisions (last 50 decisions / 14 days).")
    await expect(part).to_contain_text("Used 0 of 30 times, 0 of them today.")
    await expect(part.get_by_role("row", name="Items that one card decides")).to_contain_text("20")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    await picture(person, "activity", size)
    await part.get_by_role("button", name="Tighten: take everything back").click()
    await expect(part).to_contain_text("Taken back: 1 change and 1 standing grant.")
    await expect(part).not_to_contain_text("Allowed: mail_send")
    assert await reviews.grants.in_force() == []
    assert await reviews.autonomy.batch_size() == 10
    assert person.complaints == []
