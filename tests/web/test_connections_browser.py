"""In a real Chromium: a person connects a mailbox, lets it do more, and takes it away."""

import pytest
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect

from tests.servers.dovecot import Dovecot, dovecot, message
from tests.servers.smtp import SmtpServer, smtp
from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.mail_account import servers_of
from tests.web.place import Place
from tests.web.test_accessibility import violations_by_day_and_night

__all__ = ["dovecot", "smtp"]
pytestmark = pytest.mark.slow
CANARY = "canary-3d8a-of-the-browser"
_LONG = 180_000


async def open_connections(page: Page, size: ViewportSize) -> None:
    if size is DESK:
        await page.locator("[data-tab=connections]:visible").click()
        return
    await page.get_by_role("button", name="Settings").click()
    await page.get_by_role("button", name="Open: Connections").click()


async def ask_for(page: Page, address: str, servers: dict[str, str]) -> Locator:
    await page.get_by_label("Kind of account").select_option("mail")
    await page.get_by_label("Account", exact=True).fill(address)
    await page.get_by_text("Servers of your own").click()
    written = " ".join(f"{kind}={where}" for kind, where in servers.items())
    await page.get_by_label("Servers, if Silas does not know them").fill(written)
    await page.get_by_role("button", name="Connect", exact=True).click()
    card = page.locator(".card-of-connection")
    await expect(card).to_be_visible(timeout=_LONG)
    return card


async def say(person: Person, card: Locator, *labels: str) -> None:
    for label in labels:
        await person.card_is_awake()
        await card.get_by_role("button", name=label, exact=True).click()
    await expect(card).to_be_hidden()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_a_mailbox_is_connected_allowed_more_and_removed(
    place: Place, browser: Browser, size: ViewportSize, dovecot: Dovecot, smtp: SmtpServer
) -> None:
    account = dovecot.add_account(password=CANARY)
    account.deliver(message("Hello"))
    person = await Person.at(browser, size)
    page = person.page
    frames: list[str] = []
    page.on(
        "websocket",
        lambda socket: (
            socket.on("framesent", lambda data: frames.append(str(data))),
            socket.on("framereceived", lambda data: frames.append(str(data))),
        ),
    )
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await open_connections(page, size)
    await expect(page.locator("#connections")).to_contain_text("Nothing is connected yet.")
    assert await violations_by_day_and_night(person) == []
    card = await ask_for(page, account.address, servers_of(dovecot, smtp))
    await expect(card).to_contain_text(f"IMAP localhost:{dovecot.imap_port} (NOT encrypted")
    await expect(card).to_contain_text("at the address 127.0.0.1 in your own network")
    await expect(card).to_contain_text("It may look: list, search, read.")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []
    await person.card_is_awake()
    await card.get_by_role("button", name="Connect it", exact=True).click()
    await person.card_is_awake()
    await card.get_by_role("button", name="Yes: ").click()
    secret = page.locator(".card-of-secret")
    await expect(secret).to_be_visible(timeout=_LONG)
    await person.card_is_awake()
    await secret.get_by_label("Password").fill(CANARY)
    await secret.get_by_role("button", name="Store it in the vault").click()
    await expect(secret).to_be_hidden(timeout=_LONG)

    await open_connections(page, size)
    shown = page.locator("[data-connection]")
    await expect(shown).to_have_attribute("data-status", "active", timeout=_LONG)
    await expect(shown).to_contain_text("mail: look, search and read")
    await shown.get_by_role("button", name="Check:").click()
    await expect(page.locator("#connections")).to_contain_text("works (", timeout=_LONG)
    await shown.get_by_role("button", name="Show:").click()
    await expect(shown).to_contain_text("Secret in the vault: connections/conn_")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []
    await shown.get_by_role("button", name="Allow mail: prepare drafts").click()
    more = page.locator(".card-of-permission")
    await expect(more).to_contain_text("mail.observe")
    await expect(more.get_by_role("button", name="Just this once")).to_be_visible()
    await say(person, more, "Do not allow it")

    await open_connections(page, size)
    await shown.get_by_role("button", name="Pause:").click()
    await expect(shown).to_contain_text("Paused")
    await shown.get_by_role("button", name="Remove:").click()
    await page.get_by_role("button", name="Remove it").click()
    await expect(shown).to_have_count(0)
    assert CANARY not in "\n".join(frames)
    assert frames
    assert person.complaints == []
