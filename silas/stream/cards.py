"""Cards: what the owner is asked, and what he decided, kept durably.

1. A card is written in the transaction that stores its plan, and shows exactly these hashes.
2. A card is decided once, while it is open. Nobody decides it after it has expired: that is a no.
3. A yes is to what was shown: whoever asked says which hashes these were, and only these are
   signed, whatever the rows say by then.
4. A decision is signed when it is made, over the card, the hashes and the verdict: by the owner's
   key, or on a trusted device. Whoever follows it checks the signature: a row that somebody wrote
   into the database decides nothing, nor does a device that was revoked in between.
5. The event that lets the decision be followed is sent in the transaction that keeps it.
6. A device cannot approve what cannot be undone: that takes more than its key.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from pydantic import TypeAdapter

from silas.approval import ApprovalDecision, ApprovalVerdict, DecisionRefused
from silas.gates.risk import RiskLevel
from silas.kernel import (
    Clock,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data, UtcDatetime
from silas.queue.store import QueueStore
from silas.storage import Database, Durability, Row, Transaction
from silas.stream.adopting import plan_risk
from silas.stream.decisions import decision_made
from silas.stream.errors import (
    CardNotOpen,
    CardUnknown,
    DecisionNotSigned,
    StrongerProofNeeded,
)
from silas.stream.ports import CardDecision, PlanReview
from silas.work.models import WorkItem
from silas.work.ports import AuditTrail

DEFAULT_TTL = timedelta(days=7)
_CHANGED = "This is not what the card asks about. Nothing was decided: look at the card again."
_ITEMS = TypeAdapter(dict[str, str])
_RISKS = tuple(RiskLevel)
_INSERT = """
INSERT INTO review_cards (id, scope_id, connection_id, channel, trace_id, title, message, risk,
    taint, items, replaces, requested_by, created_at, expires_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open')
ON CONFLICT (id) DO NOTHING
"""
_SELECT = """
SELECT id, scope_id, connection_id, channel, trace_id, title, message, risk, taint, items, replaces,
    requested_by, created_at, expires_at, state, decision, key_id, signature
FROM review_cards
"""
_DECIDE = """
UPDATE review_cards SET state = ?, decision = ?, key_id = ?, signature = ?, decided_at = ?
WHERE id = ? AND state = 'open'
"""


class Signer(Protocol):
    """The owner's key."""

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        """The id of the key, and its signature."""
        ...

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether this key of the owner's made this signature."""
        ...


class DeviceKeys(Protocol):
    """The keys of the owner's devices."""

    async def verify(self, key_id: str, payload: bytes, signature: bytes) -> bool:
        """Whether a device that is trusted now made this signature."""
        ...


class Card(Data):
    """One question to the owner."""

    card_id: str
    scope_id: str
    connection_id: str
    channel: str
    trace_id: str
    title: str
    message: str
    risk: RiskLevel
    taint: TaintLevel
    plan_hashes: dict[str, str]
    """The hash of each work item, by its id, the first one first."""
    replaces: str | None
    requested_by: str
    created_at: UtcDatetime
    expires_at: UtcDatetime
    state: str
    """`open`, or the verdict."""


class CardStore:
    """`silas.stream.ports.Reviews`, and where the owner's decisions come in."""

    def __init__(
        self,
        database: Database,
        queue: QueueStore,
        *,
        signer: Signer,
        audit: AuditTrail,
        clock: Clock,
        ttl: timedelta = DEFAULT_TTL,
        devices: DeviceKeys | None = None,
    ) -> None:
        self._database = database
        self._queue = queue
        self._signer = signer
        self._audit = audit
        self._clock = clock
        self._ttl = ttl
        self._devices = devices

    def ask_plan(self, tx: Transaction, review: PlanReview) -> None:
        """Put a card before the owner, as part of a transaction (rule 1)."""
        now = self._clock.now()
        risk = max((plan_risk(item, review.taint) for item in review.items), key=_RISKS.index)
        tx.execute(
            _INSERT,
            (
                review.card_id,
                review.scope_id,
                review.connection_id,
                review.channel,
                review.trace_id,
                review.items[0].title,
                review.message,
                risk.value,
                review.taint.value,
                json.dumps({item.id: item.plan_hash for item in review.items}),
                review.replaces,
                review.requested_by,
                format_timestamp(now),
                format_timestamp(now + self._ttl),
            ),
        )

    async def get(self, card_id: str) -> Card:
        """A card; raises `CardUnknown`."""
        return _card(await self._row(card_id))

    async def open_cards(self) -> list[Card]:
        """What waits for the owner, oldest first."""
        rows = await self._database.fetch_all(
            f"{_SELECT} WHERE state = 'open' ORDER BY created_at, id"
        )
        return [_card(row) for row in rows]

    async def recent(self, count: int) -> list[Card]:
        """The newest cards in whatever state, oldest first."""
        rows = await self._database.fetch_all(
            f"{_SELECT} ORDER BY created_at DESC, id DESC LIMIT ?", (count,)
        )
        return [_card(row) for row in reversed(rows)]

    async def decide(
        self, card_id: str, decision: ApprovalDecision, *, shown: Mapping[str, str] | None = None
    ) -> Card:
        """Keep the owner's decision, signed, and let it be followed.

        `shown` are the hashes of what was shown: without them it cannot be a yes (rule 3). Raises
        `DecisionRefused` or `CardNotOpen`.
        """
        card = await self.get(card_id)
        if self._clock.now() >= card.expires_at:
            decision = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
        if decision.verdict is not ApprovalVerdict.DECLINED and shown != card.plan_hashes:
            await self._audit.log("card_changed", card_id=card_id)
            raise DecisionRefused(_CHANGED)
        signed = decision_bytes(card, decision)
        key_id, signature = self._signer.sign(signed)
        return await self._keep(card, decision, key_id=key_id, signature=signature)

    async def decide_signed(
        self, card_id: str, decision: ApprovalDecision, *, key_id: str, signature: bytes
    ) -> Card:
        """The same for a decision that was signed on one of the owner's devices.

        Raises `DecisionNotSigned`, `StrongerProofNeeded` (rule 6) or `CardNotOpen`.
        """
        card = await self.get(card_id)
        signed = decision_bytes(card, decision)
        if not await self._signed_on_device(key_id, signed, signature):
            await self._audit.log("card_decision_unsigned", card_id=card_id, key_id=key_id)
            raise DecisionNotSigned
        yes = decision.verdict is not ApprovalVerdict.DECLINED
        if yes and card.risk is RiskLevel.IRREVERSIBLE:
            raise StrongerProofNeeded
        if self._clock.now() >= card.expires_at:
            await self.decide(card_id, ApprovalDecision(verdict=ApprovalVerdict.DECLINED))
            raise CardNotOpen(f"{card_id} has expired: nobody decided it in time.")
        return await self._keep(card, decision, key_id=key_id, signature=signature)

    async def _signed_on_device(self, key_id: str, payload: bytes, signature: bytes) -> bool:
        return self._devices is not None and await self._devices.verify(key_id, payload, signature)

    async def _keep(
        self, card: Card, decision: ApprovalDecision, *, key_id: str, signature: bytes
    ) -> Card:
        card_id, signed = card.card_id, decision_bytes(card, decision)
        values = (
            decision.verdict.value,
            signed.decode(),
            key_id,
            base64.b64encode(signature).decode(),
            format_timestamp(self._clock.now()),
            card_id,
        )
        event = decision_made(
            card_id, trace_id=card.trace_id, scope_id=card.scope_id, clock=self._clock
        )

        def write(tx: Transaction) -> bool:
            changed = tx.execute(_DECIDE, values) == 1
            return changed and self._queue.enqueue_in(tx, event)

        if not await self._database.transaction(write, durability=Durability.TRUST):
            raise CardNotOpen(f"{card_id} was decided already: {card.state}.")
        self._queue.bus.notify_of([event])
        await self._audit.log("card_decided", card_id=card_id, verdict=decision.verdict.value)
        return await self.get(card_id)

    async def decline_expired(self) -> int:
        """Nobody decided in time: that is a no."""
        late = [card for card in await self.open_cards() if self._clock.now() >= card.expires_at]
        for card in late:
            await self.decide(card.card_id, ApprovalDecision(verdict=ApprovalVerdict.DECLINED))
        return len(late)

    async def decision(self, card_id: str) -> CardDecision | None:
        """The decision, if there is one that the owner has signed (rule 4)."""
        row = await self._row(card_id)
        *_, decision, key_id, signature = row
        if decision is None:
            return None
        card, signed = _card(row), str(decision).encode()
        said = json.loads(signed)
        decided = ApprovalDecision.model_validate(said.get("decision"))
        genuine = signed == decision_bytes(card, decided)
        made = base64.b64decode(signature or "")
        if not genuine or not (
            self._signer.verify(str(key_id), signed, made, at=self._clock.now())
            or await self._signed_on_device(str(key_id), signed, made)
        ):
            await self._audit.log("card_decision_forged", card_id=card_id)
            return None
        return CardDecision(card_id=card_id, plan_hashes=card.plan_hashes, decision=decided)

    async def _row(self, card_id: str) -> Row:
        row = await self._database.fetch_one(f"{_SELECT} WHERE id = ?", (card_id,))
        if row is None:
            raise CardUnknown(f"There is no card {card_id!a}. `silas review list` shows them.")
        return row


def require_shown(card: Card, items: Sequence[WorkItem | None]) -> list[WorkItem]:
    """The items, if they are all and exactly those of the card; raises `DecisionRefused`.

    To be asked before they are shown: the owner's yes is to the hashes of the card.
    """
    found = [item for item in items if item is not None]
    if {item.id: item.plan_hash for item in found} != card.plan_hashes:
        raise DecisionRefused(_CHANGED)
    return found


def decision_bytes(card: Card, decision: ApprovalDecision) -> bytes:
    """What is signed: the card, the hashes that it shows, and the decision."""
    return canonical_bytes(
        {
            "type": "card_decision",
            "card_id": card.card_id,
            "plan_hashes": card.plan_hashes,
            "decision": decision.model_dump(mode="json"),
        }
    )


def _card(row: Row) -> Card:
    return Card(
        card_id=row[0],
        scope_id=row[1],
        connection_id=row[2],
        channel=row[3],
        trace_id=row[4],
        title=row[5],
        message=row[6],
        risk=RiskLevel(row[7]),
        taint=TaintLevel(row[8]),
        plan_hashes=_ITEMS.validate_json(row[9]),
        replaces=row[10],
        requested_by=row[11],
        created_at=parse_timestamp(row[12]),
        expires_at=parse_timestamp(row[13]),
        state=row[14],
    )
