"""Cards: what the owner is asked, and what he decided, kept durably.

1. A card is written in the transaction that stores its plan, shows exactly these hashes, and is
   sealed by the owner's key: risk and taint decide which gesture is asked for, so that a row in
   which somebody lowers them is not this card any more. It can only be declined.
2. A card is decided once, while it is open. Nobody decides it after it has expired: that is a no.
3. A yes is to what was shown: whoever asked says which hashes these were, and only these are
   signed, whatever the rows say by then.
4. A decision is signed when it is made, over the card, the hashes, risk, taint and verdict: by the
   owner's key, or on a trusted device. Whoever follows it checks the signature: a row that somebody
   wrote into the database decides nothing, nor does a device that was revoked in between.
5. The event that lets the decision be followed is sent in the transaction that keeps it.
6. When a decision was kept is vouched for by the owner's key (`receipts.py`): a yes is good for a
   while, and leads to one approval. Rows that are put back do not make it new.
7. What cannot be undone takes more than a device's key: a passkey that signs the plan's hash, or
   the owner's own key. The passkey is checked when it is used and when the decision is followed.
"""

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from silas.approval import (
    ApprovalDecision,
    ApprovalVerdict,
    Assertion,
    DecisionRefused,
    PasskeyStore,
)
from silas.gates.risk import RiskLevel
from silas.kernel import Clock, TaintLevel, format_timestamp
from silas.queue.store import QueueStore
from silas.storage import Database, Durability, Row, Transaction
from silas.stream.adopting import plan_risk
from silas.stream.card_proofs import GRANTS, CardProofs, DeviceKeys, Signed
from silas.stream.card_rows import (
    DECIDE,
    INSERT,
    LAST_SENT_BACK,
    SEAL,
    SELECT,
    card_of,
    card_values,
)
from silas.stream.card_statements import (
    CHANGED,
    UNSEALED,
    Card,
    batch_decision_bytes,
    batch_entry,
    decision_bytes,
    is_about,
    kept_signature,
    kept_statement,
    require_shown,
    seal_bytes,
)
from silas.stream.decision_log import event_of
from silas.stream.decisions import UNDO, decision_made
from silas.stream.errors import (
    CardNotOpen,
    CardUnknown,
    DecisionNotSigned,
)
from silas.stream.ports import CardDecision, PlanReview
from silas.stream.receipts import Receipts, Signer
from silas.work.ports import AuditTrail

__all__ = ["Card", "CardStore", "decision_bytes", "require_shown"]

