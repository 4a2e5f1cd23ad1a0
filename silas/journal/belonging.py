"""Which category a record belongs to: its own, or that of what it is a part of."""

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
        ends = [load(reader, each) for each in (record.from_id, record.to_id)]
        return all(end is not None and may_see(reader, end, scope) for end in ends)
    return scope.allows(category_of(reader, record))
