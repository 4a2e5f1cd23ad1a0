"""One cycle of a goal, as the scheduler or the owner starts it.

1. The door: a standing approval of exactly this goal is in force. Then all checks of the goal run.
2. The results go to the audit log.
3. All passed: `healthy`.
4. Otherwise, if the goal repairs itself, a task is made from it. Its authorisation is one use of
   the standing approval, consumed for exactly this task; if that is refused, the owner is asked; if
   nobody can be asked or the answer is no, the task is `blocked`. Then it is executed.
5. Otherwise: `failed`, with the report.
"""

import asyncio
import hashlib
from functools import partial

from silas.kernel import ApprovalError
from silas.work.attempts import AttemptOutcome
from silas.work.authorisation import authorise
from silas.work.checks import VerificationReport
from silas.work.door import CHANGED, NO_APPROVAL, Blocked, require_entry
from silas.work.ending import Ending, claim_and_end
from silas.work.errors import BindingBroken, FileRefused
from silas.work.execution import block, execute_task, stored
from silas.work.models import WorkItem, WorkItemResult, WorkItemStatus
from silas.work.recovery import release
from silas.work.spawning import spawn_task
from silas.work.workbench import Workbench

_SPAWN = "spawn_task"
_STARTABLE = frozenset(set(WorkItemStatus) - {WorkItemStatus.PAUSED, WorkItemStatus.DONE})


async def execute_goal(bench: Workbench, item: WorkItem) -> WorkItemResult:
    """Run one cycle of a goal."""
    item = await stored(bench, item)
    if item.status is WorkItemStatus.PAUSED:
        return _result(item, Ending(item.status, "It is paused. Resume it first."))
    with bench.control.at_work(item.id):
        return await _execute(bench, await release(bench, item))


async def _execute(bench: Workbench, item: WorkItem) -> WorkItemResult:
    if item.agent == "stream":
        reason = "This goal configures the conversation; it is not executed."
        return await block(bench, item, Blocked(NO_APPROVAL, reason))
    try:
        await require_entry(bench, item)
    except Blocked as blocked:
        return await block(bench, item, blocked)
    item, ending = await claim_and_end(
        bench,
        item,
        partial(_cycle, bench),
        startable=_STARTABLE,
        close=partial(_close, bench),
    )
    return _result(item, ending)


async def _cycle(bench: Workbench, item: WorkItem) -> Ending:
    report = await _check(bench, item)  # 1
    if isinstance(report, Ending):
        return report
    await bench.audit.log(  # 2
        "goal_checked",
        work_item_id=item.id,
        passed=report.all_passed,
        failed=[result.name for result in report.failed],
    )
    if report.all_passed:  # 3
        return Ending(WorkItemStatus.HEALTHY, "All checks passed.", results=report.results)
    escalation = item.escalation.get(item.on_failure)
    chosen = escalation.action if escalation else item.on_failure
    names = ", ".join(result.name for result in report.failed)
    if chosen != _SPAWN:  # 5
        told = f"These checks did not pass: {names}."
        return Ending(WorkItemStatus.FAILED, "The checks failed.", told, report.results)
    return await _repair(bench, item, report)  # 4


async def _check(bench: Workbench, item: WorkItem) -> VerificationReport | Ending:
    """The report, or how the cycle ends because there cannot be one."""
    try:
        files = await asyncio.to_thread(bench.workspaces.open_attempt, item, item.attempts, {})
    except (BindingBroken, FileRefused) as error:
        await bench.audit.log(CHANGED, work_item_id=item.id, reason=error.message)
        return Ending(WorkItemStatus.BLOCKED, "It is blocked.", error.message)
    return await bench.verification.run_checks(item.verify, artifacts=files.directory)


async def _repair(bench: Workbench, goal: WorkItem, report: VerificationReport) -> Ending:
    begun = await _waiting_task(bench, goal)
    if begun is not None:
        return _after_repair(await execute_task(bench, begun), report)
    task = spawn_task(goal, report.failed, task_id=bench.ids.new("task"))
    task = await bench.items.save(task)
    digest = hashlib.sha256(task.plan_bytes()).hexdigest()
    await bench.audit.log(
        "goal_task_spawned", work_item_id=goal.id, task_id=task.id, spawned_task_hash=digest
    )
    approved = await _authorise(bench, goal, task)
    if approved is None:
        reason = "The standing approval does not cover it, and there is no other decision."
        result = await block(bench, task, Blocked(NO_APPROVAL, reason))
    else:
        result = await execute_task(bench, approved)
    return _after_repair(result, report)


async def _waiting_task(bench: Workbench, goal: WorkItem) -> WorkItem | None:
    """A repair of an earlier cycle that waits for the owner: it is gone on with, not repeated."""
    for run in await bench.paused.waiting() if bench.paused else []:
        task = await bench.items.get(run.work_item_id)
        if task is not None and task.spawned_by == goal.id:
            return task
    return None


async def _authorise(bench: Workbench, goal: WorkItem, task: WorkItem) -> WorkItem | None:
    """The task with a token that was verified for exactly this task; None if there is none."""
    standing = goal.approval_token
    if standing is not None:
        valid, reason = await bench.approvals.verify(standing, goal, task)
        if valid:
            changes = {"approval_token": standing, "needs_approval": False}
            return await bench.items.save(task.model_copy(update=changes))
        await bench.audit.log("standing_approval_refused", work_item_id=task.id, reason=reason)
    if bench.approver is None:
        return None
    try:
        return await authorise(bench, task, await bench.approver.decide_item(task))
    except ApprovalError:
        return None


def _after_repair(result: WorkItemResult, report: VerificationReport) -> Ending:
    if result.status is WorkItemStatus.DONE:
        # The task has the goal's own checks: done means that they pass now.
        told = f"Repaired by {result.work_item_id}."
        return Ending(WorkItemStatus.HEALTHY, told, None, report.results, result.budget_used)
    status = WorkItemStatus.BLOCKED
    if result.status is not WorkItemStatus.BLOCKED:
        status = WorkItemStatus.FAILED
    error = f"{result.work_item_id} is {result.status.value}: {result.last_error or ''}"
    return Ending(status, "It could not be repaired.", error, report.results, result.budget_used)


async def _close(bench: Workbench, item: WorkItem, ending: Ending) -> WorkItem:
    outcomes = {
        WorkItemStatus.HEALTHY: AttemptOutcome.PASSED,
        WorkItemStatus.FAILED: AttemptOutcome.FAILED,
        WorkItemStatus.BLOCKED: AttemptOutcome.BLOCKED,
    }
    item = await bench.attempts.finish(
        item.id,
        item.attempts,
        outcome=outcomes.get(ending.status, AttemptOutcome.STOPPED),
        status=ending.status,
        budget_used=item.budget_used.merge(ending.used),
        detail=ending.error or "",
        results=ending.results,
    )
    await asyncio.to_thread(bench.workspaces.discard, item)
    bench.progress(item.id, item.status.value, ending.error or ending.summary)
    return item


def _result(item: WorkItem, ending: Ending) -> WorkItemResult:
    return WorkItemResult(
        work_item_id=item.id,
        status=item.status if item.status is not WorkItemStatus.PENDING else WorkItemStatus.BLOCKED,
        summary=ending.summary,
        last_error=ending.error,
        verification_results=ending.results,
        budget_used=item.budget_used,
    )
