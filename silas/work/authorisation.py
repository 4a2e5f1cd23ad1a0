"""From the owner's decision to work that may run: issue, verify, attach (5.1.2, steps 5 to 8)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from silas.approval import ApprovalDecision, ApprovalScope, ApprovalVerdict
from silas.kernel import ApprovalError, canonical_bytes
from silas.work.door import NO_APPROVAL
from silas.work.models import WorkItem, WorkItemType
from silas.work.ports import PausedCall
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


async def authorise_call(bench: Workbench, call: PausedCall) -> None:
    """Let the owner decide about one call; raises `ApprovalError` unless the answer is a yes."""
    if bench.approver is None:
        raise ApprovalError(
            f"This needs the owner's decision, and nobody can be asked: {call.reasons[0]}"
        )
    decision = await bench.approver.decide_call(call)
    if decision.verdict is not ApprovalVerdict.APPROVED:
        raise ApprovalError(f"The owner's verdict was {decision.verdict.value}: {call.reasons[0]}")
    payload = CallPayload(bench.ids.new("call"), call.model_dump(mode="json"))
    token = await bench.approvals.issue_token(payload, decision, ApprovalScope.SINGLE_STEP)
    valid, reason = await bench.approvals.verify(token, payload, accept=_ONE_CALL)
    if not valid:
        raise ApprovalError(f"The decision could not be used: {reason}.")


async def authorise(bench: Workbench, item: WorkItem, decision: ApprovalDecision) -> WorkItem:
    """The stored item with a verified token; raises `ApprovalError` if there cannot be one.

    A goal gets a standing approval. Its uses are consumed one by one, by the tasks that it spawns.
    """
    if decision.verdict is not ApprovalVerdict.APPROVED:
        await bench.audit.log("plan_declined", work_item_id=item.id, verdict=decision.verdict.value)
        raise ApprovalError(f"{item.id} was not approved.")
    goal = item.type is WorkItemType.GOAL
    scope = ApprovalScope.STANDING if goal else ApprovalScope.FULL_PLAN
    token = await bench.approvals.issue_token(item, decision, scope)
    verify = bench.approvals.check_goal if goal else bench.approvals.verify
    valid, reason = await verify(token, item)
    if not valid:
        await bench.audit.log(NO_APPROVAL, work_item_id=item.id, reason=reason)
        raise ApprovalError(f"{item.id} cannot be executed: {reason}.")
    return await bench.items.save(item.model_copy(update={"approval_token": token}))
