"""In a real Chromium: every kind of card is sent, shown whole, answered once, and followed."""

import asyncio
import os
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from tests.web.browsing import DESK, PHONE, SCROLLS_IN_A_CARD, Person
from tests.web.place import Place
from tests.web.questions import (
    asks_gate,
    connection_failure,
    connection_setup,
    habit,
    permission,
    put,
    question,
)
from tests.web.strong import ask, plan_calling
from tests.web.test_accessibility import violations

pytestmark = pytest.mark.slow
PICTURES = os.environ.get("SILAS_SCREENSHOTS")
"""Where pictures of the cards are put; none are taken without it."""


async def looks_right(person: Person, name: str) -> None:
    """No violation that axe knows, and nothing in the card that scrolls by itself."""
    await person.card_is_awake()
    assert await person.page.evaluate(SCROLLS_IN_A_CARD) == []
    assert await violations(person) == []
    if PICTURES:
        card = person.page.locator("dialog[open], .just-done .card, .review-active .card").last
        await card.screenshot(path=Path(PICTURES) / f"{name}.png")


async def paired(place: Place, browser: Browser, size: ViewportSize = DESK) -> Person:
    person = await Person.at(browser, size)
    await person.pair(place.web.link())
    if size is PHONE:
        await person.go("review")
    return person


async def look_at(person: Person, intent: str) -> None:
    """Bring a card up, if it is not there already."""
    await person.card_is_awake()
    following = person.page.locator(".up-next button", has_text=intent)
    if await following.count():
        await following.click()
    await expect(person.page.locator(".review-active .card-intent")).to_contain_text(intent)
    await person.card_is_awake()


async def until(what: Any, wanted: Any) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(120):
        while await what() != wanted:  # noqa: ASYNC110 - it is somebody else's doing
            await asyncio.sleep(0.05)


async def three_plans(place: Place) -> None:
    for number in (1, 2, 3):
        item = plan_calling(None, name=f"plan-{number}", title=f"Tidy folder {number}")
        await ask(place, item, card_id=f"card_{number}")
    await place.house.reviews.look()


async def states(place: Place) -> list[str]:
    return [card.state for card in await place.house.cards.recent(10)]


async def test_a_batch_is_decided_by_one_signature(place: Place, browser: Browser) -> None:
    await three_plans(place)
    person = await paired(place, browser, PHONE)
    page = person.page
    await look_at(person, "Decide 3 plans together")
    await looks_right(person, "phone-batch")
    await expect(page.locator("[data-badge=review]:visible")).to_have_text("3")
    await expect(page.locator(".batch li")).to_have_count(3)
    await page.get_by_role("button", name="Approve 3 and run them").click()
    await person.card_is_awake()
    await page.get_by_role("button", name=re.compile("^Yes: ")).click()
    await until(lambda: states(place), ["approved"] * 3)
    for name in ("card_1", "card_2", "card_3"):
        assert await place.house.cards.decision(name) is not None
    assert person.complaints == []


async def test_some_of_a_batch_are_a_batch_of_their_own(place: Place, browser: Browser) -> None:
    await three_plans(place)
    person = await paired(place, browser)
    page = person.page
    await look_at(person, "Decide 3 plans together")
    await page.get_by_role("checkbox", name="Tidy folder 2").uncheck()
    await page.get_by_role("button", name="Approve only those chosen: 2 of 3").click()
    await page.get_by_text("Decide 2 plans together").first.wait_for()
    await look_at(person, "Decide 2 plans together")
    assert await states(place) == ["open"] * 3, "choosing is not approving"
    await page.get_by_role("button", name="Decline 2, do nothing").click()
    await until(lambda: states(place), ["declined", "open", "declined"])


