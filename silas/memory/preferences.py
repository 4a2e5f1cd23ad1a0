"""What the owner seems to prefer, learnt from what the owner does (spec 6.6).

1. Every outcome (approved, declined, edited, undone, dismissed, asked for) is a signal about a kind
   of action. Signals are kept in the raw lane, and only those of the owner's own acts count.
2. A pattern that repeats, and that most of the signals about its kind follow, becomes a `working`
   preference with a `behavior:` tag: at most so many new ones a day, and each only once. It names
   the signals that it comes from (`causal_refs`); `evidence` says them in words.
3. A preference becomes a default when the owner confirms it on a card. Without
   `needs_confirmation`, one that is clear enough counts as a default as it is, and stays `working`.
4. Policies and constitutional memories come before defaults, always.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from silas.approval import ApprovalToken
from silas.kernel import IdFactory, TaintLevel, format_timestamp, parse_timestamp
from silas.memory.errors import MemoryExists, MemoryInvalid
from silas.memory.models import MemoryItem, MemoryType, ReingestionTier, TrustLevel
from silas.memory.rows import COLUMNS, item_from
from silas.memory.store import MemoryStores
from silas.memory.trust import BEHAVIOR, MemoryClaim

SIGNAL = "behavior_signal"
INFERRED = "behavior_inference"
"""The `source_kind` of what was learnt from what the owner did."""
_PREFERENCES = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.scope_no = ? AND m.memory_type = 'preference' AND m.id BETWEEN ? AND ?
    AND m.taint <> 'external' AND m.source_kind <> 'model_wording' ORDER BY m.id
"""  # noqa: S608 - names of columns only
_SIGNALS = """
SELECT m.memory_id, m.content, m.created_at
FROM memory_entities AS e JOIN memory_items AS m ON m.id = e.item
WHERE e.entity = ? AND e.item BETWEEN ? AND ? AND m.source_kind = ? AND m.taint = 'owner'
    AND m.created_at >= ? ORDER BY m.id DESC
"""
_NEW_TODAY = """
SELECT count(*) FROM memory_items WHERE scope_no = ? AND memory_type = 'preference'
    AND source_kind = ? AND created_at >= ?
"""
_MOST_SHOWN = 5
_RETRACTED = f"{BEHAVIOR}plan/undo"


class PreferenceOutcome(StrEnum):
    """What became of something that Silas proposed, did or said."""

    APPROVED = "approved"
    DECLINED = "declined"
    EDIT_SELECTION = "edit_selection"
    UNDO = "undo"
    DISMISSED = "dismissed"
    ASKED = "asked"
    """The owner asked for it in words: shorter answers, say."""


_DECIDED = (
    PreferenceOutcome.APPROVED,
    PreferenceOutcome.DECLINED,
    PreferenceOutcome.EDIT_SELECTION,
    PreferenceOutcome.DISMISSED,
)
_COMPARED = {
    PreferenceOutcome.UNDO: (PreferenceOutcome.APPROVED,),  # what was undone was approved before
    PreferenceOutcome.ASKED: (PreferenceOutcome.ASKED,),
}
"""Of which outcomes a pattern must be the most; for the others, of all that were decided."""
_VERBS = {
    PreferenceOutcome.APPROVED: ("approves", "approve"),
    PreferenceOutcome.DECLINED: ("declines", "decline"),
    PreferenceOutcome.EDIT_SELECTION: ("asks for changes to", "ask for changes to"),
    PreferenceOutcome.UNDO: ("undoes", "undo"),
    PreferenceOutcome.DISMISSED: ("dismisses", "dismiss"),
    PreferenceOutcome.ASKED: ("asks for", "ask for"),
}
"""What the owner does, as agents are told of the owner, and as the owner is."""
_TO_AGENTS, _TO_OWNER = "The owner usually {} ", "You usually {} "


@dataclass(frozen=True)
class PreferencePolicy:
    """When a pattern counts."""

    repeats: int = 3
    repeats_to_propose: int = 5
    share: float = 0.75
    """How many of the outcomes about a kind of action must be the same."""
    window: timedelta = timedelta(days=30)
    most_a_day: int = 20
    needs_confirmation: bool = True


