"""`/api/journal/*`: the owner's records, looked at and changed.

1. A change is one operation of the journal's, in the owner's name. What the owner says about a
   time (`tomorrow 9am`) is understood here first (`moment`), in the owner's time zone, whatever the
   zone of the browser.
2. Whoever has the surface open is told when something changes, wherever it was changed.
3. Whoever may read the journal may have it whole, as a file. A file that is brought in is checked
   whole, then counted, and taken in only if the owner says so: in one change.
4. Nothing of such a file is read before it is known who brings it, and no more than
   `MAX_IMPORT_BODY_BYTES` of it.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from fastapi import HTTPException, Request, Response
from pydantic import Field, ValidationError

from silas.journal import OWNER, queries
from silas.journal.conversation import read_recurrence, reminder_moment
from silas.journal.errors import ImportRefused, RecordUnknown
from silas.journal.files import TakenIn, read_json, take_in, write_json
from silas.journal.lines import name_of
from silas.journal.models import Category, Link, Record, Recurrence, Task, TaskStatus
from silas.journal.queries import HistoryEntry
from silas.journal.records import category_of, load
from silas.kernel import format_timestamp
from silas.kernel.models import Data
from silas.kernel.when import DayMeans, Prefer, day_bounds, parse_moment
from silas.storage import Reader
from silas.web.access import page
from silas.web.command_routes import Routes, add_command
from silas.web.commands import PageAccess
from silas.web.front import Front
from silas.web.journal_commands import JOURNAL_COMMANDS, request_of, run_operation

IMPORT = "/api/journal/import"
"""Where the host guard lets more through than elsewhere."""
MAX_IMPORT_CHARACTERS = 8 * 1024 * 1024
MAX_IMPORT_BODY_BYTES = 2 * MAX_IMPORT_CHARACTERS
"""A text in JSON may be twice as long as it is."""
_ACTOR = "owner"
_TOO_LARGE = (
    "This file is larger than 8 MB. Take it in with `silas journal import FILE` in a terminal."
)
_HIDDEN = frozenset({"vector_clock", "versions", "deletions"})
_NOT_SHOWN = _HIDDEN | {"id", "kind", "created_at", "updated_at"}
_MAX_NOTES = 100
_MAX_WRITES = 50
_MAX_FOUND = 30
_NOTHING: tuple[Any, ...] = (None, "", [], False)
_MAX_TASKS = 500
_MAX_CLOSED = 100
_RATED_FOR = timedelta(days=14)
_TODAY = "today"
_WEEKS_SHOWN = 6
_DAYS_A_WEEK = 7
_MOST_CATEGORIES = 8
_MAX_SEARCH_CHARACTERS = 200
Meaning = Literal["future", "past", "due", "reminder"]
_MEANINGS: Mapping[str, tuple[Prefer, DayMeans]] = {
    "future": ("future", "start"),
    "past": ("past", "start"),
    "due": ("future", "end"),
}
"""What words about a time mean: `monday` is the next one or the last one, its begin or its end."""


class Moment(Data):
    """A time, written the one way that commands take it."""

    moment: str


class FirstTime(Data):
    """When something comes again, as commands take it, and when it does first."""

    repeats: Recurrence
    first: str | None


class WeekSpent(Data):
    """The time of one week that was written down and is over."""

    begin: date
    minutes: int


class CategorySpent(Data):
    """The same of one category, over all these weeks."""

    name: str | None
    minutes: int


class WeekTasks(Data):
    """How many tasks were meant for one week, and how many were done in it."""

    begin: date
    planned: int
    """Due in this week, or in the plan of one of its days."""
    done: int


class SpentTime(Data):
    """Where the time of the last weeks went, up to the one with this day, and their tasks."""

    weeks: tuple[WeekSpent, ...]
    categories: tuple[CategorySpent, ...]
    tasks: tuple[WeekTasks, ...]


class BroughtFile(Data):
    """A file, and whether it is to be taken in or only to be counted."""

    text: Annotated[str, Field(max_length=MAX_IMPORT_CHARACTERS)]
    apply: bool = False


def journal_routes(front: Front) -> Routes:
    """The routes."""
    routes = Routes("/api/journal")

    @routes.get("/day/{day}")
    @page(PageAccess.SESSION)
    async def show(day: str) -> dict[str, Any]:
        return await _shown_day(front, day)

    @routes.get("/spent/{day}")
    @page(PageAccess.SESSION)
    async def spent(day: date) -> SpentTime:
        return await front.journal.read(lambda view: _spent(view, day, front.zone))

    @routes.get("/record/{record_id}")
    @page(PageAccess.SESSION)
    async def record(record_id: str) -> dict[str, Any]:
        return await _shown_record(front, record_id)

    @routes.get("/find/{words:path}")
    @page(PageAccess.SESSION)
    async def find(words: str) -> dict[str, Any]:
        return {"records": await _found_records(front, words[:_MAX_SEARCH_CHARACTERS])}

    @routes.get("/moment/{meaning}/{words:path}")
    @page(PageAccess.SESSION)
    async def moment(meaning: Meaning, words: str) -> Moment:
        said, now = words[:_MAX_SEARCH_CHARACTERS], front.clock.now()
        if meaning == "reminder":
            understood = reminder_moment(said, now=now, zone=front.zone)
            return Moment(moment=format_timestamp(understood))
        prefer, day_means = _MEANINGS[meaning]
        understood = parse_moment(
            said, now=now, zone=front.zone, prefer=prefer, day_means=day_means
        )
        return Moment(moment=format_timestamp(understood))

    @routes.get("/recurrence/{words:path}")
    @page(PageAccess.SESSION)
    async def recurrence(words: str) -> FirstTime:
        repeats = read_recurrence(words[:_MAX_SEARCH_CHARACTERS], front.zone, day_means="end")
        first = repeats.next_after(front.clock.now())
        return FirstTime(repeats=repeats, first=format_timestamp(first) if first else None)

    for command in JOURNAL_COMMANDS.values():
        run = partial(run_operation, command, front.journal)
        add_command(routes, command, request_of(command), run)
    routes.include(_journal_file_routes(front))
    return routes


async def _shown_day(front: Front, text: str) -> dict[str, Any]:
    now = front.clock.now()
    today = now.astimezone(front.zone).date()
    try:
        day = today if text == _TODAY else date.fromisoformat(text)
        begin, end = day_bounds(day, front.zone)
    except (ValueError, OverflowError) as error:
        raise HTTPException(404, "There is no such day.") from error
    shown = await front.journal.read(lambda view: _day(view, day, begin, end, now))
    return {
        "today": today.isoformat(),
        "date": day.isoformat(),
        "zone": front.zone.key,
        "begin": format_timestamp(begin),
        "end": format_timestamp(end),
        "now": format_timestamp(now),
        **shown,
    }


def _day(view: Reader, day: date, begin: datetime, end: datetime, now: datetime) -> dict[str, Any]:
    plan = queries.day_plan(view, day)
    blocks = queries.blocks_of(view, plan.id) if plan else []
    entries = queries.time_entries(view, begin, end)
    ratings = queries.ratings(view, since=now - _RATED_FOR)
    running = queries.running_timer(view)
    tasks = _tasks(view, begin, end)
    known = {task.id for task in tasks}
    concerned = [block.task_id for block in blocks] + [entry.task_id for entry in entries]
    concerned += [running.task_id] if running else []
    concerned += plan.pinned_task_ids if plan else ()
    tasks += _named(view, {each for each in concerned if each} - known)
    return {
        "plan": _plain(plan) if plan else None,
        "blocks": [_plain(each) for each in blocks],
        "entries": [_plain(each) for each in entries],
        "running": _plain(running) if running else None,
        "categories": [_plain(each) for each in queries.categories(view)],
        "tasks": _with_checklists(view, tasks, now),
        "notes": _notes_in(view),
        "ratings": [{**_plain(each), "target": _name(view, each.target_id)} for each in ratings],
    }


def _spent(view: Reader, day: date, zone: ZoneInfo) -> SpentTime:
    """What is still running is not counted: it would be another number at every look."""
    try:
        monday = day - timedelta(days=day.weekday())
        starts = [monday - timedelta(weeks=ago) for ago in reversed(range(_WEEKS_SHOWN))]
        bounds = [day_bounds(each, zone)[0] for each in (*starts, monday + timedelta(weeks=1))]
    except OverflowError as error:
        raise HTTPException(404, "There is no such day.") from error
    weeks, categories = Counter[date](), Counter[str | None]()
    for entry in queries.time_entries(view, bounds[0], bounds[-1]):
        if entry.ended_at is None:
            continue
        category = load(view, category_of(view, entry) or "")
        name = category.name if isinstance(category, Category) else None
        for start, (begin, end) in zip(starts, pairwise(bounds), strict=True):
            inside = min(entry.ended_at, end) - max(entry.started_at, begin)
            seconds = max(0, round(inside.total_seconds()))
            weeks[start] += seconds
            categories[name] += seconds
    return SpentTime(
        weeks=tuple(WeekSpent(begin=each, minutes=round(weeks[each] / 60)) for each in starts),
        categories=tuple(
            CategorySpent(name=name, minutes=round(seconds / 60))
            for name, seconds in categories.most_common(_MOST_CATEGORIES)
            if seconds
        ),
        tasks=_tasks_by_week(view, starts, bounds),
    )


def _tasks_by_week(
    view: Reader, starts: list[date], bounds: list[datetime]
) -> tuple[WeekTasks, ...]:
    done = queries.tasks_done(view, bounds[0], bounds[-1])
    wanted = frozenset(TaskStatus) - {TaskStatus.REJECTED}
    due = {
        task.id: task.due_at
        for task in queries.tasks(view, status=wanted, due_before=bounds[-1])
        if task.due_at is not None
    }
    return tuple(
        WeekTasks(
            begin=start,
            planned=len(
                {name for name, at in due.items() if begin <= at < end} | _in_plans(view, start)
            ),
            done=sum(begin <= at < end for at in done.values()),
        )
        for start, (begin, end) in zip(starts, pairwise(bounds), strict=True)
    )


def _in_plans(view: Reader, monday: date) -> set[str]:
    """The tasks in the plans of a week's days."""
    plans = [queries.day_plan(view, monday + timedelta(days=day)) for day in range(_DAYS_A_WEEK)]
    found: set[str] = set()
    for plan in (plan for plan in plans if plan is not None):
        blocks = queries.blocks_of(view, plan.id)
        named = {*plan.pinned_task_ids, *(each.task_id for each in blocks if each.task_id)}
        found |= {task.id for task in _named(view, named) if not task.deleted}
    return found


