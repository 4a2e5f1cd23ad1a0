"""In a real Chromium: a passkey is enrolled by the owner alone, and decides what is for good."""

import pytest
from playwright.async_api import Browser, expect

from silas.approval import make_code
from tests.web.browsing import DESK, Person
from tests.web.place import Place
from tests.web.strong import ask, authenticator, plan_calling
from tests.web.test_cards import looks_right

pytestmark = pytest.mark.slow


async def at_localhost(place: Place, browser: Browser) -> Person:
    """Browsers make passkeys for names only."""
    person = await Person.at(browser, DESK)
    await authenticator(person.page)
    await person.pair(place.web.link().replace("127.0.0.1", "localhost"))
    return person


async def add_passkey(person: Person, code: str | None) -> None:
    page = person.page
    if not await page.locator("dialog[open]").count():
        await page.get_by_role("button", name="Devices").click()
    await page.get_by_role("button", name="Add a passkey").wait_for()
    if code is not None:
        await page.get_by_label("Code that").fill(code)
    await page.get_by_role("button", name="Add a passkey").click()


async def code_of(place: Place) -> str:
    made = make_code(place.core.keys, place.core.clock)
    await place.web.passkey_code(made.statement)
    return made.code


async def test_what_cannot_be_undone_takes_a_slide_and_a_passkey(
    place: Place, browser: Browser
) -> None:
    person = await at_localhost(place, browser)
    page = person.page
    await ask(place, plan_calling("delete_records"))
    await person.card_is_awake()
    await expect(page.locator(".risk").first).to_have_text("Cannot be undone")
    await expect(page.locator(".card-details")).to_have_attribute("open", "")
    await looks_right(person, "desk-irreversible")

    async def slide() -> None:
        await person.card_is_awake()
        await page.get_by_role("button", name="Approve and run").click()
        await page.get_by_role("slider").wait_for()
        await person.card_is_awake()
        await page.get_by_role("slider").press("End")

    await slide()
    await expect(page.get_by_role("alert")).to_contain_text("silas review approve card_1")
    assert (await place.house.cards.get("card_1")).state == "open"
    await add_passkey(person, await code_of(place))
    await expect(page.get_by_text("The passkey is added.")).to_be_visible()
    await looks_right(person, "desk-passkeys")
    await page.get_by_role("button", name="Close", exact=True).click()
    await slide()
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
    card = await place.house.cards.get("card_1")
    assert card.state == "approved"
    assert await place.house.cards.decision("card_1") is not None
    [passkey] = await place.core.passkeys.trusted()
    await place.core.passkeys.revoke(passkey.credential_id)
    assert await place.house.cards.decision("card_1") is None, "checked again when it is followed"


async def test_a_paired_browser_alone_gives_itself_no_passkey(
    place: Place, browser: Browser
) -> None:
    person = await at_localhost(place, browser)
    page = person.page
    for guess in ("", "0000000000", "1234567890"):
        await add_passkey(person, guess)
        await expect(page.get_by_text("The code is wrong, used or too old.")).to_be_visible()
    assert await place.core.passkeys.trusted() == []
    code = await code_of(place)
    await add_passkey(person, code)
    await expect(page.get_by_text("The passkey is added.")).to_be_visible()
    await page.get_by_text("You will be asked twice").wait_for()
    await add_passkey(person, None)
    await expect(page.locator(".passkeys li")).to_have_count(2)
    await page.get_by_role("button", name="Remove the passkey").first.click()
    await expect(page.locator(".passkeys li")).to_have_count(1)


async def test_a_person_who_is_not_recognised(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, DESK)
    await authenticator(person.page, isUserVerified=False)
    await person.pair(place.web.link().replace("127.0.0.1", "localhost"))
    await add_passkey(person, await code_of(place))
    await expect(person.page.get_by_text("The browser made no passkey.")).to_be_visible()
    assert await place.core.passkeys.trusted() == []


async def test_at_a_number_the_page_says_where_to_go(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, DESK)
    await person.pair(place.web.link())
    await person.page.get_by_role("button", name="Devices").click()
    await expect(person.page.get_by_text("Browsers make passkeys for names")).to_be_visible()
    assert await person.page.get_by_role("button", name="Add a passkey").count() == 0
