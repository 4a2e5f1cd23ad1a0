"""The execution of a project: its tasks in their order, side by side where they can be.

1. Tasks are sorted by what they depend on; those that depend on nothing open run at once, up to the
   pool's limits.
2. Each goes through the task's own execution, with its own approval, and works on its own copy.
3. A task starts only when everything it depends on is done.
4. A task that is not done ends the project: no new task is started, those that run are finished.
5. When all are done, the project's own checks run on what has become of the workspace.
6. The project's status is stored; what its tasks used counts as used by it.
"""

import asyncio
from datetime import datetime
from functools import partial
from graphlib import CycleError, TopologicalSorter

from silas.tools.tree import FileRefused
from silas.work.admission import (
    CHANGED,
    Blocked,
    begun_at,
    collect_artifacts_of,
    is_good_enough,
    not_good_enough,
    require_entry,
    require_unused,
)
from silas.work.attempt_store import AttemptOutcome
from silas.work.delivery import ended_as
from silas.work.errors import BindingBroken
from silas.work.execution import WorkEnd, block, claim_and_end, execute_task, stored
from silas.work.execution_context import ExecutionContext
from silas.work.models import (
    ENDED_WELL,
    VerificationResult,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
)
from silas.work.provenance import read_by_checks
from silas.work.publication import discard_files
from silas.work.recovery import release
from silas.work.store import WorkItemStore, require_item

_NOT_STARTED_AGAIN = (WorkItemStatus.PAUSED, WorkItemStatus.FAILED)
_STARTABLE = frozenset({WorkItemStatus.PENDING, WorkItemStatus.BLOCKED, WorkItemStatus.STUCK})


async def execute_project(ctx: ExecutionContext, item: WorkItem) -> WorkItemResult:
    """Execute a project to its end."""
    item = await stored(ctx.items, item)
    if item.status in ENDED_WELL or item.status in _NOT_STARTED_AGAIN:
        return _result(item, WorkEnd(item.status, f"It is {item.status.value}."))
    with ctx.control.at_work(item.id):
        return await _execute(ctx, await release(ctx, item))


async def _execute(ctx: ExecutionContext, item: WorkItem) -> WorkItemResult:
    as_of = await begun_at(ctx, item.tasks)
    try:
        await require_entry(ctx, item, as_of=as_of)
        await require_unused(ctx.approvals, item)
        order = await _sorted_tasks(ctx.items, item)  # 1
    except Blocked as blocked:
        return await block(ctx, item, blocked)
    item, ending = await claim_and_end(
        ctx,
        item,
        lambda claimed: _run(ctx, claimed, order, as_of),
        startable=_STARTABLE,
        close=partial(_close, ctx),
    )
    return _result(item, ending)


async def _sorted_tasks(items: WorkItemStore, item: WorkItem) -> TopologicalSorter[str]:
    graph = {}
    for task_id in item.tasks:
        task = await items.get(task_id)
        if task is None:
            raise Blocked("execution_blocked_linkage", f"The task {task_id} is not there.")
        graph[task_id] = task.depends_on
    order = TopologicalSorter(graph)
    try:
        order.prepare()
    except CycleError as error:
        raise Blocked("execution_blocked_linkage", "The tasks wait for each other.") from error
    return order


async def _run(
    ctx: ExecutionContext,
    item: WorkItem,
    order: TopologicalSorter[str],
    as_of: datetime | None,
) -> WorkEnd:
    """Steps 2 to 5."""
    before = await _before(ctx, item)
    failed = await _run_tasks(ctx, item, order, as_of)
    if failed is not None:
        return failed
    tasks = [await require_item(ctx.items, task_id) for task_id in item.tasks]
    shown = all(task.status is WorkItemStatus.DONE for task in tasks)
    if not item.verify:
        return _all_done([], shown=shown)
    return await _verify(ctx, item, before, shown=shown)


async def _before(ctx: ExecutionContext, item: WorkItem) -> dict[str, bool]:
    """What the project's checks say while nothing is done yet; empty if something is."""
    tasks = [await require_item(ctx.items, task_id) for task_id in item.tasks]
    if not item.verify or any(task.attempts for task in tasks):
        return {}
    try:
        files = await ctx.workspaces.open_attempt(item, item.attempts, {})
    except (BindingBroken, FileRefused) as error:
        raise Blocked(CHANGED, error.message) from error
    report = await ctx.verification.run_checks(item.verify, artifacts=files.directory)
    return {result.name: result.passed for result in report.results}


def _all_done(results: list[VerificationResult], *, shown: bool) -> WorkEnd:
    """Each task was shown to be done, or a check of the project shows it; else nothing does."""
    status = WorkItemStatus.DONE if shown else ended_as(results)
    if status is WorkItemStatus.UNCHECKED:
        return WorkEnd(status, "All tasks are done, not all of them checked.", results=results)
    return WorkEnd(status, "All tasks are done, and checked.", results=results)