async def test_a_text_is_edited_and_the_new_plan_says_what_changed(
    place: Place, browser: Browser
) -> None:
    person = await paired(place, browser)
    page = person.page
    await person.say("create a file note.txt with hello")
    await person.card_is_awake()
    await page.get_by_role("button", name="Ask for changes").click()
    area = page.get_by_role("textbox", name="The text")
    await expect(area).to_have_value("hello\n")
    await looks_right(person, "desk-draft")
    await area.fill("hello\nworld")
    await page.get_by_role("button", name="Use my version").click()
    await page.locator(".diff-added", has_text="world").first.wait_for()
    await expect(page.locator(".diff-head")).to_contain_text("added")
    await expect(page.locator(".diff-added .sr").first).to_have_text("added: ")
    await looks_right(person, "desk-diff")
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    await looks_right(person, "desk-dark-diff")
    await person.approve()
    await person.sees_it_done()
    assert (place.home / "silas-files" / "note.txt").read_text() == "hello\nworld\n"
    assert person.complaints == []


async def test_what_was_done_is_undone_by_a_plan_of_its_own(place: Place, browser: Browser) -> None:
    folder = place.home / "silas-files"
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("before\n")
    person = await paired(place, browser)
    page = person.page
    await person.say("create a file a.txt with after")
    await person.card_is_awake()
    await person.approve()
    await person.sees_it_done()
    assert (folder / "a.txt").read_text() == "after\n"
    card = page.locator(".just-done .card")
    await card.wait_for()
    await page.get_by_role("button", name="Undo…").click()
    await expect(card.locator(".card-why")).to_contain_text("1 file is put back")
    await looks_right(person, "desk-undo")
    await card.get_by_role("button", name="Undo it").click()  # one tap: the risk is low
    await until(lambda: asyncio.to_thread((folder / "a.txt").read_text), "before\n")
    await expect(page.locator(".just-done .card")).to_have_count(0)
    assert person.complaints == []


async def test_an_undo_that_would_lose_somebodys_work_is_not_done(
    place: Place, browser: Browser
) -> None:
    folder = place.home / "silas-files"
    person = await paired(place, browser)
    page = person.page
    await person.say("create a file b.txt with mine")
    await person.card_is_awake()
    await person.approve()
    await person.sees_it_done()
    (folder / "b.txt").write_text("theirs\n")
    card = page.locator(".just-done .card")
    await card.wait_for()
    await person.card_is_awake()
    await card.get_by_role("button", name="Undo it").click()  # one tap: the risk is low
    await page.locator(".work-bad").last.wait_for()
    assert (folder / "b.txt").read_text() == "theirs\n"


async def test_work_that_is_stuck_asks_what_to_do(place: Place, browser: Browser) -> None:
    person = await paired(place, browser, PHONE)
    page = person.page
    await person.go("stream")
    await person.say("run `false` and check with `false`")
    await person.look_at_plan()
    await person.approve()
    await person.go("review")
    await page.get_by_role("button", name="Ask me for it again").wait_for()
    await looks_right(person, "phone-decision")
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    await looks_right(person, "phone-dark-decision")
    await page.get_by_role("button", name="Leave it").click()
    await person.go("stream")
    await expect(page.locator(".log")).to_contain_text("I leave it.")


async def test_a_suggestion_leads_to_a_plan_that_asks(place: Place, browser: Browser) -> None:
    person = await paired(place, browser, PHONE)
    page = person.page
    await put(place, habit(place))
    await looks_right(person, "phone-suggestion")
    await page.get_by_role("button", name="Plan it").click()
    await expect(page.locator(".card-intent")).to_contain_text("Watch make test")
    await expect(page.locator(".risk").first).to_have_text("High risk")


async def test_a_gate_waits_for_the_owners_word(place: Place, browser: Browser) -> None:
    gates = place.house.stream.turns.gate_approver
    assert gates is not None
    context = {"message": "Pay 900 to the plumber.", "trace_id": "trace_x"}
    no = await gates.approve_gate(asks_gate(), connection_id="guest", context=context)
    assert no is False, "nobody is there"
    person = await paired(place, browser, PHONE)
    asking = asyncio.create_task(
        gates.approve_gate(asks_gate(), connection_id="guest", context=context)
    )
    await looks_right(person, "phone-gate")
    await person.page.get_by_role("button", name="Let it through this once").click()
    await person.card_is_awake()
    await person.page.get_by_role("button", name=re.compile("^Yes: ")).click()
    assert await asking is True


