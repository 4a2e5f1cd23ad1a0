"""What is remembered in one scope, for its owner: to look at, to put right, and to forget.

1. A memory is shown with where it came from, how sure Silas is of it, and whether it is pinned, in
   words (`origin_of`, `sureness_of`). Looking at one is not using it: it is not counted.
2. Lists are read in pages, the newest first, by the ids of their rows. What is remembered is one
   list; the other one has what was said and what tools gave, also the passages of it that left a
   conversation and may come back into it.
3. A correction is the owner's own words, which replace the memory whole: nothing of what was there
   before has a part in it. It can be undone like every change. What the owner has confirmed word
   for word is not corrected but forgotten and told anew.
4. Forgetting a memory takes along what was said in the same words, in the conversation and its
   records. `to_forget` says what goes before anything does. What the owner has confirmed goes only
   with a proof over exactly those memories.
5. A secret is not taken as a correction: it belongs into the vault, and memory keeps its name.
"""

import contextlib
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field

from silas.approval import ApprovalToken
from silas.gates.risk import RiskLevel
from silas.kernel import IdFactory, TaintLevel
from silas.kernel.models import Data
from silas.kernel.told_secrets import told_secret
from silas.memory.changes import MemoryChanges
from silas.memory.errors import MemoryExists, MemoryInvalid, MemoryUnknown
from silas.memory.forgetting import Forgetting, Forgotten, Selection
from silas.memory.models import (
    MODEL_WORDING,
    PASSAGES,
    MemoryChange,
    MemoryItem,
    MemoryQuery,
    MemoryQueryStrategy,
    MemoryType,
    ReingestionTier,
    Traces,
    TrustLevel,
)
from silas.memory.preferences import (
    INFERRED,
    SIGNAL,
    LearnedPreferences,
    PreferencePolicy,
    text_for_owner,
)
from silas.memory.question import content_words
from silas.memory.rows import COLUMNS, PASSAGE_KINDS, item_from, records_before
from silas.memory.service import (
    MemoryListing,
    MemoryRetriever,
    Recalled,
    list_memories,
    memory_numbers,
)
from silas.memory.store import MemoryStores
from silas.memory.trust import CONFIRMATION, MemoryClaim
from silas.review import Approval, Decisions, OwnersWord, QuestionKind, ShownQuestion
from silas.storage import Reader

if TYPE_CHECKING:  # importing it needs the extra `vector`
    from silas.memory.vectors import VectorIndex

VAULT_NOTE = "vault_note"
"""The `source_kind` of what says under which name a secret is in the vault."""
MAX_PAGE = 100
_NAME_ID = "mem_owner_name"
_MAX_TOKENS = 20_000
_MOST_FOUND = 50
_LAST = 1 << 62
_NOT_A_PAGE = "This list does not go on there. Open it anew."
_CONFIRMED = (
    "You have confirmed this memory word for word, so it is not changed. Forget it, and say it "
    "anew."
)
_FOR_THE_VAULT = (
    "That looks like a secret, and memory is no place for one. `silas secrets set {name}` puts it "
    "into the vault."
)
_PAGE = f"""
SELECT m.id, {COLUMNS} FROM memory_items AS m
WHERE m.id BETWEEN ? AND ? AND m.id < ? AND m.source_kind NOT IN ({PASSAGE_KINDS})
ORDER BY m.id DESC LIMIT ?
"""  # noqa: S608 - names of columns and kinds only
_SAID_PAGE = f"""
SELECT m.id, {COLUMNS} FROM memory_items AS m
WHERE m.id BETWEEN ? AND ? AND m.id < ? ORDER BY m.id DESC LIMIT ?
"""  # noqa: S608 - names of columns only
_PASSAGE_PAGE = f"""
SELECT m.id, {COLUMNS} FROM memory_items AS m
WHERE m.id BETWEEN ? AND ? AND m.id < ? AND m.source_kind IN ({PASSAGE_KINDS})
ORDER BY m.id DESC LIMIT ?
"""  # noqa: S608 - names of columns and kinds only
_ORIGINS = {
    MODEL_WORDING: "Worded by a model",
    INFERRED: "Learnt from your decisions",
    SIGNAL: "A decision of yours",
    VAULT_NOTE: "You put a secret into the vault",
    "agent_response_raw": "What Silas answered",
    "tool_output_raw": "What a tool gave, or a page that was read",
    "research_query_raw": "What was looked up",
    "context": "From an earlier part of the conversation",
}
_SURENESS = {
    INFERRED: "A guess: you have not confirmed it",
    MODEL_WORDING: "Unsure: these are not your words",
    # Kept from what went on, and nobody's statement.
    **dict.fromkeys(
        ("agent_response_raw", "tool_output_raw", "research_query_raw", "context"), "As it was then"
    ),
}
_SAID = {
    TaintLevel.OWNER: "Your words",
    TaintLevel.AUTH: "Words of somebody whom you know",
    TaintLevel.EXTERNAL: "Text that is not yours",
}
_WORDS = re.compile(r"\w+")

