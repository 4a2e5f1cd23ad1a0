"""Calls of work that is under way and waits for the owner, as cards.

1. A call is shown with its exact arguments: the bytes whose hash its token will be bound to.
2. Calls of one run that wait together are on one card. Each has its own bytes, hash and token, and
   the owner decides about all of them or about those that are chosen; the others go on waiting.
3. A decision is signed by one of the owner's devices over the card's id, the hashes of the calls
   that it is about and the verdict, and checked against the calls as they wait now.
4. If one of them destroys something, a passkey is needed as well, which signs that hash; of several
   calls, the hash of all their hashes.
5. The work goes on once it is decided.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from silas.approval import (
    ApprovalDecision,
    ApprovalScope,
    ApprovalVerdict,
    Assertion,
    DeviceStore,
    PasskeyStore,
)
from silas.gates.actions import action_of
from silas.gates.risk import Reversibility, RiskLevel, interaction_for, risk_of
from silas.kernel import Clock, canonical_bytes, join_taint
from silas.storage import Database, Durability
from silas.stream.errors import DecisionNotSigned, StrongerProofNeeded
from silas.stream.review.store import QuestionStore
from silas.web import wire
from silas.web.questions import shown_question
from silas.work.authorisation import decide_waiting, payload_of
from silas.work.paused import KeptCall, KeptRun
from silas.work.ports import PausedCall
from silas.work.workbench import Workbench

_CONSEQUENCES = {"approved": "Let this one call happen", "declined": "Do not make it"}
_OF_SEVERAL = {"approved": "Let the ticked calls happen", "declined": "Make none of them"}
_RISKS = list(RiskLevel)

GoOn = Callable[[str, str], Awaitable[bool]]
"""Lets the work with this id go on, after the decision about this card."""


@dataclass(frozen=True)
class Signed:
    """By whom a decision was signed, and with what besides."""

    key_id: str
    signature: bytes
    passkey: Assertion | None = None
    origins: Collection[str] = ()
    """The pages on which the passkey may have been used."""


@dataclass(frozen=True)
class WaitingCalls:
    """The calls that wait in one data directory."""

    bench: Workbench
    devices: DeviceStore
    passkeys: PasskeyStore
    database: Database
    questions: QuestionStore
    clock: Clock
    go_on: GoOn

    async def cards(self) -> list[wire.ApprovalRequest | wire.Asked]:
        """Everything that waits besides plans, oldest first: calls, and questions."""
        asked = [shown_question(each) for each in await self.questions.open()]
        return sorted([*await self.calls(), *asked], key=lambda card: card.created_at)

    async def calls(self) -> list[wire.ApprovalRequest]:
        """The calls that wait (rules 1 and 2)."""
        return [_card(run, calls) for run, calls in await self._waiting()]

    async def waits(self, card_id: str) -> bool:
        """Whether there is such a card."""
        return any(card.request_id == card_id for card in await self.calls())

    async def decide(
        self,
        card_id: str,
        verdict: ApprovalVerdict,
        signed: Signed,
        *,
        chosen: Collection[str] | None = None,
    ) -> None:
        """Take a decision about a card, or about the chosen calls on it (rules 3 to 5).

        Raises `DecisionNotSigned` or `StrongerProofNeeded`.
        """
        calls = await self._calls_of(card_id, chosen)
        hashes = {each.id: payload_of(each.id, each.call).plan_hash for each in calls}
        statement = call_decision_bytes(card_id, hashes, verdict)
        if not hashes or not await self.devices.verify(signed.key_id, statement, signed.signature):
            raise DecisionNotSigned
        grants = verdict is not ApprovalVerdict.DECLINED
        if grants and _highest(calls) is RiskLevel.IRREVERSIBLE:
            await self._require_passkey(hashes, signed)
        for each in calls:
            await decide_waiting(self.bench, each, ApprovalDecision(verdict=verdict))
        # Calls of one card may be decided one after the other: each decision is named by its own.
        await self.go_on(calls[0].call.work_item_id, calls[0].id)

    async def _waiting(self) -> list[tuple[KeptRun, tuple[KeptCall, ...]]]:
        now = self.clock.now()
        runs = await self.bench.paused.waiting() if self.bench.paused else []
        found = [(run, run.undecided(now)) for run in runs]
        return [(run, calls) for run, calls in found if calls]

    async def _calls_of(self, card_id: str, chosen: Collection[str] | None) -> Sequence[KeptCall]:
        """The calls that a decision is about; none if one of them does not wait on this card."""
        for run, calls in await self._waiting():
            if _card_id(run, calls) == card_id:
                meant = [each for each in calls if chosen is None or each.id in chosen]
                return meant if chosen is None or len(meant) == len(set(chosen)) else ()
        return ()

    async def _require_passkey(self, hashes: dict[str, str], signed: Signed) -> None:
        """Rule 4."""
        passkey = signed.passkey
        if passkey is None:
            raise StrongerProofNeeded
        use = await self.passkeys.verify(passkey, _challenge(hashes), origins=signed.origins)
        await self.database.transaction(
            lambda tx: self.passkeys.count_in(tx, passkey.credential_id, use),
            durability=Durability.TRUST,
        )


def call_risk(call: PausedCall) -> RiskLevel:
    """How risky one call is: the runtime's word, from what is signed."""
    return risk_of(
        ApprovalScope.SINGLE_STEP,
        action_of(call.tool),
        reversibility=Reversibility.HARD,
        taint=call.taint,
        inside_envelope=False,
    )


