"""Export and import: nothing is lost, nothing comes twice, nothing half."""

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.journal.errors import ImportRefused, RecordInvalid
from silas.journal.files import read_csv, read_json, read_todo_txt, write_json
from silas.journal.models import Task
from tests.journal.place import Place, opened

VIENNA = ZoneInfo("Europe/Vienna")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TODO = """\
(A) 2026-01-01 Call Mum +Family @phone due:2026-01-05

x 2026-01-02 2026-01-01 Buy milk @shop pri:B
Plain task with a time 10:30 and a link https://example.org
"""
TABLE = """\
Title,status,priority,due,estimate,category,labels,body
Squats,in progress,p0,2026-01-05 09:00,1h30,Gym,legs;strong,"five, by five"
Read,,,,,,,
"""


async def fill(place: Place) -> None:
    gym = await place.category("gym")
    task_id = await place.task("Squats", gym, checklist_items=["one", "two"])
    await place.do("start_task_timer", task_id=task_id)
    place.clock.advance(minutes=3)
    await place.do("conclude_task_with_rollover", task_id=task_id)
    await place.do("create_or_update_rating", target_id=task_id, dimension="joy", value=7.5)
    note = await place.do("create_note", text="gone")
    await place.do("delete_record", record_id=note.payload["note_id"])
    await place.do("get_or_create_day_plan", plan_date="2026-01-01")


async def test_an_export_brings_everything_back_elsewhere(place: Place, tmp_path: Path) -> None:
    await fill(place)
    records = await place.journal.export()
    text = json.dumps(write_json(records, host_id=place.journal.host_id, now=NOW))
    read = read_json(text)
    assert list(read) == list(records)
    async with opened(tmp_path / "other.db") as other:
        arguments = {"records": [each.model_dump(mode="json") for each in read]}
        first = await other.do("import_records", **arguments)
        assert list(await other.journal.export()) == list(records)
        assert len(first.changed_entity_ids) == len(records)
        assert await other.journal.search("squats")
        assert await other.journal.search("gone") == []
        again = await other.do("import_records", **arguments)
        assert again.changed_entity_ids == ()


async def test_an_import_merges_with_what_is_there(place: Place) -> None:
    task_id = await place.task("Squats")
    old = await place.journal.export()
    await place.do("update_task_fields", task_id=task_id, fields={"title": "Deep squats"})
    await place.do("import_records", records=[each.model_dump(mode="json") for each in old])
    assert (await place.journal.get(Task, task_id)).title == "Deep squats"


async def test_a_record_that_does_not_say_which_write_it_is_is_refused(place: Place) -> None:
    forged = {"kind": "note", "id": "note_1", "text": "x", "created_at": NOW, "updated_at": NOW}
    with pytest.raises(RecordInvalid, match="which write"):
        await place.do("import_records", records=[forged])
    assert await place.journal.export() == []


def document(version: int, *records: object) -> str:
    return json.dumps(
        write_json([], host_id="x", now=NOW) | {"version": version, "records": records}
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", document(2), document(1, {"kind": "task"})])
def test_a_file_that_is_no_export_is_refused(text: str) -> None:
    with pytest.raises(ImportRefused, match="Nothing was changed"):
        read_json(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (
        lambda: read_json(text),
        lambda: read_csv(text, now=NOW, zone=VIENNA, category=None),
        lambda: read_csv(f"title\n{text}", now=NOW, zone=VIENNA, category=None),
        lambda: read_todo_txt(text, zone=VIENNA, category=None),
    ):
        try:
            read()
        except ImportRefused:
            continue


def test_todo_txt() -> None:
    call, milk, plain = read_todo_txt(TODO, zone=VIENNA, category="Home")
    assert (call.title, call.priority, call.labels) == ("Call Mum", "P0", ("Family", "@phone"))
    assert call.due_at == datetime(2026, 1, 5, 22, 59, tzinfo=UTC)
    assert (milk.title, milk.status, milk.priority) == ("Buy milk", "done", "P1")
    assert plain.title == "Plain task with a time 10:30 and a link https://example.org"
    assert (plain.priority, plain.category) == ("P2", "Home")
    with pytest.raises(ImportRefused, match="Line 1: '2026-02-30' is not a date"):
        read_todo_txt("x due:2026-02-30", zone=VIENNA, category=None)


def test_csv() -> None:
    squats, read = read_csv(TABLE, now=NOW, zone=VIENNA, category="Home")
    assert (squats.status, squats.priority, squats.category) == ("in_progress", "P0", "Gym")
    assert squats.due_at == datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert (squats.estimate_minutes, squats.labels) == (90, ("legs", "strong"))
    assert squats.body == "five, by five"
    assert (read.title, read.status, read.category) == ("Read", "open", "Home")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("name\nSquats\n", "title"),
        ("title,weight\nSquats,3\n", "title"),
        ("title,status\nSquats\n", "Line 2 has more or fewer"),
        ("title,status\nSquats,done,x\n", "Line 2 has more or fewer"),
        ("title,status\nSquats,ready\n", "Line 2: status"),
        ("title,due\nSquats,soon\n", "Line 2: 'soon'"),
        ("title,due\nok,\n,tomorrow\n", "Line 3: title"),
    ],
)
def test_a_table_that_makes_no_sense(table: str, why: str) -> None:
    with pytest.raises(ImportRefused, match=why):
        read_csv(table, now=NOW, zone=VIENNA, category=None)


async def test_imported_tasks_and_their_categories(place: Place) -> None:
    gym = await place.category("gym")
    tasks = read_csv(TABLE, now=NOW, zone=VIENNA, category="Home")
    arguments = {"tasks": [each.model_dump(mode="json") for each in tasks]}
    made = await place.do("import_tasks", operation_id="import:1", **arguments)
    again = await place.do("import_tasks", operation_id="import:1", **arguments)
    assert again.payload == made.payload
    found = await place.journal.list_tasks()
    assert [(each.title, each.category_id == gym) for each in found] == [
        ("Squats", True),
        ("Read", False),
    ]
    assert [each.name for each in await place.journal.categories()] == ["gym", "Home"]
