"""What the owner seems to prefer, learnt from what the owner does (spec 6.6).

1. Every outcome (approved, declined, edited, undone, dismissed) is a signal. Signals are kept in
   the raw lane, and only those of the owner's own acts count.
2. A pattern that repeats becomes a `working` preference with a `behavior:` tag: at most so many new
   ones a day, and each only once.
3. A preference becomes a default only when the owner confirms it on a card.
4. Defaults are `verified` preferences. Policies and constitutional memories come first, always.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from silas.approval import ApprovalToken
from silas.kernel import IdFactory, TaintLevel, format_timestamp
from silas.memory.confirmations import MemoryClaim
from silas.memory.errors import MemoryExists, MemoryInvalid
from silas.memory.models import MemoryItem, MemoryType, ReingestionTier, TrustLevel
from silas.memory.rows import COLUMNS, item_from
from silas.memory.store import Memories
from silas.memory.trust import BEHAVIOR

SIGNAL = "behavior_signal"
_PREFERENCES = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.scope_no = ? AND m.memory_type = 'preference' AND m.id BETWEEN ? AND ?
    AND m.taint <> 'external' ORDER BY m.id
"""  # noqa: S608 - names of columns only
_SIGNALS = """
SELECT count(*) FROM memory_entities AS e JOIN memory_items AS m ON m.id = e.item
WHERE e.entity = ? AND e.item BETWEEN ? AND ? AND m.source_kind = ? AND m.taint = 'owner'
    AND m.created_at >= ?
"""
_NEW_TODAY = """
SELECT count(*) FROM memory_items WHERE scope_no = ? AND memory_type = 'preference'
    AND source_kind = ? AND created_at >= ?
"""


class Outcome(StrEnum):
    """What became of something that Silas proposed or did."""

    APPROVED = "approved"
    DECLINED = "declined"
    EDIT_SELECTION = "edit_selection"
    UNDO = "undo"
    DISMISSED = "dismissed"


@dataclass(frozen=True)
class PreferencePolicy:
    """When a pattern counts."""

    repeats: int = 3
    repeats_to_propose: int = 5
    window: timedelta = timedelta(days=30)
    most_a_day: int = 20


class BehaviorPreferences:
    """The inferred preferences of one scope."""

    def __init__(
        self,
        memories: Memories,
        scope_id: str,
        *,
        ids: IdFactory,
        policy: PreferencePolicy | None = None,
        worded: Callable[[str, Outcome], str] | None = None,
    ) -> None:
        self._memories = memories
        self._keeping = memories.keeping
        self._store = memories.of(scope_id)
        self._scope_id = scope_id
        self._ids = ids
        self._policy = policy or PreferencePolicy()
        self._worded = worded or _worded

    async def observe(
        self, key: str, outcome: Outcome, *, taint: TaintLevel, signal: str | None = None
    ) -> MemoryItem | None:
        """Note one outcome (`approval/archive`, say); returns a preference if it shows one now.

        What has a name (`signal`) counts once, however often it is noted.
        """
        if not key or len(key) > 100 or key != key.strip():
            raise MemoryInvalid("A behaviour has a short name, such as `approval/archive`.")
        pattern = f"{BEHAVIOR}{key}#{outcome}"
        noted = self._item(f"{outcome}: {key}", taint).model_copy(
            update={"source_kind": SIGNAL, "entity_refs": [pattern]}
        )
        if signal is not None:
            noted = noted.model_copy(update={"memory_id": f"signal_{signal}"})
        try:
            await self._store.store_raw(noted)
        except MemoryExists:
            return None
        if taint is not TaintLevel.OWNER or await self._count(pattern) < self._policy.repeats:
            return None
        return await self._infer(key, outcome)

    async def verified(self) -> list[MemoryItem]:
        """The defaults that the owner has confirmed."""
        return await verified_preferences(self._memories, self._scope_id)

    async def proposals(self) -> list[MemoryClaim]:
        """Preferences that are clear enough to ask the owner about."""
        found = []
        for item in await self._all():
            patterns = [name for name in item.entity_refs if name.startswith(BEHAVIOR)]
            counts = [await self._count(pattern) for pattern in patterns]
            clear = max(counts, default=0) >= self._policy.repeats_to_propose
            if item.trust_level is TrustLevel.WORKING and clear:
                verified = item.model_copy(update={"trust_level": TrustLevel.VERIFIED})
                found.append(MemoryClaim("update", self._scope_id, (verified,)))
        return found

    async def promote(self, memory_id: str, token: ApprovalToken) -> None:
        """Make a preference a default, with the owner's confirmation from the card."""
        await self._store.update(
            memory_id, taint=TaintLevel.OWNER, token=token, trust_level=TrustLevel.VERIFIED
        )

    async def _infer(self, key: str, outcome: Outcome) -> MemoryItem | None:
        tag = f"{BEHAVIOR}{key}"
        known = [item for item in await self._all() if tag in item.semantic_tags]
        if known or await self._new_today() >= self._policy.most_a_day:
            return None
        item = self._item(self._worded(key, outcome), TaintLevel.OWNER).model_copy(
            update={
                "memory_type": MemoryType.PREFERENCE,
                "semantic_tags": [tag],
                "entity_refs": [f"{tag}#{outcome}"],
                "source_kind": "behavior_inference",
            }
        )
        await self._store.store(item)
        return item

    def _item(self, content: str, taint: TaintLevel) -> MemoryItem:
        now = self._keeping.clock.now()
        return MemoryItem(
            memory_id=self._ids.new("mem"),
            scope_id=self._scope_id,
            content=content,
            taint=taint,
            created_at=now,
            updated_at=now,
        )

    async def _all(self) -> list[MemoryItem]:
        return await _preferences(self._memories, self._scope_id)

    async def _count(self, pattern: str) -> int:
        lane = await self._store.lane(ReingestionTier.LOW_REINGESTION)
        since = format_timestamp(self._keeping.clock.now() - self._policy.window)
        row = await self._keeping.database.fetch_one(
            _SIGNALS, (pattern, *lane.bounds, SIGNAL, since)
        )
        return row[0] if row else 0

    async def _new_today(self) -> int:
        lane = await self._store.lane()
        since = format_timestamp(self._keeping.clock.now() - timedelta(days=1))
        row = await self._keeping.database.fetch_one(
            _NEW_TODAY, (lane.scope_no, "behavior_inference", since)
        )
        return row[0] if row else 0


async def verified_preferences(memories: Memories, scope_id: str) -> list[MemoryItem]:
    """The defaults of this scope: learnt from what its owner did, and confirmed by him."""
    every = await _preferences(memories, scope_id)
    return [item for item in every if item.trust_level is TrustLevel.VERIFIED]


async def _preferences(memories: Memories, scope_id: str) -> list[MemoryItem]:
    lane = await memories.of(scope_id).lane()
    rows = await memories.keeping.database.fetch_all(_PREFERENCES, (lane.scope_no, *lane.bounds))
    items = [item_from(scope_id, row) for row in rows]
    return [i for i in items if any(tag.startswith(BEHAVIOR) for tag in i.semantic_tags)]


def _worded(key: str, outcome: Outcome) -> str:
    return f"The owner has repeatedly {_VERBS[outcome]} {key.replace('/', ': ').replace('_', ' ')}."


_VERBS = {
    Outcome.APPROVED: "approved",
    Outcome.DECLINED: "declined",
    Outcome.EDIT_SELECTION: "edited",
    Outcome.UNDO: "undone",
    Outcome.DISMISSED: "dismissed",
}
