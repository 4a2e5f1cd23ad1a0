"""The memory as conversations use it: all scopes through one service, each call naming its scope.

What comes twice (after a crash, say) is stored once. What an agent wishes was looked at by gates
before; here the rules of the store decide. Whatever the agent saw taints what it stores; what may
not be stored as asked is stored as less, never as more.

`MemoryRetriever` finds memories: one strategy at a time, or all of them weighed against each other
(`fused`). What `fused` is fed with, and its formula, are in `fusion.py`. All reading happens in the
range of ids of one scope's active lane.
"""

import contextlib
import heapq
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from silas.kernel import TaintLevel
from silas.kernel.when import spans_in
from silas.memory.changes import MemoryChanges
from silas.memory.errors import MemoryExists, MemoryInvalid
from silas.memory.fusion import CONTEXT, entities_named, gather, scores, without_names
from silas.memory.intake import is_storable_text
from silas.memory.models import (
    MemoryChange,
    MemoryItem,
    MemoryOp,
    MemoryQuery,
    MemoryQueryStrategy,
    MemoryType,
    ReingestionTier,
    TrustLevel,
    Words,
)
from silas.memory.preferences import LearnedPreferences, PreferencePolicy
from silas.memory.question import asked_for, fit
from silas.memory.rows import (
    COLUMNS,
    PASSAGE_KINDS,
    Lane,
    as_list,
    item_from,
    newest_records,
    record_numbers,
)
from silas.memory.store import MemoryStore, MemoryStores
from silas.memory.trust import lowered
from silas.storage import Reader, Transaction

if TYPE_CHECKING:
    from silas.memory.vectors import VectorIndex


