"""In a real Chromium: what goes over HTTP waits for its session; an ended one is opened anew."""

import asyncio
from contextlib import suppress

import pytest
from playwright.async_api import Browser, Error, Route, expect

from tests.web.browsing import DESK, Person
from tests.web.place import Place
from tests.web.test_attachments_browser import COMPOSER, happens

pytestmark = pytest.mark.slow
KEPT = ".composer-files .attached[data-kept]"
LONG = "A long line of a text. " * 300


async def test_a_file_that_is_attached_before_the_session_is_open_waits_for_it(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, DESK, intercepted=True)
    asked, may_open = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        asked.set()
        await may_open.wait()
        await route.continue_()

    await person.page.route("**/api/session", late)
    await person.pair(place.web.link())
    await asked.wait()
    await happens(person, "#say", "paste", text=LONG)
    await expect(person.page.locator(".composer-files .attached")).to_contain_text("Attaching")
    may_open.set()
    await expect(person.page.locator(KEPT)).to_contain_text("pasted-text.txt")
    assert person.complaints == []


async def test_a_session_that_has_ended_is_opened_anew(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, DESK)
    await person.pair(place.web.link())
    await happens(person, "#say", "paste", text=LONG)
    await expect(person.page.locator(KEPT)).to_have_count(1)
    place.front.sessions._sessions.clear()  # as after twelve hours
    await happens(person, "#say", "paste", text=LONG)
    await person.page.get_by_role("button", name="Memory").click()
    await expect(person.page.locator(KEPT)).to_have_count(2)
    await expect(person.page.get_by_text("cannot be read")).to_have_count(0)
    await person.page.get_by_label(COMPOSER).fill("What can you do?")
    await person.page.get_by_role("button", name="Send").click()
    await expect(person.page.locator(".composer-files .attached")).to_have_count(0)


async def test_a_browser_that_is_no_longer_paired_is_told_so_and_asks_no_more(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, DESK)
    await person.pair(place.web.link())
    await expect(person.page.get_by_label(COMPOSER)).to_be_visible()
    [device] = await place.front.devices.list()
    await place.front.devices.revoke(device.device_id)
    place.front.sessions._sessions.clear()
    with suppress(Error):  # something else that the page asked for was refused before
        await happens(person, "#say", "paste", text=LONG)
    await expect(person.page.get_by_text("This browser is no longer paired")).to_be_visible()