@dataclass(frozen=True)
class Behavior:
    """One thing that the owner did about a kind of action."""

    key: str
    """A short name of the kind: `plan/removes_files`."""
    kind: str
    """The same in words, for whoever reads the preference: `plans that remove files`."""
    outcome: PreferenceOutcome
    what: str
    """What it was about: the title of the plan, say."""
    signal: str | None = None
    """What has a name counts once, however often it is observed."""


class LearnedPreferences:
    """The inferred preferences of one scope, as agents and the owner see them."""

    def __init__(
        self, memories: MemoryStores, scope_id: str, *, policy: PreferencePolicy | None = None
    ) -> None:
        self._memories = memories
        self._store = memories.of(scope_id)
        self._scope_id = scope_id
        self._policy = policy or PreferencePolicy()

    async def defaults(self) -> list[MemoryItem]:
        """What agents go by: what the owner has confirmed, and rule 3."""
        confirmed = [i for i in await self._all() if i.trust_level is TrustLevel.VERIFIED]
        return confirmed if self._policy.needs_confirmation else [*confirmed, *await self._clear()]

    async def evidence(self, item: MemoryItem) -> str:
        """What a preference rests on, in words; empty for what was not inferred."""
        for pattern in _patterns(item):
            signals, of = await self._signals(pattern), await self._compared(pattern)
            if signals:
                first = parse_timestamp(signals[-1][2])
                shown = "; ".join(f"“{_what(each[1])}”" for each in signals[:_MOST_SHOWN])
                return f"{len(signals)} of {max(of, len(signals))} since {first:%d %B}: {shown}."
        return ""

    async def _clear(self) -> list[MemoryItem]:
        """What is not confirmed, and shows as clearly now as it takes to ask about it."""
        found = []
        for item in await self._all():
            if item.trust_level is TrustLevel.WORKING:
                for pattern in _patterns(item):
                    many, of = len(await self._signals(pattern)), await self._compared(pattern)
                    if many >= max(self._policy.repeats_to_propose, self._policy.share * of):
                        found.append(item)
        return found

    async def _compared(self, pattern: str) -> int:
        """How many outcomes there were of which this one must be the most."""
        tag, _, outcome = pattern.rpartition("#")
        others = _COMPARED.get(PreferenceOutcome(outcome), _DECIDED)
        return sum([len(await self._signals(f"{tag}#{other}")) for other in others])

    async def _all(self, *, tag: str | None = None) -> list[MemoryItem]:
        """The inferred preferences; with `tag`, those that have this one."""
        lane = await self._store.lane()
        rows = await self._memories.database.fetch_all(_PREFERENCES, (lane.scope_no, *lane.bounds))
        items = [item_from(self._scope_id, row) for row in rows]
        if tag is not None:
            return [item for item in items if tag in item.semantic_tags]
        return [
            item
            for item in items
            if any(name.startswith(BEHAVIOR) for name in item.semantic_tags)
            and _RETRACTED not in item.semantic_tags
        ]

    async def _signals(self, pattern: str) -> Sequence[tuple[str, str, str]]:
        """The id, the text and the time of each signal in the window, newest first."""
        lane = await self._store.lane(ReingestionTier.LOW_REINGESTION)
        since = format_timestamp(self._memories.clock.now() - self._policy.window)
        rows = await self._memories.database.fetch_all(
            _SIGNALS, (pattern, *lane.bounds, SIGNAL, since)
        )
        return [(row[0], row[1], row[2]) for row in rows]


