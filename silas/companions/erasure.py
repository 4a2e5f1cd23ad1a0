"""Erasure: what companions have said and read is taken away, because the owner wants it.

1. A wish names a companion, a category, a span of time, a word, or several of these together; what
   is erased fits all of them. A companion that is named alone is forgotten whole.
2. `SAID` is what companions have said, read or asked. A row of it that fits is gone; what belongs
   to it (a payload, the sources of a report, an answer) goes with it, and so does every run that is
   going on just then: it leaves nothing behind.
3. Nobody can tell which words of a companion came from which of its categories: of a companion that
   has, or had, the category, everything that it has said goes.
4. What was made out of the erased goes as well: summaries that cover it, and traces and plans of a
   later time, which repeat what was remembered.
5. `KEPT` is what a companion is made of. A word in it is written over, and nothing else changes; a
   goal or a wish that holds it goes whole.
6. Of a message a tombstone stays, without a word in it, so that its place in the log is not given
   away twice; retention takes it when its time is over.
7. Cards of the erased actions lose what they show, tokens the bytes that were approved. What was
   signed stays as it was signed: it holds digests.
8. What companions have left elsewhere (cards, the bus, the conversation with Silas) goes first, and
   once more afterwards: whatever dies in between, asking again finds everything that is left.
9. A preview is the same transaction, taken back. A receipt counts what went, names what stays, and
   holds no erased word, only its digest. It is written in the transaction that erases.
10. The files are written anew without what was deleted; where that cannot be done, the receipt says
   so.
"""

import contextlib
import json
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from silas.companions import models
from silas.companions.ids import digest
from silas.companions.messages import (
    FORGOTTEN,
    ActionPlan,
    AgentLink,
    AgentMessage,
    AgentMessageMetadata,
    AgentMessagePayload,
    AgentOperation,
    AgentPersonaHead,
    AgentPersonaVersion,
    AgentPromptItem,
    AgentPromptResponse,
    AgentReport,
    AgentReportHead,
    CompactionJob,
    Diagnostic,
    EarlierDefinition,
    KeptDefinition,
    NotificationProvenance,
    ReportSourceRef,
    RunTrace,
    WakeRun,
)
from silas.companions.models import (
    AgentSlots,
    AgentState,
    AgentSubscription,
    AgentTimer,
    BudgetReservation,
    BudgetWindow,
    Companion,
    ErasureReceipt,
    InteractiveSession,
    ModelGrant,
    ModelRule,
    ProjectionPolicy,
    ProviderPrivacyPolicy,
    StopSwitch,
    WakeStatus,
)
from silas.companions.store import TABLES, CompanionStore, upsert
from silas.companions.tools.catalogue import companion_tools
from silas.companions.words import RECORDS
from silas.kernel import format_timestamp, parse_timestamp
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Durability, Transaction

SAID: Mapping[type[Data], str] = MappingProxyType(
    {
        ReportSourceRef: "captured_at",
        AgentReportHead: "updated_at",
        AgentReport: "created_at",
        AgentPromptResponse: "responded_at",
        AgentPromptItem: "created_at",
        AgentLink: "created_at",
        AgentMessage: "created_at",
        AgentMessagePayload: "created_at",
        CompactionJob: "created_at",
        ActionPlan: "created_at",
        AgentOperation: "created_at",
        RunTrace: "started_at",
        Diagnostic: "created_at",
        InteractiveSession: "opened_at",
        WakeRun: "queued_at",
    }
)
"""Rule 2, and where each row says when it was. The order lets go of what names others first."""
KEPT: tuple[type[Data], ...] = (
    Companion,
    AgentState,
    AgentSubscription,
    AgentTimer,
    AgentPersonaVersion,
    AgentPersonaHead,
    KeptDefinition,
    EarlierDefinition,
    BudgetWindow,
    BudgetReservation,
    ModelGrant,
    ModelRule,
    ProviderPrivacyPolicy,
    ProjectionPolicy,
    StopSwitch,
)
"""Rule 5."""
WITHOUT_WORDS: tuple[type[Data], ...] = (NotificationProvenance, ErasureReceipt)
"""Keys and digests alone."""
_OF_A_WHOLE = (
    AgentPersonaHead,
    AgentPersonaVersion,
    BudgetWindow,
    BudgetReservation,
    KeptDefinition,
    EarlierDefinition,
    AgentTimer,
    ModelGrant,
)
_DERIVED: Mapping[type[Data], str] = MappingProxyType(
    {RunTrace: "started_at", ActionPlan: "created_at"}
)
_ERASED = "erased"
_ACTION = '"type":"companion_action"'
_TRACE = "trace_"
_RUNNING = WakeStatus.RUNNING.value
_LEAST = 3
_SUBSCRIPTIONS = "SELECT id FROM agent_subscriptions WHERE agent_id = ?"
_STAYS = (
    "Backups that were made before hold it still; delete them, or wait until they are over.",
    "What was signed, and the audit log, hold digests and ids: they prove what was decided.",
)
_STAYS_IN_JOURNAL = "Your journal, which is yours: companions can read it there again."
_STAYS_IN_TALK = "What you said to Silas itself, and its memory: `silas memory forget`."
_STAYS_IN_FILE = (
    "Parts of the files that are not used any more may hold it still: somebody else has them open. "
    "Stop Silas and do it once more."
)
_STAYS_REWORDED = "What was said in other words: no search can find that. Forget the companion."