Id = Annotated[str, Field(min_length=1, max_length=300)]
Ids = Annotated[tuple[Id, ...], Field(max_length=MAX_PAGE)]
Text = Annotated[str, Field(min_length=1, max_length=10_000)]
Words = Annotated[str, Field(min_length=1, max_length=2000)]
Changed = Callable[[Sequence[str]], Awaitable[None]]


async def nobody_shows(_memory_ids: Sequence[str]) -> None:
    """No conversation is open that could show them."""


class ShownMemory(Data):
    """One memory, with what a person wants to know about it."""

    memory: MemoryItem
    text: str
    """What it says, as its owner reads it."""
    origin: str
    sureness: str
    pinned: bool = False
    evidence: str = ""
    """What a preference was learnt from; only where one memory is shown."""
    relevance: float | None = None
    correctable: bool = False


class MemoryPage(Data):
    """Some memories, and where the list goes on; None: it ends here."""

    memories: list[ShownMemory]
    next: str | None = None


class ToForget(Data):
    """What would be forgotten, and what has to be signed for what the owner has confirmed."""

    memories: list[ShownMemory]
    """Everything that goes: memories, and what was said in the same words."""
    said: int
    """How many of these are passages of a conversation."""
    confirmed: list[str]
    """The ids of those that the owner has confirmed."""
    claim_id: str = ""
    claim_hash: str = ""
    risk: RiskLevel = RiskLevel.MEDIUM
    taint: TaintLevel = TaintLevel.OWNER


class _Place(NamedTuple):
    """How far a list was read: rows, raw records and passages from these numbers on."""

    row: int = _LAST
    record: int = _LAST
    passage: int = _LAST


