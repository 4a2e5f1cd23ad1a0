"""Operations on the plans of days."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Unpack

from silas.journal import reading
from silas.journal.errors import RecordInvalid
from silas.journal.models import DayBlock, DayPlan, Task, day_plan_id
from silas.journal.operations.scoped import By, Payload, ScopedEdit, perform
from silas.journal.results import Outcome
from silas.journal.store import Journal
from silas.kernel.models import Data, UtcDatetime

_MOST_PINNED = 50


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
            for old in reading.blocks_of(here.edit.tx, plan.id, limit_to=allowed)
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
    _check(plan, wanted)
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


def _check(plan: DayPlan, wanted: BlockInput) -> None:
    if wanted.start_time >= wanted.end_time:
        raise RecordInvalid("A block must end after it begins.")
    # The day of the plan is the owner's local one, which begins up to 14 hours before that of UTC.
    noon = datetime.combine(plan.date, time(12), UTC)
    for moment in (wanted.start_time, wanted.end_time):
        if abs(moment - noon) > timedelta(hours=38):
            raise RecordInvalid(f"This block does not lie on {plan.date.isoformat()}.")
