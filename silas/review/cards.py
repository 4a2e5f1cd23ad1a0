"""Cards: plans before the owner, and what was decided about them, stored durably.

1. A card is written in the transaction that stores its plan, shows exactly these hashes, and is
   sealed by the owner's key: risk and taint decide which proof is asked for, so that a row in which
   somebody lowers them is not this card any more. It can only be declined.
2. A card is decided once, while it is open. Nobody decides it after it has expired: that is a no.
3. A yes is to what was shown: to plans with exactly these hashes, whose tokens are issued in the
   same transaction, and to nothing that the rows say by then.
4. What is signed is the card, the hashes, risk, taint and verdict. One decision may be about
   several cards, each with its own hashes (a batch).
5. The event that lets the decision be followed is sent in the transaction that stores it.

Who may decide, and with which proof, is the same for everything that the owner is asked
(`silas.review.decisions`).
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, NoReturn

from pydantic import Field, TypeAdapter, ValidationError

from silas.approval import ApprovalDecision, ApprovalScope, ApprovalVerdict, DecisionRefused
from silas.approval.keys import ProvenRows, Seal, Seals
from silas.approval.rules import digest
from silas.audit.models import AuditTrail, OwnerKey
from silas.gates.risk import RiskLevel, riskiest
from silas.kernel import (
    Clock,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data, UtcDatetime
from silas.queue.models import Agent, MessageKind, QueueMessage, SystemEvent, Urgency
from silas.queue.store import QueueStore
from silas.review.decision_log import event_of
from silas.review.decisions import (
    Approval,
    Decisions,
    DecisionSubject,
    Entry,
    OwnersProof,
    ProvenDecision,
    QuestionKind,
    ShownQuestion,
    Tokens,
    is_yes,
)
from silas.review.errors import CardNotOpen, CardUnknown
from silas.storage import Database, Transaction

DECISION_MADE = "decision_made"
UNDO = "undo"
"""Who asks about taking back what was done."""
CHANGED = "This is not what the card asks about. Nothing was decided: look at the card again."
DEFAULT_TTL = timedelta(days=7)
_BATCHED = (RiskLevel.LOW, RiskLevel.MEDIUM)
_NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
_SEALED = "card_seal"
_CHANGES = "changes"
MAX_CHANGES_CHARS = 8_000
"""How much the owner can say about what should be different."""
_ITEMS = TypeAdapter(dict[str, str])
_INSERT = """
INSERT INTO review_cards (id, scope_id, connection_id, channel, trace_id, title, message, risk,
    taint, items, replaces, requested_by, created_at, expires_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open')
ON CONFLICT (id) DO NOTHING
"""
_INSERT_SOURCES = """
INSERT INTO card_sources (card_id, sources) VALUES (?, ?) ON CONFLICT (card_id) DO NOTHING
"""
_INSERT_SEAL = """
INSERT INTO card_seals (card_id, key_id, signature) VALUES (?, ?, ?)
ON CONFLICT (card_id) DO NOTHING
"""
_SELECT = """
SELECT id, scope_id, connection_id, channel, trace_id, title, message, risk, taint,
    coalesce(card_sources.sources, '[]'), items, replaces, requested_by, created_at, expires_at,
    state, card_seals.key_id, card_seals.signature
FROM review_cards LEFT JOIN card_seals ON card_seals.card_id = review_cards.id
    LEFT JOIN card_sources ON card_sources.card_id = review_cards.id
"""
WITHDRAWN = "withdrawn"
"""The state of a card that nobody can decide any more, because what asked for it has ended."""
_WITHDRAW = "UPDATE review_cards SET state = 'withdrawn' WHERE id = ? AND state = 'open'"
_DECIDE = "UPDATE review_cards SET state = ?, decided_at = ? WHERE id = ? AND state = 'open'"
_OF_TRACE = """
SELECT items FROM review_cards
WHERE trace_id = ? AND (requested_by <> ? OR state = 'approved') ORDER BY created_at, id
"""
_ENDING = """
SELECT state, state = 'declined' AND decided_at >= expires_at,
    EXISTS (SELECT 1 FROM review_cards AS other WHERE other.replaces = ?
        AND other.requested_by <> 'undo')
FROM review_cards WHERE items LIKE ? ORDER BY created_at DESC LIMIT 1
"""
_DECIDED = """
SELECT id, scope_id, state, requested_by, title, items FROM review_cards
WHERE decided_at > ? AND decided_at < expires_at AND state <> 'open' ORDER BY decided_at
"""

PlansOf = Callable[[Sequence[str]], Awaitable[Sequence[Approval]]]
"""What a yes to the plans with these ids approves, as they are stored now."""


_TOO_LATE = "This card has expired: nobody decided it in time."


class Card(Data):
    """One plan before the owner."""

    card_id: str
    scope_id: str
    connection_id: str
    channel: str
    trace_id: str
    title: str
    message: str
    risk: RiskLevel
    taint: TaintLevel
    sources: tuple[str, ...] = ()
    """The strangers' texts that it comes from."""
    plan_hashes: dict[str, str]
    """The hash of each work item, by its id, the first one first."""
    replaces: str | None
    requested_by: str
    created_at: UtcDatetime
    expires_at: UtcDatetime
    state: str
    """`open`, or the verdict."""
    sealed: bool = False
    """Whether it is as the runtime has asked it; if not, it can only be declined."""


class CardDecision(Data):
    """The owner's decision about a card, verified."""

    card_id: str
    plan_hashes: dict[str, str]
    """What the card showed: the hash of each item, by its id."""
    decision: ApprovalDecision
    decided_at: UtcDatetime | None = None
    """When it was made; None if nobody vouches for that. Then it leads to no approval."""
    tokens: dict[str, str] = Field(default_factory=dict)
    """The id of each item's token, by the item's id."""
    requested_by: str = "planner"
    expired: bool = False
    """Whether nobody decided in time: then it is a no that nobody has said."""


class DecidedCard(NamedTuple):
    """A card that was decided, as far as others learn from it."""

    card_id: str
    scope_id: str
    verdict: str
    requested_by: str
    title: str
    plan_ids: tuple[str, ...]


class _CardRow(NamedTuple):
    """What `_SELECT` gives."""

    card_id: str
    scope_id: str
    connection_id: str
    channel: str
    trace_id: str
    title: str
    message: str
    risk: str
    taint: str
    sources: str
    items: str
    replaces: str | None
    requested_by: str
    created_at: str
    expires_at: str
    state: str
    seal_key_id: str | None
    seal: str | None

    def card(self) -> Card:
        """The card as the row has it; whether its seal holds is not looked at here."""
        fields = self._asdict()
        for other in ("items", "seal_key_id", "seal"):
            del fields[other]
        return Card(
            **{
                **fields,
                "risk": RiskLevel(self.risk),
                "taint": TaintLevel(self.taint),
                "sources": tuple(json.loads(self.sources)),
                "plan_hashes": _ITEMS.validate_json(self.items),
                "created_at": parse_timestamp(self.created_at),
                "expires_at": parse_timestamp(self.expires_at),
            }
        )


class CardStore:
    """The cards of one data directory."""

    def __init__(
        self,
        database: Database,
        queue: QueueStore,
        *,
        decisions: Decisions,
        plans: PlansOf,
        keys: OwnerKey,
        audit: AuditTrail,
        clock: Clock,
        ttl: timedelta = DEFAULT_TTL,
    ) -> None:
        self._database = database
        self._queue = queue
        self._decisions = decisions
        self._plans = plans
        self._seals = Seals(keys)
        self._proven = ProvenRows(keys)
        self._audit = audit
        self._clock = clock
        self._ttl = ttl

    def ask(self, tx: Transaction, card: Card) -> None:
        """Put a card before the owner, as part of a transaction (rule 1)."""
        values = (
            card.card_id,
            card.scope_id,
            card.connection_id,
            card.channel,
            card.trace_id,
            card.title,
            card.message,
            card.risk.value,
            card.taint.value,
            json.dumps(card.plan_hashes),
            card.replaces,
            card.requested_by,
            format_timestamp(card.created_at),
            format_timestamp(card.expires_at),
        )
        tx.execute(_INSERT, values)
        if card.sources:
            tx.execute(_INSERT_SOURCES, (card.card_id, json.dumps(card.sources)))
        tx.execute(_INSERT_SEAL, (card.card_id, *self._seals.sign(_SEALED, _sealed_fields(card))))

    def withdraw_in(
        self, tx: Transaction, scope_id: str, *, card_id: str | None = None
    ) -> list[str]:
        """Take back what waits for the owner in this scope, or one card of it; returns the ids of
        its plans.

        Nobody has decided it, so it has no time of decision, and counts for nothing that is learnt.
        """
        rows = tx.fetch_all(
            "SELECT id, items FROM review_cards WHERE scope_id = ? AND state = 'open'", (scope_id,)
        )
        rows = [row for row in rows if card_id in (None, row[0])]
        for name, _ in rows:
            tx.execute(_WITHDRAW, (name,))
            self._audit.append(tx, "card_withdrawn", {"card_id": name})
        return [plan for _, items in rows for plan in _ITEMS.validate_json(items)]

    async def get(self, card_id: str) -> Card:
        """A card; raises `CardUnknown`."""
        row = await self._database.fetch_one(f"{_SELECT} WHERE id = ?", (card_id,))
        if row is None:
            raise CardUnknown(f"There is no card {card_id!a}. `silas review list` shows them.")
        return self._card(_CardRow(*row))

    async def open_cards(self) -> list[Card]:
        """What waits for the owner, oldest first."""
        rows = await self._database.fetch_all(
            f"{_SELECT} WHERE state = 'open' ORDER BY created_at, id"
        )
        return [self._card(_CardRow(*row)) for row in rows]

    async def recent(self, count: int) -> list[Card]:
        """The newest cards in whatever state, oldest first."""
        rows = await self._database.fetch_all(
            f"{_SELECT} ORDER BY created_at DESC, id DESC LIMIT ?", (count,)
        )
        return [self._card(_CardRow(*row)) for row in reversed(rows)]

    async def plans_of_trace(self, trace_id: str) -> list[str]:
        """The ids of the plans that came from a request; of an undo, only if it was approved.

        By the rows alone, without their seals: for showing how far work is, not for deciding.
        """
        rows = await self._database.fetch_all(_OF_TRACE, (trace_id, UNDO))
        return [name for (items,) in rows for name in _ITEMS.validate_json(items)]

    async def decided_since(self, moment: datetime) -> list[DecidedCard]:
        """What was decided since then, in that order; what expired was decided by nobody."""
        rows = await self._database.fetch_all(_DECIDED, (format_timestamp(moment),))
        return [
            DecidedCard(name, scope_id, verdict, asked_by, title, tuple(json.loads(items)))
            for name, scope_id, verdict, asked_by, title, items in rows
        ]

    async def endings(self, plan_ids: Sequence[str]) -> dict[str, str]:
        """How the last card about each of these plans ended, for those that got no yes.

        `replaced`: it was sent back, and another version has come. It is told, and decides nothing.
        """
        found: dict[str, str] = {}
        for name in plan_ids:
            row = await self._database.fetch_one(_ENDING, (name, f'%"{name}"%'))
            if row is not None and row[0] not in ("open", "approved"):
                state, late, replaced = row
                found[name] = "expired" if late else "replaced" if replaced else str(state)
        return found

    async def decide_with_vault(
        self, card_id: str, decision: ApprovalDecision, *, shown: Mapping[str, str] | None = None
    ) -> Card:
        """Decide with the owner's own key: at Silas's machine, with the vault open.

        `shown` are the hashes of what was shown: without them it cannot be a yes (rule 3). Raises
        `DecisionRefused` or `CardNotOpen`.
        """
        card = await self.get(card_id)
        if self._clock.now() >= card.expires_at:
            await self._expire(card)
            raise CardNotOpen(_TOO_LATE)
        if decision.verdict is not ApprovalVerdict.DECLINED and shown != card.plan_hashes:
            await self._refuse_changed(card_id)
        return await self._decide(card, *self._decisions.owners_word(_shown(card), decision))

    async def decide(self, card_id: str, decision: ApprovalDecision, proof: OwnersProof) -> Card:
        """Decide with a proof from one of the owner's devices.

        Raises `DecisionNotSigned`, `StrongerProofNeeded`, `DecisionRefused` or `CardNotOpen`.
        """
        card = await self.get(card_id)
        if self._clock.now() >= card.expires_at:
            await self._decisions.require_signed(_shown(card).asked(decision), proof)
            await self._expire(card)
            raise CardNotOpen(_TOO_LATE)
        return await self._decide(card, decision, proof)

    async def _expire(self, card: Card) -> None:
        """Nobody decided in time: that is a no."""
        await self._decide(card, *self._decisions.owners_word(_shown(card), _NO))

    async def _decide(self, card: Card, decision: ApprovalDecision, proof: OwnersProof) -> Card:
        approve = await self._approved([card], decision)
        if approve is None:
            await self._decisions.require_signed(_shown(card).asked(decision), proof)
            await self._refuse_changed(card.card_id)
        asked = _shown(card, approve).asked(decision)
        [decided] = await self._store([card], decision, asked, proof, approve=approve)
        return decided

    async def decide_batch(
        self, content: Mapping[str, Any], decision: ApprovalDecision, proof: OwnersProof
    ) -> list[Card]:
        """Decide several cards by one signature over all of them; all of them, or none.

        Raises `DecisionNotSigned`, `DecisionRefused` or `CardNotOpen`.
        """
        cards = [await self.get(name) for name in content["item_ids"]]
        statement = batch_decision_bytes(content, decision)
        asked = DecisionSubject(
            kind=QuestionKind.BATCH,
            ids=tuple(card.card_id for card in cards),
            statement=statement,
            challenge=bytes.fromhex(digest(statement)),
            risk=riskiest(*(card.risk for card in cards)),
            scope=ApprovalScope.FULL_PLAN,
            grants=is_yes(decision),
            intact=all(card.sealed for card in cards),
        )
        await self._decisions.require_signed(asked, proof)
        now = self._clock.now()
        for card, entry in zip(cards, content["items"], strict=True):
            wanted = batch_entry(card)
            if {name: entry.get(name) for name in wanted} != wanted or card.risk not in _BATCHED:
                raise DecisionRefused(CHANGED)
            if now >= card.expires_at:
                raise CardNotOpen(_TOO_LATE)
        approve = await self._approved(cards, decision)
        if approve is None:
            await self._refuse_changed(cards[0].card_id)
        taps = 2 if any(card.risk is RiskLevel.MEDIUM for card in cards) else 1
        more: Entry = ("batch_decided", {"cards": len(cards), "taps": taps})
        return await self._store(cards, decision, asked, proof, approve=approve, more=[more])

    async def _approved(
        self, cards: Sequence[Card], decision: ApprovalDecision
    ) -> Sequence[Approval] | None:
        """What a yes approves: the plans as they are stored; None if others were shown."""
        sealed = all(card.sealed for card in cards)
        if decision.verdict is not ApprovalVerdict.APPROVED or not sealed:
            return ()
        shown = {name: each for card in cards for name, each in card.plan_hashes.items()}
        plans = await self._plans(list(shown))
        if {each.payload.id: digest(each.payload.plan_bytes()) for each in plans} != shown:
            return None
        return [replace(each, conditions=decision.conditions) for each in plans]

    async def _refuse_changed(self, card_id: str) -> NoReturn:
        await self._audit.log("card_changed", card_id=card_id)
        raise DecisionRefused(CHANGED)

    async def _store(
        self,
        cards: Sequence[Card],
        decision: ApprovalDecision,
        asked: DecisionSubject,
        proof: OwnersProof,
        *,
        approve: Sequence[Approval],
        more: Sequence[Entry] = (),
    ) -> list[Card]:
        """Store it for all of the cards or for none (rule 5); returns them as they are now."""
        now, verdict = self._clock.now(), decision.verdict.value
        events = [
            decision_made(
                card.card_id, trace_id=card.trace_id, scope_id=card.scope_id, clock=self._clock
            )
            for card in cards
        ]

        def record(tx: Transaction, _tokens: Tokens) -> None:
            for card, event in zip(cards, events, strict=True):
                if tx.execute(_DECIDE, (verdict, format_timestamp(now), card.card_id)) != 1:
                    raise _no_longer_open(tx, card.card_id)
                self._queue.enqueue_in(tx, event)

        entries = [*(_entry(card, verdict, now) for card in cards), *more]
        await self._decisions.decide(asked, proof, record=record, entries=entries, approve=approve)
        self._queue.bus.notify_of(events)
        return [card.model_copy(update={"state": verdict}) for card in cards]

    async def decline_expired(self) -> int:
        """Nobody decided in time: that is a no."""
        late = [card for card in await self.open_cards() if self._clock.now() >= card.expires_at]
        for card in late:
            await self._expire(card)
        return len(late)

    async def decision(self, card_id: str) -> CardDecision | None:
        """The decision, if there is one that is proven to be the owner's."""
        card, row = await self.get(card_id), await self._decisions.row(card_id)
        if row is None:
            return None
        try:
            decided = ApprovalDecision.model_validate(row.fields().get("decision"))
        except ValidationError:
            decided = _NO
        found: ProvenDecision | None = None
        if _is_about(card, row.fields(), decided):
            asked = _shown(card).asked(decided, statement=(row.statement or "").encode())
            found = await self._decisions.proven(asked, row)
        if found is None:
            await self._audit.log("card_decision_forged", card_id=card_id)
            return None
        return CardDecision(
            card_id=card_id,
            plan_hashes=card.plan_hashes,
            decision=decided,
            decided_at=found.decided_at,
            tokens=dict(found.tokens),
            requested_by=card.requested_by,
            expired=found.decided_at is not None and found.decided_at >= card.expires_at,
        )

    def _card(self, row: _CardRow) -> Card:
        """The card of a row; without its seal it is as risky as can be (rule 1)."""
        card, seal = row.card(), Seal(row.seal_key_id, row.seal)
        now, sealed_row = self._clock.now(), row._replace(state="")  # the state is not sealed
        if self._proven.holds(
            sealed_row,
            seal,
            lambda: self._seals.holds(seal, _SEALED, _sealed_fields(card), at=now),
        ):
            return card.model_copy(update={"sealed": True})
        worst = {"risk": RiskLevel.IRREVERSIBLE, "taint": TaintLevel.EXTERNAL}
        return card.model_copy(update=worst)


def decision_made(card_id: str, *, trace_id: str, scope_id: str, clock: Clock) -> QueueMessage:
    """The event to be queued in the transaction that stores the owner's decision."""
    return QueueMessage(
        message_id=f"{DECISION_MADE}.{card_id}",
        trace_id=trace_id,
        content="",
        sender=Agent.RUNTIME,
        message_kind=MessageKind.SYSTEM_EVENT,
        scope_id=scope_id,
        taint=TaintLevel.OWNER,
        created_at=clock.now(),
        payload=SystemEvent(event=DECISION_MADE, data={"card_id": card_id}),
        urgency=Urgency.NEEDS_ATTENTION,
    )


def decision_bytes(card: Card, decision: ApprovalDecision) -> bytes:
    """What the owner signs about one card (rule 4)."""
    return _shown(card).statement(decision)


def asking_for(changes: str) -> ApprovalDecision:
    """The decision that sends a plan back, with the owner's words for what should be different.

    The words are part of what is signed. Without any, the plan is only sent back.
    """
    conditions = {_CHANGES: changes} if changes.strip() else {}
    return ApprovalDecision(verdict=ApprovalVerdict.EDIT_REQUESTED, conditions=conditions)


def wished_changes(decision: ApprovalDecision) -> str:
    """What the owner wants to be different; empty if that was not said."""
    words = decision.conditions.get(_CHANGES)
    return words if isinstance(words, str) else ""


def batch_entry(card: Card) -> dict[str, Any]:
    """A card as it stands in a decision."""
    return {
        "card_id": card.card_id,
        "plan_hashes": card.plan_hashes,
        "risk": card.risk.value,
        "taint": card.taint.value,
    }


def batch_decision_bytes(content: Mapping[str, Any], decision: ApprovalDecision) -> bytes:
    """What the owner signs about several cards at once: all of what the batch shows."""
    return canonical_bytes(
        {
            "type": "batch_decision",
            "batch": dict(content),
            "decision": decision.model_dump(mode="json"),
        }
    )


def _shown(card: Card, approve: Sequence[Approval] = ()) -> ShownQuestion:
    standing = any(each.scope is ApprovalScope.STANDING for each in approve)
    return ShownQuestion(
        kind=QuestionKind.PLAN,
        question_id=card.card_id,
        hashes=card.plan_hashes,
        risk=card.risk,
        taint=card.taint,
        scope=ApprovalScope.STANDING if standing else ApprovalScope.FULL_PLAN,
        intact=card.sealed,
    )


def _no_longer_open(tx: Transaction, card_id: str) -> CardNotOpen:
    row = tx.fetch_one("SELECT state FROM review_cards WHERE id = ?", (card_id,))
    if row is not None and row[0] == WITHDRAWN:
        return CardNotOpen("This card was withdrawn: what asked for it has ended.")
    return CardNotOpen("This card was decided already. `silas review list` shows what waits.")


def _is_about(card: Card, statement: Mapping[str, Any], decision: ApprovalDecision) -> bool:
    """Whether a signed statement decides exactly this card, alone or in a batch."""
    if canonical_bytes(dict(statement)) == decision_bytes(card, decision):
        return True
    batch = statement.get("batch")
    if statement.get("type") != "batch_decision" or not isinstance(batch, Mapping):
        return False
    entries = [entry for entry in batch.get("items", ()) if entry.get("card_id") == card.card_id]
    wanted = batch_entry(card)
    return len(entries) == 1 and {name: entries[0].get(name) for name in wanted} == wanted


def _sealed_fields(card: Card) -> dict[str, Any]:
    # Cards of older versions were sealed without sources, and have none.
    return {
        **({"sources": list(card.sources)} if card.sources else {}),
        "card_id": card.card_id,
        "scope_id": card.scope_id,
        "connection_id": card.connection_id,
        "trace_id": card.trace_id,
        "plan_hashes": card.plan_hashes,
        "risk": card.risk.value,
        "taint": card.taint.value,
        "replaces": card.replaces,
        "requested_by": card.requested_by,
        "expires_at": format_timestamp(card.expires_at),
    }


def _entry(card: Card, verdict: str, now: datetime) -> Entry:
    late, undo = now >= card.expires_at, card.requested_by == UNDO
    return event_of(verdict, late=late, undo=undo), {"card_id": card.card_id, "verdict": verdict}
