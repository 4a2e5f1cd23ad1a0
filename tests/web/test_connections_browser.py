"""In a real Chromium: a person connects a mailbox, lets it do more, and takes it away."""

import asyncio
import contextlib

import pytest
from playwright.async_api import Browser, Locator, Page, Route, ViewportSize, expect

from silas.connections.models import Connection, ConnectionStatus
from silas.connections.registry import CONNECTION
from silas.skills.sidecar import AuthStrategy
from tests.servers.dovecot import Dovecot, dovecot, message, require_dovecot
from tests.servers.oidc import CLIENT, OidcProvider, oidc
from tests.servers.smtp import SmtpServer, smtp
from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.mail_account import servers_of
from tests.web.place import Place
from tests.web.test_accessibility import violations_by_day_and_night

__all__ = ["dovecot", "oidc", "smtp"]
pytestmark = pytest.mark.slow
CANARY = "canary-3d8a-of-the-browser"
_LONG = 180_000


async def open_connections(page: Page, size: ViewportSize) -> None:
    if size is DESK:
        await page.locator("[data-tab=connections]:visible").click()
        return
    await page.get_by_role("button", name="Settings").click()
    await page.get_by_role("button", name="Open: Connections").click()


async def ask_for(
    page: Page, address: str, servers: dict[str, str], *, client: str = ""
) -> Locator:
    await page.get_by_label("Kind of account").select_option("mail")
    await page.get_by_label("Account", exact=True).fill(address)
    assert (await page.get_by_label("Account", exact=True).bounding_box() or {})["width"] > 200
    await page.get_by_text("Servers of your own").click()
    written = " ".join(f"{kind}={where}" for kind, where in servers.items())
    await page.get_by_label("Servers, if Silas does not know them").fill(written)
    if client:
        await page.get_by_label("Client ID, if you sign in at the provider").fill(client)
    await page.get_by_role("button", name="Connect", exact=True).click()
    card = page.locator(".card-of-connection")
    await expect(card).to_be_visible(timeout=_LONG)
    return card


def frames_of(page: Page) -> list[str]:
    """What goes over the page's WebSocket, from now on."""
    frames: list[str] = []
    page.on(
        "websocket",
        lambda socket: (
            socket.on("framesent", lambda data: frames.append(str(data))),
            socket.on("framereceived", lambda data: frames.append(str(data))),
        ),
    )
    return frames


async def say(person: Person, card: Locator, *labels: str) -> None:
    for label in labels:
        await person.card_is_awake()
        await card.get_by_role("button", name=label, exact=True).click()
    await expect(card).to_be_hidden()


async def type_password(person: Person, value: str) -> None:
    secret = person.page.locator(".card-of-secret")
    await expect(secret).to_be_visible(timeout=_LONG)
    await person.card_is_awake()
    await secret.get_by_label("Password").fill(value)
    await secret.get_by_role("button", name="Store it in the vault").click()
    await expect(secret).to_be_hidden(timeout=_LONG)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_a_mailbox_is_connected_allowed_more_and_removed(
    place: Place, browser: Browser, size: ViewportSize, dovecot: Dovecot, smtp: SmtpServer
) -> None:
    account = dovecot.add_account(password=CANARY)
    account.deliver(message("Hello"))
    person = await Person.at(browser, size, intercepted=True)
    page = person.page
    frames = frames_of(page)
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
    # A slip of the finger: the card says what is wrong, and leads back to the password.
    await type_password(person, CANARY + "-wrong")
    failed = page.locator(".card-of-connection_failure")
    await expect(failed).to_contain_text("does not take the password", timeout=_LONG)
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []
    await say(person, failed, "Reconnect")
    await type_password(person, CANARY)

    await open_connections(page, size)
    shown = page.locator("[data-connection]")
    await expect(shown).to_have_attribute("data-status", "active", timeout=_LONG)
    await expect(shown).to_contain_text("mail: look, search and read")
    await shown.get_by_role("button", name="Check:").click()
    await expect(page.locator("#connections")).to_contain_text("works (", timeout=_LONG)
    await shown.get_by_role("button", name="Show:").click()
    await expect(shown).to_contain_text("Secret in the vault: connections/conn_")
    await expect(shown).to_contain_text("it was connected")
    await shown.get_by_role("button", name="Letter to your IT department").click()
    await expect(shown.get_by_label("The letter")).to_contain_text("Subject: Please let Silas use")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []
    await shown.get_by_role("button", name="Allow mail: prepare drafts").click()
    more = page.locator(".card-of-permission")
    await expect(more).to_contain_text("mail.observe")
    await expect(more.get_by_role("button", name="Just this once")).to_be_visible()
    await say(person, more, "Do not allow it")

    # A list that comes late does not take away what somebody is writing meanwhile.
    late = asyncio.Event()

    async def hold(route: Route) -> None:
        await late.wait()
        await route.continue_()

    await page.route("**/api/rules", hold)
    async with page.expect_request("**/api/rules"):
        await open_connections(page, size)
    await shown.get_by_role("button", name="Rename:").click()
    await shown.get_by_label("New name").fill("Post")
    async with page.expect_response("**/api/rules"):
        late.set()
    await page.unroute("**/api/rules", hold)
    await shown.get_by_role("button", name="Rename it").click()
    await expect(page.locator("#connections")).to_contain_text("It is called Post now.")
    await shown.get_by_role("button", name="Pause:").click()
    await expect(shown).to_contain_text("Paused")
    await shown.get_by_role("button", name="Remove:").click()
    await page.get_by_role("button", name="Remove it").click()
    await expect(shown).to_have_count(0)
    assert CANARY not in "\n".join(frames)
    assert frames
    assert person.complaints == []


