"""Memories as rows, and the range of ids that one lane of one scope owns."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from silas.kernel import format_timestamp
from silas.memory.models import MemoryItem, ReingestionTier
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
