"""What models used and what is left of budgets: over the API, and in a real Chromium."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from click.testing import CliRunner
from playwright.async_api import Browser, ViewportSize, expect

from silas.cli.commands import CliContext, LazyCommand
from silas.companions.models import BudgetUsage
from silas.kernel import TaintLevel
from silas.queue.models import Agent, MessageKind, PlanRequest, QueueMessage
from silas.stream.models import Usage
from silas.stream.research import ResearchState
from silas.stream.visitors import VisitorLimits
from silas.web.errors import InvalidRequest
from silas.web.owner_socket import owner_socket
from silas.work import WorkItem, WorkItemStatus
from silas.work.models import BudgetUsed
from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.place import Place, TestDevice
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_answering import FIRST, MODEL, SECOND, SlowModel, Talk, talking
from tests.web.test_cards import PICTURES
from tests.web.test_journal import do

COUNT = "SELECT COUNT(*), SUM(output_tokens) FROM model_usage"
INSERT = "INSERT INTO model_usage VALUES (?, ?, ?, ?, ?, ?, ?)"


async def shown(device: TestDevice, days: int | str = 14) -> dict[str, Any]:
    answer = await device.get(f"/api/usage/{days}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def used(place: Place, ago: int, role: str, tokens: int, cost: float | None) -> None:
    day = place.core.usage.today() - timedelta(days=ago)
    values = (f"{ago} {role}", day.isoformat(), role, "openai:gpt-4o", tokens, tokens // 10, cost)
    await place.core.database.execute(INSERT, values)


async def in_use(place: Place, device: TestDevice) -> None:
    """Something of each kind of budget."""
    item = WorkItem.model_validate(
        {"id": "tidy", "type": "task", "title": "Tidy <b>photos</b>", "body": "Do it."}
    )
    await place.core.work.items.save(item)
    spent = BudgetUsed(tokens=12_000, attempts=5, wall_time_seconds=90, cost_usd=0.0)
    await place.core.work.items.update_status("tidy", WorkItemStatus.STUCK, spent)
    _, made = await do(device, "create_category", arguments={"name": "Gym"})
    companions = place.house.companions.service
    coach = await companions.new("gym_coach", category_ids=[made["payload"]["category_id"]])
    charged = BudgetUsage(tokens=500, tool_calls=3)
    await companions._budgets.charge(coach.id, charged)
    link, _ = await place.house.cases.visitors.invite("Shop", "goal", limits=VisitorLimits())
    await place.core.database.transaction(
        lambda tx: place.house.cases.visitors.count_in(tx, link.link_id, messages=2)
    )


@pytest_asyncio.fixture(loop_scope="session")
async def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Talk]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with talking(tmp_path, SlowModel()) as talk:
        yield talk
        talk.model.may_end.set()


async def test_an_answer_is_on_the_disk_with_its_turn(talk: Talk) -> None:
    talk.model.may_end.set()
    await talk.line.say("What do you think of bread?")
    assert await talk.answer() == FIRST + SECOND
    # Nobody has flushed: the turn's own commit has written it.
    assert await talk.place.core.database.fetch_one(COUNT) == (1, 7)
    found = await shown(talk.line.device)
    assert [(each["role"], each["model"]) for each in found["report"]["lines"]] == [
        ("proxy", MODEL)
    ]
    assert found["report"]["days"][-1]["tokens"] == 18
    assert found["note"] == "Nothing was charged: these models run on your machine."


async def test_an_answer_that_was_stopped_has_used_something(talk: Talk) -> None:
    said = await talk.line.say("What do you think of bread?")
    await talk.grown()
    await talk.line.send({"type": "stop", "trace_id": f"trace_{said['message_id']}"})
    await talk.answer()
    [line] = (await shown(talk.line.device))["report"]["lines"]
    assert line["answers"] == 1
    assert line["output_tokens"] > 5


async def test_what_is_said_to_the_letter_asks_no_model(talk: Talk) -> None:
    await talk.line.say("remind me to buy milk tomorrow at 9")
    await talk.answer()
    found = await shown(talk.line.device)
    assert found["report"]["lines"] == []
    assert found["note"] == "No model was asked in this time."


async def test_without_a_model_one_line_says_so(place: Place, device: TestDevice) -> None:
    async with device.conversation() as line:
        await line.say("hello")
        await line.until("message", sender="silas")
        found = await shown(device)
    assert found["note"] == (
        "Silas answers without a model: nothing is used, and nothing costs anything."
    )
    assert (found["report"]["lines"], found["budgets"]) == ([], [])
    assert len(found["report"]["days"]) == 14


async def test_only_the_owners_devices_may_look(place: Place) -> None:
    stranger = TestDevice(place.address)
    assert (await stranger.get("/api/usage/14")).status_code == 401


@pytest.mark.parametrize("days", ["0", "401", "many"])
async def test_days_that_nobody_has(place: Place, device: TestDevice, days: str) -> None:
    async with device.conversation():
        answer = await device.get(f"/api/usage/{days}")
    assert answer.status_code == 422
    assert answer.json()["code"] == InvalidRequest.code


async def test_each_limit_that_is_in_use_has_a_meter(place: Place, device: TestDevice) -> None:
    async with device.conversation():
        await in_use(place, device)
        groups = {each["name"]: each for each in (await shown(device))["budgets"]}
    tidy = groups["Tidy <b>photos</b>"]
    # Nothing is known of a price, so there is no meter that says $0.
    assert [each["words"] for each in tidy["meters"]] == [
        "5 of 5 attempts",
        "12,000 of 200,000 tokens",
        "1 min 30 s of 30 min",
    ]
    assert tidy["anew"].startswith("Holds for this work as a whole.")
    coach = groups["Gym Coach"]
    assert [each["measure"] for each in coach["meters"]] == ["Tokens", "Uses of tools"]
    assert coach["anew"] == "Starts anew at midnight."
    assert [each["words"] for each in groups["Visitors: Shop"]["meters"]] == ["2 of 500 messages"]


async def test_a_request_that_is_being_planned_has_a_meter(
    place: Place, device: TestDevice
) -> None:
    core = place.core
    request = QueueMessage(
        message_id="m_planning",
        trace_id="trace",
        content="Sort my photos",
        sender=Agent.PROXY,
        message_kind=MessageKind.PLAN_REQUEST,
        scope_id="owner",
        taint=TaintLevel.OWNER,
        created_at=core.clock.now(),
        payload=PlanRequest(
            connection_id="owner", interaction_register="execution", interaction_mode=""
        ),
    )
    state = ResearchState(request=request, usage=Usage(tokens=2_000), taint=TaintLevel.OWNER)
    planning = place.front.usage.planning
    await core.database.transaction(lambda tx: planning.save_in(tx, state, version=0))
    async with device.conversation():
        [group] = (await shown(device))["budgets"]
    assert group["name"] == "Planning: Sort my photos"
    assert group["meters"][0]["words"] == "2,000 of 200,000 tokens"


async def test_a_terminal_asks_the_running_silas(place: Place, device: TestDevice) -> None:
    async with device.conversation():
        await in_use(place, device)
    await used(place, 0, "proxy", 10, 0.5)
    command = LazyCommand("silas.cli.models:usage", "").load()
    given = {"obj": CliContext(str(place.core.paths.data_dir), None), "standalone_mode": False}
    async with owner_socket(place.web.api, place.core.paths.socket):
        ran = await asyncio.to_thread(CliRunner().invoke, command, ["--days", "1"], **given)
    assert ran.output.splitlines()[0] == "Today:"
    assert "12,000 of 200,000 tokens; 1 min 30 s of 30 min. Holds for this work" in ran.output
    assert "Visitors: Shop: 2 of 500 messages. Starts anew at midnight UTC." in ran.output


@pytest.mark.slow
async def test_without_a_model_the_page_says_so_in_one_line(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await page.keyboard.press("Alt+3")
    part = page.locator(".usage-part").first
    await part.locator("summary").click()
    await expect(part.locator(".usage")).to_have_text(
        "Silas answers without a model: nothing is used, and nothing costs anything."
    )
    # What was open is asked for again when one comes back to it.
    await used(place, 0, "proxy", 10, 0.5)
    await page.keyboard.press("Alt+1")
    await page.keyboard.press("Alt+3")
    await expect(part.locator(".chart")).to_have_count(2)
    assert person.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "name"), [(PHONE, "phone"), (DESK, "desk")])
async def test_usage_and_budgets_in_the_page(
    place: Place, device: TestDevice, browser: Browser, size: ViewportSize, name: str
) -> None:
    async with device.conversation():
        await in_use(place, device)
    for ago in range(14):
        await used(place, ago, "proxy", 800 * (ago % 5), 0.02 * (ago % 5))
        await used(place, ago, "planner", 2_500 if ago % 3 else 0, None if ago == 2 else 0.3)
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await page.keyboard.press("Alt+3")
    await page.get_by_text("What models used").click()
    charts = page.locator(".usage .chart")
    await expect(charts).to_have_count(2)
    await expect(charts.first.locator(".chart-bar")).to_have_count(14)
    await expect(page.locator(".usage-note").first).to_have_text(
        "The price of one answer is not known; dollars are of the rest."
    )
    lines = page.get_by_role("table", name="By what it was for")
    await expect(lines.locator("tbody tr").first).to_contain_text("Planning")
    await expect(lines.locator("tbody tr").first).to_contain_text("and more")
    await charts.nth(1).get_by_text("As a table").click()
    await expect(charts.nth(1).locator("td").last).to_have_text("$0.30")
    assert await violations_by_day_and_night(person) == []
    await picture(person, f"{name}-usage")
    month = page.get_by_role("button", name="A month")
    await month.click()
    await expect(charts.first.locator(".chart-bar")).to_have_count(30)
    await expect(month).to_have_attribute("aria-pressed", "true")
    await expect(month).to_be_focused()
    await page.get_by_text("What models used").click()
    await page.locator("summary", has_text="Budgets").click()
    meters = page.get_by_role("meter")
    await expect(meters.first).to_have_attribute("aria-valuetext", "5 of 5 attempts")
    await expect(page.locator(".limit-spent")).to_have_text(
        "Attempts5 of 5 attempts: nothing is left"
    )
    assert await page.locator(".budgets b").count() == 0
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []
    await picture(person, f"{name}-budgets")
    assert person.complaints == []


async def picture(person: Person, name: str) -> None:
    if not PICTURES:
        return
    await person.page.screenshot(path=Path(PICTURES) / f"{name}.png")
    await person.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    await person.page.screenshot(path=Path(PICTURES) / f"{name}-dark.png")
    await person.page.emulate_media(color_scheme="light", reduced_motion="reduce")
