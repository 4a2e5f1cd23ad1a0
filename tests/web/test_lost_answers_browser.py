"""In a real Chromium: where an answer was lost, the page does not say that nothing has happened."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, Page, Route, expect

from tests.web.browsing import DESK, Person
from tests.web.place import Place
from tests.web.test_journal_browser import add_task, part

pytestmark = pytest.mark.slow


async def lose_answers(page: Page, path: str) -> None:
    """Silas gets the request and does it; the browser never hears so."""

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.route(path, lose)


async def test_a_journal_that_may_be_taken_in_is_not_called_unchanged(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, DESK, intercepted=True)
    page = person.page
    await person.pair(place.web.link())
    await page.locator("[data-tab=journal]:visible").click()
    await part(page, "Tasks")
    await add_task(page, "Squats")
    await page.locator(".task", has_text="Squats").wait_for()
    await part(page, "Files")
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download the journal").click()
    text = Path(await (await download.value).path()).read_text()
    changed = re.sub(r"(task|category)_(\w{26})", r"\1_\2x", text).replace("Squats", "Lunges")
    changed = changed.replace(place.house.journal.host_id, "host-elsewhere")
    brought = FilePayload(name="a.json", mimeType="", buffer=changed.encode())
    await page.get_by_label("An export of a journal").set_input_files(brought)
    status = page.locator(".journal-brought")
    await expect(status).to_contain_text("Nothing is taken in yet.")
    await lose_answers(page, "**/import")
    await page.get_by_role("button", name="Take it in").click()
    await expect(status).to_contain_text("Silas did not answer: look at the journal")
