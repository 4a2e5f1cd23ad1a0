"""What people and companions do with the journal."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from silas.journal import OWNER, Outcome, dispatch, queries
from silas.journal.dispatch import NAMES
from silas.journal.errors import OperationReused, RecordInvalid, RecordUnknown
from silas.journal.files import take_in
from silas.journal.models import (
    Category,
    ChecklistItem,
    DayPlan,
    Link,
    Note,
    Rating,
    Task,
    TaskStatus,
    TimeEntry,
)
from silas.testing.fakes import FakeClock
from tests.journal.place import Place, opened


async def items(place: Place, task_id: str) -> list[ChecklistItem]:
    lists = await place.journal.checklists_of(task_id)
    return [item for _, found in lists for item in found]


async def test_a_task_with_everything(place: Place) -> None:
    gym = await place.category("gym")
    made = await place.do(
        "create_task",
        title="Squats",
        category_id=gym,
        priority="P0",
        estimate_minutes=45,
        due_at="2026-01-02T09:00:00+01:00",
        language="de-AT",
        labels=["legs"],
        body="five by five",
        checklist_items=["warm up", "squat"],
    )
    task = await place.journal.get(Task, str(made.payload["task_id"]))
    assert (task.title, task.priority, task.labels, task.language) == (
        "Squats",
        "P0",
        ("legs",),
        "de-AT",
    )
    assert task.due_at == datetime(2026, 1, 2, 8, tzinfo=UTC)
    assert [each.text for each in await items(place, task.id)] == ["warm up", "squat"]
    assert made.changed_entity_ids[0] == task.id
    assert f"subtype_token|category|{gym}" in made.changed_tokens
    assert "subtype_token|task.status_changed|open" in made.changed_tokens


@pytest.mark.parametrize(
    ("name", "arguments", "field", "value"),
    [
        ("set_task_language", {"language": "en"}, "language", "en"),
        ("update_task_estimate", {"estimate_minutes": 30}, "estimate_minutes", 30),
        (
            "update_task_due_date",
            {"due_at": "2026-02-01T00:00:00Z"},
            "due_at",
            datetime(2026, 2, 1, tzinfo=UTC),
        ),
        ("update_task_priority", {"priority": "P3"}, "priority", "P3"),
        ("assign_task_labels", {"labels": ["b", "a"]}, "labels", ("a", "b")),
        ("assign_task_labels", {"labels": ["b"], "replace": True}, "labels", ("b",)),
        ("update_task_fields", {"fields": {"status": "blocked"}}, "status", "blocked"),
    ],
)
async def test_fields_of_a_task(
    place: Place, name: str, arguments: dict[str, object], field: str, value: object
) -> None:
    task_id = await place.task("one", labels=["a"])
    await place.do(name, task_id=task_id, **arguments)
    found = getattr(await place.journal.get(Task, task_id), field)
    assert found == value


async def test_tasks_are_listed_by_what_is_pressing(place: Place) -> None:
    gym = await place.category("gym")
    later = await place.task("later", gym, due_at="2026-03-01T00:00:00Z")
    sooner = await place.task("sooner", gym, due_at="2026-02-01T00:00:00Z")
    urgent = await place.task("urgent", priority="P0", labels=["x"])
    done = await place.task("done", status="done")

    async def listed(**query: object) -> list[str]:
        return [each.id for each in await place.journal.list_tasks(**query)]  # type: ignore[arg-type]

    assert await listed() == [urgent, sooner, later]
    assert await listed(categories={gym}) == [sooner, later]
    assert await listed(status=[TaskStatus.DONE]) == [done]
    assert await listed(due_before=datetime(2026, 2, 2, tzinfo=UTC)) == [sooner]
    assert await listed(labels=["x"]) == [urgent]
    assert await listed(limit=1) == [urgent]


async def test_conclude_with_rollover_moves_open_items_and_keeps_the_done_ones(
    place: Place,
) -> None:
    gym = await place.category("gym")
    task_id = await place.task("Squats", gym, labels=["a"], checklist_items=["one", "two", "three"])
    first, second, third = await items(place, task_id)
    await place.do("update_checklist_items", updates=[{"id": first.id, "checked": True}])
    await place.do("start_task_timer", task_id=task_id)
    place.clock.advance(minutes=10)
    await place.told()
    made = await place.do("conclude_task_with_rollover", operation_id="op", task_id=task_id)
    follow_up = str(made.payload["follow_up_task_id"])
    assert [each.id for each in await items(place, task_id)] == [first.id]
    assert [each.id for each in await items(place, follow_up)] == [second.id, third.id]
    task = await place.journal.get(Task, follow_up)
    assert (task.title, task.category_id, task.labels) == ("Squats (continued)", gym, ("a",))
    assert (await place.journal.get(Task, task_id)).status is TaskStatus.DONE
    assert await place.journal.running_timer() is None
    (heard,) = await place.told()
    assert heard.logical_change_key == made.logical_change_key
    links = [each for each in made.records if isinstance(each, Link)]
    assert [(each.from_id, each.to_id, each.relation) for each in links] == [
        (task_id, follow_up, "follow_up")
    ]
    again = await place.do("conclude_task_with_rollover", operation_id="op", task_id=task_id)
    assert again == made
    assert len(await place.journal.list_tasks()) == 1


async def test_without_open_items_a_task_is_only_closed(place: Place) -> None:
    task_id = await place.task("Squats")
    made = await place.do("conclude_task_with_rollover", task_id=task_id, close_as="rejected")
    assert made.payload["follow_up_task_id"] is None
    assert [each.status for each in made.records if isinstance(each, Task)] == ["rejected"]


async def test_a_preview_says_what_would_be_and_changes_nothing(place: Place) -> None:
    task_id = await place.task("Squats", checklist_items=["one"])
    before = await place.journal.export()
    await place.told()
    shown = await place.do(
        "conclude_task_with_rollover", operation_id="op", task_id=task_id, preview_only=True
    )
    assert shown.preview
    assert len(shown.records) == 5
    assert await place.journal.export() == before
    assert await place.told() == []
    made = await place.do("conclude_task_with_rollover", operation_id="op", task_id=task_id)
    assert {each.id for each in made.records} == {each.id for each in shown.records}


async def test_a_follow_up_task(place: Place) -> None:
    task_id = await place.task("one", checklist_items=["a"])
    made = await place.do(
        "create_follow_up_task",
        source_task_id=task_id,
        new_task_title="two",
        carry_over_open_checklist_items=False,
        close_source_task_as="done",
    )
    assert made.payload["moved_item_ids"] == []
    assert (await place.journal.get(Task, task_id)).closed
    with pytest.raises(RecordInvalid, match="done or rejected"):
        await place.do("conclude_task_with_rollover", task_id=task_id, close_as="blocked")


async def test_the_same_operation_id_with_other_arguments_is_refused(place: Place) -> None:
    await place.do("create_task", operation_id="op", title="one")
    with pytest.raises(OperationReused):
        await place.do("create_task", operation_id="op", title="two")
    with pytest.raises(OperationReused):
        await place.do("create_note", operation_id="op", text="one")
    assert len(await place.journal.list_tasks()) == 1


async def test_checklists(place: Place) -> None:
    one, two = await place.task("one"), await place.task("two")
    made = await place.do("create_checklist", task_id=one, title="Steps", items=["a", "b", "c"])
    source = str(made.payload["checklist_id"])
    target = str((await place.do("create_checklist", task_id=two)).payload["checklist_id"])
    await place.do("add_multiple_checklist_items", checklist_id=target, items=["x"])
    await place.do("add_multiple_checklist_items", task_id=two, items=["y"])
    a, b, c = await items(place, one)
    await place.do("update_checklist_items", updates=[{"id": a.id, "checked": True, "text": "A"}])
    await place.do(
        "move_checklist_items",
        item_ids=[a.id],
        from_checklist_id=source,
        to_checklist_id=target,
        preserve_checked_state=False,
    )
    assert [(each.text, each.checked) for each in await items(place, two)] == [
        ("x", False),
        ("y", False),
        ("A", False),
    ]
    with pytest.raises(RecordInvalid, match="not in the checklist"):
        await place.do(
            "move_checklist_items",
            item_ids=[a.id],
            from_checklist_id=source,
            to_checklist_id=target,
        )
    split = await place.do(
        "move_checklist_items_to_new_task",
        item_ids=[c.id],
        from_checklist_id=source,
        new_task_title="three",
    )
    assert [each.id for each in await items(place, str(split.payload["task_id"]))] == [c.id]
    assert [each.id for each in await items(place, one)] == [b.id]
    with pytest.raises(RecordInvalid, match="Name the checklist"):
        await place.do("add_multiple_checklist_items", items=["x"])
    elsewhere = {"checklist_id": source, "task_id": split.payload["task_id"]}
    with pytest.raises(RecordInvalid, match="another task"):
        await place.do("add_multiple_checklist_items", items=["x"], **elsewhere)


async def test_one_timer_runs_at_a_time(place: Place) -> None:
    one, two = await place.task("one"), await place.task("two")
    first = str((await place.do("start_task_timer", task_id=one)).payload["time_entry_id"])
    assert (await place.journal.get(Task, one)).status is TaskStatus.IN_PROGRESS
    same = await place.do("start_task_timer", task_id=one)
    assert same.payload["time_entry_id"] == first
    assert same.changed_entity_ids == ()
    place.clock.advance(minutes=20)
    other = await place.do("start_task_timer", task_id=two, note="b")
    assert other.payload["stopped_id"] == first
    stopped = await place.journal.get(TimeEntry, first)
    assert stopped.ended_at == place.clock.now()
    running = await place.journal.running_timer()
    assert running is not None
    assert running.task_id == two
    place.clock.advance(minutes=5)
    await place.do("stop_task_timer", note="well done")
    assert await place.journal.running_timer() is None
    assert (await place.journal.get(TimeEntry, running.id)).note == "well done"
    with pytest.raises(RecordUnknown, match="No timer runs"):
        await place.do("stop_task_timer")


async def test_a_retrospective_time_entry_links_to_its_task_and_its_source(place: Place) -> None:
    gym = await place.category("gym")
    task_id = await place.task("Squats", gym)
    told = str((await place.do("create_note", text="I did squats from 4 to 6")).payload["note_id"])
    made = await place.do(
        "create_retrospective_time_entry",
        task_id=task_id,
        started_at="2026-01-01T08:00:00-01:00",
        ended_at="2026-01-01T10:00:00-01:00",
        description="hard",
        source_entry_id=told,
    )
    entry = await place.journal.get(TimeEntry, str(made.payload["time_entry_id"]))
    assert entry.started_at == datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert [each.to_id for each in made.records if isinstance(each, Link)] == [told]
    day = datetime(2026, 1, 1, tzinfo=UTC)
    found = await place.journal.time_entries(day, day + timedelta(days=1), categories={gym})
    assert [each.id for each in found] == [entry.id]
    assert await place.journal.time_entries(day, day + timedelta(hours=9)) == []
    await place.do("annotate_time_entry", time_entry_id=entry.id, note="harder")
    await place.do(
        "update_time_entry",
        time_entry_id=entry.id,
        fields={"ended_at": "2026-01-01T11:30:00Z"},
    )
    entry = await place.journal.get(TimeEntry, entry.id)
    assert (entry.note, entry.ended_at) == ("harder", datetime(2026, 1, 1, 11, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    ("started", "ended", "why"),
    [
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z", "after it begins"),
        ("2026-01-01T10:00:00Z", "2026-01-01T09:00:00Z", "after it begins"),
        ("2025-01-01T10:00:00Z", "2026-01-01T09:00:00Z", "at most a week"),
        ("2026-01-03T10:00:00Z", "2026-01-03T11:00:00Z", "not been spent yet"),
        ("2026-01-01T10:00:00", "2026-01-01T11:00:00", "timezone"),
    ],
)
async def test_time_that_cannot_be(place: Place, started: str, ended: str, why: str) -> None:
    with pytest.raises(RecordInvalid, match=why):
        await place.do("create_retrospective_time_entry", started_at=started, ended_at=ended)


async def test_the_plan_of_a_day(place: Place) -> None:
    task_id = await place.task("Squats")
    block = {
        "start_time": "2026-01-02T09:00:00+01:00",
        "end_time": "2026-01-02T10:00:00+01:00",
        "task_id": task_id,
    }
    made = await place.do("upsert_day_plan_blocks", plan_date="2026-01-02", upserts=[block, block])
    assert made.payload["day_plan_id"] == "dayplan-2026-01-02"
    first, second = made.payload["block_ids"]
    await place.do(
        "upsert_day_plan_blocks",
        plan_date="2026-01-02",
        upserts=[{**block, "id": first, "note": "deep"}],
        deletes=[second],
    )
    plan = await place.journal.day_plan(date(2026, 1, 2))
    assert plan is not None
    assert [(each.id, each.note) for each in plan[1]] == [(first, "deep")]
    await place.do("pin_day_plan_tasks", plan_date="2026-01-02", task_ids=[task_id, task_id])
    await place.do("pin_day_plan_tasks", plan_date="2026-01-02", task_ids=[task_id])
    plan = await place.journal.day_plan(date(2026, 1, 2))
    assert plan is not None
    assert plan[0].pinned_task_ids == (task_id,)
    await place.do("replan_day_blocks", plan_date="2026-01-02", blocks=[block])
    await place.do("pin_day_plan_tasks", plan_date="2026-01-02", unpin=[task_id])
    plan = await place.journal.day_plan(date(2026, 1, 2))
    assert plan is not None
    assert plan[0].pinned_task_ids == ()
    assert [each.id == first for each in plan[1]] == [False]
    same = await place.do("get_or_create_day_plan", plan_date="2026-01-02")
    assert same.changed_entity_ids == ()


@pytest.mark.parametrize(
    ("begin", "end", "why"),
    [
        ("2026-01-02T10:00:00Z", "2026-01-02T10:00:00Z", "after it begins"),
        ("2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z", "does not lie on"),
    ],
)
async def test_blocks_that_cannot_be(place: Place, begin: str, end: str, why: str) -> None:
    block = {"start_time": begin, "end_time": end}
    with pytest.raises(RecordInvalid, match=why):
        await place.do("upsert_day_plan_blocks", plan_date="2026-01-02", upserts=[block])
    assert await place.journal.day_plan(date(2026, 1, 2)) is None


async def test_a_block_of_another_day_is_not_changed(place: Place) -> None:
    block = {"start_time": "2026-01-02T09:00:00Z", "end_time": "2026-01-02T10:00:00Z"}
    made = await place.do("upsert_day_plan_blocks", plan_date="2026-01-02", upserts=[block])
    with pytest.raises(RecordInvalid, match="another day"):
        await place.do(
            "upsert_day_plan_blocks", plan_date="2026-01-03", deletes=made.payload["block_ids"]
        )


async def test_there_is_one_rating_for_each_respect(place: Place) -> None:
    task_id = await place.task("Squats")
    one = await place.do("create_or_update_rating", target_id=task_id, dimension="energy", value=3)
    two = await place.do("create_or_update_rating", target_id=task_id, dimension="energy", value=7)
    await place.do("create_or_update_rating", target_id=task_id, dimension="mood", value=5)
    assert one.payload == two.payload
    found = await place.journal.ratings(target_id=task_id, dimension="energy")
    assert [each.value for each in found] == [7]
    await place.do("delete_record", record_id=one.payload["rating_id"])
    await place.do("create_or_update_rating", target_id=task_id, dimension="energy", value=4)
    assert (await place.journal.get(Rating, str(one.payload["rating_id"]))).value == 4
    with pytest.raises(RecordInvalid, match="This is a task"):
        await place.do(
            "create_or_update_rating",
            target_id=task_id,
            target_type="note",
            dimension="energy",
            value=3,
        )
    with pytest.raises(RecordInvalid, match="cannot be rated"):
        await place.do(
            "create_or_update_rating",
            target_id=one.payload["rating_id"],
            dimension="energy",
            value=1,
        )
    with pytest.raises(RecordInvalid, match="at most 10"):
        await place.do("create_or_update_rating", target_id=task_id, dimension="energy", value=11)


async def test_notes_and_links(place: Place) -> None:
    task_id = await place.task("Squats")
    made = await place.do("create_note", text="went well", about_id=task_id)
    note_id = str(made.payload["note_id"])
    await place.do("update_note", note_id=note_id, text="went very well")
    assert (await place.journal.get(Note, note_id)).text == "went very well"
    twice = [await place.do("link_records", from_id=note_id, to_id=task_id) for _ in range(2)]
    assert twice[0].payload == twice[1].payload
    assert twice[1].changed_entity_ids == ()
    with pytest.raises(RecordInvalid, match="two records"):
        await place.do("link_records", from_id=note_id, to_id=note_id)


async def test_a_task_goes_with_its_checklists_and_comes_back_with_them(place: Place) -> None:
    task_id = await place.task("Squats", checklist_items=["one", "two"])
    first, second = await items(place, task_id)
    await place.do("delete_record", record_id=first.id)
    place.clock.advance(minutes=1)
    gone = await place.do("delete_record", record_id=task_id)
    assert len(gone.changed_entity_ids) == 3
    assert await place.journal.search("two") == []
    await place.do("restore_record", record_id=task_id)
    # What had been deleted before stays deleted.
    assert [each.id for each in await items(place, task_id)] == [second.id]


async def test_categories(place: Place) -> None:
    gym = await place.category("gym")
    with pytest.raises(RecordInvalid, match="this name already"):
        await place.category(" GYM ")
    await place.do("update_category", category_id=gym, name="Gym", colour="#00ff00")
    assert (await place.journal.get(Category, gym)).colour == "#00ff00"
    task_id = await place.task("Squats", gym)
    with pytest.raises(RecordInvalid, match="open tasks"):
        await place.do("delete_record", record_id=gym)
    await place.do("update_task_fields", task_id=task_id, fields={"status": "done"})
    await place.do("delete_record", record_id=gym)
    with pytest.raises(RecordUnknown):
        await place.task("more", gym)
    again = await place.category("gym")
    with pytest.raises(RecordInvalid, match="this name already"):
        await place.do("restore_record", record_id=gym)
    assert again != gym


async def test_what_belongs_to_a_task_goes_along_when_it_moves(place: Place) -> None:
    gym, work = await place.category("gym"), await place.category("work")
    task_id = await place.task("Squats", gym, checklist_items=["one"])
    await place.do("start_task_timer", task_id=task_id)
    await place.do("update_task_fields", task_id=task_id, fields={"category_id": work})
    day = datetime(2026, 1, 1, tzinfo=UTC)
    until = day + timedelta(days=1)
    assert await place.journal.time_entries(day, until, categories={gym}) == []
    assert len(await place.journal.time_entries(day, until, categories={work})) == 1
    assert await place.journal.search("one", categories={gym}) == []
    moved = (await place.told())[-1]
    tokens = {token.token_key for token in moved.typed_tokens}
    assert {f"subtype_token|category|{gym}", f"subtype_token|category|{work}"} <= tokens


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("no_such_thing", {}),
        ("__init__", {}),
        ("By", {}),
        ("create_task", {}),
        ("create_task", {"title": "a", "nonsense": 1}),
        ("create_task", {"title": "a", "due_at": "tomorrow"}),
        ("create_task", {"title": "a", "status": "finished"}),
        ("create_task", {"title": "a", "journal": None}),
        ("update_task_fields", {"task_id": "x", "fields": {"id": "y"}}),
        ("update_task_fields", {"task_id": "x", "fields": {"vector_clock": {}}}),
    ],
)
async def test_arguments_that_make_no_sense(
    place: Place, name: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(RecordInvalid):
        await place.do(name, **arguments)
    assert await place.journal.export() == []


@pytest.mark.parametrize("forged", ["scope", "actor", "operation_id", "preview_only"])
async def test_the_door_for_a_forged_scope_is_closed(place: Place, forged: str) -> None:
    arguments = {"title": "a", forged: None}
    with pytest.raises(RecordInvalid):
        await dispatch.call(place.journal, "create_task", arguments, scope=OWNER, actor="owner")
    assert await place.journal.export() == []


def test_every_operation_has_a_name_that_a_tool_can_have() -> None:
    assert {"create_task", "replan_day_blocks", "import_records"} <= NAMES
    assert all(name.isidentifier() and name.islower() for name in NAMES)
    assert Outcome().records == ()
    assert DayPlan.model_fields.keys() >= {"date", "pinned_task_ids"}


async def test_tasks_that_were_done_in_a_time(place: Place, tmp_path: Path) -> None:
    start = place.clock.now()

    async def done(since: datetime = start, until: datetime | None = None) -> dict[str, datetime]:
        end = until or place.clock.now() + timedelta(seconds=1)
        return await place.journal.read(lambda view: queries.tasks_done(view, since, end))

    squats, rows, press = [await place.task(each) for each in ("Squats", "Rows", "Press")]
    place.clock.advance(days=1)
    await place.do("update_task_fields", task_id=squats, fields={"status": "done"})
    first = place.clock.now()
    place.clock.advance(days=1)
    await place.do("update_task_fields", task_id=squats, fields={"title": "Deep squats"})
    await place.do("update_task_fields", task_id=rows, fields={"status": "rejected"})
    await place.do("update_task_fields", task_id=press, fields={"status": "done"})
    # A word that is changed later moves nothing to another day.
    assert await done() == {squats: first, press: place.clock.now()}
    assert set(await done(since=first + timedelta(seconds=1))) == {press}
    assert set(await done(until=first + timedelta(seconds=1))) == {squats}
    await place.do("update_task_fields", task_id=press, fields={"status": "open"})
    assert set(await done()) == {squats}
    await place.do("delete_record", record_id=squats)
    assert await done() == {}


async def test_a_task_from_a_file_was_done_when_its_file_says(place: Place, tmp_path: Path) -> None:
    start = place.clock.now()
    task = await place.task("Squats")
    await place.do("update_task_fields", task_id=task, fields={"status": "done"})
    records = await place.journal.export()
    clock = FakeClock(start + timedelta(days=60))
    async with opened(tmp_path / "other.db", clock) as other:
        await take_in(other.journal, list(records), actor="owner", preview_only=False)
        end = clock.now() + timedelta(days=1)
        whole = await other.journal.read(lambda view: queries.tasks_done(view, start, end))
        lately = await other.journal.read(
            lambda view: queries.tasks_done(view, end - timedelta(days=7), end)
        )
    assert whole == {task: start}
    assert lately == {}