class MemoryCuration:
    """One scope's memory as its owner sees and changes it."""

    def __init__(
        self,
        memories: MemoryStores,
        retriever: MemoryRetriever,
        scope_id: str,
        *,
        decisions: Decisions,
        ids: IdFactory,
        policy: PreferencePolicy,
        index: "VectorIndex | None" = None,
        traces: Traces | None = None,
        changed: Changed = nobody_shows,
    ) -> None:
        """`changed` is told the ids of memories that are not what they were."""
        self._memories = memories
        self._store = memories.of(scope_id)
        self._retriever = retriever
        self._scope_id = scope_id
        self._decisions = decisions
        self._ids = ids
        self._index = index
        self._changes = MemoryChanges(memories)
        self._forgetting = Forgetting(memories, scope_id, index=index, traces=traces)
        self._learned = LearnedPreferences(memories, scope_id, policy=policy)
        self._changed = changed

    async def page(
        self,
        *,
        raw: bool = False,
        after: Annotated[str, Field(max_length=60)] | None = None,
        limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50,
    ) -> MemoryPage:
        """The newest memories, or those after a place in the list (2)."""
        place = _place(after)
        rows = await self._rows(place, raw=raw, limit=limit + 1)
        shown = rows[:limit]
        for at, _ in shown:
            place = _Place(*map(min, place, at))
        more = ".".join(map(str, place)) if len(rows) > limit else None
        return MemoryPage(memories=await self._shown([item for _, item in shown]), next=more)

    async def newest(
        self,
        *,
        raw: bool = False,
        kind: MemoryType | None = None,
        trust: TrustLevel | None = None,
        limit: Annotated[int, Field(ge=1, le=10_000)] = 20,
    ) -> list[MemoryItem]:
        """The newest memories of one kind or trust."""
        wanted = MemoryListing(raw=raw, memory_type=kind, trust_level=trust, limit=limit)
        return await list_memories(self._memories, self._scope_id, wanted)

    async def search(
        self,
        *,
        question: Words,
        strategy: MemoryQueryStrategy = MemoryQueryStrategy.FUSED,
        raw: bool = False,
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> MemoryPage:
        """The memories that fit best, the best first; none counts as used (1)."""
        if self._index is not None:
            await self._index.catch_up()
        query = MemoryQuery(
            query=question, strategy=strategy, max_results=_MOST_FOUND, max_tokens=_MAX_TOKENS
        )
        recalled = await self._retriever.recall(query, self._scope_id, counted=False)
        found = [each for each in recalled if _is_passage(each.item) == raw]
        if raw:
            said = await self._store.search_raw(question, limit)
            found = [*(Recalled(item, 1 / n) for n, item in enumerate(said, 1)), *found]
        found = found[:limit]
        shown = await self._shown([each.item for each in found])
        return MemoryPage(
            memories=[
                line.model_copy(update={"relevance": each.relevance})
                for line, each in zip(shown, found, strict=True)
            ]
        )

    async def show(self, *, memory_id: Id) -> ShownMemory:
        """One memory; the beginning of its id is enough if no other begins so."""
        item = await self._found(memory_id)
        [line] = await self._shown([item])
        return line.model_copy(update={"evidence": await self._learned.evidence(item)})

    async def numbers(self) -> dict[str, Any]:
        """How much is remembered, of which kind, and how far it is trusted."""
        return await memory_numbers(self._memories, self._scope_id)

    async def correct(self, *, memory_id: Id, text: Text) -> MemoryChange:
        """Replace a memory by the owner's own words (3)."""
        told = told_secret(text)
        if told is not None:
            raise MemoryInvalid(_FOR_THE_VAULT.format(name=told.name))
        item = await self._found(memory_id)
        if item.trust_level is not TrustLevel.WORKING:
            raise MemoryInvalid(_CONFIRMED)
        key = self._ids.new("correction")
        change = await self._changes.replace(self._scope_id, item.memory_id, text=text, key=key)
        await self._changed([item.memory_id])
        return change

    async def changes(
        self, *, limit: Annotated[int, Field(ge=1, le=1000)] = 20
    ) -> list[MemoryChange]:
        """What was changed, the newest first."""
        return await self._changes.newest(self._scope_id, limit)

    async def undo(self, *, change_id: Id) -> MemoryChange:
        """Put back what was there before a change."""
        done = await self._changes.undo(self._scope_id, change_id)
        await self._changed([done.memory_id])
        return done

    async def to_forget(
        self,
        *,
        memory_ids: Ids = (),
        query: Words | None = None,
        source: Words | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> ToForget:
        """What would go (4). Memories that are named take along what was said in their words."""
        found = await self._chosen(await self._selection(memory_ids, query, source, since, until))
        claim = self.claim(found)
        going = ToForget(
            memories=await self._shown(found),
            said=sum(map(_was_said, found)),
            confirmed=[item.memory_id for item in claim.items],
        )
        if not claim.items:
            return going
        return going.model_copy(update={"claim_id": claim.id, "claim_hash": _hash(claim)})

    async def forget(
        self,
        *,
        memory_ids: Ids = (),
        query: Words | None = None,
        source: Words | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Forgotten:
        """Forget it for good; what the owner has confirmed stays, and is named."""
        selection = await self._selection(memory_ids, query, source, since, until)
        return await self._forget(selection)

    async def forget_confirmed(
        self, memory_ids: Sequence[str], word: OwnersWord, *, question_id: str, claim_hash: str
    ) -> Forgotten:
        """The same with the owner's word over exactly what was confirmed (4)."""
        selection = await self._selection(memory_ids, None, None, None, None)
        claim = self.claim(await self._chosen(selection))
        if not claim.items or _hash(claim) != claim_hash:
            raise MemoryInvalid("What you confirm is not what is there any more. Look at it again.")
        tokens = await self._decisions.decide(
            _forget_question(claim, question_id).asked(word.decision),
            word.proof,
            record=lambda _tx, _tokens: None,
            entries=[],
            approve=[Approval(claim, CONFIRMATION)],
        )
        return await self._forget(selection, tokens[claim.id])

    async def forget_with(
        self, token: ApprovalToken | None, memory_ids: Sequence[str], **chosen: Any
    ) -> Forgotten:
        """The same with a token for what was confirmed; `chosen` is as for `forget`."""
        given = {"query": None, "source": None, "since": None, "until": None, **chosen}
        return await self._forget(await self._selection(memory_ids, **given), token)

    def claim(self, found: Sequence[MemoryItem]) -> MemoryClaim:
        """What the owner is asked to confirm before these are forgotten."""
        trusted = tuple(item for item in found if item.trust_level is not TrustLevel.WORKING)
        return MemoryClaim("forget", self._scope_id, trusted)

    async def note_secret(self, name: str, label: str) -> None:
        """Remember under which name a secret is in the vault, and nothing of it (5)."""
        memory_id = f"mem_vault{hashlib.sha256(name.encode()).hexdigest()[:26]}"
        if await self._store.get(memory_id) is not None:
            return
        text = f"Your {label} is in the vault, under the name {name}."
        note = self._own(memory_id, text, kind=MemoryType.FACT, source=VAULT_NOTE)
        await self._store.store(note)

    async def note_name(self, name: str) -> None:
        """Remember what the owner wants to be called, as the owner typed it."""
        text = f"My name is {name}"
        if await self._store.get(_NAME_ID) is not None:
            with contextlib.suppress(MemoryExists, MemoryInvalid):
                await self.correct(memory_id=_NAME_ID, text=text)
            return
        await self._store.store(self._own(_NAME_ID, text, kind=MemoryType.PROFILE))

    def _own(
        self, memory_id: str, text: str, *, kind: MemoryType, source: str = "memory_op"
    ) -> MemoryItem:
        now = self._memories.clock.now()
        return MemoryItem(
            memory_id=memory_id,
            scope_id=self._scope_id,
            content=text,
            memory_type=kind,
            taint=TaintLevel.OWNER,
            created_at=now,
            updated_at=now,
            source_kind=source,
        )

    async def _forget(self, selection: Selection, token: ApprovalToken | None = None) -> Forgotten:
        going = [item.memory_id for item in await self._forgetting.preview(selection)]
        done = await self._forgetting.forget(selection, token=token)
        await self._changed([name for name in going if name not in done.kept])
        return done

    async def _selection(
        self,
        memory_ids: Sequence[str],
        query: str | None,
        source: str | None,
        since: datetime | None,
        until: datetime | None,
    ) -> Selection:
        named = [await self._store.find(name) for name in memory_ids]
        ids = [
            item.memory_id if item else name for name, item in zip(memory_ids, named, strict=True)
        ]
        for item in named:
            ids += [] if item is None else await self._said_like(item)
        return Selection(tuple(dict.fromkeys(ids)), query, source, since, until)

    async def _chosen(self, selection: Selection) -> list[MemoryItem]:
        found = await self._forgetting.preview(selection)
        return sorted(found, key=_was_said)

    async def _said_like(self, item: MemoryItem) -> list[str]:
        """The records of what was said in the words of a memory: those hold it as well (4)."""
        if _was_said(item) or not content_words(item.content):
            return []
        words = _folded(item.content)
        found = await self._forgetting.preview(Selection(query=item.content))
        return [
            each.memory_id for each in found if _was_said(each) and words in _folded(each.content)
        ]

    async def _found(self, memory_id: str) -> MemoryItem:
        item = await self._store.find(memory_id)
        if item is None:
            raise MemoryUnknown(f"There is no memory {memory_id!r} here. Run `silas memory list`.")
        return item

    async def _shown(self, items: Sequence[MemoryItem]) -> list[ShownMemory]:
        pinned = {item.memory_id for item in await self._learned.defaults()} if items else set()
        return [
            ShownMemory(
                memory=item,
                text=text_for_owner(item),
                origin=origin_of(item),
                sureness=sureness_of(item),
                pinned=item.memory_id in pinned,
                correctable=_is_correctable(item),
            )
            for item in items
        ]

    async def _rows(
        self, place: _Place, *, raw: bool, limit: int
    ) -> list[tuple[_Place, MemoryItem]]:
        """Rows and raw records from a place on, each with its own, the newest first."""
        active = await self._store.lane(ReingestionTier.ACTIVE)
        low = await self._store.lane(ReingestionTier.LOW_REINGESTION)

        def read(reader: Reader) -> list[tuple[_Place, MemoryItem]]:
            if not raw:
                rows = reader.fetch_all(_PAGE, (*active.bounds, place.row, limit))
                return [(_Place(row=row[0]), item_from(self._scope_id, row[1:])) for row in rows]
            rows = reader.fetch_all(_SAID_PAGE, (*low.bounds, place.row, limit))
            found = [(_Place(row=row[0]), item_from(self._scope_id, row[1:])) for row in rows]
            rows = reader.fetch_all(_PASSAGE_PAGE, (*active.bounds, place.passage, limit))
            found += [(_Place(passage=row[0]), item_from(self._scope_id, row[1:])) for row in rows]
            records = records_before(
                reader,
                self._scope_id,
                place.record,
                limit=limit,
                prepare=self._memories.intake.prepared,
            )
            found += [(_Place(record=number), item) for number, item in records]
            return sorted(found, key=lambda pair: pair[1].created_at, reverse=True)

        return (await self._memories.database.snapshot(read))[:limit]


def origin_of(item: MemoryItem) -> str:
    """Where a memory came from, in words; its date stands beside it."""
    known = _ORIGINS.get(item.source_kind)
    if known is None:
        return _SAID[item.taint]
    foreign = item.taint is TaintLevel.EXTERNAL
    return f"{known}, from text that is not yours" if foreign else known


def sureness_of(item: MemoryItem) -> str:
    """How far a memory is relied on, in words."""
    if item.trust_level is TrustLevel.CONSTITUTIONAL:
        return "Certain: you have confirmed it, and nothing changes it"
    if item.trust_level is TrustLevel.VERIFIED:
        return "Sure: you have confirmed it"
    if item.taint is TaintLevel.EXTERNAL:
        return "Not trusted: it is somebody else's text"
    if item.source_kind in _SURENESS:
        return _SURENESS[item.source_kind]
    return "As you said it" if item.taint is TaintLevel.OWNER else "Unsure: nobody has confirmed it"


def _forget_question(claim: MemoryClaim, question_id: str) -> ShownQuestion:
    """What is decided when confirmed memories are forgotten: a tap, and once more."""
    return ShownQuestion(
        kind=QuestionKind.MEMORY,
        question_id=question_id,
        hashes={claim.id: _hash(claim)},
        risk=RiskLevel.MEDIUM,
        taint=TaintLevel.OWNER,
        scope=CONFIRMATION,
        intact=True,
    )


def _hash(claim: MemoryClaim) -> str:
    return hashlib.sha256(claim.plan_bytes()).hexdigest()


def _is_correctable(item: MemoryItem) -> bool:
    return item.trust_level is TrustLevel.WORKING and not _was_said(item) and not _is_passage(item)


def _is_passage(item: MemoryItem) -> bool:
    return item.source_kind in PASSAGES


def _was_said(item: MemoryItem) -> bool:
    """Whether it is a record of what was said: that can be forgotten, and is never changed."""
    return item.reingestion_tier is ReingestionTier.LOW_REINGESTION


def _folded(text: str) -> str:
    return f" {' '.join(_WORDS.findall(text.casefold()))} "


def _place(after: str | None) -> _Place:
    if after is None:
        return _Place()
    try:
        row, record, passage = map(int, after.split("."))
    except ValueError as error:
        raise MemoryInvalid(_NOT_A_PAGE) from error
    place = _Place(row, record, passage)
    if not all(0 <= number <= _LAST for number in place):
        raise MemoryInvalid(_NOT_A_PAGE)
    return place