def _tasks(view: Reader, begin: datetime, end: datetime) -> list[Task]:
    """What is not closed, and what was closed on this day."""
    recent = [each for each in queries.changed_between(view, Task, begin, end) if each.closed]
    return [*queries.tasks(view, limit=_MAX_TASKS), *recent[:_MAX_CLOSED]]


def _named(view: Reader, task_ids: set[str]) -> list[Task]:
    found = (load(view, each) for each in sorted(task_ids))
    return [each for each in found if isinstance(each, Task)]


def _with_checklists(view: Reader, tasks: list[Task], now: datetime) -> list[dict[str, Any]]:
    lists = queries.checklists_of_all(view, [task.id for task in tasks])
    return [
        {
            **_plain(task),
            "every": task.repeats.in_words if task.repeats else None,
            "reminder": format_timestamp(at) if (at := task.reminder_after(now)) else None,
            "checklists": [
                {**_plain(each), "items": [_plain(item) for item in items]}
                for each, items in lists[task.id]
            ],
        }
        for task in tasks
    ]


def _name(view: Reader, record_id: str) -> str:
    found = load(view, record_id)
    return name_of(found) if found is not None else record_id


async def _shown_record(front: Front, record_id: str) -> dict[str, Any]:
    """A record, what it is linked to, and who changed what; raises `RecordUnknown`."""
    found = await front.journal.read(lambda view: _record(view, record_id))
    history = (await front.journal.history(record_id))[-_MAX_WRITES:][::-1]
    writes = await front.journal.read(lambda view: [_write(view, each) for each in history])
    return {**found, "history": writes}


