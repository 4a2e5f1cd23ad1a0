"""Memories as rows: the range of ids that one lane of one scope owns, and every statement on it.

A statement is bound to the ids of one scope, so that none can see beyond it.

Raw records: what was said, read where it is kept once, in the chronicle of the conversation.

1. `raw_records` is a view of the chronicle with the columns of a memory; every statement here names
   one scope.
2. A record is what somebody said, word for word. It can be forgotten, and is never changed.
3. The chronicle holds the words as they were said. Whatever a memory may not hold is taken out when
   a record is read.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from silas.kernel import format_timestamp
from silas.memory.models import PASSAGES, MemoryItem, ReingestionTier
from silas.storage import Reader, Row, SqlValue, Transaction

_LANE_BITS = 40
_SCOPE_BITS = _LANE_BITS + 1
_FIELDS = (
    "memory_id",
    "content",
    "memory_type",
    "reingestion_tier",
    "trust_level",
    "taint",
    "created_at",
    "updated_at",
    "valid_from",
    "valid_until",
    "access_count",
    "last_accessed",
    "semantic_tags",
    "entity_refs",
    "causal_refs",
    "temporal_next",
    "temporal_prev",
    "session_id",
    "source_kind",
    "scrubbed",
)
COLUMNS = ", ".join(f"m.{name}" for name in _FIELDS)
"""What `item_from` reads, of a table that the query calls `m`."""

PASSAGE_KINDS = ", ".join(f"'{kind}'" for kind in PASSAGES)
"""`PASSAGES` as a query names them."""

_WRITTEN = ("id", "scope_no", "content_hash", *_FIELDS)
_SPOTS = ", ".join("?" for _ in _WRITTEN)
_INSERT = f"INSERT INTO memory_items ({', '.join(_WRITTEN)}) VALUES ({_SPOTS})"  # noqa: S608 - names only
_ASSIGNED = ", ".join(f"{name} = ?" for name in ("id", "content_hash", *_FIELDS))
_UPDATE = f"UPDATE memory_items SET {_ASSIGNED} WHERE id = ?"  # noqa: S608 - names only
_LISTS = frozenset({"semantic_tags", "entity_refs", "causal_refs", "scrubbed"})
_ALLOT = {
    ReingestionTier.ACTIVE: """
        INSERT INTO memory_scopes (scope_id, next_active) VALUES (?, 1 + ?)
        ON CONFLICT (scope_id) DO UPDATE SET next_active = next_active + excluded.next_active - 1
        RETURNING scope_no, next_active
    """,
    ReingestionTier.LOW_REINGESTION: """
        INSERT INTO memory_scopes (scope_id, next_raw) VALUES (?, 1 + ?)
        ON CONFLICT (scope_id) DO UPDATE SET next_raw = next_raw + excluded.next_raw - 1
        RETURNING scope_no, next_raw
    """,
}


class Lane(NamedTuple):
    """The ids from `first` to `last` belong to one scope, and to one of its lanes or to both."""

    scope_no: int
    first: int
    last: int

    @property
    def bounds(self) -> tuple[int, int]:
        return self.first, self.last


def lane_of(scope_no: int, tier: ReingestionTier | None) -> Lane:
    """The ids of one lane of a scope; without a tier, those of the whole scope."""
    first = scope_no << _SCOPE_BITS
    if tier is None:
        return Lane(scope_no, first, first + (1 << _SCOPE_BITS) - 1)
    if tier is ReingestionTier.LOW_REINGESTION:
        first += 1 << _LANE_BITS
    return Lane(scope_no, first, first + (1 << _LANE_BITS) - 1)


def scope_number(reader: Reader, scope_id: str) -> int | None:
    """The number of a scope that remembers something."""
    row = reader.fetch_one("SELECT scope_no FROM memory_scopes WHERE scope_id = ?", (scope_id,))
    return row[0] if row else None


def allot_ids(
    tx: Transaction, scope_id: str, tier: ReingestionTier, *, count: int = 1
) -> tuple[int, int]:
    """The scope's number and the first of this many ids that were never used before."""
    row = tx.fetch_one(_ALLOT[tier], (scope_id, count))
    if row is None:  # RETURNING always gives the row
        raise RuntimeError("no ids were given out")
    scope_no, behind = row
    return scope_no, lane_of(scope_no, tier).first + behind - count


