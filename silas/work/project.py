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
from functools import partial
from graphlib import CycleError, TopologicalSorter

from silas.work.attempts import AttemptOutcome
from silas.work.door import Blocked, collect_artifacts_of, require_entry, require_unused
from silas.work.ending import Ending, claim_and_end
from silas.work.errors import BindingBroken, FileRefused
from silas.work.execution import block, execute_task, stored
from silas.work.models import WorkItem, WorkItemResult, WorkItemStatus
from silas.work.recovery import release
from silas.work.store import require_item
from silas.work.workbench import Workbench

_NOT_STARTED_AGAIN = (WorkItemStatus.PAUSED, WorkItemStatus.FAILED)
_STARTABLE = frozenset({WorkItemStatus.PENDING, WorkItemStatus.BLOCKED, WorkItemStatus.STUCK})


async def execute_project(bench: Workbench, item: WorkItem) -> WorkItemResult:
    """Execute a project to its end."""
    item = await stored(bench, item)
    if item.status is WorkItemStatus.DONE or item.status in _NOT_STARTED_AGAIN:
        return _result(item, Ending(item.status, f"It is {item.status.value}."))
    with bench.control.at_work(item.id):
        return await _execute(bench, await release(bench, item))


async def _execute(bench: Workbench, item: WorkItem) -> WorkItemResult:
    try:
        await require_entry(bench, item)
        await require_unused(bench, item)
        order = await _sorted_tasks(bench, item)  # 1
    except Blocked as blocked:
        return await block(bench, item, blocked)
    item, ending = await claim_and_end(
        bench,
        item,
        lambda claimed: _run(bench, claimed, order),
        startable=_STARTABLE,
        close=partial(_close, bench),
    )
    return _result(item, ending)


async def _sorted_tasks(bench: Workbench, item: WorkItem) -> TopologicalSorter[str]:
    graph = {}
    for task_id in item.tasks:
        task = await bench.items.get(task_id)
        if task is None:
            raise Blocked("execution_blocked_linkage", f"The task {task_id} is not there.")
        graph[task_id] = task.depends_on
    order = TopologicalSorter(graph)
    try:
        order.prepare()
    except CycleError as error:
        raise Blocked("execution_blocked_linkage", "The tasks wait for each other.") from error
    return order


async def _run(bench: Workbench, item: WorkItem, order: TopologicalSorter[str]) -> Ending:
    """Steps 2 to 5."""
    failed = await _run_tasks(bench, item, order)
    if failed is not None:
        return failed
    if not item.verify:
        return Ending(WorkItemStatus.DONE, "All tasks are done.")
    return await _verify(bench, item)


async def _run_tasks(
    bench: Workbench, item: WorkItem, order: TopologicalSorter[str]
) -> Ending | None:
    running: dict[asyncio.Task[WorkItemResult], str] = {}
    ready: list[str] = []
    failed: Ending | None = None
    try:
        while order.is_active():
            ready += order.get_ready()
            failed = failed or await _over_budget(bench, item)
            while ready and failed is None and len(running) < bench.per_scope:
                task_id = ready.pop(0)
                running[asyncio.create_task(_run_task(bench, task_id))] = task_id
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


async def _run_task(bench: Workbench, task_id: str) -> WorkItemResult:
    task = await require_item(bench.items, task_id)
    for name in task.depends_on:  # 3
        other = await require_item(bench.items, name)
        if other.status is not WorkItemStatus.DONE:
            reason = f"It depends on {name}, which is {other.status.value}."
            return await block(bench, task, Blocked("execution_blocked_dependency", reason))
    return await execute_task(bench, task)


def _ending_of(result: WorkItemResult) -> Ending | None:
    """Step 4."""
    if result.status is WorkItemStatus.DONE:
        return None
    error = f"{result.work_item_id} is {result.status.value}: {result.last_error or result.summary}"
    if result.status in (WorkItemStatus.BLOCKED, WorkItemStatus.PAUSED):
        return Ending(WorkItemStatus.BLOCKED, "A task is blocked.", error)
    return Ending(WorkItemStatus.FAILED, "A task failed.", error)


async def _over_budget(bench: Workbench, item: WorkItem) -> Ending | None:
    used = (await _with_tasks(bench, item)).budget_used
    reached = set(used.reached(item.budget)) - {"max_attempts", "max_planner_calls"}
    if not reached:
        return None
    told = f"The project's budget is used up: {', '.join(sorted(reached))}."
    return Ending(WorkItemStatus.STUCK, told, told)


async def _verify(bench: Workbench, item: WorkItem) -> Ending:
    """Step 5."""
    try:
        imported = await collect_artifacts_of(bench, item.tasks) if _has_no_place(item) else {}
        files = await asyncio.to_thread(
            bench.workspaces.open_attempt, item, item.attempts, imported
        )
    except (Blocked, BindingBroken, FileRefused) as error:
        reason = error.reason if isinstance(error, Blocked) else error.message
        return Ending(WorkItemStatus.BLOCKED, "The project cannot be checked.", reason)
    report = await bench.verification.run_checks(item.verify, artifacts=files.directory)
    results = report.results
    if report.all_passed:
        return Ending(WorkItemStatus.DONE, "All tasks are done, and checked.", results=results)
    names = ", ".join(result.name for result in report.failed)
    told = f"These checks did not pass: {names}."
    return Ending(WorkItemStatus.FAILED, "The project's checks failed.", told, results)


def _has_no_place(item: WorkItem) -> bool:
    """Whether the tasks share no directory, so that only their artifacts can be checked."""
    return item.workspace is None or item.workspace.path is None


async def _close(bench: Workbench, item: WorkItem, ending: Ending) -> WorkItem:
    """Step 6."""
    outcome = {
        WorkItemStatus.DONE: AttemptOutcome.PASSED,
        WorkItemStatus.BLOCKED: AttemptOutcome.BLOCKED,
        WorkItemStatus.FAILED: AttemptOutcome.FAILED,
        WorkItemStatus.STUCK: AttemptOutcome.FAILED,
    }.get(ending.status, AttemptOutcome.STOPPED)
    total = (await _with_tasks(bench, item)).budget_used
    item = await bench.attempts.finish(
        item.id,
        item.attempts,
        outcome=outcome,
        status=ending.status,
        budget_used=total,
        detail=ending.error or "",
        results=ending.results,
    )
    await asyncio.to_thread(bench.workspaces.discard, item)
    await bench.audit.log(
        "project_ended", work_item_id=item.id, status=item.status.value, reason=ending.error
    )
    bench.progress(item.id, item.status.value, ending.error or "")
    return item


async def _with_tasks(bench: Workbench, item: WorkItem) -> WorkItem:
    used = type(item.budget_used)(attempts=item.budget_used.attempts)
    for task_id in item.tasks:
        task = await bench.items.get(task_id)
        used = used.merge(task.budget_used) if task else used
    return item.model_copy(update={"budget_used": used})


def _result(item: WorkItem, ending: Ending) -> WorkItemResult:
    return WorkItemResult(
        work_item_id=item.id,
        status=item.status,
        summary=ending.summary,
        last_error=ending.error,
        verification_results=ending.results,
        budget_used=item.budget_used,
    )
