"""What a change of a record is about, as typed tokens."""

from collections.abc import Iterator

from silas.journal.belonging import category_of
from silas.journal.models import (
    Checklist,
    ChecklistItem,
    DayBlock,
    DayPlan,
    Link,
    Rating,
    Record,
    Task,
    TimeEntry,
)
from silas.journal.notifications import TypedToken, entity, semantic, subtype
from silas.journal.rows import kind_of, load
from silas.storage import Reader

SEMANTIC_KEYS = {
    "category": "CATEGORY",
    "task": "TASK",
    "checklist": "CHECKLIST",
    "checklist_item": "CHECKLIST_ITEM",
    "time_entry": "TIME_ENTRY",
    "day_plan": "DAY_PLAN",
    "day_block": "DAY_BLOCK",
    "rating": "RATING",
    "note": "NOTE",
    "link": "LINK",
}


def tokens_of(reader: Reader, before: Record | None, after: Record) -> Iterator[TypedToken]:
    """The kind, the record and what it belongs to, its category, and what happened to it.

    Subtypes: `category` (before and after), `change` (`task.created`, `.updated`, `.deleted`,
    `.restored`), `task.status`, `task.status_changed` (only if it did), `task.priority`,
    `rating.dimension`, `time_entry.source`, `link.relation`.
    """
    kind = kind_of(after)
    yield semantic(SEMANTIC_KEYS[kind])
    yield subtype("change", f"{kind}.{_what_happened(before, after)}")
    yield from map(entity, _concerned(reader, after))
    categories = {category_of(reader, each) for each in (before, after) if each is not None}
    yield from (subtype("category", name) for name in categories if name is not None)
    yield from _details(before, after)


def _what_happened(before: Record | None, after: Record) -> str:
    if before is None:
        return "created"
    if before.deleted == after.deleted:
        return "updated"
    return "deleted" if after.deleted else "restored"


def _details(before: Record | None, after: Record) -> Iterator[TypedToken]:
    match after:
        case Task():
            yield subtype("task.status", after.status)
            yield subtype("task.priority", after.priority)
            if not isinstance(before, Task) or before.status != after.status:
                yield subtype("task.status_changed", after.status)
        case Rating():
            yield subtype("rating.dimension", after.dimension)
        case TimeEntry() if after.source:
            yield subtype("time_entry.source", after.source)
        case Link():
            yield subtype("link.relation", after.relation)
        case _:
            return


def _concerned(reader: Reader, record: Record) -> Iterator[str]:
    yield record.id
    match record:
        case Checklist():
            yield record.task_id
        case ChecklistItem():
            parent = load(reader, record.checklist_id)
            yield record.checklist_id
            if isinstance(parent, Checklist):
                yield parent.task_id
        case TimeEntry() if record.task_id:
            yield record.task_id
        case DayBlock():
            yield record.day_plan_id
            if record.task_id:
                yield record.task_id
        case DayPlan():
            yield from record.pinned_task_ids
        case Rating():
            yield record.target_id
        case Link():
            yield from (record.from_id, record.to_id)
        case _:
            return