class BehaviorPreferences(LearnedPreferences):
    """The same, learnt from what the owner does."""

    def __init__(
        self,
        memories: MemoryStores,
        scope_id: str,
        *,
        ids: IdFactory,
        policy: PreferencePolicy | None = None,
    ) -> None:
        super().__init__(memories, scope_id, policy=policy)
        self._ids = ids

    async def observe(self, seen: Behavior, *, taint: TaintLevel) -> MemoryItem | None:
        """Note one outcome; returns a preference if it shows one now."""
        if not seen.key or len(seen.key) > 100 or seen.key != seen.key.strip():
            raise MemoryInvalid("A behaviour has a short name, such as `plan/removes_files`.")
        noted = self._item(f"{seen.outcome}: {seen.what or seen.kind}", taint).model_copy(
            update={"source_kind": SIGNAL, "entity_refs": [_pattern(seen.key, seen.outcome)]}
        )
        if seen.signal is not None:
            noted = noted.model_copy(update={"memory_id": f"signal_{seen.signal}"})
        try:
            await self._store.store_raw(noted)
        except MemoryExists:
            return None
        if taint is not TaintLevel.OWNER or not await self._is_usual(seen.key, seen.outcome):
            return None
        return await self._infer(seen)

    async def proposals(self) -> list[MemoryClaim]:
        """Preferences that are clear enough to ask the owner about."""
        if not self._policy.needs_confirmation:
            return []
        found = []
        for item in await self._clear():
            verified = item.model_copy(update={"trust_level": TrustLevel.VERIFIED})
            found.append(MemoryClaim("update", self._scope_id, (verified,)))
        return found

    async def promote(self, memory_id: str, token: ApprovalToken) -> None:
        """Make a preference a default, with the owner's confirmation from the card."""
        await self._store.update(
            memory_id, taint=TaintLevel.OWNER, token=token, trust_level=TrustLevel.VERIFIED
        )

    async def retract(self) -> None:
        """Forget what an older version has inferred from undo cards, whatever became of them.

        What the owner has confirmed of it is the owner's to delete; it is a default no more.
        """
        for item in await self._all(tag=_RETRACTED):
            if item.trust_level is TrustLevel.WORKING:
                await self._store.delete(item.memory_id, taint=TaintLevel.OWNER)

    async def _is_usual(self, key: str, outcome: PreferenceOutcome) -> bool:
        pattern = _pattern(key, outcome)
        many = len(await self._signals(pattern))
        return many >= max(self._policy.repeats, self._policy.share * await self._compared(pattern))

    async def _infer(self, seen: Behavior) -> MemoryItem | None:
        tag = f"{BEHAVIOR}{seen.key}"
        if await self._all(tag=tag) or await self._new_today() >= self._policy.most_a_day:
            return None
        pattern = _pattern(seen.key, seen.outcome)
        text = f"{_TO_AGENTS.format(_VERBS[seen.outcome][0])}{seen.kind}."
        item = self._item(text, TaintLevel.OWNER).model_copy(
            update={
                "memory_type": MemoryType.PREFERENCE,
                "semantic_tags": [tag],
                "entity_refs": [pattern],
                "causal_refs": [each[0] for each in await self._signals(pattern)],
                "source_kind": INFERRED,
            }
        )
        await self._store.store(item)
        return item

    def _item(self, content: str, taint: TaintLevel) -> MemoryItem:
        now = self._memories.clock.now()
        return MemoryItem(
            memory_id=self._ids.new("mem"),
            scope_id=self._scope_id,
            content=content,
            taint=taint,
            created_at=now,
            updated_at=now,
        )

    async def _new_today(self) -> int:
        lane = await self._store.lane()
        since = format_timestamp(self._memories.clock.now() - timedelta(days=1))
        row = await self._memories.database.fetch_one(_NEW_TODAY, (lane.scope_no, INFERRED, since))
        return row[0] if row else 0


def text_for_owner(item: MemoryItem) -> str:
    """The text of a memory for its owner, whom it calls “you” where Silas has inferred it.

    What is kept says “the owner”: agents read that.
    """
    if item.source_kind == INFERRED:
        for theirs, yours in _VERBS.values():
            start = _TO_AGENTS.format(theirs)
            if item.content.startswith(start):
                return _TO_OWNER.format(yours) + item.content.removeprefix(start)
    return item.content


def _pattern(key: str, outcome: PreferenceOutcome) -> str:
    return f"{BEHAVIOR}{key}#{outcome}"


def _patterns(item: MemoryItem) -> Iterable[str]:
    return (name for name in item.entity_refs if name.startswith(BEHAVIOR))


def _what(signal: str) -> str:
    return signal.partition(": ")[2] or signal
