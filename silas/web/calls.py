"""Calls of work that is under way and waits for the owner, as cards.

1. A call is shown with its exact arguments: the bytes whose hash its token will be bound to.
2. Calls of one run that wait together are on one card. Each has its own bytes, hash and token, and
   the owner decides about all of them or about those that are chosen; the others go on waiting.
3. What lets the work go on after the decision is written in the decision's own transaction.
4. Files that work changed beyond its plan are such calls, each with its difference. Whoever takes
   some of the files on a card leaves the others on it.

How risky they are, and which proof that takes, is decided where every path decides it
(`silas.work.authorisation`, `silas.review.decisions`).
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from silas.approval import ApprovalScope, ApprovalVerdict
from silas.gates.risk import RiskLevel, riskiest
from silas.kernel import Clock, join_taint
from silas.kernel.taint import first_sources
from silas.review import DecisionNotSigned, OwnersWord, Requirement
from silas.review.questions import QuestionStore
from silas.storage import Transaction
from silas.stream.resuming import WorkResumption
from silas.web import wire
from silas.web.questions import shown_question
from silas.work.authorisation import TAKE_OVER, call_risk, decide_waiting, payload_of
from silas.work.execution_context import ExecutionContext
from silas.work.paused import KeptCall, KeptRun

_CONSEQUENCES = {"approved": "Let this one call happen", "declined": "Do not make it"}
_OF_SEVERAL = {"approved": "Let the ticked calls happen", "declined": "Make none of them"}
_FILE = {"approved": "Take this file", "declined": "Leave it"}
_FILES = {"approved": "Take the ticked files", "declined": "Take none of them"}
_LEFT = "What is not ticked is left, and your files stay as they are there."

GoingOn = Callable[[str, str], Awaitable[WorkResumption | None]]
"""What lets the work with this id go on, once the decision about this call is stored."""


@dataclass(frozen=True)
class WaitingCalls:
    """The calls that wait in one data directory."""

    work: ExecutionContext
    questions: QuestionStore
    clock: Clock
    going_on: GoingOn

    async def cards(self) -> list[wire.ApprovalRequest | wire.Asked]:
        """Everything that waits besides plans, oldest first: calls, and questions."""
        requirement = self.work.decisions.requirement
        asked = [
            shown_question(each, requirement(each.content.risk, each.approval_scope))
            for each in await self.questions.open()
        ]
        return sorted([*await self.calls(), *asked], key=lambda card: card.created_at)

    async def calls(self) -> list[wire.ApprovalRequest]:
        """The calls that wait (rules 1 and 2)."""
        return [self._card(run, calls) for run, calls in await self._waiting()]

    async def waits(self, card_id: str) -> bool:
        """Whether there is such a card."""
        return any(card.request_id == card_id for card in await self.calls())

    async def decide(
        self, card_id: str, word: OwnersWord, *, chosen: Collection[str] | None = None
    ) -> None:
        """Take a decision about a card, or about the chosen calls on it (rules 3 and 4).

        Raises `DecisionNotSigned` or `StrongerProofNeeded`.
        """
        calls, others = await self._calls_of(card_id, chosen)
        if not calls:
            raise DecisionNotSigned
        # Calls of one card may be decided one after the other: each decision is named by its own.
        resumption = await self.going_on(calls[0].call.work_item_id, calls[0].id)

        def also(tx: Transaction) -> None:
            if resumption is not None:
                resumption.write(tx)

        taken = word.decision.verdict is not ApprovalVerdict.DECLINED
        left = others if taken else ()
        await decide_waiting(self.work, calls, word, card_id=card_id, left=left, also=also)
        if resumption is not None:
            resumption.notify()

    async def _waiting(self) -> list[tuple[KeptRun, tuple[KeptCall, ...]]]:
        now = self.clock.now()
        runs = await self.work.paused.waiting() if self.work.paused else []
        found = [(run, run.undecided(now)) for run in runs]
        return [(run, calls) for run, calls in found if calls]

    async def _calls_of(
        self, card_id: str, chosen: Collection[str] | None
    ) -> tuple[Sequence[KeptCall], Sequence[KeptCall]]:
        """The calls that a decision is about; none if one of them does not wait on this card.

        Beside them the files that are left by taking those (rule 4).
        """
        for run, calls in await self._waiting():
            if _card_id(run, calls) == card_id:
                meant = [each for each in calls if chosen is None or each.id in chosen]
                if chosen is not None and len(meant) != len(set(chosen)):
                    return (), ()
                others = [each for each in calls if each not in meant] if _are_files(calls) else []
                return meant, others
        return (), ()

    def _card(self, run: KeptRun, calls: Sequence[KeptCall]) -> wire.ApprovalRequest:
        effect_of = self.work.registry.effect_of
        risk = riskiest(*(call_risk(each.call, effect_of) for each in calls))
        needs = self.work.decisions.requirement(risk, ApprovalScope.SINGLE_STEP)
        return _shown_calls(run, calls, risk, needs)


def _card_id(run: KeptRun, calls: Sequence[KeptCall]) -> str:
    """A card from which something was decided is another card."""
    return calls[0].id if len(calls) == 1 else f"{run.id}.{len(calls)}"


def _shown_calls(
    run: KeptRun, calls: Sequence[KeptCall], risk: RiskLevel, needs: Requirement
) -> wire.ApprovalRequest:
    reasons = dict.fromkeys(reason for each in calls for reason in each.call.reasons)
    card_id = _card_id(run, calls)
    title, consequences = _asked(calls)
    left = [_LEFT] if consequences is _FILES else []
    return wire.ApprovalRequest(
        kind="call",
        request_id=card_id,
        title=title,
        body="",
        risk_level=risk,
        rationale=" ".join([*reasons, *left]),
        steps=needs.steps,
        details_expanded=needs.details_expanded,
        consequences=consequences,
        items=[_shown(each) for each in calls],
        budget={},
        verify=[],
        taint=join_taint(*(each.call.taint for each in calls)).value,
        sources=list(first_sources(name for each in calls for name in each.call.taint_sources)),
        trace_id=card_id,
        state="open",
        created_at=run.paused_at,
        expires_at=run.expires_at,
    )


def _asked(calls: Sequence[KeptCall]) -> tuple[str, dict[str, str]]:
    """What the card is called, and what its buttons do."""
    count = len(calls)
    if _are_files(calls):
        files = "file" if count == 1 else "files"
        return f"{count} {files} beyond the plan", _FILE if count == 1 else _FILES
    if count == 1:
        return f"Call {calls[0].call.tool}", _CONSEQUENCES
    return f"{count} calls", _OF_SEVERAL


def _are_files(calls: Sequence[KeptCall]) -> bool:
    return all(each.call.tool == TAKE_OVER for each in calls)


def _shown(kept: KeptCall) -> wire.PlanShown:
    payload = payload_of(kept.id, kept.call)
    return wire.PlanShown(
        id=kept.id, plan=payload.plan_bytes().decode(), plan_hash=payload.plan_hash
    )
