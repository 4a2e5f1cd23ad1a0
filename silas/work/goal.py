"""One cycle of a goal, as the scheduler or the owner starts it.

1. Admission: a standing approval of exactly this goal is in force. Then all checks of the goal run.
2. The results go to the audit log.
3. All passed: `healthy`. A repair that was still open is not needed any more. A goal with a policy
   for the items of an account has looked at them before (`batch`): that executes nothing, and what
   it finds is put before the owner.
4. Otherwise, if the goal repairs itself, a task is made from it, or the one that waits is gone on
   with. Its authorisation is one use of the standing approval, consumed for exactly this task. If
   that is refused, the owner is asked for this task, once: the goal is `blocked`, and rests until
   the answer. If nobody can be asked or the answer is no, the task is `blocked`.
5. Otherwise: `failed`, with the report.

The budget of a goal holds over its cycles. Tokens, money, time and planner calls of all repairs add
up; attempts add up until the goal is healthy again. A repair begins with what was used before it,
so that it cannot use more than is left. With nothing left the goal is `stuck`.
"""

import hashlib
from functools import partial

from silas.kernel import ApprovalError, WorkError
from silas.tools.tree import FileRefused
from silas.work.admission import CHANGED, NO_APPROVAL, Blocked, is_good_enough, require_entry
from silas.work.attempt_store import AttemptOutcome
from silas.work.authorisation import authorise, plan_question
from silas.work.control import StoppedByOwner
from silas.work.errors import BindingBroken, WorkItemConflict
from silas.work.execution import WorkEnd, block, claim_and_end, execute_task, stored
from silas.work.execution_context import ExecutionContext
from silas.work.models import (
    ENDED_WELL,
    BudgetUsed,
    VerificationReport,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
)
from silas.work.ports import Later
from silas.work.provenance import read_by_checks
from silas.work.publication import discard_files
from silas.work.recovery import release
from silas.work.spawning import spawn_task
from silas.work.store import WorkItemStore, require_item
from silas.work.tool_calls import calls_of
from silas.work.workspaces import AttemptWorkspace

_SPAWN = "spawn_task"
ALL_PASSED = "All checks passed."
REPAIRED = "Repaired by"
ASKED = "It waits for your decision."
_OPEN = frozenset({WorkItemStatus.PENDING, WorkItemStatus.BLOCKED, WorkItemStatus.RUNNING})
_STARTABLE = frozenset(set(WorkItemStatus) - {WorkItemStatus.PAUSED, *ENDED_WELL})


async def execute_goal(ctx: ExecutionContext, item: WorkItem) -> WorkItemResult:
    """Run one cycle of a goal."""
    item = await stored(ctx.items, item)
    if item.status is WorkItemStatus.PAUSED or item.is_cancelled:
        return _result(item, _stopped(item))
    with ctx.control.at_work(item.id):
        return await _execute(ctx, await release(ctx, item))


def _stopped(item: WorkItem) -> WorkEnd:
    return WorkEnd(item.status, f"It is {StoppedByOwner(item.status).verb}. Resume it first.")


async def _execute(ctx: ExecutionContext, item: WorkItem) -> WorkItemResult:
    if item.agent == "stream":
        reason = "This goal configures the conversation; it is not executed."
        return await block(ctx, item, Blocked(NO_APPROVAL, reason))
    try:
        await require_entry(ctx, item)
    except Blocked as blocked:
        return await block(ctx, item, blocked)
    try:
        item, ending = await claim_and_end(
            ctx,
            item,
            partial(_cycle, ctx),
            startable=_STARTABLE,
            close=partial(_close, ctx),
        )
    except WorkItemConflict:
        item = await require_item(ctx.items, item.id)
        if item.status is not WorkItemStatus.PAUSED and not item.is_cancelled:
            raise
        ending = _stopped(item)  # the owner was faster
    return _result(item, ending)