async def test_what_may_cross_is_asked_for_and_taken_back(place: Place, browser: Browser) -> None:
    store, now = place.core.connections, place.core.clock.now()
    for name, domain in (("Private", "personal"), ("Office", "business:acme")):
        identity = place.core.ids.new(CONNECTION)
        row = Connection(
            connection_id=identity,
            name=name,
            domain=domain,
            skill_name="mail",
            auth_strategy=AuthStrategy.SECURE_INPUT,
            ref_id=f"connections/{identity}",
            permissions_granted=("mail.observe",),
            status=ConnectionStatus.ACTIVE,
            health_check="*/30 * * * *",
            created_at=now,
            changed_at=now,
        )
        await store.save(row, "connection_activated")
    person = await Person.at(browser, PHONE)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await open_connections(page, PHONE)
    shown = page.locator(".crossings")
    await expect(shown).to_contain_text("Nothing that is read in one is used in another")
    await shown.get_by_label("From").select_option("personal")
    await shown.get_by_label("To").select_option("business:acme")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []
    await shown.get_by_role("button", name="Ask to let it cross").click()
    card = page.locator(".card-of-domain")
    await expect(card).to_contain_text("This lets nothing cross the other way")
    await person.card_is_awake()
    await card.get_by_role("button", name="Let it cross").click()
    await person.card_is_awake()
    await card.get_by_role("slider").press("End")
    await expect(card).to_be_hidden()
    await open_connections(page, PHONE)
    allowed = "What is read in personal may be used in business:acme"
    await expect(shown).to_contain_text(allowed)
    await shown.get_by_role("button", name=f"Stop: {allowed}").click()
    await expect(shown).not_to_contain_text(allowed)
    told = "Nothing crosses from personal to business:acme any more."
    await expect(page.locator("#connections")).to_contain_text(told)
    assert person.complaints == []


@pytest.mark.parametrize(
    ("size", "flow"), [(PHONE, "device_code"), (DESK, "browser_redirect")], ids=["code", "redirect"]
)
async def test_one_signs_in_at_the_provider_in_the_same_browser(
    place: Place,
    browser: Browser,
    size: ViewportSize,
    flow: str,
    oidc: OidcProvider,
    smtp: SmtpServer,
) -> None:
    require_dovecot()
    with contextlib.closing(Dovecot(oauth=f"{oidc.issuer}/me")) as server:
        await asyncio.to_thread(server.start)
        address = server.add_account().address
        person = await Person.at(browser, size)
        page, frames = person.page, frames_of(person.page)
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        await person.pair(place.web.link())
        await open_connections(page, size)
        issuer = {"issuer": f"{oidc.issuer}@127.0.0.1", "scopes": "openid,offline_access,email"}
        options = {**servers_of(server, smtp), **issuer, "flow": flow}
        card = await ask_for(page, address, options, client=CLIENT)
        await expect(card).to_contain_text(f"You sign in at {oidc.issuer}")
        await expect(card).to_contain_text("openid offline_access email")
        await person.card_is_awake()
        await card.get_by_role("button", name="Connect it", exact=True).click()
        await person.card_is_awake()
        await card.get_by_role("button", name="Yes: ").click()

        steps = page.locator(".sign-in")
        await expect(steps).to_be_visible(timeout=_LONG)
        assert await page.evaluate(BEYOND_THE_EDGE) == []
        assert await violations_by_day_and_night(person) == []
        async with page.expect_popup() as opened:
            await expect(steps.get_by_role("link")).to_have_text(
                f"Open 127.0.0.1:{oidc.port}" if flow == "device_code" else "Open sign-in page"
            )
            await steps.get_by_role("link").click()
        await agree(await opened.value, steps, flow, address)
        shown = page.locator("[data-connection]")
        await expect(shown).to_have_attribute("data-status", "active", timeout=_LONG)
        await expect(steps).to_have_count(0)

        names = [each for each in place.core.vault.list() if each.startswith("connections/")]
        tokens = [
            (place.core.vault.get(each) or b"").decode() for each in names if "/state" not in each
        ]
        assert len(tokens) == 2
        await shown.get_by_role("button", name="Remove:").click()
        await page.get_by_role("button", name="Remove it").click()
        await expect(shown).to_have_count(0)
        await expect(page.locator("#connections")).not_to_contain_text("not confirmed")
        assert [each for each in place.core.vault.list() if each.startswith("connections/")] == []
        assert not [each for each in tokens if each in "\n".join(frames)]
        assert frames
        assert person.complaints == []


async def agree(provider: Page, steps: Locator, flow: str, login: str) -> None:
    """What a person does on the provider's pages, to their end."""
    if flow == "device_code":
        code = await steps.locator(".sign-in-code").inner_text()
        await provider.locator("[name=user_code]").fill(code)
        await provider.locator("[type=submit]").click()
        await provider.get_by_role("button", name="Continue").click()
    await provider.locator("[name=login]").fill(login)
    await provider.locator("[name=password]").fill("any")
    await provider.get_by_role("button", name="Sign-in").click()
    await provider.get_by_role("button", name="Continue").click()
    end = "Sign-in Success" if flow == "device_code" else "You are signed in."
    await expect(provider.locator("body")).to_contain_text(end)
