"""`/api/journal/*`: the owner's records, looked at and changed in the page.

1. Reading needs the session, a change needs the device's signature, like everything here.
2. A change is one operation of the journal's, in the owner's name. What he says about a time
   (`tomorrow 9am`) is understood here, in his time zone, whatever the zone of the browser.
3. Whoever has the surface open is told when something changes, wherever it was changed.
"""

from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field

from silas.journal import OWNER, Outcome, desk, reading
from silas.journal.errors import RecordInvalid, RecordUnknown
from silas.journal.models import Task
from silas.journal.moments import day_bounds, understand
from silas.journal.references import name_of
from silas.journal.rows import load
from silas.kernel import JournalError, format_timestamp
from silas.storage import Reader
from silas.web.bodies import Body
from silas.web.front import Front
from silas.web.journal_files import journal_file_routes
from silas.web.journal_records import found_records, notes_in, plain, shown_record

Guard = Callable[..., Awaitable[Any]]
_ACTOR = "owner"
_MOST_TASKS = 500
_MOST_CLOSED = 100
_RATED_FOR = timedelta(days=14)
_TODAY = "today"
_MOST_SOUGHT = 200
_ABOUT_THE_PAST = frozenset({"create_retrospective_time_entry", "update_time_entry"})


class Wanted(Body):
    """One operation. `said` are times in words, by the place of their argument: `upserts.0.end`."""

    operation: Annotated[str, Field(min_length=1, max_length=60)]
    arguments: dict[str, Any] = Field(default_factory=dict)
    said: dict[Annotated[str, Field(max_length=60)], Annotated[str, Field(max_length=80)]] = Field(
        default_factory=dict, max_length=20
    )
    operation_id: Annotated[str, Field(min_length=8, max_length=100)] | None = None


def journal_routes(front: Front, *, reader: Guard, signer: Guard) -> APIRouter:
    """The routes; whoever passes the guards is the owner."""
    router = APIRouter(prefix="/api/journal")

    @router.get("/day/{day}", dependencies=[Depends(reader)])
    async def show(day: str) -> dict[str, Any]:
        return await _shown_day(front, day)

    @router.get("/record/{record_id}", dependencies=[Depends(reader)])
    async def record(record_id: str) -> dict[str, Any]:
        try:
            return await shown_record(front, record_id)
        except JournalError as error:
            raise HTTPException(_status_of(error), error.message) from error

    @router.get("/find/{words:path}", dependencies=[Depends(reader)])
    async def find(words: str) -> dict[str, Any]:
        return {"records": await found_records(front, words[:_MOST_SOUGHT])}

    @router.post("/do", dependencies=[Depends(signer)])
    async def do(wanted: Wanted) -> dict[str, Any]:
        try:
            outcome = await _do(front, wanted)
        except JournalError as error:
            raise HTTPException(_status_of(error), error.message) from error
        return {"payload": outcome.payload, "changed": outcome.changed_entity_ids}

    router.include_router(journal_file_routes(front, reader=reader, signer=signer))
    return router


async def _do(front: Front, wanted: Wanted) -> Outcome:
    arguments: dict[str, Any] = wanted.arguments
    for place, text in wanted.said.items():
        moment = understand(
            text,
            now=front.clock.now(),
            zone=front.zone,
            prefer="past" if wanted.operation in _ABOUT_THE_PAST else "future",
            day_means="end" if place.endswith("due_at") else "start",
        )
        _put(arguments, place.split("."), format_timestamp(moment))
    return await desk.call(
        front.journal,
        wanted.operation,
        arguments,
        scope=OWNER,
        actor=_ACTOR,
        operation_id=wanted.operation_id,
    )


def _put(target: Any, place: list[str], value: str) -> None:
    """Write the value at this place; every step on the way to it is there already."""
    try:
        for part in place[:-1]:
            target = target[int(part)] if isinstance(target, list) else target[part]
        target[place[-1]] = value
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise RecordInvalid(f"There is no place {'.'.join(place)!r} for a time.") from error


def _status_of(error: JournalError) -> int:
    return 404 if isinstance(error, RecordUnknown) else 400


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
    plan = reading.day_plan(view, day)
    blocks = reading.blocks_of(view, plan.id) if plan else []
    entries = reading.time_entries(view, begin, end)
    ratings = reading.ratings(view, since=now - _RATED_FOR)
    running = reading.running_timer(view)
    tasks = _tasks(view, begin, end)
    known = {task.id for task in tasks}
    concerned = [block.task_id for block in blocks] + [entry.task_id for entry in entries]
    concerned += [running.task_id] if running else []
    concerned += plan.pinned_task_ids if plan else ()
    tasks += _named(view, {each for each in concerned if each} - known)
    return {
        "plan": plain(plan) if plan else None,
        "blocks": [plain(each) for each in blocks],
        "entries": [plain(each) for each in entries],
        "running": plain(running) if running else None,
        "categories": [plain(each) for each in reading.categories(view)],
        "tasks": _with_checklists(view, tasks),
        "notes": notes_in(view),
        "ratings": [{**plain(each), "target": _name(view, each.target_id)} for each in ratings],
    }


def _tasks(view: Reader, begin: datetime, end: datetime) -> list[Task]:
    """What is not closed, and what was closed on this day."""
    recent = [each for each in reading.changed_between(view, Task, begin, end) if each.closed]
    return [*reading.tasks(view, limit=_MOST_TASKS), *recent[:_MOST_CLOSED]]


def _named(view: Reader, task_ids: set[str]) -> list[Task]:
    found = (load(view, each) for each in sorted(task_ids))
    return [each for each in found if isinstance(each, Task)]


def _with_checklists(view: Reader, tasks: list[Task]) -> list[dict[str, Any]]:
    lists = reading.checklists_of_all(view, [task.id for task in tasks])
    return [
        {
            **plain(task),
            "checklists": [
                {**plain(each), "items": [plain(item) for item in items]}
                for each, items in lists[task.id]
            ],
        }
        for task in tasks
    ]


def _name(view: Reader, record_id: str) -> str:
    found = load(view, record_id)
    return name_of(found) if found is not None else record_id