async def _cycle(ctx: ExecutionContext, item: WorkItem) -> WorkEnd:
    files = await _open_files(ctx, item)
    if isinstance(files, WorkEnd):
        return files
    await ctx.origins.note_work(item.id, await read_by_checks(ctx, files))
    report = await ctx.verification.run_checks(item.verify, artifacts=files.directory)  # 1
    # Without checks nothing is shown to be well; a goal that only looks at items needs none.
    passed = report.all_passed or (item.batch is not None and not item.verify)
    await ctx.audit.log(  # 2
        "goal_checked",
        work_item_id=item.id,
        passed=passed,
        failed=[result.name for result in report.failed],
    )
    if passed:  # 3
        if item.batch is not None and (reason := await _look_at_items(ctx, files)):
            return WorkEnd(WorkItemStatus.FAILED, "It could not look.", reason, report.results)
        not_needed = await _open_repairs(ctx.items, item)
        for task in not_needed:
            await ctx.control.cancel(task.id)
        # What a repair had used when a crash or the owner stopped it was used.
        used = not_needed[-1].budget_used if not_needed else None
        return WorkEnd(WorkItemStatus.HEALTHY, ALL_PASSED, results=report.results, used=used)
    if repairs_itself(item):  # 4
        return await _repair(ctx, item, report)
    message = f"{_names(report)}."  # 5
    return WorkEnd(WorkItemStatus.FAILED, "The checks failed.", message, report.results)


def repairs_itself(goal: WorkItem) -> bool:
    """Whether a check that fails leads to a task that repairs it."""
    escalation = goal.escalation.get(goal.on_failure)
    return (escalation.action if escalation else goal.on_failure) == _SPAWN


async def _open_files(ctx: ExecutionContext, item: WorkItem) -> AttemptWorkspace | WorkEnd:
    """The files of the cycle, or how it ends because there cannot be any."""
    try:
        return await ctx.workspaces.open_attempt(item, item.attempts, {})
    except (BindingBroken, FileRefused) as error:
        await ctx.audit.log(CHANGED, work_item_id=item.id, reason=error.message)
        return WorkEnd(WorkItemStatus.BLOCKED, "It is blocked.", error.message)


async def _look_at_items(ctx: ExecutionContext, files: AttemptWorkspace) -> str:
    """Let what fits be put before the owner; why that did not work, or nothing."""
    if ctx.propose is None:
        return "Nothing is proposed here: it takes the running Silas (`silas start`)."
    try:
        tools = await calls_of(ctx, files)
        try:
            await ctx.propose(tools.ctx, files.item, tools)
        finally:
            await tools.close()
    except (WorkError, ValueError) as error:
        return str(error)
    return ""


async def _repair(ctx: ExecutionContext, goal: WorkItem, report: VerificationReport) -> WorkEnd:
    """Step 4: go on with the repair that is open, or make one, within what is left."""
    open_repairs = await _open_repairs(ctx.items, goal)
    if open_repairs:
        return await _go_on(ctx, goal, open_repairs[-1], report)
    # The claim of this cycle has counted itself as an attempt; only repairs are.
    spent = goal.budget_used.model_copy(update={"attempts": goal.budget_used.attempts - 1})
    used_up = spent.reached(goal.budget)
    if set(used_up) - {"max_planner_calls"}:
        why = f"{_names(report)}; for repairs nothing is left of {', '.join(used_up)}."
        return WorkEnd(WorkItemStatus.STUCK, "Its budget is used up.", why, report.results)
    task = spawn_task(goal, report.failed, task_id=ctx.ids.new("task"))
    task = await ctx.items.save_below_running(task.model_copy(update={"budget_used": spent}))
    digest = hashlib.sha256(task.plan_bytes()).hexdigest()
    await ctx.audit.log(
        "goal_task_spawned", work_item_id=goal.id, task_id=task.id, spawned_task_hash=digest
    )
    return await _authorise_and_execute(ctx, goal, task, report)


async def _open_repairs(items: WorkItemStore, goal: WorkItem) -> list[WorkItem]:
    """Repairs of earlier cycles that wait for the owner, or that a crash has interrupted."""
    children = await items.list_by_parent(goal.id)
    return [task for task in children if task.status in _OPEN and task.spawned_by == goal.id]


async def _go_on(
    ctx: ExecutionContext, goal: WorkItem, task: WorkItem, report: VerificationReport
) -> WorkEnd:
    """An open repair is gone on with, not repeated."""
    waits = ctx.paused is not None and await ctx.paused.of(task.id) is not None
    if task.status is WorkItemStatus.BLOCKED and not waits:
        # By a no, or because its approval opens nothing any more: this one is over.
        await ctx.control.cancel(task.id)
        return await _repair(ctx, goal, report)
    if waits or task.approval_token is not None:
        return _after_repair(goal, await execute_task(ctx, task), report)
    return await _authorise_and_execute(ctx, goal, task, report)


