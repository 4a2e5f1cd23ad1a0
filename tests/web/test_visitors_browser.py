"""`plans/support-chatbot.md` in browsers: two visitors, the owner, and a shop that stands in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ViewportSize, expect

from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import environ_for
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_visitor_cases import goal
from tests.web.visiting import ANNA, Shop, open_shop

ORDER = f"{ANNA['order_id']} {ANNA['email']}"
HAND_OVER = "{action: escalate_human, message: A colleague takes over.}"


@pytest_asyncio.fixture(loop_scope="session")
async def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    monkeypatch.setenv("HOME", environ_for(tmp_path)["HOME"])
    async with open_shop(tmp_path, goal=goal(HAND_OVER)) as shop:
        yield shop


async def visit(browser: Browser, link: str, *, size: object = PHONE) -> Person:
    person = await Person.at(browser, size)  # type: ignore[arg-type]
    await person.page.goto(link)
    await expect(person.page.get_by_role("textbox", name="Your message")).to_be_enabled()
    return person


async def say(person: Person, text: str) -> None:
    await person.page.get_by_role("textbox", name="Your message").fill(text)
    await person.page.keyboard.press("Enter")


async def hears(person: Person, text: str) -> None:
    await expect(person.page.locator("li:not(.visitor)").last).to_contain_text(text)


async def test_two_visitors_and_the_owner(shop: Shop, browser: Browser) -> None:
    link = await shop.invite()
    owner = await Person.at(browser, DESK)
    await owner.pair(shop.place.web.link())
    anna, ben = await visit(browser, link["link"]), await visit(browser, link["link"], size=DESK)
    assert "#" not in anna.page.url  # the secret does not stay in the address
    await expect(anna.page.get_by_role("heading", name="Web shop")).to_be_visible()

    # Each has a conversation of its own, and a level of its own.
    await say(anna, "My secret is tulip")
    await hears(anna, "You said: My secret is tulip")
    assert await violations_by_day_and_night(anna) == []
    await say(ben, "Tell me the record")
    await hears(ben, "customer: ;")
    await expect(ben.page.get_by_text("tulip")).to_have_count(0)
    await say(anna, f"Where is {ORDER}?")
    await hears(anna, "On its way.")
    await say(anna, "Which tools?")
    await hears(anna, "customer: opening_hours, order_status, request_refund")
    await say(ben, "Which tools?")
    await hears(ben, "public: opening_hours, search_help, verify_order")

    # A refund is the owner's to approve.
    await say(anna, f"I want a refund 50 for {ORDER}")
    await hears(anna, "waits for a person's decision. Nothing of it has happened yet.")
    assert shop.refunds() == []
    card = owner.page.locator(".card", has_text="Request refund").first
    await expect(card).to_contain_text("50")
    await approve_by_slide(owner)
    await hears(anna, "was carried out")
    assert [each["refund_eur"] for each in shop.refunds()] == [50.0]

    # Who is handed over is answered by the owner.
    await say(ben, "I want a person!")
    await hears(ben, "A colleague takes over.")
    asked = owner.page.locator(".card-of-visitor")
    await expect(asked).to_contain_text("visitor: I want a person!")
    await owner.card_is_awake()
    await asked.get_by_role("textbox").fill("Here I am, Ben.")
    await asked.get_by_role("button", name="Send my answer to the visitor").click()
    await hears(ben, "Here I am, Ben.")
    await expect(ben.page.locator("li.owner .who")).to_have_text("A person")
    await expect(anna.page.get_by_text("Here I am, Ben.")).to_have_count(0)

    # Reloaded, a tab is the same visitor; a revoked link ends both at once.
    await anna.page.reload()
    await expect(anna.page.get_by_text("My secret is tulip").first).to_be_visible()
    await shop.place.front.visits.revoke(link["link_id"])
    for person in (anna, ben):
        await expect(person.page.get_by_role("status")).to_contain_text("opens nothing")
        await expect(person.page.get_by_role("textbox", name="Your message")).to_be_disabled()
    assert owner.complaints == []
    assert [each for each in (*anna.complaints, *ben.complaints) if "401" not in each] == []


async def approve_by_slide(owner: Person) -> None:
    await owner.card_is_awake()
    await owner.page.get_by_role("button", name="Approve and run").click()
    await owner.card_is_awake()
    slider = owner.page.get_by_role("slider").last
    await slider.focus()
    await owner.page.keyboard.press("End")


async def test_a_link_without_its_secret_says_so(shop: Shop, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    await person.page.goto(f"{shop.address}/visit")
    await expect(person.page.get_by_role("status")).to_contain_text("needs the whole link")
    assert await violations_by_day_and_night(person) == []
    await person.page.goto(f"{shop.address}/visit#vlink_wrong")
    await person.page.reload()
    await expect(person.page.get_by_role("status")).to_contain_text("This link opens nothing")


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_the_owner_sees_the_visitors_answers_and_revokes(
    shop: Shop, browser: Browser, size: ViewportSize
) -> None:
    link = await shop.invite()
    anna = await shop.visitor(link)
    await anna.say("Where is my <b>parcel</b>?")
    await anna.say("I want a person!")
    owner = await Person.at(browser, size)
    await owner.pair(shop.place.web.link())
    await owner.say("/visitors")
    dialog = owner.page.get_by_role("dialog", name="Visitors")
    waiting = dialog.get_by_role("region", name="Waits for a person")
    await expect(waiting.get_by_role("listitem")).to_contain_text("Web shop")
    links = dialog.get_by_role("region", name="Links")
    await expect(links.get_by_role("listitem")).to_contain_text("today 2 of 500 messages")
    assert await violations_by_day_and_night(owner) == []
    await waiting.get_by_role("button", name="Show the conversation").click()
    await expect(dialog.get_by_text("Where is my <b>parcel</b>?", exact=True)).to_be_visible()
    assert await violations_by_day_and_night(owner) == []
    await dialog.get_by_label("Your answer").fill("It comes today.")
    await dialog.get_by_role("button", name="Send my answer to the visitor").click()
    await expect(dialog.get_by_role("status")).to_have_text("Sent.")
    assert (await anna.until("It comes today."))["who"] == "owner"
    await dialog.get_by_role("button", name="Back to the list").click()
    await expect(waiting).to_contain_text("Nobody waits for a person.")
    await links.get_by_role("button", name="Revoke Web shop").click()
    await links.get_by_role("button", name="really, for good").click()
    await expect(dialog.get_by_role("status")).to_contain_text("opens nothing any more")
    await expect(links.get_by_role("listitem")).to_contain_text("revoked")
    assert (await anna.post("Still here?")).status_code == 401
    assert owner.complaints == []
