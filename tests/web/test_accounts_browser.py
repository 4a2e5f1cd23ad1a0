"""In a real Chromium: a calendar and GitHub are connected to their end, and do more just once."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect

from tests.servers.github import GitHub, github
from tests.servers.radicale import Radicale, radicale
from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.mail_account import MailOwner
from tests.web.place import Place
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_account_uses import EVENT
from tests.web.test_connections_browser import frames_of, open_connections, say

__all__ = ["github", "radicale"]
pytestmark = pytest.mark.slow
_LONG = 180_000


async def connect(
    person: Person, size: ViewportSize, kind: str, account: str, server: str, secret: str
) -> Locator:
    """Ask, read the card, say yes, type the secret, and see the account in the list."""
    page = person.page
    await page.get_by_label("Kind of account").select_option(kind)
    await page.get_by_label("Account", exact=True).fill(account)
    await page.get_by_text("Servers of your own").click()
    servers = page.get_by_label("Servers, if Silas does not know them")
    name = server.partition("=")[0]
    await expect(servers).to_have_attribute("placeholder", f"{name}=HOST:PORT")
    await servers.fill(server)
    await page.get_by_role("button", name="Connect", exact=True).click()
    card = page.locator(".card-of-connection")
    await expect(card).to_contain_text("at the address 127.0.0.1 in your own", timeout=_LONG)
    await expect(card).to_contain_text("It may look")
    await looks_right(person)
    await person.card_is_awake()
    await card.get_by_role("button", name="Connect it", exact=True).click()
    await person.card_is_awake()
    await card.get_by_role("button", name="Yes: ").click()
    asked = page.locator(".card-of-secret")
    await expect(asked).to_be_visible(timeout=_LONG)
    await looks_right(person)
    await person.card_is_awake()
    await asked.locator("input[type=password]").fill(secret)
    await asked.get_by_role("button", name="Store it in the vault").click()
    await expect(asked).to_be_hidden(timeout=_LONG)
    await open_connections(page, size)
    shown = page.locator("[data-connection]")
    await expect(shown).to_have_attribute("data-status", "active", timeout=_LONG)
    return shown


async def looks_right(person: Person) -> None:
    assert await person.page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []


async def at_connections(place: Place, browser: Browser, size: ViewportSize) -> Person:
    person = await Person.at(browser, size)
    await person.page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await open_connections(person.page, size)
    return person


async def remove(page: Page, shown: Locator) -> None:
    await shown.get_by_role("button", name="Remove:").click()
    await page.get_by_role("button", name="Remove it").click()
    await expect(shown).to_have_count(0)


async def test_a_calendar_is_connected_looked_at_and_removed(
    place: Place, browser: Browser, radicale: Radicale
) -> None:
    account = radicale.add_account()
    person = await at_connections(place, browser, PHONE)
    page, frames = person.page, frames_of(person.page)
    await page.reload()  # its frames are seen from the first one on
    await person.is_in()
    await open_connections(page, PHONE)
    server = f"caldav=localhost:{radicale.port}/none@127.0.0.1"
    shown = await connect(person, PHONE, "calendar", account.username, server, account.password)
    await expect(shown).to_contain_text("calendar: look, search and read")
    await shown.get_by_role("button", name="Check:").click()
    await expect(page.locator("#connections")).to_contain_text("works (", timeout=_LONG)
    await looks_right(person)
    await remove(page, shown)
    assert not [each for each in place.core.vault.list() if each.startswith("connections/")]
    assert account.password not in "\n".join(frames)
    assert frames
    assert person.complaints == []


async def test_github_is_connected_asked_about_ci_and_removed(
    place: Place, browser: Browser, github: tuple[GitHub, int]
) -> None:
    hub, port = github
    hub.add_run("tests", conclusion="failure", step="run pytest")
    person = await at_connections(place, browser, DESK)
    page = person.page
    server = f"api=localhost:{port}/none@127.0.0.1"
    shown = await connect(person, DESK, "github", hub.login, server, hub.token)
    await expect(shown).to_contain_text("github: look, search and read")
    await shown.get_by_role("button", name="Check:").click()
    await expect(page.locator("#connections")).to_contain_text("works (", timeout=_LONG)
    await looks_right(person)
    await person.say("What failed in CI of octo/app?")
    told = page.locator(".message.silas", has_text="run pytest")
    await expect(told).to_be_visible(timeout=_LONG)
    await open_connections(page, DESK)
    await remove(page, shown)
    assert not [each for each in place.core.vault.list() if each.startswith("connections/")]
    assert hub.token not in await page.content()
    assert person.complaints == []


def event(title: str, begin: datetime) -> str:
    stamps = {
        "start": f"{begin:%Y%m%dT%H%M%SZ}",
        "end": f"{begin + timedelta(hours=1):%Y%m%dT%H%M%SZ}",
    }
    text = EVENT.format(**stamps).replace("dentist", title).replace("Dentist", title)
    return text.replace("\n", "\r\n")


async def test_just_this_once_is_tapped_counts_for_one_call_and_the_next_one_asks(
    fresh_place: Place, browser: Browser, radicale: Radicale
) -> None:
    place, account = fresh_place, radicale.add_account()
    begin = datetime.now(UTC).replace(hour=10, minute=0, second=0) + timedelta(days=1)
    for title in ("Dentist", "Barber"):
        account.put(f"{title}.ics", event(title, begin))
    device = await place.device()
    async with device.conversation() as line:
        owner = MailOwner(place, device, line, skill="calendar")
        server = {"caldav": f"localhost:{radicale.port}/none@127.0.0.1"}
        connected = await owner.connect(account.username, account.password, options=server)
        assert connected["status"] == "active", connected["problem"]
    person = await at_connections(place, browser, DESK)
    page = person.page
    shown = page.locator("[data-connection]")
    await shown.get_by_role("button", name="Show:").click()
    await shown.get_by_role("button", name="Allow calendar: change").click()
    more = page.locator(".card-of-permission")
    await expect(more).to_contain_text("calendar.act")
    await looks_right(person)
    await say(person, more, "Just this once")

    def moved(title: str) -> bool:
        stamp = f"DTSTART:{begin + timedelta(days=7):%Y%m%dT%H%M%SZ}"
        return stamp in (account.get(f"{title}.ics") or "")

    await person.say("Move my dentist to next week")
    await approve(person)
    await expect(page.locator(".work-head").last).to_contain_text("Done", timeout=_LONG)
    assert moved("Dentist")

    await person.say("Move my barber to next week")
    await approve(person)
    asked = page.locator(".review-active .card", has_text="Call calendar_move")
    await expect(asked).to_contain_text("this needs calendar.act", timeout=_LONG)
    assert not moved("Barber")
    await person.card_is_awake()
    await asked.get_by_role("button", name="Do not make it").click()
    await expect(asked).to_be_hidden()
    assert not moved("Barber")
    [row] = await place.core.connections.listed()
    assert (row.permissions_granted, row.permissions_once) == (("calendar.observe",), ())
    assert person.complaints == []


async def approve(person: Person) -> None:
    """Approve the plan on the card that the answer brings."""
    await person.look_at_plan()
    await person.approve()