def content_hash(content: str) -> bytes:
    """What stands for a text where the text itself is too long."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()[:16]


def insert_rows(tx: Transaction, scope_no: int, rows: Iterable[tuple[int, MemoryItem]]) -> None:
    """Write new memories with their ids; the indexes follow by themselves."""
    tx.execute_many(
        _INSERT,
        ((row_id, scope_no, content_hash(item.content), *_values(item)) for row_id, item in rows),
    )


def update_row(tx: Transaction, row_id: int, item: MemoryItem, *, new_id: int) -> None:
    """Write a changed memory; with another `new_id` it moves to where that id belongs."""
    tx.execute(_UPDATE, (new_id, content_hash(item.content), *_values(item), row_id))


def item_from(scope_id: str, row: Row) -> MemoryItem:
    """The memory in a row of `COLUMNS`."""
    fields = dict(zip(_FIELDS, row, strict=True))
    for name in _LISTS:
        fields[name] = json.loads(fields[name]) if fields[name] != "[]" else []
    return MemoryItem.model_validate({"scope_id": scope_id, **fields})


def items_from(scope_id: str, rows: Sequence[Row]) -> list[MemoryItem]:
    """The memories in rows of `COLUMNS`."""
    return [item_from(scope_id, row) for row in rows]


def as_list(values: Sequence[object]) -> str:
    """A list as a column or a parameter for `json_each` holds it."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")) if values else "[]"


def _values(item: MemoryItem) -> tuple[SqlValue, ...]:
    created = format_timestamp(item.created_at)
    return (
        item.memory_id,
        item.content,
        item.memory_type.value,
        item.reingestion_tier.value,
        item.trust_level.value,
        item.taint.value,
        created,
        created if item.updated_at == item.created_at else format_timestamp(item.updated_at),
        format_timestamp(item.valid_from) if item.valid_from else None,
        format_timestamp(item.valid_until) if item.valid_until else None,
        item.access_count,
        format_timestamp(item.last_accessed) if item.last_accessed else None,
        as_list(item.semantic_tags),
        as_list(item.entity_refs),
        as_list(item.causal_refs),
        item.temporal_next,
        item.temporal_prev,
        item.session_id,
        item.source_kind,
        as_list(item.scrubbed),
    )


