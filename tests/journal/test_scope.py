"""Whoever may see some categories reads and changes nothing of the others."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from silas.journal.dispatch import NAMES
from silas.journal.errors import RecordOutOfScope
from silas.journal.models import AccessScope, DayPlan, Record, Task
from tests.journal.place import Place, only

DAY = "2026-01-02"
BLOCK = {"start_time": "2026-01-02T09:00:00Z", "end_time": "2026-01-02T10:00:00Z"}
SPENT = {"started_at": "2026-01-01T08:00:00Z", "ended_at": "2026-01-01T09:00:00Z"}


async def furnish(place: Place) -> dict[str, str]:
    """A record of each kind in the category `home`, and an open one in `gym`."""
    home, gym = await place.category("home"), await place.category("gym")
    task = await place.task("Tax", home, checklist_items=["receipts"])
    ((checklist, (item,)),) = await place.journal.checklists_of(task)
    note = (await place.do("create_note", text="secret", category_id=home)).payload["note_id"]
    entry = await place.do("start_task_timer", task_id=task)
    block = {**BLOCK, "category_id": home}
    plan = await place.do("upsert_day_plan_blocks", plan_date=DAY, upserts=[block])
    await place.do("pin_day_plan_tasks", plan_date=DAY, task_ids=[task])
    await place.do("create_or_update_rating", target_id=task, dimension="joy", value=1)
    own = await place.task("Squats", gym, checklist_items=["warm up"])
    ((own_list, (own_item,)),) = await place.journal.checklists_of(own)
    return {
        "home": home,
        "gym": gym,
        "task": task,
        "checklist": checklist.id,
        "item": item.id,
        "note": str(note),
        "entry": str(entry.payload["time_entry_id"]),
        "block": str(plan.payload["block_ids"][0]),
        "own": own,
        "own_list": own_list.id,
        "own_item": own_item.id,
    }


def attempts(at: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    """For every operation the ways in which it could reach into `home`."""
    task, home = at["task"], at["home"]
    return {
        "create_task": [{"title": "x", "category_id": home}, {"title": "x"}],
        "update_task_fields": [
            {"task_id": task, "fields": {"title": "x"}},
            {"task_id": at["own"], "fields": {"category_id": home}},
            {"task_id": at["own"], "fields": {"category_id": None}},
        ],
        "set_task_language": [{"task_id": task, "language": "en"}],
        "update_task_estimate": [{"task_id": task, "estimate_minutes": 5}],
        "update_task_due_date": [{"task_id": task, "due_at": None}],
        "update_task_priority": [{"task_id": task, "priority": "P0"}],
        "assign_task_labels": [{"task_id": task, "labels": ["x"]}],
        "create_follow_up_task": [
            {"source_task_id": task, "new_task_title": "x"},
            {
                "source_task_id": at["own"],
                "new_task_title": "x",
                "preserve_category_and_labels": False,
                "category_id": home,
            },
            {
                "source_task_id": at["own"],
                "new_task_title": "x",
                "preserve_category_and_labels": False,
            },
        ],
        "conclude_task_with_rollover": [{"task_id": task}],
        "create_checklist": [{"task_id": task}],
        "add_multiple_checklist_items": [
            {"items": ["x"], "task_id": task},
            {"items": ["x"], "checklist_id": at["checklist"]},
        ],
        "update_checklist_items": [
            {"updates": [{"id": at["own_item"], "checked": True}, {"id": at["item"], "text": "x"}]}
        ],
        "move_checklist_items": [
            {
                "item_ids": [at["own_item"]],
                "from_checklist_id": at["own_list"],
                "to_checklist_id": at["checklist"],
            },
            {
                "item_ids": [at["item"]],
                "from_checklist_id": at["checklist"],
                "to_checklist_id": at["own_list"],
            },
        ],
        "move_checklist_items_to_new_task": [
            {
                "item_ids": [at["item"]],
                "from_checklist_id": at["checklist"],
                "new_task_title": "x",
            }
        ],
        "create_retrospective_time_entry": [
            {"task_id": task, **SPENT},
            {"category_id": home, **SPENT},
            SPENT,
            {"task_id": at["own"], "category_id": home, **SPENT},
            {"task_id": at["own"], "source_entry_id": at["note"], **SPENT},
        ],
        # The timer that runs is that of `home`: to start another one would stop it.
        "start_task_timer": [{"task_id": at["own"]}, {"task_id": task}, {}],
        "stop_task_timer": [{}],
        "annotate_time_entry": [{"time_entry_id": at["entry"], "note": "x"}],
        "update_time_entry": [{"time_entry_id": at["entry"], "fields": {"note": "x"}}],
        "upsert_day_plan_blocks": [
            {"plan_date": DAY, "upserts": [{**BLOCK, "category_id": home}]},
            {"plan_date": DAY, "upserts": [{**BLOCK, "task_id": task}]},
            {"plan_date": DAY, "upserts": [BLOCK]},
            {"plan_date": DAY, "upserts": [{**BLOCK, "id": at["block"], "task_id": at["own"]}]},
            {"plan_date": DAY, "deletes": [at["block"]]},
        ],
        "replan_day_blocks": [{"plan_date": DAY, "blocks": [{**BLOCK, "task_id": task}]}],
        "pin_day_plan_tasks": [
            {"plan_date": DAY, "task_ids": [task]},
            {"plan_date": DAY, "unpin": [task]},
        ],
        "create_or_update_rating": [
            {"target_id": task, "dimension": "joy", "value": 9},
            {"target_id": "dayplan-2026-01-02", "dimension": "joy", "value": 9},
        ],
        "create_note": [
            {"text": "x", "category_id": home},
            {"text": "x"},
            {"text": "x", "category_id": at["gym"], "about_id": task},
        ],
        "update_note": [{"note_id": at["note"], "text": "x"}],
        "link_records": [
            {"from_id": at["own"], "to_id": task},
            {"from_id": task, "to_id": at["own"]},
        ],
        "create_category": [{"name": "x"}],
        "update_category": [
            {"category_id": home, "name": "x"},
            {"category_id": at["gym"], "name": "x"},
        ],
        "delete_record": [
            *({"record_id": at[name]} for name in ("task", "item", "note", "entry", "block")),
            {"record_id": "dayplan-2026-01-02"},
        ],
        "restore_record": [{"record_id": task}],
        "undo_change": [{"change_id": "c1"}],
        "import_tasks": [{"tasks": [{"title": "x"}]}],
        "import_records": [{"records": []}],
    }


async def test_every_operation_refuses_what_is_out_of_its_scope(place: Place) -> None:
    at = await furnish(place)
    ways = attempts(at)
    # This one reaches nothing: a plan without blocks says nothing about anybody.
    assert set(ways) | {"get_or_create_day_plan"} == NAMES
    before = await place.journal.export()
    await place.told()
    for name, several in ways.items():
        for arguments in several:
            for scope in (only(at["gym"]), only()):
                with pytest.raises(RecordOutOfScope) as refused:
                    await place.do(name, scope=scope, **arguments)
                assert refused.value.tool_code == "out_of_scope", (name, arguments)
    assert await place.journal.export() == before
    assert await place.told() == []


async def test_only_the_owner_brings_a_category_or_a_plan_back(place: Place) -> None:
    gym = await place.category("gym")
    await place.do("get_or_create_day_plan", plan_date=DAY)
    for name in (gym, "dayplan-2026-01-02"):
        await place.do("delete_record", record_id=name)
        with pytest.raises(RecordOutOfScope):
            await place.do("restore_record", scope=only(gym), record_id=name)
        await place.do("restore_record", record_id=name)


async def test_within_its_scope_it_works(place: Place) -> None:
    at = await furnish(place)
    gym = only(at["gym"])
    await place.do("update_task_priority", scope=gym, task_id=at["own"], priority="P0")
    block = {**BLOCK, "task_id": at["own"]}
    await place.do("upsert_day_plan_blocks", scope=gym, plan_date=DAY, upserts=[block])
    await place.do("replan_day_blocks", scope=gym, plan_date=DAY, blocks=[])
    pinned = await place.do(
        "pin_day_plan_tasks", scope=gym, plan_date=DAY, task_ids=[at["own"]], operation_id="pin"
    )
    # It is told what it may know: not what others have pinned there.
    (shown,) = pinned.records
    assert isinstance(shown, DayPlan)
    assert shown.pinned_task_ids == (at["own"],)
    assert not any(at["task"] in token for token in pinned.changed_tokens)
    assert any(at["own"] in token for token in pinned.changed_tokens)
    again = await place.do(
        "pin_day_plan_tasks", scope=gym, plan_date=DAY, task_ids=[at["own"]], operation_id="pin"
    )
    assert again == pinned
    plan = await place.journal.day_plan(date(2026, 1, 2))
    assert plan is not None
    # What was out of scope is as it was.
    assert [each.id for each in plan[1]] == [at["block"]]
    assert plan[0].pinned_task_ids == (at["task"], at["own"])


async def test_reading_is_held_to_the_scope_as_well(place: Place) -> None:
    at = await furnish(place)
    scope, gym = only(at["gym"]), {at["gym"]}
    journal = place.journal
    for name in ("home", "task", "checklist", "item", "note", "entry", "block"):
        assert await journal.find(Record, at[name], scope=scope) is None, name
    seen = await journal.get_many(list(at.values()), scope=scope)
    assert {each.id for each in seen} == {at["gym"], at["own"], at["own_list"], at["own_item"]}
    assert [each.id for each in await journal.list_tasks(categories=gym)] == [at["own"]]
    assert await journal.search("tax", categories=gym) == []
    assert await journal.search("receipts", categories=gym) == []
    assert await journal.notes(categories=gym) == []
    assert await journal.ratings(categories=gym) == []
    day = datetime(2026, 1, 1, tzinfo=UTC)
    assert await journal.time_entries(day, day + timedelta(days=1), categories=gym) == []
    plan = await journal.day_plan(date(2026, 1, 2), categories=gym)
    assert plan is not None
    assert (plan[0].pinned_task_ids, plan[1]) == ((), [])
    seen_plan = await journal.find(DayPlan, "dayplan-2026-01-02", scope=scope)
    assert seen_plan is not None
    assert seen_plan.pinned_task_ids == ()


async def test_what_has_no_category_is_the_owners_alone(place: Place) -> None:
    task_id = await place.task("private")
    assert await place.journal.find(Task, task_id) is not None
    assert await place.journal.find(Task, task_id, scope=only("anything")) is None
    assert not AccessScope(allowed_category_ids=frozenset()).allows(None)


async def test_a_circle_of_forged_records_ends(place: Place) -> None:
    task_id = await place.task("a")
    made = await place.do("create_or_update_rating", target_id=task_id, dimension="x", value=1)
    name = made.payload["rating_id"]
    await place.database.execute(
        "UPDATE records SET content = json_set(content, '$.target_id', id) WHERE id = ?", (name,)
    )
    assert await place.journal.find(Record, str(name), scope=only("x")) is None
