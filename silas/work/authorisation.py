"""From the owner's decision to work that may run: issue, verify, attach (5.1.2, steps 5 to 8)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from silas.approval import ApprovalDecision, ApprovalScope, ApprovalToken, ApprovalVerdict
from silas.kernel import ApprovalError, canonical_bytes
from silas.work.door import NO_APPROVAL
from silas.work.errors import WorkItemConflict
from silas.work.models import WorkItem, WorkItemType
from silas.work.paused import DecidedCall, KeptCall
from silas.work.ports import Later, PausedCall, PausingAgent
from silas.work.workbench import Workbench

_ONE_CALL = frozenset({ApprovalScope.SINGLE_STEP})


@dataclass(frozen=True)
class CallPayload:
    """One paused call as something to approve: its exact arguments, for this attempt alone."""

    id: str
    content: Mapping[str, Any]
    parent: str | None = None

    def plan_bytes(self) -> bytes:
        return canonical_bytes({"id": self.id, **self.content})

    def spawn_policy_bytes(self) -> bytes:
        return b""

    @property
    def plan_hash(self) -> str:
        """What a token for this call is bound to."""
        return hashlib.sha256(self.plan_bytes()).hexdigest()


def payload_of(call_id: str, call: PausedCall) -> CallPayload:
    """The call as it is shown and signed."""
    return CallPayload(call_id, call.model_dump(mode="json"))


async def authorise_call(bench: Workbench, call: PausedCall) -> bool:
    """Let the owner decide about one call; False if the decision comes later.

    Raises `ApprovalError` if the answer is a no, and also if it comes later and this worker cannot
    wait for it.
    """
    if bench.approver is None:
        raise ApprovalError(
            f"This needs the owner's decision, and nobody can be asked: {call.reasons[0]}"
        )
    decision = await bench.approver.decide_call(call)
    if isinstance(decision, Later):
        if bench.paused is None or not isinstance(bench.agent, PausingAgent):
            raise ApprovalError(
                "This needs the owner's decision, which cannot be waited for here: "
                f"{call.reasons[0]}"
            )
        return False
    await sign_call(bench, bench.ids.new("call"), call, decision)
    return True


async def sign_call(
    bench: Workbench, call_id: str, call: PausedCall, decision: ApprovalDecision
) -> ApprovalToken:
    """The token for one call, issued and consumed; raises `ApprovalError` unless it is a yes."""
    if decision.verdict is not ApprovalVerdict.APPROVED:
        raise ApprovalError(f"The owner's verdict was {decision.verdict.value}: {call.reasons[0]}")
    payload = payload_of(call_id, call)
    token = await bench.approvals.issue_token(payload, decision, ApprovalScope.SINGLE_STEP)
    valid, reason = await bench.approvals.verify(token, payload, accept=_ONE_CALL)
    if not valid:
        raise ApprovalError(f"The decision could not be used: {reason}.")
    return token


async def decide_waiting(bench: Workbench, shown: KeptCall, decision: ApprovalDecision) -> None:
    """Write down the owner's decision about a call that waits; executing its item then goes on.

    It is about the call as it was shown. Raises `WorkItemConflict` if that does not wait any more.
    """
    if bench.paused is None:
        raise ApprovalError("Nothing can wait for a decision here.")
    kept = await bench.paused.find_call(shown.id)
    if kept.call != shown.call:
        raise WorkItemConflict(
            f"The call {shown.id} is not the one that was shown. See `silas work waiting`."
        )
    approved = decision.verdict is ApprovalVerdict.APPROVED
    token = await sign_call(bench, kept.id, kept.call, decision) if approved else None
    await bench.paused.record(kept.id, decision.verdict, token)
    await bench.audit.log(
        "paused_call_decided",
        work_item_id=kept.call.work_item_id,
        attempt=kept.call.attempt,
        call=kept.id,
        tool=kept.call.tool,
        verdict=decision.verdict.value,
    )


async def require_decided(bench: Workbench, decided: DecidedCall) -> None:
    """Raise `ApprovalError` unless the token was given for exactly this call."""
    payload = payload_of(decided.id, decided.call)
    valid, reason = await bench.approvals.check(decided.token, payload, accept=_ONE_CALL)
    if not valid:
        raise ApprovalError(f"The decision about this call is not valid: {reason}.")


async def authorise(bench: Workbench, item: WorkItem, decision: ApprovalDecision) -> WorkItem:
    """The stored item with a verified token; raises `ApprovalError` if there cannot be one.

    A goal gets a standing approval. Its uses are consumed one by one, by the tasks that it spawns.
    """
    await _require_yes(bench, item, decision)
    token = await bench.approvals.issue_token(item, decision, _scope(item))
    return await _attach(bench, item, token)


async def authorise_once(
    bench: Workbench, item: WorkItem, decision: ApprovalDecision, *, decided_at: datetime | None
) -> WorkItem | None:
    """The same for a decision that was kept at that time: however often it is followed, one token.

    The process may have died at any point: a token that was issued before is the one that is meant.
    None if it was decided too long ago.
    """
    await _require_yes(bench, item, decision)
    approvals = bench.approvals
    token = await approvals.token_for(item, decision, _scope(item), decided_at=decided_at)
    return await _attach(bench, item, token) if token is not None else None


async def _require_yes(bench: Workbench, item: WorkItem, decision: ApprovalDecision) -> None:
    if decision.verdict is not ApprovalVerdict.APPROVED:
        await bench.audit.log("plan_declined", work_item_id=item.id, verdict=decision.verdict.value)
        raise ApprovalError(f"{item.id} was not approved.")


def _scope(item: WorkItem) -> ApprovalScope:
    goal = item.type is WorkItemType.GOAL
    return ApprovalScope.STANDING if goal else ApprovalScope.FULL_PLAN


async def _attach(bench: Workbench, item: WorkItem, token: ApprovalToken) -> WorkItem:
    approvals = bench.approvals
    if item.type is WorkItemType.GOAL:
        valid, reason = await approvals.check_goal(token, item)
    else:
        valid, reason = await approvals.verify(token, item)
        if not valid:  # it may have been used up for this very item, just before a crash
            valid, _ = await approvals.check(token, item)
    if not valid:
        await bench.audit.log(NO_APPROVAL, work_item_id=item.id, reason=reason)
        raise ApprovalError(f"{item.id} cannot be executed: {reason}.")
    return await bench.items.save(item.model_copy(update={"approval_token": token}))
