"""Reading the memory as a whole: lists and numbers, for people."""

from dataclasses import dataclass
from typing import Any

from silas.memory.models import MemoryItem, MemoryType, ReingestionTier, TrustLevel
from silas.memory.rows import COLUMNS, item_from
from silas.memory.store import Memories
from silas.storage import Reader

_LISTED = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.id BETWEEN ? AND ? AND (? = '' OR m.memory_type = ?) AND (? = '' OR m.trust_level = ?)
ORDER BY m.id DESC LIMIT ?
"""  # noqa: S608 - names of columns only
_NUMBERS = """
SELECT reingestion_tier, memory_type, trust_level, taint, count(*), sum(scrubbed <> '[]')
FROM memory_items WHERE id BETWEEN ? AND ? GROUP BY 1, 2, 3, 4
"""


@dataclass(frozen=True)
class Wanted:
    """Which memories are listed."""

    raw: bool = False
    memory_type: MemoryType | None = None
    trust_level: TrustLevel | None = None
    limit: int = 20


async def list_memories(memories: Memories, scope_id: str, wanted: Wanted) -> list[MemoryItem]:
    """The newest memories of a scope."""
    tier = ReingestionTier.LOW_REINGESTION if wanted.raw else ReingestionTier.ACTIVE
    lane = await memories.of(scope_id).lane(tier)
    kind, trust = wanted.memory_type or "", wanted.trust_level or ""
    rows = await memories.keeping.database.fetch_all(
        _LISTED, (*lane.bounds, kind, kind, trust, trust, wanted.limit)
    )
    return [item_from(scope_id, row) for row in rows]


async def memory_numbers(memories: Memories, scope_id: str) -> dict[str, Any]:
    """How many memories a scope has, by lane, kind, trust and taint."""
    lane = await memories.of(scope_id).lane(None)

    def count(reader: Reader) -> list[tuple[Any, ...]]:
        return reader.fetch_all(_NUMBERS, lane.bounds)

    rows = await memories.keeping.database.snapshot(count)
    numbers: dict[str, Any] = {"scope_id": scope_id, "memories": 0, "scrubbed": 0}
    for name in ("lanes", "kinds", "trust", "taint"):
        numbers[name] = {}
    for lane_name, kind, trust, taint, many, scrubbed in rows:
        numbers["memories"] += many
        numbers["scrubbed"] += scrubbed
        pairs = (("lanes", lane_name), ("kinds", kind), ("trust", trust), ("taint", taint))
        for group, value in pairs:
            numbers[group][value] = numbers[group].get(value, 0) + many
    return numbers