async def test_connections(place: Place, browser: Browser) -> None:
    person = await paired(place, browser, PHONE)
    page = person.page
    store = place.house.reviews.questions

    async def answered(name: str) -> Any:
        found = await store.answered(name)
        return found and found.answer

    failed = await put(place, question(place, connection_failure()))
    await looks_right(person, "phone-connection-failure")
    await page.get_by_role("button", name="Skip for now").click()
    await until(lambda: answered(failed), {"selected_action": "skip"})
    setup = await put(place, question(place, connection_setup()))
    await looks_right(person, "phone-connection-setup")
    await page.get_by_role("button", name="I have done it").click()
    await until(lambda: answered(setup), {"step_type": "device_code", "action": "done"})
    more = await put(place, question(place, permission()))
    await looks_right(person, "phone-permission")
    await page.get_by_role("button", name="Do not allow it").click()
    await until(lambda: answered(more), {"verdict": "deny"})


async def test_a_secret_goes_to_the_vault_and_nowhere_else(place: Place, browser: Browser) -> None:
    person = await paired(place, browser, PHONE)
    page = person.page
    sent: list[str] = []
    page.on("websocket", lambda socket: None)
    await page.evaluate("0")
    await place.web.ask_secret("notes", "Token of Notes")
    await looks_right(person, "phone-secret")
    page.on("request", lambda request: sent.append(request.url))
    await page.get_by_role("textbox", name="Token of Notes").fill("s3cret-value")
    await page.get_by_role("button", name="Store it in the vault").click()
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
    assert place.core.vault.get("notes") == b"s3cret-value"
    assert [url.removeprefix(place.address) for url in sent] == ["/secrets/notes"]
    rows = await place.core.database.fetch_all("SELECT body FROM audit_log")
    assert not any("s3cret" in body for (body,) in rows)


async def test_answered_once_and_only_by_a_signature(place: Place, browser: Browser) -> None:
    name = await put(place, habit(place))
    person = await paired(place, browser)
    second = await Person.at(browser, context=person.page.context)
    await second.page.goto(place.address)
    await second.is_in()
    await expect(second.page.locator(f'[data-card="{name}"]')).to_have_count(1)
    await person.card_is_awake()
    await person.page.get_by_role("button", name="Not now").click()
    await expect(second.page.locator(f'[data-card="{name}"]')).to_have_count(0)
    device = await place.device()
    async with device.conversation() as line:
        frame = {"type": "suggestion_response", "request_id": name, "selected_value": "do_it"}
        await line.send({**frame, "signature": device.sign(b"something else")})
        assert (await line.until("error"))["code"] == "E_CHANNEL_UNSIGNED"


async def test_a_question_that_somebody_has_changed_is_not_asked(
    place: Place, browser: Browser
) -> None:
    name = await put(place, habit(place))
    await place.core.database.execute(
        "UPDATE questions SET content = replace(content, 'make test', 'rm -rf ~')"
    )
    person = await paired(place, browser)
    await expect(person.page.get_by_text("Nothing is waiting for you")).to_be_visible()
    assert not (await place.house.reviews.questions.get(name)).sealed


@pytest.mark.parametrize(
    ("size", "scheme"),
    [(PHONE, "dark"), (DESK, "light"), (DESK, "dark")],
    ids=["phone, dark", "desk, light", "desk, dark"],
)
async def test_in_every_light(
    place: Place, browser: Browser, size: ViewportSize, scheme: Literal["light", "dark"]
) -> None:
    await three_plans(place)
    await put(place, habit(place))
    await put(place, question(place, connection_failure()))
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await person.pair(place.web.link())
    if size is PHONE:
        await person.go("review")
    label = f"{'phone' if size is PHONE else 'desk'}-{scheme}"
    for intent in ("Decide 3 plans together", "Watch `make test`", "Reconnect Notes"):
        await look_at(person, intent)
        await looks_right(person, f"{label}-{intent.split()[0].lower()}")