async def _authorise_and_execute(
    ctx: ExecutionContext, goal: WorkItem, task: WorkItem, report: VerificationReport
) -> WorkEnd:
    approved = await _authorise(ctx, goal, task)
    if isinstance(approved, Later):
        why = f"{_names(report)}. The repair {task.id} waits for your decision."
        return WorkEnd(WorkItemStatus.BLOCKED, ASKED, why, report.results)
    if approved is None:
        reason = "The standing approval does not cover it, and there is no other decision."
        result = await block(ctx, task, Blocked(NO_APPROVAL, reason))
    else:
        result = await execute_task(ctx, approved)
    return _after_repair(goal, result, report)


async def _authorise(
    ctx: ExecutionContext, goal: WorkItem, task: WorkItem
) -> WorkItem | Later | None:
    """The task with a token that was verified for exactly this task; None if there is none."""
    standing = goal.approval_token
    if standing is not None:
        valid, reason = await ctx.approvals.verify(standing, goal, task)
        if valid:
            changes = {"approval_token": standing, "needs_approval": False}
            return await ctx.items.save(task.model_copy(update=changes))
        await ctx.audit.log("standing_approval_refused", work_item_id=task.id, reason=reason)
    if ctx.approver is None:
        return None
    try:
        question = await plan_question(ctx, [task])
        word = await ctx.approver.decide_item(task, question)
        if isinstance(word, Later):
            return word
        return (await authorise(ctx, [task], question, word))[0]
    except ApprovalError:
        return None


def _names(report: VerificationReport) -> str:
    return f"These checks did not pass: {', '.join(result.name for result in report.failed)}"


def _after_repair(goal: WorkItem, result: WorkItemResult, report: VerificationReport) -> WorkEnd:
    used = result.budget_used
    if is_good_enough(goal, result.status):
        # The task has the goal's own checks: done means that they pass now.
        message = f"{REPAIRED} {result.work_item_id}."
        return WorkEnd(WorkItemStatus.HEALTHY, message, None, report.results, used)
    status = WorkItemStatus.BLOCKED
    if result.status is not WorkItemStatus.BLOCKED:
        status = WorkItemStatus.FAILED
    error = f"{result.work_item_id} is {result.status.value}: {result.last_error or ''}"
    return WorkEnd(status, "It could not be repaired.", error, report.results, used)


def _used(item: WorkItem, ending: WorkEnd) -> BudgetUsed:
    """What the goal has used by now; a repair had begun with what was used before it."""
    before = item.budget_used
    used = before.model_copy(update={"attempts": before.attempts - 1})
    if ending.used is not None:
        used = ending.used
    if ending.status is WorkItemStatus.HEALTHY:
        return used.model_copy(update={"attempts": 0})
    return used


async def _close(ctx: ExecutionContext, item: WorkItem, ending: WorkEnd) -> WorkItem:
    outcomes = {
        WorkItemStatus.HEALTHY: AttemptOutcome.PASSED,
        WorkItemStatus.FAILED: AttemptOutcome.FAILED,
        WorkItemStatus.STUCK: AttemptOutcome.FAILED,
        WorkItemStatus.BLOCKED: AttemptOutcome.BLOCKED,
    }
    item = await ctx.attempts.finish(
        item.id,
        item.attempts,
        outcome=outcomes.get(ending.status, AttemptOutcome.STOPPED),
        status=ending.status,
        budget_used=_used(item, ending),
        detail=ending.error or "",
        results=ending.results,
    )
    await discard_files(ctx.workspaces, ctx.audit, item)
    ctx.progress(item.id, item.status.value, ending.error or ending.summary)
    return item


def _result(item: WorkItem, ending: WorkEnd) -> WorkItemResult:
    return WorkItemResult(
        work_item_id=item.id,
        status=item.status if item.status is not WorkItemStatus.PENDING else WorkItemStatus.BLOCKED,
        summary=ending.summary,
        last_error=ending.error,
        verification_results=ending.results,
        budget_used=item.budget_used,
    )
