"""Finding memories: one strategy at a time, or all of them weighed against each other (`fused`).

The formula of `fused` is in `fusion.py`; what it is fed with is gathered in `evidence.py`. All
reading happens in the range of ids of one scope's active lane.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from silas.memory.asking import asked_for
from silas.memory.dates import fit, stretches
from silas.memory.evidence import entities_named, gather, without_names
from silas.memory.fusion import CONTEXT, scores
from silas.memory.models import MemoryItem, MemoryQuery, MemoryQueryStrategy
from silas.memory.ports import Nearest
from silas.memory.rows import COLUMNS, Lane, as_list, item_from
from silas.memory.store import Memories, MemoryStore
from silas.storage import Reader

_BYTES_OF_A_TOKEN = 3.5
_NEAREST = 100
_FOLLOWED = 3
_RELATED = 0.15
_FEW = 200
"""So many memories are weighed sooner than another thread would begin."""
_ITEMS = f"""
SELECT m.id, {COLUMNS} FROM json_each(?) AS wanted JOIN memory_items AS m ON m.id = wanted.value
WHERE m.id BETWEEN ? AND ?
"""  # noqa: S608 - names of columns only


class Recalled(NamedTuple):
    """A memory that was found, and how well it fits: 1 is the best of this answer."""

    item: MemoryItem
    relevance: float


class MemoryRetriever:
    """Finds what one scope remembers. Without `vectors`, by words alone."""

    def __init__(self, memories: Memories, *, vectors: Nearest | None = None) -> None:
        self._memories = memories
        self._keeping = memories.keeping
        self._vectors = vectors

    async def retrieve(
        self, query: MemoryQuery, scope_id: str, session_id: str | None = None
    ) -> list[MemoryItem]:
        """The memories of this scope that answer the query, the best first."""
        return [found.item for found in await self.recall(query, scope_id, session_id)]

    async def recall(
        self, query: MemoryQuery, scope_id: str, session_id: str | None = None
    ) -> list[Recalled]:
        """The same with their relevance; each counts as accessed."""
        store = self._memories.of(scope_id)
        lane = await store.lane()
        if not await self._how_many(lane):
            return []
        ranked = await self.rank(query, store, session_id=session_id)
        found = await self._load(store, lane, ranked[: query.max_results])
        kept = _within(found, query.max_tokens)
        await self._keeping.access.count(row for row, _ in ranked[: len(kept)])
        return kept

    async def rank(
        self, query: MemoryQuery, store: MemoryStore, *, session_id: str | None = None
    ) -> list[tuple[int, float]]:
        """The ids of the rows that answer the query, with their scores, the best first."""
        lane = await store.lane()
        match query.strategy:
            case MemoryQueryStrategy.FUSED:
                return await self._fused(query, lane)
            case MemoryQueryStrategy.SEMANTIC if self._vectors is not None:
                nearest = await self._nearest(lane, [query.query])
                return sorted(nearest.items(), key=lambda pair: (-pair[1], pair[0]))
            case MemoryQueryStrategy.SESSION if session_id is not None:
                items = await store.search_session(session_id)
            case MemoryQueryStrategy.SESSION:
                items = await self._best_session(query, store)
            case MemoryQueryStrategy.TEMPORAL:
                items = await self._of_the_time(query, store)
            case MemoryQueryStrategy.ENTITY:
                items = await self._of_entities(query, store, lane)
            case MemoryQueryStrategy.CAUSAL:
                items = await self._causes(query, store)
            case _:
                items = await store.search_keyword(query.query, 2 * query.max_results)
        rows = await self._rows_of(lane, items)
        return [(row, 1 / place) for place, row in enumerate(rows, 1)]

    async def _fused(self, query: MemoryQuery, lane: Lane) -> list[tuple[int, float]]:
        question, now = query.query, self._keeping.clock.now()
        named = await entities_named(self._keeping.database, lane, question)
        # The name of an entity stands in all that is known of it: it hides what is asked about it.
        bare = without_names(question, named)
        context = 0.0 if asked_for(question).several else CONTEXT
        cosines = await self._nearest(lane, [question, bare] if bare else [question], context)
        times = stretches(question, now=now)

        def weigh(reader: Reader) -> dict[int, float]:
            return scores(
                gather(reader, lane, question, named=named, times=times, cosines=cosines, now=now)
            )

        found = None
        if await self._how_many(lane) <= _FEW:
            found = self._keeping.database.snapshot_here(weigh)
        if found is None:
            found = await self._keeping.database.snapshot(weigh)
        fitting = ((row, score) for row, score in found.items() if score > 0)
        return heapq.nlargest(_NEAREST, fitting, key=lambda pair: (pair[1], pair[0]))

    async def _how_many(self, lane: Lane) -> int:
        """At most so many memories are in the lane: some may have been deleted."""
        row = await self._keeping.database.fetch_one(
            "SELECT next_active - 1 FROM memory_scopes WHERE scope_no = ?", (lane.scope_no,)
        )
        return row[0] if row else 0

    async def _nearest(
        self, lane: Lane, texts: Sequence[str], context: float = 0.0
    ) -> dict[int, float]:
        """By meaning; the nearest of what has nothing to do with the question is not near."""
        if self._vectors is None:
            return {}
        nearest = await self._vectors.nearest(lane, texts, _NEAREST, context=context)
        return {row: cosine for row, cosine in nearest.items() if cosine >= _RELATED}

    async def _best_session(self, query: MemoryQuery, store: MemoryStore) -> list[MemoryItem]:
        """The session of the best memory, as it went."""
        best = await store.search_keyword(query.query, 1)
        if not best or best[0].session_id is None:
            return best
        return await store.search_session(best[0].session_id)

    async def _of_the_time(self, query: MemoryQuery, store: MemoryStore) -> list[MemoryItem]:
        """What was remembered at the times that the query speaks of, the best words first."""
        times = stretches(query.query, now=self._keeping.clock.now())
        by_words = await store.search_keyword(query.query, 2 * _NEAREST)
        inside = [item for item in by_words if fit(times, item.created_at) > 0]
        for stretch in times:
            inside += await store.search_temporal(stretch.since, stretch.until, query.max_results)
        return inside

    async def _of_entities(
        self, query: MemoryQuery, store: MemoryStore, lane: Lane
    ) -> list[MemoryItem]:
        """What refers to the entities that the query names; what has its words first."""
        named = await entities_named(self._keeping.database, lane, query.query)
        by_words = await store.search_keyword(query.query, 2 * _NEAREST)
        found = [item for item in by_words if set(named) & set(item.entity_refs)]
        for entity in named:
            found += await store.search_entity(entity, query.max_results)
        return found

    async def _causes(self, query: MemoryQuery, store: MemoryStore) -> list[MemoryItem]:
        """The best memories by words, then what led to them and what followed from them."""
        best = await store.search_keyword(query.query, _FOLLOWED)
        around = [
            item
            for each in best
            for item in await store.search_causal(each.memory_id, query.max_results)
        ]
        return [*best, *around]

    async def _rows_of(self, lane: Lane, items: Sequence[MemoryItem]) -> list[int]:
        names = list(dict.fromkeys(item.memory_id for item in items))
        rows = await self._keeping.database.fetch_all(
            "SELECT m.id FROM json_each(?) AS wanted JOIN memory_items AS m"
            " ON m.scope_no = ? AND m.memory_id = wanted.value ORDER BY wanted.key",
            (as_list(names), lane.scope_no),
        )
        return [row for (row,) in rows]

    async def _load(
        self, store: MemoryStore, lane: Lane, ranked: Sequence[tuple[int, float]]
    ) -> list[Recalled]:
        wanted = as_list([row for row, _ in ranked])
        rows = await self._keeping.database.fetch_all(_ITEMS, (wanted, *lane.bounds))
        items = {row[0]: item_from(store.scope_id, row[1:]) for row in rows}
        best = max((score for _, score in ranked), default=1.0) or 1.0
        return [
            Recalled(items[row], max(0.0, min(1.0, score / best)))
            for row, score in ranked
            if row in items
        ]


def _within(found: list[Recalled], most_tokens: int) -> list[Recalled]:
    """As many from the start as fit; the first always does."""
    kept: list[Recalled] = []
    left = most_tokens * _BYTES_OF_A_TOKEN
    for each in found:
        left -= len(each.item.content.encode())
        if left < 0 and kept:
            break
        kept.append(each)
    return kept
