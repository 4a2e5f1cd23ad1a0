"""Operations on time: the timer, what is written down afterwards, and the plans of days."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Unpack

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from silas.journal import queries
from silas.journal.errors import RecordInvalid, RecordUnknown
from silas.journal.models import DayBlock, DayPlan, Record, Task, TaskStatus, TimeEntry, day_plan_id
from silas.journal.operations.scoped import By, Payload, ScopedEdit, link, perform, stop
from silas.journal.store import Journal, Outcome
from silas.kernel.models import Data, UtcDatetime

_LONGEST = timedelta(days=7)
_NOT_BEGUN = frozenset({TaskStatus.OPEN, TaskStatus.GROOMED})
_MOST_PINNED = 50


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
        running = queries.running_timer(here.edit.tx)
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
        running = queries.running_timer(here.edit.tx)
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


class BlockInput(Data):
    """A block as it shall be; without an id it is a new one."""

    id: str | None = None
    category_id: str | None = None
    task_id: str | None = None
    start_time: UtcDatetime
    end_time: UtcDatetime
    note: str = ""


async def get_or_create_day_plan(journal: Journal, *, plan_date: date, **by: Unpack[By]) -> Outcome:
    """The plan of a day; an empty one is made if there is none."""

    def edit(here: ScopedEdit) -> Payload:
        return {"day_plan_id": _plan(here, plan_date).id}

    return await perform(journal, "get_or_create_day_plan", {"plan_date": plan_date}, edit, by)


async def upsert_day_plan_blocks(
    journal: Journal,
    *,
    plan_date: date,
    upserts: tuple[BlockInput, ...] = (),
    deletes: tuple[str, ...] = (),
    **by: Unpack[By],
) -> Outcome:
    """Add, change and remove blocks of a day."""

    def edit(here: ScopedEdit) -> Payload:
        plan = _plan(here, plan_date)
        written = [_write_block(here, plan, each) for each in upserts]
        for each in deletes:
            here.edit.delete(_block_of(here, plan, each))
        return {"day_plan_id": plan.id, "block_ids": written, "deleted_ids": list(deletes)}

    arguments = {"plan_date": plan_date, "upserts": upserts, "deletes": deletes}
    return await perform(journal, "upsert_day_plan_blocks", arguments, edit, by)


async def replan_day_blocks(
    journal: Journal, *, plan_date: date, blocks: tuple[BlockInput, ...], **by: Unpack[By]
) -> Outcome:
    """Let a day have exactly these blocks; those out of scope stay as they are."""

    def edit(here: ScopedEdit) -> Payload:
        plan = _plan(here, plan_date)
        kept = {each.id for each in blocks if each.id is not None}
        allowed = here.scope.allowed_category_ids
        removed = [
            here.edit.delete(old).id
            for old in queries.blocks_of(here.edit.tx, plan.id, limit_to=allowed)
            if old.id not in kept
        ]
        written = [_write_block(here, plan, each) for each in blocks]
        return {"day_plan_id": plan.id, "block_ids": written, "deleted_ids": removed}

    arguments = {"plan_date": plan_date, "blocks": blocks}
    return await perform(journal, "replan_day_blocks", arguments, edit, by)


async def pin_day_plan_tasks(
    journal: Journal,
    *,
    plan_date: date,
    task_ids: tuple[str, ...] = (),
    unpin: tuple[str, ...] = (),
    **by: Unpack[By],
) -> Outcome:
    """Pin tasks to a day, or take them off; all must be in scope."""

    def edit(here: ScopedEdit) -> Payload:
        plan = _plan(here, plan_date)
        for each in task_ids:
            here.get(Task, each)
        for each in unpin:
            here.get(Task, each, deleted=True)
        wanted = dict.fromkeys([*plan.pinned_task_ids, *task_ids])
        pinned = tuple(each for each in wanted if each not in unpin)
        if len(pinned) > _MOST_PINNED:
            raise RecordInvalid(f"At most {_MOST_PINNED} tasks can be pinned to a day.")
        here.edit.update(plan, pinned_task_ids=pinned)
        return {"day_plan_id": plan.id}

    arguments = {"plan_date": plan_date, "task_ids": task_ids, "unpin": unpin}
    return await perform(journal, "pin_day_plan_tasks", arguments, edit, by)


def _plan(here: ScopedEdit, day: date) -> DayPlan:
    name = day_plan_id(day)
    known = here.edit.find(DayPlan, name, deleted=True)
    if known is None:
        return here.edit.create(DayPlan, id=name, date=day)
    return here.edit.restore(known)


def _write_block(here: ScopedEdit, plan: DayPlan, wanted: BlockInput) -> str:
    _check_block(plan, wanted)
    if wanted.task_id is not None:
        here.get(Task, wanted.task_id)
    if wanted.task_id is None or wanted.category_id is not None:
        here.require_category(wanted.category_id)
    fields = {
        "task_id": wanted.task_id,
        "category_id": wanted.category_id,
        "starts_at": wanted.start_time,
        "ends_at": wanted.end_time,
        "note": wanted.note,
    }
    if wanted.id is None:
        return here.edit.create(DayBlock, day_plan_id=plan.id, **fields).id
    return here.edit.update(_block_of(here, plan, wanted.id), **fields).id


def _block_of(here: ScopedEdit, plan: DayPlan, block_id: str) -> DayBlock:
    block = here.get(DayBlock, block_id)
    if block.day_plan_id != plan.id:
        raise RecordInvalid("This block belongs to another day.")
    return block


def _check_block(plan: DayPlan, wanted: BlockInput) -> None:
    if wanted.start_time >= wanted.end_time:
        raise RecordInvalid("A block must end after it begins.")
    # The day of the plan is the owner's local one, which begins up to 14 hours before that of UTC.
    noon = datetime.combine(plan.date, time(12), UTC)
    for moment in (wanted.start_time, wanted.end_time):
        if abs(moment - noon) > timedelta(hours=38):
            raise RecordInvalid(f"This block does not lie on {plan.date.isoformat()}.")