DEFAULT_TTL = timedelta(days=7)
_SENT_BACK = timedelta(minutes=30)
"""How long the next plan counts as another version of one that was sent back."""
_BATCHED = (RiskLevel.LOW, RiskLevel.MEDIUM)
_RISKS = tuple(RiskLevel)


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
        passkeys: PasskeyStore | None = None,
    ) -> None:
        self._database = database
        self._queue = queue
        self._signer = signer
        self._audit = audit
        self._clock = clock
        self._ttl = ttl
        self._proofs = CardProofs(database, signer, devices, passkeys)
        self._receipts = Receipts(database, signer)

    def ask_plan(self, tx: Transaction, review: PlanReview) -> None:
        """Put a card before the owner, as part of a transaction (rule 1)."""
        now = self._clock.now()
        risk = max((plan_risk(item, review.taint) for item in review.items), key=_RISKS.index)
        ttl = self._ttl if review.valid_for is None else review.valid_for
        card = Card(
            card_id=review.card_id,
            scope_id=review.scope_id,
            connection_id=review.connection_id,
            channel=review.channel,
            trace_id=review.trace_id,
            title=review.items[0].title,
            message=review.message,
            risk=risk,
            taint=review.taint,
            plan_hashes={item.id: item.plan_hash for item in review.items},
            replaces=review.replaces or self._revised(tx, review),
            requested_by=review.requested_by,
            created_at=now,
            expires_at=now + ttl,
            state="open",
        )
        key_id, signature = self._signer.sign(seal_bytes(card))
        tx.execute(INSERT, card_values(card))
        tx.execute(SEAL, (card.card_id, key_id, base64.b64encode(signature).decode()))

    def _revised(self, tx: Transaction, review: PlanReview) -> str | None:
        """The work item that this plan is another version of: what the owner has just sent back.

        It is only shown, so that he sees what changed; nothing is decided by it.
        """
        if review.requested_by == "undo":
            return None
        since = format_timestamp(self._clock.now() - _SENT_BACK)
        row = tx.fetch_one(LAST_SENT_BACK, (review.scope_id, since))
        if row is None or (
            row[1] != ApprovalVerdict.EDIT_REQUESTED and row[0] != review.items[0].title
        ):
            return None
        return next(iter(json.loads(row[2])), None)

    async def get(self, card_id: str) -> Card:
        """A card; raises `CardUnknown`."""
        return self._card(await self._row(card_id))

    async def open_cards(self) -> list[Card]:
        """What waits for the owner, oldest first."""
        rows = await self._database.fetch_all(
            f"{SELECT} WHERE state = 'open' ORDER BY created_at, id"
        )
        return [self._card(row) for row in rows]

    async def recent(self, count: int) -> list[Card]:
        """The newest cards in whatever state, oldest first."""
        rows = await self._database.fetch_all(
            f"{SELECT} ORDER BY created_at DESC, id DESC LIMIT ?", (count,)
        )
        return [self._card(row) for row in reversed(rows)]

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
            raise DecisionRefused(CHANGED)
        await self._require_sealed(card, decision)
        statement = decision_bytes(card, decision)
        await self._keep([card], decision, Signed(statement, *self._signer.sign(statement)))
        return await self.get(card_id)

    async def decide_signed(
        self,
        card_id: str,
        decision: ApprovalDecision,
        *,
        key_id: str,
        signature: bytes,
        passkey: Assertion | None = None,
        origins: Collection[str] = (),
    ) -> Card:
        """The same for a decision that was signed on one of the owner's devices.

        `origins` are the pages on which the passkey may have been used. Raises
        `DecisionNotSigned`, `StrongerProofNeeded` (rule 7) or `CardNotOpen`.
        """
        card = await self.get(card_id)
        signed = Signed(decision_bytes(card, decision), key_id, signature)
        await self._require_device(card_id, signed)
        await self._require_sealed(card, decision)
        if decision.verdict in GRANTS and card.risk is RiskLevel.IRREVERSIBLE:
            signed = await self._proofs.with_passkey(card, signed, passkey, origins)
        if self._clock.now() >= card.expires_at:
            await self.decide(card_id, ApprovalDecision(verdict=ApprovalVerdict.DECLINED))
            raise CardNotOpen(f"{card_id} has expired: nobody decided it in time.")
        await self._keep([card], decision, signed)
        return await self.get(card_id)

    async def decide_batch(
        self,
        content: Mapping[str, Any],
        decision: ApprovalDecision,
        *,
        key_id: str,
        signature: bytes,
    ) -> list[Card]:
        """Decide several cards by one signature over all of them; all of them, or none.

        Raises `DecisionNotSigned`, `DecisionRefused` or `CardNotOpen`.
        """
        signed = Signed(batch_decision_bytes(content, decision), key_id, signature)
        await self._require_device(str(content.get("item_ids")), signed)
        cards = [await self.get(name) for name in content["item_ids"]]
        now = self._clock.now()
        for card, entry in zip(cards, content["items"], strict=True):
            wanted = batch_entry(card)
            if {name: entry.get(name) for name in wanted} != wanted or card.risk not in _BATCHED:
                raise DecisionRefused(CHANGED)
            if now >= card.expires_at:
                raise CardNotOpen(f"{card.card_id} has expired: nobody decided it in time.")
            await self._require_sealed(card, decision)
        await self._keep(cards, decision, signed)
        taps = 2 if any(card.risk is RiskLevel.MEDIUM for card in cards) else 1
        await self._audit.log("batch_decided", cards=len(cards), taps=taps)
        return cards

    async def _require_device(self, name: str, signed: Signed) -> None:
        if not await self._proofs.is_from_device(signed):
            await self._audit.log("card_decision_unsigned", card_id=name, key_id=signed.key_id)
            raise DecisionNotSigned

    async def _require_sealed(self, card: Card, decision: ApprovalDecision) -> None:
        """Rule 1."""
        if not card.sealed and decision.verdict in GRANTS:
            await self._audit.log("card_changed", card_id=card.card_id)
            raise DecisionRefused(UNSEALED)

    async def _keep(
        self, cards: Sequence[Card], decision: ApprovalDecision, signed: Signed
    ) -> None:
        """All of the cards, or none."""
        made = base64.b64encode(signed.signature).decode()
        now, verdict = self._clock.now(), decision.verdict.value
        events = [
            decision_made(
                card.card_id, trace_id=card.trace_id, scope_id=card.scope_id, clock=self._clock
            )
            for card in cards
        ]

        def write(tx: Transaction) -> None:
            for card, event in zip(cards, events, strict=True):
                at = format_timestamp(now)
                values = (verdict, signed.statement.decode(), signed.key_id, made, at)
                if tx.execute(DECIDE, (*values, card.card_id)) != 1:
                    raise CardNotOpen(f"{card.card_id} was decided already.")
                self._receipts.keep(tx, card.card_id, signed.statement, now=now)
                self._proofs.keep(tx, card.card_id, signed)
                self._queue.enqueue_in(tx, event)

        await self._database.transaction(write, durability=Durability.TRUST)
        self._queue.bus.notify_of(events)
        for card in cards:
            event = event_of(verdict, late=now >= card.expires_at, undo=card.requested_by == UNDO)
            await self._audit.log(event, card_id=card.card_id, verdict=verdict)

    async def decline_expired(self) -> int:
        """Nobody decided in time: that is a no."""
        late = [card for card in await self.open_cards() if self._clock.now() >= card.expires_at]
        for card in late:
            await self.decide(card.card_id, ApprovalDecision(verdict=ApprovalVerdict.DECLINED))
        return len(late)

    async def decision(self, card_id: str) -> CardDecision | None:
        """The decision, if there is one that the owner has signed (rules 1, 4 and 7)."""
        row = await self._row(card_id)
        statement, key_id, signature = row[15:18]
        if statement is None:
            return None
        card, said = self._card(row), kept_statement(statement)
        try:
            decided = ApprovalDecision.model_validate(said.get("decision"))
        except ValidationError:
            decided = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
        signed = Signed(str(statement).encode(), str(key_id), kept_signature(signature))
        if not is_about(card, said, decided) or not await self._proofs.is_owners(
            card, decided, signed, now=self._clock.now()
        ):
            await self._audit.log("card_decision_forged", card_id=card_id)
            return None
        return CardDecision(
            card_id=card_id,
            plan_hashes=card.plan_hashes,
            decision=decided,
            decided_at=await self._receipts.decided_at(card_id, signed.statement),
            requested_by=card.requested_by,
        )

    def _card(self, row: Row) -> Card:
        """The card of a row; without its seal it is as risky as can be (rule 1)."""
        card = card_of(row)
        key_id, seal = row[18:20]
        signature, now = kept_signature(seal), self._clock.now()
        if key_id and self._signer.verify(key_id, seal_bytes(card), signature, at=now):
            return card
        worst = {"risk": RiskLevel.IRREVERSIBLE, "taint": TaintLevel.EXTERNAL, "sealed": False}
        return card.model_copy(update=worst)

    async def _row(self, card_id: str) -> Row:
        row = await self._database.fetch_one(f"{SELECT} WHERE id = ?", (card_id,))
        if row is None:
            raise CardUnknown(f"There is no card {card_id!a}. `silas review list` shows them.")
        return row
