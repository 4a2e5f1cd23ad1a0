"""Operations on time: the timer, and what is written down afterwards."""

from datetime import datetime, timedelta
from typing import Any, Unpack

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from silas.journal import reading
from silas.journal.errors import RecordInvalid, RecordUnknown
from silas.journal.models import Record, Task, TaskStatus, TimeEntry
from silas.journal.operations.scoped import By, Payload, ScopedEdit, perform
from silas.journal.operations.steps import link, stop
from silas.journal.results import Outcome
from silas.journal.store import Journal
from silas.kernel.models import UtcDatetime

_LONGEST = timedelta(days=7)
_NOT_BEGUN = frozenset({TaskStatus.OPEN, TaskStatus.GROOMED})


@with_config(ConfigDict(extra="forbid"))
class TimeFields(TypedDict, total=False):
    """What can be changed about a time entry; what is not named stays."""

    task_id: str | None
    category_id: str | None
    started_at: UtcDatetime
    ended_at: UtcDatetime | None
    note: str


async def create_retrospective_time_entry(
    journal: Journal,
    *,
    started_at: UtcDatetime,
    ended_at: UtcDatetime,
    task_id: str | None = None,
    category_id: str | None = None,
    description: str = "",
    source_entry_id: str | None = None,
    **by: Unpack[By],
) -> Outcome:
    """Write down time that was spent; `source_entry_id` is the record that it was told in."""
    fields = {
        "task_id": task_id,
        "category_id": category_id,
        "started_at": started_at,
        "ended_at": ended_at,
        "note": description,
        "source": "manual",
    }

    def edit(here: ScopedEdit) -> Payload:
        _require_place(here, task_id, category_id)
        _check(started_at, ended_at, here.edit.now)
        entry = here.edit.create(TimeEntry, **fields)
        if source_entry_id is not None:
            link(here, entry.id, here.get(Record, source_entry_id).id, "told_in")
        return {"time_entry_id": entry.id}

    arguments = {**fields, "source_entry_id": source_entry_id}
    return await perform(journal, "create_retrospective_time_entry", arguments, edit, by)


async def start_task_timer(
    journal: Journal,
    *,
    task_id: str | None = None,
    category_id: str | None = None,
    note: str = "",
    **by: Unpack[By],
) -> Outcome:
    """Start the timer, and stop the one that runs. A task that was not begun is in progress now."""

    def edit(here: ScopedEdit) -> Payload:
        _require_place(here, task_id, category_id)
        running = reading.running_timer(here.edit.tx)
        if running is not None and running.task_id == task_id and task_id is not None:
            return {"time_entry_id": running.id, "stopped_id": None}
        if running is not None:
            stop(here, here.get(TimeEntry, running.id))
        entry = here.edit.create(
            TimeEntry,
            task_id=task_id,
            category_id=category_id,
            started_at=here.edit.now,
            note=note,
            source="timer",
        )
        task = here.get(Task, task_id) if task_id is not None else None
        if task is not None and task.status in _NOT_BEGUN:
            here.edit.update(task, status=TaskStatus.IN_PROGRESS)
        return {"time_entry_id": entry.id, "stopped_id": running.id if running else None}

    arguments = {"task_id": task_id, "category_id": category_id, "note": note}
    return await perform(journal, "start_task_timer", arguments, edit, by)


async def stop_task_timer(
    journal: Journal, *, task_id: str | None = None, note: str | None = None, **by: Unpack[By]
) -> Outcome:
    """Stop the timer that runs; with a task, only if it runs for that one."""

    def edit(here: ScopedEdit) -> Payload:
        running = reading.running_timer(here.edit.tx)
        if running is None:
            raise RecordUnknown("No timer runs. Start one with `silas journal time start`.")
        entry = here.get(TimeEntry, running.id)
        if task_id is not None and entry.task_id != task_id:
            raise RecordUnknown("The timer runs for another task.")
        stopped = stop(here, entry)
        if note is not None:
            stopped = here.edit.update(stopped, note=note)
        return {"time_entry_id": stopped.id}

    arguments = {"task_id": task_id, "note": note}
    return await perform(journal, "stop_task_timer", arguments, edit, by)


async def annotate_time_entry(
    journal: Journal, *, time_entry_id: str, note: str, **by: Unpack[By]
) -> Outcome:
    """Say what the time was spent on."""
    return await _update(journal, "annotate_time_entry", time_entry_id, {"note": note}, by)


async def update_time_entry(
    journal: Journal, *, time_entry_id: str, fields: TimeFields, **by: Unpack[By]
) -> Outcome:
    """Correct a time entry."""
    return await _update(journal, "update_time_entry", time_entry_id, dict(fields), by)


async def _update(
    journal: Journal, name: str, time_entry_id: str, fields: dict[str, Any], by: By
) -> Outcome:
    def edit(here: ScopedEdit) -> Payload:
        unknown = fields.keys() - TimeFields.__annotations__.keys()
        if unknown:
            raise RecordInvalid(f"A time entry has no {', '.join(sorted(unknown))} to change.")
        entry = here.get(TimeEntry, time_entry_id)
        if fields.keys() & {"task_id", "category_id"}:
            task_id = fields.get("task_id", entry.task_id)
            _require_place(here, task_id, fields.get("category_id", entry.category_id))
        after = here.edit.update(entry, **fields)
        if fields.keys() & {"started_at", "ended_at"}:
            _check(after.started_at, after.ended_at or here.edit.now, here.edit.now)
        return {"time_entry_id": entry.id}

    return await perform(journal, name, {"id": time_entry_id, "fields": fields}, edit, by)


def _require_place(here: ScopedEdit, task_id: str | None, category_id: str | None) -> None:
    if task_id is not None:
        here.get(Task, task_id)
    if task_id is None or category_id is not None:
        here.require_category(category_id)


def _check(started_at: datetime, ended_at: datetime, now: datetime) -> None:
    if started_at >= ended_at:
        raise RecordInvalid("A time entry must end after it begins.")
    if ended_at - started_at > _LONGEST:
        raise RecordInvalid("A time entry is at most a week long. Is the date right?")
    if ended_at > now + timedelta(days=1):
        raise RecordInvalid("This time has not been spent yet. Plan it: `silas journal day`.")