async def _run_tasks(
    ctx: ExecutionContext,
    item: WorkItem,
    order: TopologicalSorter[str],
    as_of: datetime | None,
) -> WorkEnd | None:
    running: dict[asyncio.Task[WorkItemResult], str] = {}
    ready: list[str] = []
    failed: WorkEnd | None = None
    try:
        while order.is_active():
            ready += order.get_ready()
            failed = failed or await _over_budget(ctx.items, item)
            while ready and failed is None and len(running) < ctx.limits.per_scope:
                task_id = ready.pop(0)
                running[asyncio.create_task(_run_task(ctx, task_id, as_of))] = task_id
            if not running:
                return failed
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task_id = running.pop(task)
                failed = failed or _ending_of(task.result())
                order.done(task_id)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return failed


async def _run_task(ctx: ExecutionContext, task_id: str, as_of: datetime | None) -> WorkItemResult:
    task = await require_item(ctx.items, task_id)
    for name in task.depends_on:  # 3
        other = await require_item(ctx.items, name)
        if not is_good_enough(task, other.status):
            reason = f"It depends on {name}: {not_good_enough(other)}"
            return await block(ctx, task, Blocked("execution_blocked_dependency", reason))
    return await execute_task(ctx, task, as_of=as_of)


def _ending_of(result: WorkItemResult) -> WorkEnd | None:
    """Step 4."""
    if result.status in ENDED_WELL:
        return None
    error = f"{result.work_item_id} is {result.status.value}: {result.last_error or result.summary}"
    if result.status in (WorkItemStatus.BLOCKED, WorkItemStatus.PAUSED):
        return WorkEnd(WorkItemStatus.BLOCKED, "A task is blocked.", error)
    return WorkEnd(WorkItemStatus.FAILED, "A task failed.", error)


async def _over_budget(items: WorkItemStore, item: WorkItem) -> WorkEnd | None:
    used = (await with_tasks(items, item)).budget_used
    reached = set(used.reached(item.budget)) - {"max_attempts", "max_planner_calls"}
    if not reached:
        return None
    message = f"The project's budget is used up: {', '.join(sorted(reached))}."
    return WorkEnd(WorkItemStatus.STUCK, message, message)


async def _verify(
    ctx: ExecutionContext, item: WorkItem, before: dict[str, bool], *, shown: bool
) -> WorkEnd:
    """Step 5."""
    try:
        # Also of tasks that nothing has shown: whether they are done is what is looked for here.
        collector = item.model_copy(update={"accepts_unchecked": True})
        imported = (
            await collect_artifacts_of(ctx, collector, item.tasks) if _has_no_place(item) else {}
        )
        files = await ctx.workspaces.open_attempt(item, item.attempts, imported)
    except (Blocked, BindingBroken, FileRefused) as error:
        reason = error.reason if isinstance(error, Blocked) else error.message
        return WorkEnd(WorkItemStatus.BLOCKED, "The project cannot be checked.", reason)
    await ctx.origins.note_work(item.id, await read_by_checks(ctx, files))
    report = await ctx.verification.run_checks(item.verify, artifacts=files.directory)
    results = report.compared(before, item.verify)
    if report.all_passed:
        return _all_done(results, shown=shown)
    names = ", ".join(result.name for result in report.failed)
    message = f"These checks did not pass: {names}."
    return WorkEnd(WorkItemStatus.FAILED, "The project's checks failed.", message, results)


def _has_no_place(item: WorkItem) -> bool:
    """Whether the tasks share no directory, so that only their artifacts can be checked."""
    return item.workspace is None or item.workspace.path is None


async def _close(ctx: ExecutionContext, item: WorkItem, ending: WorkEnd) -> WorkItem:
    """Step 6."""
    outcome = {
        WorkItemStatus.DONE: AttemptOutcome.PASSED,
        WorkItemStatus.UNCHECKED: AttemptOutcome.PASSED,
        WorkItemStatus.BLOCKED: AttemptOutcome.BLOCKED,
        WorkItemStatus.FAILED: AttemptOutcome.FAILED,
        WorkItemStatus.STUCK: AttemptOutcome.FAILED,
    }.get(ending.status, AttemptOutcome.STOPPED)
    total = (await with_tasks(ctx.items, item)).budget_used
    item = await ctx.attempts.finish(
        item.id,
        item.attempts,
        outcome=outcome,
        status=ending.status,
        budget_used=total,
        detail=ending.error or "",
        results=ending.results,
    )
    await discard_files(ctx.workspaces, ctx.audit, item)
    await ctx.audit.log(
        "project_ended", work_item_id=item.id, status=item.status.value, reason=ending.error
    )
    ctx.progress(item.id, item.status.value, ending.error or "")
    return item


async def with_tasks(items: WorkItemStore, item: WorkItem) -> WorkItem:
    """The project with what its tasks have used."""
    used = type(item.budget_used)(attempts=item.budget_used.attempts)
    for task_id in item.tasks:
        task = await items.get(task_id)
        used = used.merge(task.budget_used) if task else used
    return item.model_copy(update={"budget_used": used})


def _result(item: WorkItem, ending: WorkEnd) -> WorkItemResult:
    return WorkItemResult(
        work_item_id=item.id,
        status=item.status,
        summary=ending.summary,
        last_error=ending.error,
        verification_results=ending.results,
        budget_used=item.budget_used,
    )