class ErasureWish(Data):
    """What is to be forgotten. Everything that is given has to fit (rule 1)."""

    agent_id: str | None = None
    category_id: str | None = None
    since: UtcDatetime | None = None
    until: UtcDatetime | None = None
    words: Annotated[str, Field(max_length=200)] | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        given = (self.agent_id, self.category_id, self.since, self.until, self.words)
        if all(each is None for each in given):
            raise ValueError("name a companion, a category, a span of time or a word")
        if self.words is not None and len(_plain(self.words)) < _LEAST:
            raise ValueError(f"a word needs at least {_LEAST} letters, or almost everything has it")
        if self.since and self.until and self.until <= self.since:
            raise ValueError("the span ends before it begins")
        return self

    @property
    def whole(self) -> bool:
        """Whether a companion is forgotten with everything that it is made of."""
        return self.agent_id is not None and not self.category_id and not self.part

    @property
    def part(self) -> bool:
        """Whether only some of what was said goes."""
        return any(each is not None for each in (self.since, self.until, self.words))

    def in_span(self, at: datetime) -> bool:
        """Whether this moment lies in the span; without one, always."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


@dataclass(frozen=True)
class ErasedElsewhere:
    """What another place is told: of whom, which of their actions, and what is wished."""

    agent_ids: frozenset[str]
    operation_ids: frozenset[str]
    message_ids: frozenset[str]
    """What the owner has said to them in another conversation, by its id."""
    wish: ErasureWish
    really: bool = True
    """False: it is only counted."""

    @cached_property
    def holds(self) -> Callable[[str], bool]:
        """Whether a text holds the word; without one, never."""
        return _matcher(self.wish.words)

    @property
    def everything(self) -> bool:
        """Whether all of theirs goes, whatever is in it."""
        return not self.wish.part

    def fits(self, text: str) -> bool:
        """Whether this JSON goes: all of theirs, the erased actions', or what holds the word."""
        try:
            value = json.loads(text)
        except ValueError:
            return True  # nobody can say what is in it
        mine = _any(value, self._is_theirs)
        return mine and (self.everything or self._is_named(value) or _any(value, self.holds))

    def fits_word(self, agent_id: str | None, text: str, at: datetime) -> bool:
        """Whether a word of a companion's goes that was told at that moment.

        With `None` nobody knows whose it is: it counts as theirs.
        """
        mine = agent_id is None or agent_id in self.agent_ids
        told = self.wish.words is None or self.holds(text)
        return mine and bool(self.agent_ids) and told and self.wish.in_span(at)

    def fits_action(self, text: str) -> bool:
        """The same, if it is an action of a companion's."""
        return _ACTION in text and self.fits(text)

    def _is_theirs(self, text: str) -> bool:
        return text in self.agent_ids

    def _is_named(self, value: Any) -> bool:
        return _any(value, lambda text: text in self.operation_ids)


