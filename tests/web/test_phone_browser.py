"""In a real Chromium: a phone comes in, over https with the owner's own certificate."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from tests.cli.machine import free_port
from tests.web.browsing import DESK, PHONE, Person, chromium
from tests.web.certificates import Authority
from tests.web.place import Place, environ_for, open_place
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_pairing import read_by_a_camera

pytestmark = pytest.mark.slow
TOKEN = "a-token-for-the-network"


def drawn_rows(path: str, size: int) -> list[str]:
    """The squares of a QR code that the page has drawn."""
    rows = [["0"] * size for _ in range(size)]
    for x, y, run in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", path):
        for column in range(int(x), int(x) + int(run)):
            rows[int(y)][column] = "1"
    return ["".join(row) for row in rows]


async def read_code(code: Locator) -> str:
    size = int((await code.get_attribute("viewBox") or "").split()[-1])
    path = await code.locator("path").get_attribute("d")
    return read_by_a_camera(drawn_rows(path or "", size))


async def open_devices(person: Person) -> Locator:
    await person.page.get_by_role("button", name="Devices", exact=True).click()
    return person.page.get_by_role("dialog", name="Devices")


@pytest_asyncio.fixture(loop_scope="session")
async def named_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A Silas behind somebody else's https."""
    origins = '["https://silas.example.org"]'
    environ = environ_for(tmp_path, SILAS_CHANNELS__WEB__PUBLIC_ORIGINS=origins)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with open_place(tmp_path, environ) as place:
        yield place


async def test_the_devices_dialog_shows_a_code_for_a_phone(
    named_place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, DESK)
    await person.pair(named_place.web.link())
    dialog = await open_devices(person)
    await dialog.get_by_role("button", name="Pair a phone").click()
    code = dialog.get_by_role("img", name="QR code of the link that pairs a phone")
    link = await read_code(code)
    assert link.startswith("https://silas.example.org/#pair=")
    await expect(dialog).to_contain_text(link)
    assert await violations_by_day_and_night(person) == []
    await dialog.get_by_role("button", name="Close").click()
    await open_devices(person)
    await expect(code).to_have_count(0)
    assert person.complaints == []


async def test_without_an_address_it_says_what_is_missing(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, DESK)
    await person.pair(place.web.link())
    dialog = await open_devices(person)
    await dialog.get_by_role("button", name="Pair a phone").click()
    await expect(dialog).to_contain_text("it needs an https address that it can reach")
    await expect(dialog.locator(".qr-code")).to_have_count(0)


async def test_a_phone_works_over_https_with_an_own_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued, port = Authority().issue(tmp_path), free_port()
    origin = f"https://silas.test:{port}"
    environ = environ_for(
        tmp_path,
        SILAS_CHANNELS__WEB__PORT=str(port),
        SILAS_CHANNELS__WEB__TLS_CERTIFICATE=str(issued.chain),
        SILAS_CHANNELS__WEB__TLS_KEY=str(issued.key),
        SILAS_CHANNELS__WEB__PUBLIC_ORIGINS=f'["{origin}"]',
        SILAS_CHANNELS__WEB__AUTH_TOKEN=TOKEN,
    )
    monkeypatch.setenv("HOME", environ["HOME"])
    accepted = f"--ignore-certificate-errors-spki-list={issued.spki}"
    async with chromium(accepted) as browser, open_place(tmp_path, environ) as place:
        made = await place.web.pair()
        assert made.phone is not None
        assert made.phone.needs_token
        assert made.link == made.phone.link
        person = await Person.at(browser, PHONE)
        page = person.page
        await page.goto(read_by_a_camera(made.phone.qr))
        await page.get_by_label("Access token").fill(TOKEN)
        await page.get_by_role("button", name="Pair this browser").click()
        await person.is_in()
        assert page.url.startswith(origin)
        assert await page.evaluate("isSecureContext")
        [cookie] = await page.context.cookies()
        assert cookie["secure"]
        await person.say("what is on today?")
        await page.locator(".message.silas:not(.growing)").first.wait_for()
        dialog = await open_devices(person)
        await expect(dialog).to_contain_text("silas devices pair")
        await expect(dialog.get_by_role("button", name="Pair a phone")).to_have_count(0)
        assert person.complaints == []