async def _found_records(front: Front, words: str) -> list[dict[str, Any]]:
    """What has all of these words, the best first."""
    found = await front.journal.search(words, limit=_MAX_FOUND)
    return [{"id": each.id, "kind": _plain(each)["kind"], "name": name_of(each)} for each in found]


def _notes_in(view: Reader) -> list[dict[str, Any]]:
    """The newest notes, each with what it is linked to."""
    return [
        {**_plain(each), "links": _linked(view, each)}
        for each in queries.notes(view, limit=_MAX_NOTES)
    ]


def _linked(view: Reader, record: Record) -> list[dict[str, Any]]:
    """What a record is linked to, by name."""
    links = queries.links_of(view, record.id, OWNER)
    ends = [(each, load(view, _other_end(each, record.id))) for each in links]
    return [
        {"id": link.id, "relation": link.relation, "record_id": end.id, "name": name_of(end)}
        for link, end in ends
        if end is not None and not end.deleted
    ]


def _plain(record: Record) -> dict[str, Any]:
    """A record as the page has it."""
    return record.model_dump(mode="json", exclude=set(_HIDDEN))


def _record(view: Reader, record_id: str) -> dict[str, Any]:
    record = load(view, record_id)
    if record is None:
        raise RecordUnknown(f"There is no record {record_id[:80]!a}.")
    category = load(view, category_of(view, record) or "")
    return {
        "record": _plain(record),
        "name": name_of(record),
        "deleted": record.deleted,
        "category": category.name if isinstance(category, Category) else None,
        "links": _linked(view, record),
    }