def call_decision_bytes(card_id: str, hashes: dict[str, str], verdict: ApprovalVerdict) -> bytes:
    """What a device signs: the card, and the hash of each call that is meant, by its id."""
    decision = ApprovalDecision(verdict=verdict)
    return canonical_bytes(
        {
            "type": "call_decision",
            "card_id": card_id,
            "plan_hashes": hashes,
            "decision": decision.model_dump(mode="json"),
        }
    )


def _challenge(hashes: dict[str, str]) -> bytes:
    if len(hashes) == 1:
        return bytes.fromhex(*hashes.values())
    return hashlib.sha256(canonical_bytes(hashes)).digest()


def _highest(calls: Sequence[KeptCall]) -> RiskLevel:
    return max((call_risk(each.call) for each in calls), key=_RISKS.index)


def _card_id(run: KeptRun, calls: Sequence[KeptCall]) -> str:
    """A card from which something was decided is another card."""
    return calls[0].id if len(calls) == 1 else f"{run.id}.{len(calls)}"


def _card(run: KeptRun, calls: Sequence[KeptCall]) -> wire.ApprovalRequest:
    first, risk = calls[0].call, _highest(calls)
    interaction = interaction_for(risk)
    reasons = dict.fromkeys(reason for each in calls for reason in each.call.reasons)
    card_id = _card_id(run, calls)
    one = len(calls) == 1
    return wire.ApprovalRequest(
        kind="call",
        request_id=card_id,
        title=f"Call {first.tool}" if one else f"{len(calls)} calls",
        body="",
        risk_level=risk,
        rationale=" ".join(reasons),
        steps=interaction.steps,
        details_expanded=interaction.details_expanded,
        consequences=_CONSEQUENCES if one else _OF_SEVERAL,
        items=[_shown(each) for each in calls],
        budget={},
        verify=[],
        taint=join_taint(*(each.call.taint for each in calls)).value,
        trace_id=card_id,
        state="open",
        created_at=run.paused_at,
        expires_at=run.expires_at,
    )


def _shown(kept: KeptCall) -> wire.PlanShown:
    payload = payload_of(kept.id, kept.call)
    return wire.PlanShown(
        id=kept.id, plan=payload.plan_bytes().decode(), plan_hash=payload.plan_hash
    )
