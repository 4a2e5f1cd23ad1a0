"""In a real Chromium: the page can be installed as an app, and opens where Silas is not there."""

import struct

import pytest
from playwright.async_api import Browser, expect

from tests.web.browsing import PHONE, Person
from tests.web.place import Place, http_client

pytestmark = pytest.mark.slow
_PNG = b"\x89PNG\r\n\x1a\n"


async def test_the_manifest_names_an_app_with_icons_that_are_what_they_say(place: Place) -> None:
    async with http_client(place.address) as client:
        manifest = (await client.get("/manifest.json")).json()
        assert manifest["name"] == manifest["short_name"] == "Silas"
        assert (manifest["start_url"], manifest["scope"]) == ("/", "/")
        assert manifest["display"] == "standalone"
        sizes = set()
        for icon in manifest["icons"]:
            answer = await client.get(icon["src"])
            assert answer.headers["content-type"].partition(";")[0] == icon["type"]
            if icon["type"] != "image/png":
                continue
            assert answer.content.startswith(_PNG)
            width, height = struct.unpack(">II", answer.content[16:24])
            assert f"{width}x{height}" == icon["sizes"]
            sizes.add(width)
        assert {192, 512} <= sizes
        assert any("maskable" in icon["purpose"] for icon in manifest["icons"])


async def test_it_can_be_installed_and_opens_without_silas(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    await page.reload()
    await person.is_in()
    assert await page.evaluate("navigator.serviceWorker.controller !== null")
    tools = await page.context.new_cdp_session(page)
    manifest = await tools.send("Page.getAppManifest")
    assert manifest["url"] == f"{place.address}/manifest.json"
    assert manifest["errors"] == []
    found = await tools.send("Page.getInstallabilityErrors")
    # Where pages are opened in private windows, nothing is installed: that is the browser's.
    reasons = {each["errorId"] for each in found["installabilityErrors"]}
    assert reasons <= {"in-incognito"}
    await page.context.set_offline(True)
    await page.reload()
    await expect(page.locator("[data-line]")).to_have_attribute("data-state", "waiting")
    await expect(page.get_by_role("heading", name="Silas")).to_be_visible()
    await expect(page.get_by_label("Message to Silas")).to_be_visible()
    await page.context.set_offline(False)
    await person.is_in()
