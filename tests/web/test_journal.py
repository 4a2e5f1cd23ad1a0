"""The journal over HTTP: read with a session, changed by signature, and everybody is told."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest_asyncio

from silas.app.client import call_server
from silas.journal.models import Task
from silas.kernel import format_timestamp
from silas.web.owner_socket import owner_socket
from tests.web.place import Place, TestDevice


@pytest_asyncio.fixture(loop_scope="session")
async def entered(device: TestDevice) -> TestDevice:
    """A device with a session."""
    async with device.conversation():
        pass
    return device


async def do(device: TestDevice, operation: str, /, **more: Any) -> tuple[int, dict[str, Any]]:
    answer = await device.signed_post(f"/api/journal/{operation}", {"arguments": {}, **more})
    return answer.status_code, answer.json()


async def moment(device: TestDevice, words: str, meaning: str = "future") -> str:
    answer = await device.get(f"/api/journal/moment/{meaning}/{words}")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["moment"])


async def today(device: TestDevice) -> dict[str, Any]:
    answer = await device.get("/api/journal/day/today")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_change_from_the_page_is_signed_made_once_and_told(
    place: Place, entered: TestDevice
) -> None:
    async with entered.conversation() as line:
        once = {
            "arguments": {
                "title": "Squats",
                "checklist_items": ["warm up"],
                "due_at": await moment(entered, "tomorrow 9am", "due"),
            },
            "operation_id": "page-12345678",
        }
        status, made = await do(entered, "create_task", **once)
        assert status == 200, made
        assert (await do(entered, "create_task", **once))[1] == made
        assert (await line.until("journal_changed"))["cursor"] == 1
    (task,) = (await today(entered))["tasks"]
    assert (task["title"], task["id"]) == ("Squats", made["payload"]["task_id"])
    assert [item["text"] for item in task["checklists"][0]["items"]] == ["warm up"]
    kept = await place.house.journal.get(Task, task["id"])
    assert kept.due_at is not None
    local = kept.due_at.astimezone(place.front.zone)
    now = place.core.clock.now().astimezone(place.front.zone)
    assert (local.date() - now.date(), f"{local:%H:%M}") == (timedelta(days=1), "09:00")
    (entry,) = await place.house.journal.history(task["id"])
    assert entry.actor == "owner"


async def test_a_day_with_its_plan_timer_and_ratings(place: Place, entered: TestDevice) -> None:
    date = (await today(entered))["date"]
    _, task = await do(entered, "create_task", arguments={"title": "Squats"})
    task_id = task["payload"]["task_id"]
    block = {
        "task_id": task_id,
        "start_time": await moment(entered, f"{date} 09:00"),
        "end_time": await moment(entered, f"{date} 10:00"),
    }
    status, made = await do(
        entered,
        "upsert_day_plan_blocks",
        arguments={"plan_date": date, "upserts": [block]},
    )
    assert status == 200, made
    await do(entered, "start_task_timer", arguments={"task_id": task_id})
    plan = made["payload"]["day_plan_id"]
    rating = {"target_id": plan, "dimension": "energy", "value": 7}
    await do(entered, "create_or_update_rating", arguments=rating)
    shown = await today(entered)
    assert shown["plan"]["id"] == plan
    assert [each["task_id"] for each in shown["blocks"]] == [task_id]
    assert shown["running"]["task_id"] == task_id
    assert [(each["value"], each["target"]) for each in shown["ratings"]] == [(7.0, plan)]
    assert shown["begin"] < shown["now"] < shown["end"]
    assert "vector_clock" not in shown["tasks"][0]
    # What is on another day is not on this one, but what runs, runs.
    other = (await entered.get("/api/journal/day/2020-02-02")).json()
    assert (other["plan"], other["blocks"], other["date"]) == (None, [], "2020-02-02")
    assert other["running"]["id"] == shown["running"]["id"]


async def test_there_is_no_such_day(entered: TestDevice) -> None:
    for day in ("yesterday", "2026-02-30", "0001-01-01", "x" * 300):
        assert (await entered.get(f"/api/journal/day/{day}")).status_code == 404, day


async def test_without_a_session_or_a_signature_nothing_is_read_or_changed(
    place: Place, entered: TestDevice
) -> None:
    wanted, create = {"arguments": {"title": "forged"}}, "/api/journal/create_task"
    cookie = {"Cookie": f"silas_session={entered.cookie}"}
    assert (await entered.post(create, wanted)).status_code == 401
    assert (await entered.post(create, wanted, **cookie)).status_code == 403
    stranger = TestDevice(place.address, cookie=entered.cookie)
    assert (await stranger.signed_post(create, wanted)).status_code == 403
    assert (await TestDevice(place.address).get("/api/journal/day/today")).status_code == 401
    assert await place.house.journal.export() == []


NONSENSE: list[tuple[str, dict[str, Any], int]] = [
    ("no_such_thing", {}, 404),
    ("create_task", {"arguments": {"title": ""}}, 422),
    ("create_task", {"arguments": {"title": "a", "actor": "somebody"}}, 422),
    ("create_task", {"arguments": {"title": "a", "scope": None}}, 422),
    ("create_task", {"arguments": {"title": "a", "due_at": "soon"}}, 422),
    ("create_task", {"arguments": {"title": "a", "due_at": 0}}, 422),
    ("create_task", {"arguments": {"title": "a", "estimate_minutes": "5"}}, 422),
    ("create_task", {"arguments": {"title": "a"}, "preview_only": "no"}, 422),
    ("update_note", {"arguments": {"note_id": "x", "text": "y"}}, 404),
    ("create_task", {"arguments": []}, 422),
    ("create_task", {"nonsense": 1}, 422),
]


async def test_what_makes_no_sense_is_told_in_words(place: Place, entered: TestDevice) -> None:
    for operation, more, status in NONSENSE:
        answered, told = await do(entered, operation, **more)
        assert answered == status, told
        assert isinstance(told["detail"], str)
    assert await place.house.journal.export() == []


async def test_a_time_that_is_not_understood_is_a_sentence(entered: TestDevice) -> None:
    answer = await entered.get("/api/journal/moment/due/soon")
    assert answer.status_code in (400, 422)
    assert "soon" in answer.json()["detail"]
    assert (await entered.get("/api/journal/moment/someday/today")).status_code == 422


async def test_a_change_made_elsewhere_is_told(place: Place, entered: TestDevice) -> None:
    async with entered.conversation() as line:
        async with owner_socket(place.web.api, place.core.paths.socket):
            answer = await asyncio.to_thread(
                call_server,
                place.core.paths,
                "/api/journal/create_task",
                {"arguments": {"title": "from a command"}},
            )
        assert answer["payload"]["task_id"]
        await line.until("journal_changed")
    assert len((await today(entered))["tasks"]) == 1


async def test_a_record_says_how_it_came_about(place: Place, entered: TestDevice) -> None:
    _, category = await do(entered, "create_category", arguments={"name": "Gym"})
    gym = category["payload"]["category_id"]
    _, task = await do(entered, "create_task", arguments={"title": "Squats", "category_id": gym})
    task_id = task["payload"]["task_id"]
    said = {"text": "slept badly", "category_id": gym, "about_id": task_id}
    _, note = await do(entered, "create_note", arguments=said)
    note_id = note["payload"]["note_id"]
    await do(entered, "update_note", arguments={"note_id": note_id, "text": "slept well"})
    (shown,) = (await today(entered))["notes"]
    assert shown["text"] == "slept well"
    ((link),) = shown["links"]
    assert (link["record_id"], link["name"]) == (task_id, "Squats")
    told = (await entered.get(f"/api/journal/record/{note_id}")).json()
    assert (told["name"], told["category"], told["deleted"]) == ("slept well", "Gym", False)
    changed, made = told["history"]
    assert changed["changes"] == [{"field": "text", "before": "slept badly", "after": "slept well"}]
    assert {"field": "category_id", "before": None, "after": "Gym"} in made["changes"]
    assert made["actor"] == "owner"
    assert "vector_clock" not in told["record"]
    await do(entered, "delete_record", arguments={"record_id": link["id"]})
    assert (await today(entered))["notes"][0]["links"] == []
    for words in ("slept%20we", "slept%2Fwell"):
        found = (await entered.get(f"/api/journal/find/{words}")).json()["records"]
        assert found == [{"id": note_id, "kind": "note", "name": "slept well"}]
    assert (await entered.get("/api/journal/find/%22%20OR%20*")).json()["records"] == []
    assert (await entered.get("/api/journal/record/nobody")).status_code == 404
    for path in (f"record/{note_id}", "find/slept"):
        answer = await TestDevice(place.address).get(f"/api/journal/{path}")
        assert answer.status_code == 401, path


async def test_when_something_comes_again_is_understood_in_the_owners_zone(
    entered: TestDevice,
) -> None:
    answer = await entered.get("/api/journal/recurrence/every monday")
    assert answer.status_code == 200
    told = answer.json()
    assert told["repeats"]["cron"] == "59 23 * * 1"
    assert told["first"] is not None
    refused = await entered.get("/api/journal/recurrence/every blue moon")
    assert refused.status_code >= 400
    assert "every Monday and Thursday" in refused.text
    assert await moment(entered, "tomorrow", "reminder") != await moment(entered, "tomorrow")
    over = await entered.get("/api/journal/moment/reminder/yesterday")
    assert "is over already" in over.text


async def test_where_the_last_weeks_went(place: Place, entered: TestDevice) -> None:
    zone = place.front.zone
    monday = datetime(2026, 3, 2, 9, tzinfo=zone)

    async def log(start: datetime, minutes: int, **more: Any) -> None:
        times = {"started_at": start, "ended_at": start + timedelta(minutes=minutes)}
        said = {name: format_timestamp(each) for name, each in times.items()}
        status, made = await do(
            entered, "create_retrospective_time_entry", arguments={**said, **more}
        )
        assert status == 200, made

    status, made = await do(entered, "create_category", arguments={"name": "Gym"})
    assert status == 200, made
    gym = made["payload"]["category_id"]
    await log(monday, 90, category_id=gym)
    await log(monday - timedelta(hours=10), 120)  # Sunday 23:00: one hour in each week
    await log(monday - timedelta(weeks=20), 60)
    answer = await entered.get("/api/journal/spent/2026-03-04")
    assert answer.status_code == 200, answer.text
    spent = answer.json()
    assert [each["minutes"] for each in spent["weeks"]] == [0, 0, 0, 0, 60, 150]
    assert spent["weeks"][-1]["begin"] == "2026-03-02"
    assert spent["categories"] == [
        {"name": None, "minutes": 120},
        {"name": "Gym", "minutes": 90},
    ]
    assert {each["planned"] + each["done"] for each in spent["tasks"]} == {0}
    assert (await entered.get("/api/journal/spent/0001-01-03")).status_code == 404
    assert (await entered.get("/api/journal/spent/never")).status_code == 422


async def test_the_tasks_of_the_last_weeks(place: Place, entered: TestDevice) -> None:
    day = (await today(entered))["date"]
    noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=place.front.zone)

    async def task(title: str, due: datetime | None = None, status: str = "open") -> str:
        given = {"title": title, "due_at": format_timestamp(due) if due else None}
        made = (await do(entered, "create_task", arguments=given))[1]["payload"]["task_id"]
        if status != "open":
            fields = {"task_id": made, "fields": {"status": status}}
            assert (await do(entered, "update_task_fields", arguments=fields))[0] == 200
        return str(made)

    await task("Due and done", noon, "done")
    await task("Due a week ago, done today", noon - timedelta(weeks=1), "done")
    await task("Not wanted any more", noon, "rejected")
    await task("Never due", None, "done")
    pinned = await task("Pinned, due the same day", noon)
    block = await task("In the plan")
    plan = {"plan_date": day, "task_ids": [pinned]}
    assert (await do(entered, "pin_day_plan_tasks", arguments=plan))[0] == 200
    hour = {"start_time": noon, "end_time": noon + timedelta(hours=1)}
    said = {name: format_timestamp(each) for name, each in hour.items()}
    blocks = {"plan_date": day, "upserts": [{"task_id": block, **said}]}
    assert (await do(entered, "upsert_day_plan_blocks", arguments=blocks))[0] == 200
    found = (await entered.get(f"/api/journal/spent/{day}")).json()["tasks"]
    assert [(each["planned"], each["done"]) for each in found[-2:]] == [(1, 0), (3, 3)]
    assert [each["planned"] for each in found[:-2]] == [0, 0, 0, 0]
