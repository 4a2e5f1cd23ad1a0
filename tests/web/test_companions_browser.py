"""In a real Chromium: a companion is made in three taps, wakes, proposes, and is stopped."""

import asyncio
import re
from datetime import timedelta
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from silas.app.client import call_server
from silas.companions.models import StopScope
from silas.journal import OWNER, dispatch
from silas.journal.models import Task, TaskStatus
from silas.web.owner_socket import owner_socket
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place
from tests.web.test_accessibility import violations

pytestmark = pytest.mark.slow


async def make_planner(person: Person, category: str) -> None:
    page = person.page
    await page.locator("[data-tab=companions]:visible").click()
    await page.get_by_role("button", name="New companion").click()
    await page.get_by_label("A new category").fill(category)
    await page.get_by_role("button", name="Create companion").click()
    await page.locator(".companion-top", has_text="Planner").wait_for()


async def finish_task_with_open_steps(place: Place, category: str) -> str:
    """A task is done while one of its steps is not."""
    journal = place.house.journal
    (found,) = [each for each in await journal.categories() if each.name == category]
    made = await dispatch.call(
        journal,
        "create_task",
        {
            "title": "Squats",
            "category_id": found.id,
            "checklist_items": ["Warm up", "Stretch"],
        },
        scope=OWNER,
        actor="owner",
    )
    task_id = str(made.payload["task_id"])
    await dispatch.call(
        journal,
        "update_task_fields",
        {"task_id": task_id, "fields": {"status": "done"}},
        scope=OWNER,
        actor="owner",
    )
    return task_id


async def follow_ups(place: Place) -> list[Task]:
    tasks = await place.house.journal.list_tasks(status=list(TaskStatus))
    return [each for each in tasks if each.title != "Squats"]


@pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "light"), (DESK, "dark")], ids=["phone, light", "desk, dark"]
)
async def test_a_finished_task_leads_to_one_follow_up(
    place: Place, browser: Browser, size: ViewportSize, scheme: Literal["light", "dark"]
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await person.pair(place.web.link())
    await make_planner(person, "Gym")
    assert await violations(person) == []

    await finish_task_with_open_steps(place, "Gym")
    await page.locator(".companion-waiting").wait_for()
    assert await violations(person) == []
    await page.get_by_role("button", name="Decide in Review").click()
    await person.card_is_awake()
    assert await violations(person) == []
    await page.get_by_role("button", name="Do it").click()
    await person.card_is_awake()
    await page.get_by_role("button", name=re.compile("^Yes: ")).click()
    await page.locator("[data-tab=companions]:visible").click()
    await expect(page.locator(".companion-waiting")).to_have_count(0)
    (made,) = await follow_ups(place)
    assert made.title == "Squats (follow-up)"
    checklists = await place.house.journal.checklists_of(made.id)
    assert [item.text for _, items in checklists for item in items] == ["Warm up", "Stretch"]

    claim = page.locator(".claims summary").first
    await claim.click()
    await expect(page.locator(".sources li").first).to_contain_text("Squats")
    await page.get_by_text("What it did").click()
    await page.locator(".companion-runs li summary").first.click()
    await page.get_by_role("button", name="Replay").first.click()
    await expect(page.locator(".trace [role=status]").first).to_contain_text("Replayed")
    assert len(await follow_ups(place)) == 1
    assert await violations(person) == []
    assert person.complaints == []


async def test_one_tap_stops_them_all_from_every_screen(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await make_planner(person, "Home")
    await page.reload()
    await person.is_in()
    await page.get_by_role("button", name="Stop all companions at once").click()
    await page.get_by_role("button", name="Companions are stopped: let them go on").wait_for()
    await finish_task_with_open_steps(place, "Home")
    await person.go("companions")
    await expect(page.locator(".companions-stopped")).to_contain_text(
        "Stopped: All companions. Nothing is begun, and nothing is written."
    )
    assert await follow_ups(place) == []
    assert await violations(person) == []
    await page.get_by_role("button", name="Let them go on", exact=True).click()
    await expect(page.locator(".companions-stopped")).to_have_count(0)
    assert person.complaints == []


async def test_one_of_many_is_found_by_name(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    page, house = person.page, place.house.companions
    await person.pair(place.web.link())
    await make_planner(person, "Gym")
    (planner,) = await house.service.list()
    gym = [each.id for each in planner.categories]
    for number in range(100):
        await house.service.new("planner", category_ids=gym, display_name=f"Number {number}")
    (last,) = (await house.service.listed(words="number 99")).companions
    await house.service.stop(StopScope.COMPANION, last.id)
    await page.get_by_role("button", name="All companions", exact=True).click()
    lines = page.locator(".companion-line")
    await expect(lines).to_have_count(100)
    await expect(page.locator(".companions-group .meta")).to_contain_text("1 more.")
    stopped = page.locator(".companions-stopped")
    await expect(stopped).to_contain_text("Stopped: Number 99. Everything else goes on.")
    await page.get_by_label("Find a companion").fill("nobody")
    await expect(page.locator(".companions-group .meta")).to_have_text(
        "Nobody is called like that."
    )
    await page.get_by_label("Find a companion").fill("BER 99")
    await expect(lines).to_have_count(1)
    assert await violations(person) == []
    await lines.click()
    await expect(page.locator(".companion-top")).to_contain_text("Number 99")
    # It is ended elsewhere: when the page looks again, it goes back to the others.
    await house.service.destroy(last.id)
    note = {"text": "Something to hear of"}
    await dispatch.call(place.house.journal, "create_note", note, scope=OWNER, actor="owner")
    await expect(lines).to_have_count(100)
    await expect(page.locator(".companions-group .meta")).to_have_text("")
    assert person.complaints == []


async def test_what_is_changed_elsewhere_is_shown_at_once(place: Place, browser: Browser) -> None:
    """Through the service and over the owner's socket; the page never looks by itself."""
    person = await Person.at(browser, DESK)
    page, service = person.page, place.house.companions.service
    await page.add_init_script("window.setInterval = () => 0")
    await person.pair(place.web.link())
    await make_planner(person, "Gym")
    (planner,) = await service.list()
    health = page.locator(".companion-top .companion-health")
    await expect(health).to_have_attribute("data-health", re.compile("idle|sleeping"))
    await service.pause(planner.id)
    await expect(health).to_have_attribute("data-health", "paused")
    paths = place.core.paths
    async with owner_socket(place.web.api, paths.socket):
        await asyncio.to_thread(call_server, paths, "/api/companions/stop", {"scope": "global"})
        await page.get_by_role("button", name="Companions are stopped: let them go on").wait_for()
        await person.page.get_by_role("button", name="Close Companions").click()
        await asyncio.to_thread(call_server, paths, "/api/companions/resume_all")
        await page.get_by_role("button", name="Stop all companions at once").wait_for()
    assert person.complaints == []


@pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "light"), (DESK, "dark")], ids=["phone, light", "desk, dark"]
)
async def test_a_report_is_drawn_said_in_words_and_forgotten(
    place: Place, browser: Browser, size: ViewportSize, scheme: Literal["light", "dark"]
) -> None:
    person, house = await Person.at(browser, size), place.house
    page, service = person.page, house.companions.service
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")

    async def do(operation: str, **arguments: object) -> dict[str, Any]:
        made = await dispatch.call(house.journal, operation, arguments, scope=OWNER, actor="owner")
        return dict(made.payload)

    ids = []
    for name, minutes in (("Gym", 40), ("Running", 25)):
        ids.append((await do("create_category", name=name))["category_id"])
        task = (await do("create_task", title=f"{name} today", category_id=ids[-1]))["task_id"]
        end = house.core.clock.now()
        start = end - timedelta(minutes=minutes)
        await do("create_retrospective_time_entry", task_id=task, started_at=start, ended_at=end)
    made = await service.new("gym_coach", category_ids=ids)
    await service.wake(made.id, said="How is the marathon?")
    await person.pair(place.web.link())
    await page.locator("[data-tab=companions]:visible").click()
    await page.get_by_role("button", name="Gym Coach").click()
    report = page.locator(".companion-report")
    await report.get_by_role("button", name="The month").click()
    await expect(report.get_by_role("button", name="The month")).to_have_attribute(
        "aria-pressed", "true"
    )
    chart = report.get_by_role("group", name="Minutes in each category")
    await expect(chart.locator("rect")).to_have_count(2)
    await expect(chart.get_by_role("img", name=re.compile("Running.*25 minutes"))).to_have_count(1)
    assert await violations(person) == []

    await page.get_by_text("How it does", exact=True).click()
    await expect(page.locator('[data-key="upkeep"]')).to_contain_text("Runs that go through: 100%")
    await expect(page.locator('[data-key="upkeep"]')).to_contain_text("1 of 1 runs went through")
    assert await violations(person) == []

    await page.get_by_text("Forget", exact=True).click()
    await page.get_by_label("A word").fill("marathon")
    await page.get_by_role("button", name="Show what would go").click()
    await expect(page.locator(".companion-forget-told")).to_contain_text("This would go")
    await expect(page.locator(".companion-forget-told")).to_contain_text("Backups that were made")
    assert await violations(person) == []
    await page.get_by_role("button", name="Forget it for good").click()
    await expect(page.locator(".companions-note")).to_contain_text("Forgotten.")
    await expect(page.locator(".companion-receipts summary")).to_have_count(1)
    assert "marathon" not in str(await service.runs(made.id))
    assert person.complaints == []