def _other_end(link: Link, record_id: str) -> str:
    return link.to_id if link.from_id == record_id else link.from_id


def _write(view: Reader, entry: HistoryEntry) -> dict[str, Any]:
    """One write: who, when, and each field that it has changed."""
    before = entry.before or {}
    return {
        "at": format_timestamp(entry.at),
        "actor": entry.actor,
        "first": entry.before is None,
        "changes": [
            {
                "field": name,
                "before": _names_for_ids(view, name, before.get(name)),
                "after": _names_for_ids(view, name, value),
            }
            for name, value in entry.after.items()
            if name not in _NOT_SHOWN and value != before.get(name)
            if value not in _NOTHING or before.get(name) not in _NOTHING
        ],
    }


def _names_for_ids(view: Reader, field: str, value: Any) -> Any:
    """The names of records in the place of their ids."""
    if isinstance(value, list):
        return [_names_for_ids(view, field, each) for each in value]
    if field == "repeats" and value is not None:
        return Recurrence.model_validate(value).in_words
    if not isinstance(value, str) or not field.endswith(("_id", "_ids")):
        return value
    found = load(view, value)
    return name_of(found) if found is not None else value


def _journal_file_routes(front: Front) -> Routes:
    """The routes."""
    routes = Routes()

    @routes.get("/export")
    @page(PageAccess.SESSION)
    async def export() -> Response:
        records = await front.journal.export()
        now = front.clock.now()
        content = await asyncio.to_thread(
            _written, list(records), host_id=front.journal.host_id, now=now
        )
        name = f"silas-journal-{now.astimezone(front.zone):%Y-%m-%d}.json"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type="application/json", headers=headers)

    # The body is no parameter: it is read by the guard, which asks for the session first (rule 4).
    @routes.post("/import")
    @page(PageAccess.SIGNED)
    async def bring(request: Request) -> TakenIn:
        body = await request.body()
        brought, records = await asyncio.to_thread(_read, body)
        return await take_in(front.journal, records, actor=_ACTOR, preview_only=not brought.apply)

    return routes


def _written(records: list[Record], **about: Any) -> bytes:
    return json.dumps(write_json(records, **about), ensure_ascii=False, indent=1).encode()


def _read(body: bytes) -> tuple[BroughtFile, tuple[Record, ...]]:
    try:
        brought = BroughtFile.model_validate_json(body)
    except ValidationError as error:
        long = any(each["type"] == "string_too_long" for each in error.errors())
        raise ImportRefused(_TOO_LARGE if long else None) from error
    return brought, read_json(brought.text)
