"""One record of the journal with how it came about, the notes, and what has some words."""

from typing import Any

from silas.journal import OWNER, reading
from silas.journal.belonging import category_of
from silas.journal.errors import RecordUnknown
from silas.journal.models import Category, Link, Record
from silas.journal.queries import HistoryEntry
from silas.journal.references import name_of
from silas.journal.rows import load
from silas.kernel import format_timestamp
from silas.storage import Reader
from silas.web.front import Front

_HIDDEN = frozenset({"vector_clock", "versions", "deletions"})
_NOT_TOLD = _HIDDEN | {"id", "kind", "created_at", "updated_at"}
_MOST_NOTES = 100
_MOST_WRITES = 50
_MOST_FOUND = 30
_NOTHING: tuple[Any, ...] = (None, "", [], False)


async def shown_record(front: Front, record_id: str) -> dict[str, Any]:
    """A record, what it is linked to, and who changed what; raises `RecordUnknown`."""
    found = await front.journal.read(lambda view: _record(view, record_id))
    history = (await front.journal.history(record_id))[-_MOST_WRITES:][::-1]
    writes = await front.journal.read(lambda view: [_write(view, each) for each in history])
    return {**found, "history": writes}


async def found_records(front: Front, words: str) -> list[dict[str, Any]]:
    """What has all of these words, the best first."""
    found = await front.journal.search(words, limit=_MOST_FOUND)
    return [{"id": each.id, "kind": plain(each)["kind"], "name": name_of(each)} for each in found]


def notes_in(view: Reader) -> list[dict[str, Any]]:
    """The newest notes, each with what it is linked to."""
    return [
        {**plain(each), "links": linked(view, each)}
        for each in reading.notes(view, limit=_MOST_NOTES)
    ]


def linked(view: Reader, record: Record) -> list[dict[str, Any]]:
    """What a record is linked to, by name."""
    links = reading.links_of(view, record.id, OWNER)
    ends = [(each, load(view, _other_end(each, record.id))) for each in links]
    return [
        {"id": link.id, "relation": link.relation, "record_id": end.id, "name": name_of(end)}
        for link, end in ends
        if end is not None and not end.deleted
    ]


def plain(record: Record) -> dict[str, Any]:
    """A record as the page has it."""
    return record.model_dump(mode="json", exclude=set(_HIDDEN))


def _record(view: Reader, record_id: str) -> dict[str, Any]:
    record = load(view, record_id)
    if record is None:
        raise RecordUnknown(f"There is no record {record_id[:80]!a}.")
    category = load(view, category_of(view, record) or "")
    return {
        "record": plain(record),
        "name": name_of(record),
        "deleted": record.deleted,
        "category": category.name if isinstance(category, Category) else None,
        "links": linked(view, record),
    }


def _other_end(link: Link, record_id: str) -> str:
    return link.to_id if link.from_id == record_id else link.from_id


def _named(view: Reader, field: str, value: Any) -> Any:
    """The names of records in the place of their ids."""
    if isinstance(value, list):
        return [_named(view, field, each) for each in value]
    if not isinstance(value, str) or not field.endswith(("_id", "_ids")):
        return value
    found = load(view, value)
    return name_of(found) if found is not None else value


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
                "before": _named(view, name, before.get(name)),
                "after": _named(view, name, value),
            }
            for name, value in entry.after.items()
            if name not in _NOT_TOLD and value != before.get(name)
            if value not in _NOTHING or before.get(name) not in _NOTHING
        ],
    }
