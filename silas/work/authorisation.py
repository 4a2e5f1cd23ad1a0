"""From the owner's decision to work that may run: issue, verify, attach (5.1.2, steps 5 to 8)."""

from silas.approval import ApprovalDecision, ApprovalScope, ApprovalVerdict
from silas.kernel import ApprovalError
from silas.work.door import NO_APPROVAL
from silas.work.models import WorkItem, WorkItemType
from silas.work.workbench import Workbench


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