_UTC = ZoneInfo("UTC")
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
    """Finds what one scope remembers. Without `vectors`, by words alone.

    The times in a question ("yesterday") are meant in the owner's `zone`.
    """

    def __init__(
        self,
        memories: MemoryStores,
        *,
        vectors: "VectorIndex | None" = None,
        zone: ZoneInfo = _UTC,
    ) -> None:
        self._memories = memories
        self._vectors = vectors
        self._zone = zone

    async def retrieve(
        self, query: MemoryQuery, scope_id: str, session_id: str | None = None
    ) -> list[MemoryItem]:
        """The memories of this scope that answer the query, the best first."""
        return [found.item for found in await self.recall(query, scope_id, session_id)]

    async def recall(
        self,
        query: MemoryQuery,
        scope_id: str,
        session_id: str | None = None,
        *,
        counted: bool = True,
    ) -> list[Recalled]:
        """The same with their relevance; each counts as accessed, unless `counted` is false."""
        store = self._memories.of(scope_id)
        lane = await store.lane()
        if not await self._how_many(lane):
            return []
        ranked = await self.rank(query, store, session_id=session_id)
        found = await self._load(store, lane, ranked[: query.max_results])
        kept = _within(found, query.max_tokens)
        if counted:
            await self._memories.access.count(row for row, _ in ranked[: len(kept)])
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
        question, now = query.query, self._memories.clock.now()
        named = await entities_named(self._memories.database, lane, question)
        # The name of an entity stands in all that is known of it: it hides what is asked about it.
        bare = without_names(question, named)
        context = 0.0 if asked_for(question).several else CONTEXT
        cosines = await self._nearest(lane, [question, bare] if bare else [question], context)
        times = spans_in(question, now=now, zone=self._zone)

        def weigh(reader: Reader) -> dict[int, float]:
            return scores(
                gather(reader, lane, question, named=named, times=times, cosines=cosines, now=now)
            )

        found = None
        if await self._how_many(lane) <= _FEW:
            found = self._memories.database.snapshot_here(weigh)
        if found is None:
            found = await self._memories.database.snapshot(weigh)
        fitting = ((row, score) for row, score in found.items() if score > 0)
        return heapq.nlargest(_NEAREST, fitting, key=lambda pair: (pair[1], pair[0]))

    async def _how_many(self, lane: Lane) -> int:
        """At most so many memories are in the lane: some may have been deleted."""
        row = await self._memories.database.fetch_one(
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
        times = spans_in(query.query, now=self._memories.clock.now(), zone=self._zone)
        by_words = await store.search_keyword(query.query, 2 * _NEAREST)
        inside = [item for item in by_words if fit(times, item.created_at) > 0]
        for span in times:
            inside += await store.search_temporal(span.since, span.until, query.max_results)
        return inside

    async def _of_entities(
        self, query: MemoryQuery, store: MemoryStore, lane: Lane
    ) -> list[MemoryItem]:
        """What refers to the entities that the query names; what has its words first."""
        named = await entities_named(self._memories.database, lane, query.query)
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
        rows = await self._memories.database.fetch_all(
            "SELECT m.id FROM json_each(?) AS wanted JOIN memory_items AS m"
            " ON m.scope_no = ? AND m.memory_id = wanted.value ORDER BY wanted.key",
            (as_list(names), lane.scope_no),
        )
        return [row for (row,) in rows]

    async def _load(
        self, store: MemoryStore, lane: Lane, ranked: Sequence[tuple[int, float]]
    ) -> list[Recalled]:
        wanted = as_list([row for row, _ in ranked])
        rows = await self._memories.database.fetch_all(_ITEMS, (wanted, *lane.bounds))
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


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RawRecords:
    """What becomes of messages and answers as they were said."""

    kept: bool = True
    tier: ReingestionTier = ReingestionTier.LOW_REINGESTION


class MemoryService:
    """Stores, finds, and does what agents wish."""

    def __init__(
        self,
        memories: MemoryStores,
        retriever: MemoryRetriever,
        *,
        raw: RawRecords | None = None,
        preferences: PreferencePolicy | None = None,
    ) -> None:
        self._memories = memories
        self._changes = MemoryChanges(memories)
        self._retriever = retriever
        self._raw = raw or RawRecords()
        self._preferences = preferences or PreferencePolicy()

    def is_record(self, text: str) -> bool:
        """Whether the entry of the chronicle with this text is a raw record as it is."""
        low = self._raw.tier is ReingestionTier.LOW_REINGESTION
        return self._raw.kept and low and is_storable_text(text)

    def active_record(self, item: MemoryItem) -> Callable[[Transaction, str | None], None] | None:
        """What keeps a text as a memory that comes back by itself, if the owner wants that.

        It is written in a transaction, with its session; one with an id that is known is kept
        already.
        """
        if not self._raw.kept or self._raw.tier is not ReingestionTier.ACTIVE:
            return None
        store = self._memories.of(item.scope_id)
        active = item.model_copy(update={"reingestion_tier": ReingestionTier.ACTIVE})
        record = store.ready(lowered(active))

        def keep(tx: Transaction, session_id: str | None) -> None:
            with contextlib.suppress(MemoryExists):
                store.insert_in(tx, record.model_copy(update={"session_id": session_id}))

        return keep

    async def keep(self, scope_id: str, items: Sequence[MemoryItem]) -> None:
        """Store memories, lowered to what their taint allows; skips known ones.

        What no memory could hold is left out and logged: nobody waits for an answer here.
        """
        store = self._memories.of(scope_id)
        for item in items:
            try:
                with contextlib.suppress(MemoryExists):
                    await store.store(lowered(item))
            except MemoryInvalid as error:
                _log.warning("%s is not remembered: %s", item.memory_id, error.message)

    async def retrieve(
        self, query: MemoryQuery, scope_id: str, session_id: str | None = None
    ) -> list[MemoryItem]:
        """What is remembered in this scope, best first."""
        return await self._retriever.retrieve(query, scope_id, session_id)

    async def defaults(self, scope_id: str) -> list[MemoryItem]:
        """The preferences that agents go by."""
        learned = LearnedPreferences(self._memories, scope_id, policy=self._preferences)
        return await learned.defaults()

    async def find(self, memory_id: str, scope_id: str) -> MemoryItem | None:
        """The memory with this id, if this scope has it."""
        return await self._memories.of(scope_id).get(memory_id)

    async def apply(
        self, op: MemoryOp, *, scope_id: str, taint: TaintLevel, words: Words, key: str
    ) -> MemoryChange:
        """Do what an agent wishes, so that it can be undone; a key that is known does nothing."""
        return await self._changes.make(op, scope_id=scope_id, taint=taint, words=words, key=key)


_LISTED = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.id BETWEEN ? AND ? AND (? = '' OR m.memory_type = ?) AND (? = '' OR m.trust_level = ?)
    AND (? <> '' OR m.source_kind NOT IN ({PASSAGE_KINDS}))
ORDER BY m.id DESC LIMIT ?
"""  # noqa: S608 - names of columns and kinds only
_LISTED_PASSAGES = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.id BETWEEN ? AND ? AND (? = '' OR m.memory_type = ?) AND (? = '' OR m.trust_level = ?)
    AND m.source_kind IN ({PASSAGE_KINDS})
ORDER BY m.id DESC LIMIT ?
"""  # noqa: S608 - names of columns and kinds only
_NUMBERS = """
SELECT reingestion_tier, memory_type, trust_level, taint, count(*), sum(scrubbed <> '[]')
FROM memory_items WHERE id BETWEEN ? AND ? GROUP BY 1, 2, 3, 4
"""


@dataclass(frozen=True)
class MemoryListing:
    """Which memories are listed."""

    raw: bool = False
    memory_type: MemoryType | None = None
    trust_level: TrustLevel | None = None
    limit: int = 20


async def list_memories(
    memories: MemoryStores, scope_id: str, wanted: MemoryListing
) -> list[MemoryItem]:
    """The newest memories of a scope.

    Passages of a conversation stand with what was said, or where their kind is asked for.
    """
    tier = ReingestionTier.LOW_REINGESTION if wanted.raw else ReingestionTier.ACTIVE
    store = memories.of(scope_id)
    lane, active = await store.lane(tier), await store.lane(ReingestionTier.ACTIVE)
    kind, trust = wanted.memory_type or "", wanted.trust_level or ""
    chosen = (kind, kind, trust, trust)

    def read(reader: Reader) -> list[MemoryItem]:
        passages = tier.value if wanted.raw else kind
        rows = reader.fetch_all(_LISTED, (*lane.bounds, *chosen, passages, wanted.limit))
        if wanted.raw:
            rows += reader.fetch_all(_LISTED_PASSAGES, (*active.bounds, *chosen, wanted.limit))
        found = [item_from(scope_id, row) for row in rows]
        if not wanted.raw:
            return found
        records = newest_records(
            reader,
            scope_id,
            kind=kind,
            trust=trust,
            limit=wanted.limit,
            prepare=memories.intake.prepared,
        )
        return sorted([*found, *records], key=lambda item: item.created_at, reverse=True)

    return (await memories.database.snapshot(read))[: wanted.limit]


async def memory_numbers(memories: MemoryStores, scope_id: str) -> dict[str, Any]:
    """How many memories a scope has, by lane, kind, trust and taint."""
    lane = await memories.of(scope_id).lane(None)

    def count(reader: Reader) -> list[tuple[Any, ...]]:
        return reader.fetch_all(_NUMBERS, lane.bounds) + record_numbers(reader, scope_id)

    rows = await memories.database.snapshot(count)
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
