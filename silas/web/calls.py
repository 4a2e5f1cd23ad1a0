"""Calls of work that is under way and waits for the owner, as cards of their own.

1. A call is shown with its exact arguments: the bytes whose hash the token will be bound to.
2. It is decided by a signature of one of the owner's devices over the call's id, that hash and the
   verdict, checked against the call as it waits now.
3. A call that destroys something takes a passkey as well, which signs that hash.
"""

from collections.abc import Collection
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
from silas.kernel import Clock, canonical_bytes
from silas.storage import Database, Durability
from silas.stream.errors import DecisionNotSigned, StrongerProofNeeded
from silas.stream.review.store import QuestionStore
from silas.web import wire
from silas.web.questions import shown_question
from silas.work.authorisation import CallPayload, decide_waiting, payload_of
from silas.work.paused import KeptCall, KeptRun
from silas.work.ports import PausedCall
from silas.work.workbench import Workbench

_CONSEQUENCES = {"approved": "Let this one call happen", "declined": "Do not make it"}


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

    async def cards(self) -> list[wire.ApprovalRequest | wire.Asked]:
        """Everything that waits besides plans, oldest first: calls, and questions."""
        asked = [shown_question(each) for each in await self.questions.open()]
        return sorted([*await self.calls(), *asked], key=lambda card: card.created_at)

    async def calls(self) -> list[wire.ApprovalRequest]:
        """The calls that wait (rule 1)."""
        now = self.clock.now()
        runs = await self.bench.paused.waiting() if self.bench.paused else []
        return [_card(run, call) for run in runs for call in run.undecided(now)]

    async def waits(self, call_id: str) -> bool:
        """Whether there is such a call."""
        return any(card.request_id == call_id for card in await self.calls())

    async def decide(self, call_id: str, verdict: ApprovalVerdict, signed: Signed) -> None:
        """Take a decision that was signed on a device (rules 2 and 3).

        Raises `DecisionNotSigned` or `StrongerProofNeeded`.
        """
        if self.bench.paused is None:
            raise DecisionNotSigned
        kept = await self.bench.paused.find_call(call_id)
        payload = payload_of(kept.id, kept.call)
        statement = call_decision_bytes(payload, verdict)
        if not await self.devices.verify(signed.key_id, statement, signed.signature):
            raise DecisionNotSigned
        grants = verdict is not ApprovalVerdict.DECLINED
        if grants and call_risk(kept.call) is RiskLevel.IRREVERSIBLE:
            await self._require_passkey(payload, signed)
        await decide_waiting(self.bench, kept, ApprovalDecision(verdict=verdict))

    async def _require_passkey(self, payload: CallPayload, signed: Signed) -> None:
        """Rule 3."""
        passkey = signed.passkey
        if passkey is None:
            raise StrongerProofNeeded
        challenge = bytes.fromhex(payload.plan_hash)
        use = await self.passkeys.verify(passkey, challenge, origins=signed.origins)
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


def call_decision_bytes(payload: CallPayload, verdict: ApprovalVerdict) -> bytes:
    """What a device signs."""
    decision = ApprovalDecision(verdict=verdict)
    return canonical_bytes(
        {
            "type": "call_decision",
            "card_id": payload.id,
            "plan_hashes": {payload.id: payload.plan_hash},
            "decision": decision.model_dump(mode="json"),
        }
    )


def _card(run: KeptRun, kept: KeptCall) -> wire.ApprovalRequest:
    call, payload = kept.call, payload_of(kept.id, kept.call)
    risk = call_risk(call)
    interaction = interaction_for(risk)
    return wire.ApprovalRequest(
        kind="call",
        request_id=kept.id,
        title=f"Call {call.tool}",
        body="",
        risk_level=risk,
        rationale=" ".join(call.reasons),
        steps=interaction.steps,
        details_expanded=interaction.details_expanded,
        consequences=_CONSEQUENCES,
        items=[
            wire.PlanShown(
                id=kept.id, plan=payload.plan_bytes().decode(), plan_hash=payload.plan_hash
            )
        ],
        budget={},
        verify=[],
        taint=call.taint.value,
        trace_id=kept.id,
        state="open",
        created_at=run.paused_at,
        expires_at=run.expires_at,
    )
