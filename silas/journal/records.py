"""Records as rows: the content whole, and the columns and words that they are found by.

Here is also which category a record belongs to (its own, or that of what it is a part of), who may
see it, and whose words it holds: the owner's alone, or perhaps somebody else's.
"""

import json
from collections.abc import Collection
from typing import NamedTuple, TypeVar

from silas.journal.models import (
    KINDS,
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
from silas.kernel import TaintLevel, format_timestamp
from silas.storage import Reader, SqlValue, Transaction

CONTENT = "kind, content"
_INSERT = """
INSERT INTO records (id, kind, parent_id, category_id, status, at, until, deleted, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET parent_id = excluded.parent_id, category_id = excluded.category_id,
    status = excluded.status, at = excluded.at, until = excluded.until,
    deleted = excluded.deleted, content = excluded.content
"""
R = TypeVar("R", bound=Record)
_DEEPEST = 4
"""A rating of an item, its list, its task. A circle, which only a forged file has, ends here."""
OWNER_ACTOR = "owner"
"""The actor of what the owner does in person."""
_OWN = """
SELECT h.record_id FROM json_each(?) AS wanted
JOIN history AS h ON h.record_id = wanted.value JOIN batches AS b ON b.cursor = h.batch
GROUP BY h.record_id HAVING min(b.actor = ? AND h.origin = 'local') = 1
"""


class Found(NamedTuple):
    """What a record is found by."""

    parent_id: str | None = None
    category_id: str | None = None
    status: str | None = None
    at: str | None = None
    until: str | None = None
    words: str = ""


def kind_of(record: Record) -> str:
    """The name of the kind of a record."""
    return str(getattr(record, "kind"))  # noqa: B009 - each kind declares it itself


def read_record(kind: str, content: str) -> Record:
    """The record that was written down."""
    return KINDS[kind].model_validate_json(content)


def content_of(record: Record) -> str:
    """The record whole, as JSON."""
    return record.model_dump_json()


def load(reader: Reader, record_id: str) -> Record | None:
    """The record with this id, also if it is deleted."""
    row = reader.fetch_one(f"SELECT {CONTENT} FROM records WHERE id = ?", (record_id,))  # noqa: S608
    return read_record(*row) if row else None


def store(tx: Transaction, record: Record) -> None:
    """Write a record, and what it is found by."""
    found = found_by(record)
    values: tuple[SqlValue, ...] = (
        record.id,
        kind_of(record),
        found.parent_id,
        found.category_id,
        found.status,
        found.at,
        found.until,
        int(record.deleted),
        content_of(record),
    )
    tx.execute(_INSERT, values)
    number = tx.fetch_all("SELECT number FROM records WHERE id = ?", (record.id,))[0][0]
    tx.execute("DELETE FROM record_words WHERE rowid = ?", (number,))
    if found.words and not record.deleted:
        tx.execute("INSERT INTO record_words (rowid, words) VALUES (?, ?)", (number, found.words))


def found_by(record: Record) -> Found:
    """The columns and words of a record."""
    match record:
        case Task():
            words = " ".join([record.title, *record.labels, record.body])
            due = format_timestamp(record.due_at) if record.due_at else None
            return Found(None, record.category_id, record.status, due, words=words)
        case TimeEntry():
            end = format_timestamp(record.ended_at) if record.ended_at else None
            begin = format_timestamp(record.started_at)
            return Found(record.task_id, record.category_id, None, begin, end, record.note)
        case DayBlock():
            begin, end = format_timestamp(record.starts_at), format_timestamp(record.ends_at)
            parent = record.day_plan_id
            return Found(parent, record.category_id, None, begin, end, record.note)
        case Rating():
            return Found(record.target_id, status=record.dimension, words=record.note)
        case _:
            return _simply_found_by(record)


def _simply_found_by(record: Record) -> Found:
    match record:
        case Category():
            return Found(category_id=record.id, words=record.name)
        case Checklist():
            return Found(record.task_id, words=record.title)
        case ChecklistItem():
            return Found(record.checklist_id, words=record.text)
        case DayPlan():
            return Found(at=record.date.isoformat())
        case Note():
            made = format_timestamp(record.created_at)
            return Found(category_id=record.category_id, at=made, words=record.text)
        case Link():
            return Found(record.from_id, status=record.relation, at=record.to_id)
        case _:
            raise TypeError(f"not a record of the journal: {type(record).__name__}")


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


def taint_of(reader: Reader, record_ids: Collection[str]) -> TaintLevel:
    """Owner, if each of these records was only ever written by the owner on this device.

    A companion read whatever it read, and another device does not say who wrote there: what they
    have written is as foreign as a page. So is a record without a history.
    """
    wanted = set(record_ids)
    own = {row[0] for row in reader.fetch_all(_OWN, (json.dumps(sorted(wanted)), OWNER_ACTOR))}
    return TaintLevel.OWNER if wanted <= own else TaintLevel.EXTERNAL
