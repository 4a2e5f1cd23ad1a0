"""Keeping the memory in order, now and then, scope by scope, without anybody waiting for it.

1. Counts of accesses are written down.
2. Duplicates (same text, kind and taint, in one scope) become one: the oldest stays, with all their
   accesses and tags. What is trusted is left alone, and what a model worded stays apart.
3. What is used often is proposed for promotion, unless a model worded it. Only the owner's
   confirmation promotes it.
4. What nobody looked at for long moves to the raw lane, where it can still be searched for.
5. Versions that are too old to be undone are dropped.
6. New and changed memories get their vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from silas.kernel import format_timestamp
from silas.memory.changes import MemoryChanges
from silas.memory.models import MemoryItem, MemoryType, ReingestionTier, TrustLevel
from silas.memory.rows import COLUMNS, Lane, allot_ids, as_list, item_from, lane_of
from silas.memory.store import MemoryStores
from silas.memory.trust import MemoryClaim
from silas.storage import Transaction

if TYPE_CHECKING:  # importing it needs the extra `vector`
    from silas.memory.vectors import VectorIndex

_GROUPS = """
SELECT json_group_array(id) FROM memory_items WHERE id BETWEEN ? AND ? AND trust_level = 'working'
GROUP BY content_hash, memory_type, taint, source_kind = 'model_wording' HAVING count(*) > 1 LIMIT ?
"""
# Again for one group, in the transaction that merges it: a memory may have changed since.
_DUPLICATES = """
SELECT min(m.id), json_group_array(m.id), sum(m.access_count), max(m.last_accessed), count(*)
FROM json_each(?) AS row JOIN memory_items AS m ON m.id = row.value
WHERE m.trust_level = 'working'
GROUP BY m.content_hash, m.memory_type, m.taint, m.source_kind = 'model_wording'
HAVING count(*) > 1
"""
_TAGS = """
SELECT DISTINCT tag.value FROM json_each(?) AS row
JOIN memory_items AS m ON m.id = row.value JOIN json_each(m.semantic_tags) AS tag ORDER BY 1
"""
_ENTITIES = _TAGS.replace("semantic_tags", "entity_refs")
_STALE = """
SELECT id FROM memory_items
WHERE id > ? AND id <= ? AND trust_level = 'working' AND created_at < ?
    AND (last_accessed IS NULL OR last_accessed < ?)
    AND memory_type NOT IN ('preference', 'profile') ORDER BY id LIMIT ?
"""
_OFTEN = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.id BETWEEN ? AND ? AND m.trust_level = 'working' AND m.taint <> 'external'
    AND m.source_kind <> 'model_wording'
    AND m.access_count >= ? AND m.memory_type IN (SELECT value FROM json_each(?))
ORDER BY m.access_count DESC, m.id LIMIT ?
"""  # noqa: S608 - names of columns only
_KINDS = [MemoryType.FACT, MemoryType.PREFERENCE, MemoryType.PROFILE, MemoryType.DECISION]
_OVERWRITE_WORDS = "INSERT INTO memory_words (memory_words, rank) VALUES ('secure-delete', ?)"
_BATCH = 500
_MOST_GROUPS = 20_000
_MOST_PROPOSALS = 20
_MOST_EMBEDDED = 2000


@dataclass(frozen=True)
class ConsolidationPolicy:
    """When a memory counts as used often, and when as stale."""

    often: int = 5
    stale_after: timedelta = timedelta(days=180)


