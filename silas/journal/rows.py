"""Records as rows: the content whole, and the columns and words that they are found by."""

from typing import NamedTuple

from silas.journal.models import (
    KINDS,
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
from silas.kernel import format_timestamp
from silas.storage import Reader, SqlValue, Transaction

CONTENT = "kind, content"
_INSERT = """
INSERT INTO records (id, kind, parent_id, category_id, status, at, until, deleted, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET parent_id = excluded.parent_id, category_id = excluded.category_id,
    status = excluded.status, at = excluded.at, until = excluded.until,
    deleted = excluded.deleted, content = excluded.content
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
