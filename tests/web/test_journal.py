"""The journal over HTTP: read with a session, changed by signature, and everybody is told."""

from datetime import timedelta
from typing import Any

import pytest_asyncio

from silas.journal.models import Task
from tests.web.place import Place, TestDevice


@pytest_asyncio.fixture(loop_scope="session")
async def entered(device: TestDevice) -> TestDevice:
    """A device with a session."""
    async with device.conversation():
        pass
    return device


async def do(device: TestDevice, operation: str, /, **more: Any) -> tuple[int, dict[str, Any]]:
    answer = await device.signed_post("/api/journal/do", {"operation": operation, **more})
    return answer.status_code, answer.json()


async def today(device: TestDevice) -> dict[str, Any]:
    answer = await device.get("/api/journal/day/today")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_change_from_the_page_is_signed_made_once_and_told(
    place: Place, entered: TestDevice
) -> None:
    async with entered.conversation() as line:
        once = {
            "arguments": {"title": "Squats", "checklist_items": ["warm up"]},
            "said": {"due_at": "tomorrow 9am"},
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
    now = place.ground.clock.now().astimezone(place.front.zone)
    assert (local.date() - now.date(), f"{local:%H:%M}") == (timedelta(days=1), "09:00")
    (entry,) = await place.house.journal.history(task["id"])
    assert entry.actor == "owner"


async def test_a_day_with_its_plan_timer_and_ratings(place: Place, entered: TestDevice) -> None:
    date = (await today(entered))["date"]
    _, task = await do(entered, "create_task", arguments={"title": "Squats"})
    task_id = task["payload"]["task_id"]
    status, made = await do(
        entered,
        "upsert_day_plan_blocks",
        arguments={"plan_date": date, "upserts": [{"task_id": task_id}]},
        said={"upserts.0.start_time": f"{date} 09:00", "upserts.0.end_time": f"{date} 10:00"},
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
    wanted = {"operation": "create_task", "arguments": {"title": "forged"}}
    cookie = {"Cookie": f"silas_session={entered.cookie}"}
    assert (await entered.post("/api/journal/do", wanted)).status_code == 401
    assert (await entered.post("/api/journal/do", wanted, **cookie)).status_code == 403
    stranger = TestDevice(place.address, cookie=entered.cookie)
    assert (await stranger.signed_post("/api/journal/do", wanted)).status_code == 403
    assert (await TestDevice(place.address).get("/api/journal/day/today")).status_code == 401
    assert await place.house.journal.export() == []


NONSENSE: list[tuple[str, dict[str, Any], int]] = [
    ("no_such_thing", {}, 400),
    ("create_task", {"arguments": {"title": ""}}, 400),
    ("create_task", {"arguments": {"title": "a", "actor": "somebody"}}, 400),
    ("create_task", {"arguments": {"title": "a", "scope": None}}, 400),
    ("create_task", {"arguments": {"title": "a"}, "said": {"due_at": "soon"}}, 400),
    ("create_task", {"arguments": {"title": "a"}, "said": {"x.y": "today"}}, 400),
    ("create_task", {"arguments": {"title": "a"}, "said": {"title.0": "today"}}, 400),
    ("update_note", {"arguments": {"note_id": "x", "text": "y"}}, 404),
    ("create_task", {"arguments": []}, 422),
    ("create_task", {"nonsense": 1}, 422),
]


async def test_what_makes_no_sense_is_told_in_words(place: Place, entered: TestDevice) -> None:
    for operation, more, status in NONSENSE:
        answered, told = await do(entered, operation, **more)
        assert answered == status, told
        assert status == 422 or isinstance(told["detail"], str)
    assert await place.house.journal.export() == []


async def test_a_change_made_elsewhere_is_told(place: Place, entered: TestDevice) -> None:
    async with entered.conversation() as line:
        answer = await place.web.journal.answer(
            {"operation": "create_task", "arguments": {"title": "from a command"}}
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