class MemoryConsolidator:
    """Runs one cycle at a time."""

    def __init__(
        self,
        memories: MemoryStores,
        *,
        index: "VectorIndex | None" = None,
        policy: ConsolidationPolicy | None = None,
    ) -> None:
        self._memories = memories
        self._index = index
        self._policy = policy or ConsolidationPolicy()

    async def run_once(self) -> dict[str, int]:
        """One cycle over all scopes; returns how many memories each step was about."""
        await self._memories.flush()
        stats = {"merged": 0, "promoted": 0, "proposed": 0, "pruned": 0, "reembedded": 0}
        scopes = await self._memories.database.fetch_all(
            "SELECT scope_no, scope_id FROM memory_scopes ORDER BY scope_no"
        )
        for scope_no, scope_id in scopes:
            lane = lane_of(scope_no, ReingestionTier.ACTIVE)
            stats["merged"] += await self._merge_all(lane)
            stats["pruned"] += await self._prune_all(lane, scope_id)
            stats["proposed"] += len(await self.proposals(scope_id))
        await MemoryChanges(self._memories).prune()
        if self._index is not None:
            stats["reembedded"] = await self._index.catch_up(most=_MOST_EMBEDDED)
        return stats

    async def proposals(self, scope_id: str) -> list[MemoryClaim]:
        """What the owner could confirm: often used, not trusted yet, not from outside."""
        lane = await self._memories.of(scope_id).lane()
        rows = await self._memories.database.snapshot(
            lambda reader: reader.fetch_all(
                _OFTEN, (*lane.bounds, self._policy.often, as_list(_KINDS), _MOST_PROPOSALS)
            )
        )
        return [self._claim(item_from(scope_id, row)) for row in rows]

    @staticmethod
    def _claim(item: MemoryItem) -> MemoryClaim:
        verified = item.model_copy(update={"trust_level": TrustLevel.VERIFIED})
        return MemoryClaim("update", item.scope_id, (verified,))

    async def _merge_all(self, lane: Lane) -> int:
        """Short transactions, so that nobody else waits long for the writer."""
        merged = 0
        while True:
            groups = await self._memories.database.snapshot(
                lambda reader: reader.fetch_all(_GROUPS, (*lane.bounds, _MOST_GROUPS))
            )
            for start in range(0, len(groups), _BATCH):
                some = [rows for (rows,) in groups[start : start + _BATCH]]
                merged += await self._memories.database.transaction(partial(_merge, groups=some))
            if len(groups) < _MOST_GROUPS:
                return merged

    async def _prune_all(self, lane: Lane, scope_id: str) -> int:
        pruned, last = 0, lane.first - 1
        while True:
            step = partial(self._prune, lane=lane._replace(first=last), scope_id=scope_id)
            moved = await self._memories.database.transaction(step)
            if not moved:
                return pruned
            pruned, last = pruned + len(moved), moved[-1]

    def _prune(self, tx: Transaction, *, lane: Lane, scope_id: str) -> list[int]:
        """Move the first stale memories behind `lane.first` to the raw lane."""
        before = format_timestamp(self._memories.clock.now() - self._policy.stale_after)
        stale = [row for (row,) in tx.fetch_all(_STALE, (*lane.bounds, before, before, _BATCH))]
        if stale:
            tier = ReingestionTier.LOW_REINGESTION
            _, first = allot_ids(tx, scope_id, tier, count=len(stale))
            # The text stays, so its words need not be overwritten; that would take much longer.
            tx.execute(_OVERWRITE_WORDS, (0,))
            for new_id, row in enumerate(stale, first):
                tx.execute(
                    "UPDATE memory_items SET id = ?, reingestion_tier = ? WHERE id = ?",
                    (new_id, tier.value, row),
                )
            tx.execute(_OVERWRITE_WORDS, (1,))
        return stale


def _merge(tx: Transaction, *, groups: Sequence[str]) -> int:
    """Merge the groups; returns how many memories went into others."""
    merged = 0
    for group in groups:
        for keep, rows, accesses, last, count in tx.fetch_all(_DUPLICATES, (group,)):
            _merge_group(tx, keep, rows, accesses=accesses, last=last)
            merged += count - 1
    return merged


def _merge_group(tx: Transaction, keep: int, rows: str, *, accesses: int, last: str | None) -> None:
    tags, entities = _values(tx, _TAGS, rows), _values(tx, _ENTITIES, rows)
    tx.execute(
        "DELETE FROM memory_items WHERE id IN (SELECT value FROM json_each(?)) AND id <> ?",
        (rows, keep),
    )
    tx.execute(
        "UPDATE memory_items SET access_count = ?, last_accessed = ?, semantic_tags = ?,"
        " entity_refs = ? WHERE id = ?",
        (accesses, last, as_list(tags), as_list(entities), keep),
    )


def _values(tx: Transaction, sql: str, rows: str) -> Sequence[str]:
    return [value for (value,) in tx.fetch_all(sql, (rows,))]