Elsewhere = Callable[[ErasedElsewhere], Awaitable[Mapping[str, int]]]
"""Erases what companions have left outside of `agent.db`; returns how much of what."""
Wipe = Callable[[], Awaitable[bool]]
"""Writes the files anew without what was deleted; False if that cannot be done now (rule 10)."""


@dataclass
class _Erased:
    removed: Counter[str] = field(default_factory=Counter)
    redacted: Counter[str] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    messages: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)
    concerned: set[str] = field(default_factory=set)
    """Whoever may have left something elsewhere, also if nothing of theirs is here any more."""

    def elsewhere(self, wish: ErasureWish, *, really: bool = True) -> ErasedElsewhere:
        """The same for another place."""
        return ErasedElsewhere(
            frozenset(self.agents | self.concerned),
            frozenset(self.operations),
            frozenset(self.messages),
            wish,
            really,
        )


class _OnlyLooking(Exception):
    """Takes a preview back."""


class Erasure:
    """Erases, or says what would be erased."""

    def __init__(
        self,
        store: CompanionStore,
        *,
        elsewhere: Sequence[Elsewhere] = (),
        wipe: Wipe | None = None,
        call_off: Callable[[str], object] = lambda agent_id: None,
        fence: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._store = store
        self._elsewhere = elsewhere
        self._wipe = wipe
        self._call_off = call_off
        self._fence = fence

    async def preview(self, wish: ErasureWish) -> ErasureReceipt:
        """What would go (rule 9); nothing is changed."""
        found = await self._look(wish)
        others = await self._everywhere(found.elsewhere(wish, really=False))
        return self._receipt(wish, found, others, done=False)

    async def _look(self, wish: ErasureWish) -> _Erased:
        found: list[_Erased] = []

        def look(tx: Transaction) -> None:
            found.append(_erase_in(tx, self._store, wish))
            raise _OnlyLooking

        with contextlib.suppress(_OnlyLooking):
            await self._store.transaction(look)
        return found[-1]

    async def erase(self, wish: ErasureWish) -> ErasureReceipt:
        """Let it go, for good; the receipt stays (rules 8 and 9)."""
        others = await self._everywhere((await self._look(wish)).elsewhere(wish))

        def write(tx: Transaction) -> tuple[_Erased, ErasureReceipt]:
            gone = _erase_in(tx, self._store, wish)
            receipt = self._receipt(wish, gone, others, done=True)
            return gone, self._store.put_in(tx, receipt)

        gone, receipt = await self._store.transaction(write, durability=Durability.TRUST)
        for agent_id in gone.agents:
            self._call_off(agent_id)
        if self._fence is not None:
            await self._fence()
        others.update(await self._everywhere(gone.elsewhere(wish)))
        wiped = self._wipe is None or await self._wipe()
        whole = self._receipt(wish, gone, others, done=True).model_copy(
            update={"id": receipt.id, "created_at": receipt.created_at}
        )
        if not wiped:
            whole = whole.model_copy(update={"stays": (*whole.stays, _STAYS_IN_FILE)})
        return await self._store.transaction(
            lambda tx: self._store.put_in(tx, whole), durability=Durability.TRUST
        )

    async def lost_category(self, about: ErasedElsewhere) -> None:
        """What a companion has said is gone with a category of its; its cards go now."""
        await self._everywhere(about)
        if self._wipe is not None:
            await self._wipe()

    async def _everywhere(self, about: ErasedElsewhere) -> Counter[str]:
        others: Counter[str] = Counter()
        for place in self._elsewhere:
            others.update(await place(about))
        return +others

    async def receipts(self) -> list[ErasureReceipt]:
        """What was ever forgotten, the newest first."""
        return await self._store.find(ErasureReceipt, newest_first=True)

    def _receipt(
        self, wish: ErasureWish, gone: _Erased, others: Mapping[str, int], *, done: bool
    ) -> ErasureReceipt:
        removed = dict(sorted({**gone.removed, **others}.items()))
        redacted = dict(sorted(gone.redacted.items()))
        return ErasureReceipt(
            id=self._store.ids.new("erasure"),
            created_at=self._store.clock.now(),
            agent_id=wish.agent_id,
            category_id=wish.category_id,
            since=wish.since,
            until=wish.until,
            words_digest=digest("erased", _plain(wish.words))[:16] if wish.words else None,
            done=done,
            removed=removed,
            redacted=redacted,
            in_words=tuple(_counted(removed, redacted)),
            companions=tuple(sorted(gone.agents)),
            stays=(
                *_STAYS,
                *([] if wish.whole else [_STAYS_IN_JOURNAL]),
                *([_STAYS_IN_TALK, _STAYS_REWORDED] if wish.words else []),
            ),
        )


def forget_companion_in(tx: Transaction, store: CompanionStore, agent_id: str) -> int:
    """Forget a companion whole, with everything that it is made of; returns how many rows."""
    return _whole_in(tx, agent_id, _Erased()).removed.total()


def forget_said_in(tx: Transaction, store: CompanionStore, agent_id: str) -> ErasedElsewhere:
    """Forget all that a companion has said and read: it lost a category (rule 3).

    Returns what has to go elsewhere.
    """
    wish = ErasureWish(agent_id=agent_id, category_id="?")
    return _said_in(tx, store, wish, [agent_id]).elsewhere(wish)


def _erase_in(tx: Transaction, store: CompanionStore, wish: ErasureWish) -> _Erased:
    if wish.whole:
        gone = _Erased(agents={str(wish.agent_id)})
        rows = tx.fetch_all(
            "SELECT operation_id FROM agent_operations WHERE agent_id = ?", (wish.agent_id,)
        )
        gone.operations |= {str(each) for (each,) in rows}
        runs = _rows(tx, WakeRun, wish.agent_id)
        gone.messages |= {each for _, row in runs for each in _said_elsewhere(row)}
        return _whole_in(tx, str(wish.agent_id), gone)
    gone = _said_in(tx, store, wish, _concerned(tx, wish))
    if wish.words is not None and wish.since is None and wish.until is None:
        _write_over_in(tx, wish, gone)
    return gone


def _whole_in(tx: Transaction, agent_id: str, gone: _Erased) -> _Erased:
    subscriptions = [row[0] for row in tx.fetch_all(_SUBSCRIPTIONS, (agent_id,))]
    for each in subscriptions:
        sql = "DELETE FROM agent_subscription_tokens WHERE subscription_id = ?"
        gone.removed["agent_subscription_tokens"] += tx.execute(sql, (each,))
    whole: list[type[Data]] = [*SAID, *_OF_A_WHOLE, AgentSubscription, AgentState]
    for kind in whole:
        name = TABLES[kind].name
        sql = f"DELETE FROM {name} WHERE agent_id = ?"  # noqa: S608 - our names
        gone.removed[name] += tx.execute(sql, (agent_id,))
    gone.removed["agents"] += tx.execute("DELETE FROM agents WHERE id = ?", (agent_id,))
    switches = "DELETE FROM stop_switches WHERE scope = 'companion' AND target = ?"
    gone.removed["stop_switches"] += tx.execute(switches, (agent_id,))
    gone.removed += Counter()  # what is none is not named
    return gone


def _concerned(tx: Transaction, wish: ErasureWish) -> list[str]:
    """The companions that a wish may be about: that one, or all; with a category, rule 3."""
    known = [row[0] for row in tx.fetch_all("SELECT id FROM agents ORDER BY id")]
    mine = [each for each in known if wish.agent_id in (None, each)]
    if wish.category_id is None:
        return mine
    return [each for each in mine if _has_had(tx, each, wish.category_id)]


def _has_had(tx: Transaction, agent_id: str, category_id: str) -> bool:
    kinds: list[type[Data]] = [Companion, *SAID]
    for kind in kinds:
        table = TABLES[kind]
        column = "id" if kind is Companion else "agent_id"
        sql = f"SELECT 1 FROM {table.name} WHERE {column} = ? AND instr(body, ?) > 0 LIMIT 1"  # noqa: S608
        if tx.fetch_one(sql, (agent_id, json.dumps(category_id))) is not None:
            return True
    return False


def _said_in(
    tx: Transaction, store: CompanionStore, wish: ErasureWish, agent_ids: Iterable[str]
) -> _Erased:
    gone = _Erased()
    for agent_id in agent_ids:
        gone.concerned.add(agent_id)
        found = _Found.of(tx, wish, agent_id)
        if found.nothing:
            continue
        gone.agents.add(agent_id)
        found.take_along()
        gone.operations |= found.keys[AgentOperation]
        for key in found.keys[WakeRun]:
            gone.messages |= set(_said_elsewhere(found.rows[WakeRun][key]))
        _let_go(tx, store, found, gone)
        _mend_state(tx, store, agent_id, forgets=not wish.part)
    gone.removed += Counter()
    return gone


@dataclass
class _Found:
    """The rows of one companion that are to go, by their kind."""

    agent_id: str
    keys: dict[type[Data], set[str]]
    rows: dict[type[Data], dict[str, dict[str, Any]]]
    wish: ErasureWish

    @classmethod
    def of(cls, tx: Transaction, wish: ErasureWish, agent_id: str) -> "_Found":
        """What fits by itself."""
        holds = _matcher(wish.words)
        rows = {kind: dict(_rows(tx, kind, agent_id)) for kind in SAID}
        keys: dict[type[Data], set[str]] = {}
        for kind, at in SAID.items():
            keys[kind] = {
                key
                for key, row in rows[kind].items()
                if wish.in_span(_moment(row, at)) and (wish.words is None or _any(row, holds))
            }
        return cls(agent_id, keys, rows, wish)

    @property
    def nothing(self) -> bool:
        return not any(self.keys.values())

    def take_along(self) -> None:
        """What belongs to it, what covers it, what repeats it, and what is going on (2 and 4)."""
        self._messages_with_their_payloads()
        self._what_was_made_of_it()
        keys, rows = self.keys, self.rows
        reports = keys[AgentReport]
        for kind in (ReportSourceRef, AgentReportHead):
            keys[kind] |= {key for key, row in rows[kind].items() if row["report_id"] in reports}
        keys[AgentPromptItem] |= {
            rows[AgentPromptResponse][key]["prompt_item_id"] for key in keys[AgentPromptResponse]
        } & rows[AgentPromptItem].keys()
        keys[AgentPromptResponse] |= {
            key
            for key, row in rows[AgentPromptResponse].items()
            if row["prompt_item_id"] in keys[AgentPromptItem]
        }
        ends = keys[AgentMessage] | keys[AgentMessagePayload] | reports
        keys[AgentLink] |= {
            key
            for key, row in rows[AgentLink].items()
            if row["from_id"] in ends or row["to_id"] in ends
        }
        keys[CompactionJob] |= rows[CompactionJob].keys()
        # A wake that waits and holds nobody's words is carried out; what runs may know them.
        keys[WakeRun] -= {key for key, row in rows[WakeRun].items() if _waits_silently(row)}
        keys[WakeRun] |= {key for key, row in rows[WakeRun].items() if row["status"] == _RUNNING}

    def _messages_with_their_payloads(self) -> None:
        messages, payloads = self.keys[AgentMessage], self.keys[AgentMessagePayload]
        for key, row in self.rows[AgentMessage].items():
            if row["content_entry_id"] in payloads:
                messages.add(key)
        payloads |= {
            str(self.rows[AgentMessage][key]["content_entry_id"])
            for key in messages
            if self.rows[AgentMessage][key]["content_entry_id"]
        }

    def _what_was_made_of_it(self) -> None:
        if self.wish.since is None and self.wish.until is None:
            return
        rows = self.rows[AgentMessage]
        gone = {rows[key]["sequence"] for key in self.keys[AgentMessage]}
        # A summary of a summary covers what that one covers: until nothing is added any more.
        for depth in sorted({row["summary_depth"] for row in rows.values()} - {0}):
            for key, row in rows.items():
                if row["summary_depth"] == depth and _covers(row, rows, gone):
                    self.keys[AgentMessage].add(key)
                    gone.add(row["sequence"])
        self._messages_with_their_payloads()
        begin = self.wish.since
        for kind, at in _DERIVED.items():
            self.keys[kind] |= {
                key
                for key, row in self.rows[kind].items()
                if begin is None or _moment(row, at) >= begin
            }


def _said_elsewhere(row: Mapping[str, Any]) -> Iterator[str]:
    """The message of the owner's that began this run in another conversation."""
    place = row["job"].get("reply_to") or {}
    if said := place.get("message_id") or place.get("trace_id", "").removeprefix(_TRACE):
        yield said


def _waits_silently(row: Mapping[str, Any]) -> bool:
    return bool(row["status"] == WakeStatus.QUEUED and not row["job"]["seed_input"])


def _covers(row: dict[str, Any], rows: Mapping[str, dict[str, Any]], gone: set[int]) -> bool:
    ends = [rows.get(str(row[f"summary_{each}_message_id"])) for each in ("start", "end")]
    if ends[0] is None or ends[1] is None:
        return True  # what it covers is not there to be looked at
    return any(ends[0]["sequence"] <= each <= ends[1]["sequence"] for each in gone)


def _let_go(tx: Transaction, store: CompanionStore, found: _Found, gone: _Erased) -> None:
    for kind in SAID:
        table, keys = TABLES[kind], found.keys[kind]
        if kind is AgentMessage:
            _bury(tx, store, found)
        else:
            sql = f"DELETE FROM {table.name} WHERE {table.key} = ?"  # noqa: S608 - our names
            for key in sorted(keys):
                if kind is WakeRun and found.rows[kind][key]["status"] == _RUNNING:
                    _call_off(tx, store, found.rows[kind][key])
                else:
                    tx.execute(sql, (key,))
        gone.removed[table.name] += len(keys)


def _call_off(tx: Transaction, store: CompanionStore, row: dict[str, Any]) -> None:
    """A run that is going on ends here; whoever carries it out finds that out at the latest when
    it would be written down, and writes nothing."""
    table, run = TABLES[WakeRun], WakeRun.model_validate(row)
    ended: dict[str, Any] = {
        "status": WakeStatus.CANCELLED,
        "skip_reason": FORGOTTEN,
        "job": run.job.model_copy(update={"seed_input": None}),
        "ended_at": store.clock.now(),
    }
    tx.execute(upsert(table), table.values(run.model_copy(update=ended)))


def _bury(tx: Transaction, store: CompanionStore, found: _Found) -> None:
    """Rule 6."""
    table = TABLES[AgentMessage]
    empty: dict[str, Any] = {
        "content_entry_id": None,
        "trigger_source_id": None,
        "tokens_approx": 0,
        "metadata": AgentMessageMetadata(),
        "deleted_at": store.clock.now(),
    }
    for key in sorted(found.keys[AgentMessage]):
        message = AgentMessage.model_validate(found.rows[AgentMessage][key])
        tx.execute(upsert(table), table.values(message.model_copy(update=empty)))


def _mend_state(tx: Transaction, store: CompanionStore, agent_id: str, *, forgets: bool) -> None:
    """No pointer leads to what is gone; who forgets everything keeps nothing in mind either."""
    table = TABLES[AgentState]
    for _, row in _rows(tx, AgentState, agent_id):
        state = AgentState.model_validate(row)
        changes: dict[str, Any] = {}
        for name in ("recent_head", "latest_summary"):
            pointer = getattr(state, name)
            if pointer is not None and store.get_in(tx, AgentMessage, pointer.message_id) is None:
                changes[name] = None
        if forgets:
            changes["slots"] = AgentSlots()
        if changes:
            after = state.model_copy(update={**changes, "siblings": ()})
            tx.execute(upsert(table), table.values(after))


def _write_over_in(tx: Transaction, wish: ErasureWish, gone: _Erased) -> None:
    """Rule 5."""
    holds, word = _matcher(wish.words), _plain(wish.words or "")
    for kind in KEPT:
        table = TABLES[kind]
        of_one = wish.agent_id if "agent_id" in (*table.columns, table.key) else None
        if wish.agent_id is not None and kind is Companion:
            of_one = wish.agent_id
        for key, row in list(_rows(tx, kind, of_one, named_by_key=kind is Companion)):
            if not _any(row, holds):
                continue
            kept = _without_wishes(row, holds) if kind is AgentState else row
            after = table.record.model_validate(_without(kept, word))
            tx.execute(upsert(table), table.values(after))
            gone.redacted[table.name] += 1
            owner = key if kind is Companion else row.get("agent_id")
            gone.agents |= {owner} if owner is not None else set()


def _without_wishes(row: dict[str, Any], holds: Callable[[str], bool]) -> dict[str, Any]:
    """A goal or a wish that holds the word goes whole: half of it says something else."""
    slots = dict(row["slots"])
    wishes = slots.get("preference_by_key", {}).items()
    slots["preference_by_key"] = {key: text for key, text in wishes if not holds(text)}
    if holds(slots.get("primary_goal") or ""):
        slots["primary_goal"] = None
    return {**row, "slots": slots}


def _rows(
    tx: Transaction, kind: type[Data], agent_id: str | None, *, named_by_key: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Key and content of the rows of a companion, tombstones as well; of all without an id."""
    table = TABLES[kind]
    where = "" if agent_id is None else f" WHERE {'id' if named_by_key else 'agent_id'} = ?"
    sql = f"SELECT {table.key}, body FROM {table.name}{where}"  # noqa: S608 - our names
    for key, body in tx.fetch_all(sql, () if agent_id is None else (agent_id,)):
        yield str(key), json.loads(body)


def _moment(row: Mapping[str, Any], name: str) -> datetime:
    return parse_timestamp(str(row[name]))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold().strip()


def _matcher(words: str | None) -> Callable[[str], bool]:
    if words is None:
        return lambda text: False
    word = _plain(words)
    return lambda text: word in _plain(text) and text not in _STRUCTURE


def _any(value: Any, holds: Callable[[str], bool]) -> bool:
    """Whether a text in it holds the word; keys of a mapping may be the owner's words too."""
    if isinstance(value, str):
        return holds(value)
    if isinstance(value, Mapping):
        return any(_any(each, holds) for pair in value.items() for each in pair)
    return isinstance(value, list) and any(_any(each, holds) for each in value)


def _without(value: Any, word: str) -> Any:
    """The same with the word written over; a text in which it cannot be cut out goes whole."""
    if isinstance(value, str):
        return _cut(value, word)
    if isinstance(value, Mapping):
        return {_cut(key, word): _without(each, word) for key, each in value.items()}
    return [_without(each, word) for each in value] if isinstance(value, list) else value


def _cut(text: str, word: str) -> str:
    if text in _STRUCTURE or word not in _plain(text):
        return text
    small = text.casefold()
    if len(small) != len(text) or word not in small:
        return _ERASED
    parts, start = [], 0
    while (at := small.find(word, start)) >= 0:
        parts += [text[start:at], _ERASED]
        start = at + len(word)
    return "".join([*parts, text[start:]])


def _vocabulary() -> frozenset[str]:
    """What the code itself writes: a text that is nothing else says nothing of the owner's."""
    kinds = [each for each in vars(models).values() if isinstance(each, type)]
    enums = [each for each in kinds if issubclass(each, StrEnum)]
    fields = {name for each in TABLES for name in each.model_fields}
    return frozenset(
        {*(str(value) for each in enums for value in each), *companion_tools().names, *fields}
    )


_STRUCTURE = _vocabulary()


def _counted(removed: Mapping[str, int], redacted: Mapping[str, int]) -> Iterator[str]:
    yield from (f"{RECORDS.get(name, name)}: {count}" for name, count in removed.items())
    yield from (
        f"written over in {RECORDS.get(name, name)}: {count}" for name, count in redacted.items()
    )


def span_words(receipt: ErasureReceipt) -> str:
    """What was forgotten, in words that hold none of it."""
    parts = [
        f"companion {receipt.agent_id}" if receipt.agent_id else "",
        f"category {receipt.category_id}" if receipt.category_id else "",
        f"since {format_timestamp(receipt.since)}" if receipt.since else "",
        f"until {format_timestamp(receipt.until)}" if receipt.until else "",
        f"a word (digest {receipt.words_digest})" if receipt.words_digest else "",
    ]
    return ", ".join(each for each in parts if each)
