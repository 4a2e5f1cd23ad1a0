"""In a real Chromium: where the last weeks went, as bars and as a table, in both themes."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from silas.kernel import SystemClock, format_timestamp
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place, TestDevice
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_cards import PICTURES
from tests.web.test_journal import do

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("size", "name"), [(PHONE, "phone"), (DESK, "desk")])
async def test_where_the_last_weeks_went(
    place: Place, device: TestDevice, browser: Browser, size: ViewportSize, name: str
) -> None:
    async with device.conversation():
        pass
    now = SystemClock().now()
    for number, category in enumerate(("Gym", "Housekeeping and <b>errands</b>", "Writing"), 1):
        _, made = await do(device, "create_category", arguments={"name": category})
        for week in range(5):
            start = now - timedelta(weeks=week, hours=3)
            times = {"started_at": start, "ended_at": start + timedelta(minutes=25 * number)}
            said = {key: format_timestamp(each) for key, each in times.items()}
            given = {**said, "category_id": made["payload"]["category_id"]}
            status, _ = await do(device, "create_retrospective_time_entry", arguments=given)
            assert status == 200
    for week in range(4):
        for number in range(week + 2):
            due = format_timestamp(now - timedelta(weeks=week))
            given = {"title": f"{week} {number}", "due_at": due}
            _, made = await do(device, "create_task", arguments=given)
            fields = {"task_id": made["payload"]["task_id"], "fields": {"status": "done"}}
            if week == 0 and number == 0:
                await do(device, "update_task_fields", arguments=fields)
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await page.keyboard.press("Alt+4")
    await page.locator("[data-part=time]").click()
    await page.get_by_text("The last weeks").click()
    weeks, categories = page.locator(".chart").nth(0), page.locator(".chart").nth(1)
    await expect(weeks.locator(".chart-bar")).to_have_count(6)
    await expect(categories.locator(".chart-bar")).to_have_count(3)
    longest = categories.locator(".chart-bar").first
    await expect(longest).to_have_attribute("aria-label", "Writing: 6 h 15")
    await longest.focus()
    await expect(longest).to_be_focused()
    await categories.get_by_text("As a table").click()
    cells = categories.locator("td")
    await expect(cells).to_have_text(
        ["Writing", "6 h 15", "Housekeeping and <b>errands</b>", "4 h 10", "Gym", "2 h 05"]
    )
    tasks = page.locator(".chart").nth(2)
    await expect(tasks.locator("figcaption")).to_have_text("Tasks in each week")
    await expect(tasks.locator(".chart-bar").last).to_have_attribute(
        "aria-label", re.compile(": Planned 2, Done 1$")
    )
    await expect(tasks.locator("rect")).to_have_count(12)
    await tasks.get_by_text("As a table").click()
    await expect(tasks.locator("th")).to_have_text(["Week of", "Planned", "Done"])
    await expect(tasks.locator("tr").last.locator("td")).to_have_text([re.compile("."), "2", "1"])
    assert await page.locator(".chart b").count() == 0
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await violations_by_day_and_night(person) == []
    if PICTURES:
        await categories.scroll_into_view_if_needed()
        await page.screenshot(path=Path(PICTURES) / f"{name}-charts.png")
        await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        await tasks.scroll_into_view_if_needed()
        await page.screenshot(path=Path(PICTURES) / f"{name}-tasks-dark.png")
    assert person.complaints == []