_VALID = (
    "(m.valid_until IS NULL OR m.valid_until > ?) AND (m.valid_from IS NULL OR m.valid_from <= ?)"
)
KEYWORD = f"""
SELECT found.score, {COLUMNS} FROM (
    SELECT rowid AS row, rank AS score FROM memory_words
    WHERE memory_words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank LIMIT ?
) AS found JOIN memory_items AS m ON m.id = found.row
WHERE m.scope_no = ? AND {_VALID} ORDER BY found.score, m.id LIMIT ?
"""  # noqa: S608 - names of columns only
BY_ID = f"SELECT m.id, {COLUMNS} FROM memory_items AS m WHERE m.scope_no = ? AND m.memory_id = ?"  # noqa: S608
BY_BEGINNING = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.scope_no = ? AND m.memory_id >= ? AND m.memory_id < ? LIMIT 2
"""  # noqa: S608
SESSION = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.scope_no = ? AND m.session_id = ? AND m.id BETWEEN ? AND ? ORDER BY m.id
"""  # noqa: S608
TEMPORAL = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.scope_no = ? AND m.created_at >= ? AND m.created_at < ? AND m.id BETWEEN ? AND ?
ORDER BY m.created_at DESC, m.id DESC LIMIT ?
"""  # noqa: S608
ENTITY = f"""
SELECT {COLUMNS} FROM memory_entities AS e JOIN memory_items AS m ON m.id = e.item
WHERE e.entity = ? AND e.item BETWEEN ? AND ? AND m.scope_no = ? ORDER BY m.id DESC LIMIT ?
"""  # noqa: S608
# Both ways: what it was caused by, and what it caused; each memory once, the nearest first.
_CAUSAL = f"""
WITH RECURSIVE chain (row, depth) AS (
    SELECT m.id, 0 FROM memory_items AS m WHERE m.scope_no = :scope AND m.memory_id = :start
    UNION
    SELECT next.id, chain.depth + 1 FROM chain
    JOIN memory_items AS here ON here.id = chain.row
    JOIN memory_items AS next ON next.scope_no = :scope AND next.id BETWEEN :first AND :last
        AND (next.memory_id IN (SELECT value FROM json_each(here.causal_refs))
             OR next.id IN (SELECT item FROM memory_causes WHERE cause = here.memory_id
                            AND item BETWEEN :first AND :last))
    WHERE chain.depth < :depth
)
SELECT {COLUMNS} FROM (SELECT row, min(depth) AS depth FROM chain GROUP BY row) AS near
JOIN memory_items AS m ON m.id = near.row
WHERE near.depth > 0 ORDER BY near.depth, m.id LIMIT :most
"""  # noqa: S608
KNOWN = """
SELECT m.memory_id FROM json_each(?) AS wanted
CROSS JOIN memory_items AS m ON m.scope_no = ? AND m.memory_id = wanted.value LIMIT 1
"""


def causal(names: dict[str, Any]) -> tuple[str, list[Any]]:
    """The statement for what led to a memory and what followed from it, and its parameters."""
    return _positional(_CAUSAL, names)


def _positional(sql: str, names: dict[str, Any]) -> tuple[str, list[Any]]:
    """The statement with `?1`, `?2` for its names; the port takes positions."""
    for number, name in enumerate(names, 1):
        sql = sql.replace(f":{name}", f"?{number}")
    return sql, list(names.values())


Prepare = Callable[[MemoryItem], MemoryItem]

_RECORD, _ENTRY = "raw_", "said_"
_AFTER_EVERY_ID = "\U0010ffff"
_BY_ID = f"SELECT {COLUMNS} FROM raw_records AS m WHERE m.scope_id = ? AND m.entry_id = ?"  # noqa: S608 - names of columns only
_BY_BEGINNING = f"""
SELECT {COLUMNS} FROM raw_records AS m
WHERE m.scope_id = ? AND m.entry_id >= ? AND m.entry_id < ? LIMIT 2
"""  # noqa: S608
_SEARCH = f"""
SELECT chronicle_words.rank, {COLUMNS} FROM chronicle_words
JOIN raw_records AS m ON m.number = chronicle_words.rowid
WHERE chronicle_words MATCH ? AND m.scope_id = ? ORDER BY chronicle_words.rank, m.number LIMIT ?
"""  # noqa: S608
_LISTED = f"""
SELECT {COLUMNS} FROM raw_records AS m
WHERE m.scope_id = ? AND (? = '' OR m.memory_type = ?) AND (? = '' OR m.trust_level = ?)
ORDER BY m.number DESC LIMIT ?
"""  # noqa: S608
_BEFORE = f"""
SELECT m.number, {COLUMNS} FROM raw_records AS m
WHERE m.scope_id = ? AND m.number < ? ORDER BY m.number DESC LIMIT ?
"""  # noqa: S608
_NUMBERS = """
SELECT reingestion_tier, memory_type, trust_level, taint, count(*), 0
FROM raw_records WHERE scope_id = ? GROUP BY 1, 2, 3, 4
"""
_EXPORTED = f"""
SELECT {COLUMNS} FROM raw_records AS m
WHERE m.scope_id = ? AND m.updated_at >= ? ORDER BY m.number
"""  # noqa: S608
_REMOVE = "DELETE FROM raw_records WHERE scope_id = ? AND entry_id = ?"
_REMOVE_OTHERS = """
DELETE FROM raw_records
WHERE scope_id = ? AND memory_id NOT IN (SELECT memory_id FROM temp.bundle_ids)
"""


def entry_id_of(memory_id: str) -> str | None:
    """The entry of the chronicle that a record of this id would be."""
    if not memory_id.startswith(_RECORD):
        return None
    return f"{_ENTRY}{memory_id.removeprefix(_RECORD)}"


def record_by_id(
    reader: Reader, scope_id: str, memory_id: str, *, prepare: Prepare
) -> MemoryItem | None:
    """The record with this id."""
    entry_id = entry_id_of(memory_id)
    row = reader.fetch_one(_BY_ID, (scope_id, entry_id)) if entry_id is not None else None
    return prepare(item_from(scope_id, row)) if row else None


def records_beginning(
    reader: Reader, scope_id: str, beginning: str, *, prepare: Prepare
) -> list[MemoryItem]:
    """At most two records whose ids begin so."""
    first = entry_id_of(beginning)
    if first is None:
        return []
    rows = reader.fetch_all(_BY_BEGINNING, (scope_id, first, f"{first}{_AFTER_EVERY_ID}"))
    return _items(scope_id, rows, prepare)


def search_records(
    reader: Reader, scope_id: str, expression: str, *, limit: int, prepare: Prepare
) -> list[tuple[float, MemoryItem]]:
    """The records that match an expression of the word index, with their ranks, the best first."""
    rows = reader.fetch_all(_SEARCH, (expression, scope_id, limit))
    return [(rank, prepare(item_from(scope_id, tuple(row)))) for rank, *row in rows]


def newest_records(
    reader: Reader, scope_id: str, *, kind: str, trust: str, limit: int, prepare: Prepare
) -> list[MemoryItem]:
    """The newest records; an empty kind or trust means any."""
    rows = reader.fetch_all(_LISTED, (scope_id, kind, kind, trust, trust, limit))
    return _items(scope_id, rows, prepare)


def records_before(
    reader: Reader, scope_id: str, number: int, *, limit: int, prepare: Prepare
) -> list[tuple[int, MemoryItem]]:
    """The newest records before a number, each with its own."""
    rows = reader.fetch_all(_BEFORE, (scope_id, number, limit))
    return [(row[0], prepare(item_from(scope_id, row[1:]))) for row in rows]


def record_numbers(reader: Reader, scope_id: str) -> list[Row]:
    """How many records there are, by lane, kind, trust and taint; none is scrubbed as it lies."""
    return reader.fetch_all(_NUMBERS, (scope_id,))


def exported_records(
    reader: Reader, scope_id: str, after: str, *, prepare: Prepare
) -> Iterator[MemoryItem]:
    """All records since then, the oldest first."""
    for row in reader.rows(_EXPORTED, (scope_id, after)):
        yield prepare(item_from(scope_id, row))


def chosen_records(
    reader: Reader, scope_id: str, conditions: str, params: Sequence[SqlValue], *, prepare: Prepare
) -> list[MemoryItem]:
    """The records that fit these conditions on `m`."""
    sql = f"SELECT {COLUMNS} FROM raw_records AS m WHERE m.scope_id = ? {conditions}"  # noqa: S608
    return _items(scope_id, reader.fetch_all(sql, (scope_id, *params)), prepare)


def remove_records(tx: Transaction, scope_id: str, memory_ids: Iterable[str]) -> int:
    """Remove records, as far as they are some; returns how many."""
    names = [entry for each in memory_ids if (entry := entry_id_of(each)) is not None]
    here = [name for name in names if tx.fetch_one(_BY_ID, (scope_id, name)) is not None]
    for name in here:
        tx.execute(_REMOVE, (scope_id, name))
    return len(here)


def remove_records_outside_bundle(tx: Transaction, scope_id: str) -> int:
    """Remove the records that the bundle which is taken in lacks; returns how many."""
    count = "SELECT count(*) FROM raw_records WHERE scope_id = ?"
    before: Any = tx.fetch_one(count, (scope_id,))
    tx.execute(_REMOVE_OTHERS, (scope_id,))
    after: Any = tx.fetch_one(count, (scope_id,))
    return int(before[0] - after[0])


def _items(scope_id: str, rows: Sequence[Row], prepare: Prepare) -> list[MemoryItem]:
    return [prepare(item_from(scope_id, row)) for row in rows]
