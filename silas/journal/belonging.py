"""Which category a record belongs to: its own, or that of what it is a part of."""

from typing import TypeVar

from silas.journal.models import (
    AccessScope,
    Category,
    Checklist,
    ChecklistItem,
    DayBlock,
    DayPlan,
    Link,
    Note,
    Rating,
    Record,
    Task,
    TimeEntry,
)
from silas.journal.rows import load
from silas.storage import Reader

R = TypeVar("R", bound=Record)

_DEEPEST = 4
"""A rating of an item, its list, its task. A circle, which only a forged file has, ends here."""


def category_of(reader: Reader, record: Record) -> str | None:
    """The category; None for what has none, which is the owner's alone.

    What belongs to a task goes along when the task moves.
    """
    here: Record | None = record
    for _ in range(_DEEPEST):
        match here:
            case Category():
                return here.id
            case Task() | Note():
                return here.category_id
            case TimeEntry() | DayBlock() if here.task_id is None:
                return here.category_id
        whole = _part_of(here) if here is not None else None
        here = load(reader, whole) if whole is not None else None
    return None


def as_seen(reader: Reader, record: R, scope: AccessScope) -> R | None:
    """The record as the scope may see it, None if not at all; a plan without the others' pins."""
    if not may_see(reader, record, scope):
        return None
    if not isinstance(record, DayPlan) or scope.allowed_category_ids is None:
        return record
    pins = tuple(each for each in record.pinned_task_ids if _may_see_id(reader, each, scope))
    return record.model_copy(update={"pinned_task_ids": pins})


def _may_see_id(reader: Reader, record_id: str, scope: AccessScope) -> bool:
    found = load(reader, record_id)
    return found is not None and may_see(reader, found, scope)


def _part_of(record: Record) -> str | None:
    match record:
        case TimeEntry() | DayBlock() | Checklist():
            return record.task_id
        case ChecklistItem():
            return record.checklist_id
        case Rating():
            return record.target_id
        case _:
            return None


def may_see(reader: Reader, record: Record, scope: AccessScope) -> bool:
    """Whether the scope includes the record.

    The plan of a day has no category: everybody sees that it is there, and of its blocks and pinned
    tasks only their own. A link is seen by whoever may see both ends.
    """
    if scope.allowed_category_ids is None:
        return True
    if isinstance(record, DayPlan):
        return True
    if isinstance(record, Link):
        return all(_may_see_id(reader, each, scope) for each in (record.from_id, record.to_id))
    return scope.allows(category_of(reader, record))
