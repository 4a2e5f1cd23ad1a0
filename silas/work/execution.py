"""The execution of a task, step by step as the specification numbers it.

0    admission: approval, and everything that the approval covers (`admission.py`)
0.5  artifacts of earlier work (`admission.py`)
1    the budget: reaching a limit means that it is used up
2    attempts, as long as the budget lasts (`attempt.py`):
  a    start: counted, claimed, `running`
  b-f  brief, work, collect, gates, verify
       passed: what was checked is taken over (`publication.py`), and only then the task is `done`,
               or `unchecked` if no check has shown it (`delivery.py`)
       failed: after three attempts the planner is consulted, if the plan says so
       waits: a call needs the owner's decision; the next execution goes on with it (`paused.py`)
3    nothing is left: `stuck`

The owner may stop it anywhere. A crash anywhere leads to a fresh attempt, unless the checks had
passed: then what they passed is taken over (`recovery.py`). Goals and projects are closed whatever
happens between their claim and their end (`claim_and_end`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from silas.kernel import Clock
from silas.work.admission import (
    CHANGED,
    Blocked,
    begun_at,
    hydrate,
    require_entry,
    require_same,
    require_unused,
)
from silas.work.attempt import (
    WAITS,
    AdmittedItem,
    Earlier,
    closed,
    exhausted,
    one_attempt,
    start_attempt,
    worker_has_ended,
)
from silas.work.attempt_store import AttemptOutcome, AttemptStore
from silas.work.control import StoppedByOwner
from silas.work.delivery import AttemptEnd
from silas.work.errors import WorkItemConflict
from silas.work.execution_context import ExecutionContext
from silas.work.models import (
    ENDED_WELL,
    BudgetUsed,
    VerificationResult,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
)
from silas.work.paused import KeptRun, PausedRuns
from silas.work.ports import AttemptWorker, ProgressListener
from silas.work.publication import PassedAttempt, passed_before
from silas.work.recovery import release
from silas.work.script import can_go_on
from silas.work.store import WorkItemStore, require_item
from silas.work.wording import describe_ending, has_owners_files

_OVER = {
    WorkItemStatus.DONE: "This was done before.",
    WorkItemStatus.UNCHECKED: "This was done before, not checked.",
    WorkItemStatus.PAUSED: "It is paused. Resume it first.",
    WorkItemStatus.FAILED: "It has failed or was cancelled. Resume it first.",
    WorkItemStatus.REPLACED: "Another version of this plan has replaced it.",
}
_TAKEN_UP_AGAIN = {WorkItemStatus.BLOCKED, WorkItemStatus.STUCK}
_FORGED = (
    "What waited for a decision is not what was paused, or an older Silas has paused it. "
    "Resume it for a fresh attempt."
)
_WENT_ON = "What waited for a decision went on before. Resume it for a fresh attempt."


async def execute_task(
    ctx: ExecutionContext, item: WorkItem, *, as_of: datetime | None = None
) -> WorkItemResult:
    """Execute one task to its end; the result says what is so, not what the worker says.

    A project that goes on was begun `as_of` then, with all its tasks.
    """
    item = await stored(ctx.items, item)
    if item.status in _OVER:
        return _result(item, _OVER[item.status])
    with ctx.control.at_work(item.id):
        return await _execute(ctx, await release(ctx, item), as_of)


async def _execute(ctx: ExecutionContext, item: WorkItem, as_of: datetime | None) -> WorkItemResult:
    if item.status in _OVER:
        return _result(item, _OVER[item.status])
    if item.status is WorkItemStatus.RUNNING:
        # Before admission: an approval that has run out since must not block it.
        raise WorkItemConflict(f"{item.id} is being worked on. Wait until that has ended.")
    try:
        as_of = as_of or await begun_at(ctx, [item.id])
        await require_entry(ctx, item, as_of=as_of)  # 0
        imported = await hydrate(ctx, item)  # 0.5
        passed = await passed_before(ctx, item)
        kept = await _waiting_run(ctx.paused, ctx.attempts, item)
    except Blocked as blocked:
        return await block(ctx, item, blocked)
    if kept is not None and (reason := _waits_still(ctx.clock, ctx.agent, kept)):
        return await _stay_waiting(ctx.items, item, reason)
    if kept is None and item.status in _TAKEN_UP_AGAIN:
        item = await ctx.items.update_status(item.id, WorkItemStatus.PENDING, item.budget_used)
    if passed is not None:
        return await _close_as_done(ctx, item, passed)
    try:
        entry = AdmittedItem(item, imported, as_of or ctx.clock.now(), examined=None)
        return await ctx.control.unless_stopped(item.id, _unless_blocked(ctx, entry, kept))
    except StoppedByOwner:
        return await _stopped(ctx.progress, ctx.items, item)


async def _stopped(
    progress: ProgressListener, items: WorkItemStore, item: WorkItem
) -> WorkItemResult:
    item = await require_item(items, item.id)
    verb = StoppedByOwner(item.status).verb
    progress(item.id, verb)
    return _result(item, f"It was {verb} by the owner.", last_error=f"{verb} by the owner")


async def _waiting_run(
    paused: PausedRuns | None, attempts: AttemptStore, item: WorkItem
) -> KeptRun | None:
    """The run that waits, if any; one that nobody paused like that is dropped, and blocks."""
    if paused is None:
        return None
    kept = await paused.of(item.id)
    if kept is None and await paused.is_forged(item.id):
        await attempts.drop_waiting(item.id)
        raise Blocked(CHANGED, _FORGED)
    if kept is not None and await paused.went_on(kept):
        await attempts.drop_waiting(item.id)
        raise Blocked(CHANGED, _WENT_ON)
    return kept


async def stored(items: WorkItemStore, item: WorkItem) -> WorkItem:
    """The item as the store has it; one that is new is stored, one that differs is refused."""
    known = await items.get(item.id)
    if known is None:
        return await items.save(item)
    if known.plan_bytes() != item.plan_bytes():
        raise WorkItemConflict(
            f"The plan of {item.id} is not the one that is stored. Give it another id."
        )
    return known


async def _close_as_done(
    ctx: ExecutionContext, item: WorkItem, passed: PassedAttempt
) -> WorkItemResult:
    """Nothing is left to do, and doing it again would be wrong."""
    known = item.verification_results[-len(item.verify) :] if item.verify else []
    outcome = AttemptEnd(
        AttemptOutcome.PASSED,
        passed.used,
        summary="It had passed before.",
        results=passed.results or known,
        taken=passed.changes,
        left=passed.left,
    )
    item = await ctx.attempts.conclude(
        item.id,
        passed.attempt,
        status=outcome.ends_as,
        budget_used=passed.used,
        results=passed.results,
    )
    return _final(await closed(ctx, item, outcome), outcome)


async def block(ctx: ExecutionContext, item: WorkItem, blocked: Blocked) -> WorkItemResult:
    """Set the item `blocked`, say why in the audit log, and return that."""
    await ctx.audit.log(blocked.event, work_item_id=item.id, reason=blocked.reason)
    if item.status is not WorkItemStatus.BLOCKED:
        item = await ctx.items.update_status(item.id, WorkItemStatus.BLOCKED, item.budget_used)
    ctx.progress(item.id, "blocked", blocked.reason)
    return _result(item, "It is blocked.", last_error=blocked.reason, cause=blocked.event)


def _waits_still(clock: Clock, agent: AttemptWorker | None, kept: KeptRun) -> str | None:
    """Why nobody can go on with a run that waits; None if somebody can."""
    open_calls = kept.undecided(clock.now())
    if open_calls:
        return f"{WAITS} {open_calls[0].call.tool}: {open_calls[0].call.reasons[0]}"
    if not worker_has_ended(kept) and not can_go_on(agent, kept.run):
        return "It was paused by a worker that is not here. Go on with it where that one is."
    return None


async def _stay_waiting(items: WorkItemStore, item: WorkItem, reason: str) -> WorkItemResult:
    if item.status is WorkItemStatus.PENDING:
        item = await items.update_status(item.id, WorkItemStatus.BLOCKED, item.budget_used)
    return _result(item, "It waits.", last_error=reason)


async def _unless_blocked(
    ctx: ExecutionContext, entry: AdmittedItem, kept: KeptRun | None
) -> WorkItemResult:
    try:
        most = entry.item.budget.max_attempts if kept is None else None
        if kept is not None or not exhausted(entry.item):
            examined = await require_unused(ctx.approvals, entry.item, most=most)
            entry = replace(entry, examined=examined)
        return await _attempts(ctx, entry, kept)
    except Blocked as blocked:
        return await block(ctx, entry.item, blocked)


async def _attempts(
    ctx: ExecutionContext, entry: AdmittedItem, kept: KeptRun | None
) -> WorkItemResult:
    """Steps 1 to 3; a run that waited comes first."""
    item, earlier = entry.item, Earlier()
    for _ in range(item.budget.max_attempts + 1):  # rows may be set back meanwhile
        if kept is None and exhausted(item):
            break
        async with ctx.limits.pool:
            item = await start_attempt(ctx, item, kept)  # 2a
            outcome, item = await one_attempt(ctx, item, entry, earlier, kept)
        if item.status is not WorkItemStatus.PENDING:
            return _final(item, outcome)
        earlier, kept = _lesson(outcome, earlier), None
    if item.status is WorkItemStatus.PENDING:  # 3
        item = await ctx.items.update_status(item.id, WorkItemStatus.STUCK, item.budget_used)
    return _result(item, "The budget is used up.", last_error=earlier.error)


def _lesson(outcome: AttemptEnd, earlier: Earlier) -> Earlier:
    failed = tuple(result for result in outcome.results if not result.passed)
    return Earlier(outcome.error, failed, outcome.guidance or earlier.guidance)


def _final(item: WorkItem, outcome: AttemptEnd) -> WorkItemResult:
    done = item.status in ENDED_WELL
    summary = describe_ending(item.status, outcome.results)
    return WorkItemResult(
        work_item_id=item.id,
        status=item.status,
        summary=f"{summary} {outcome.summary}".strip() if done else f"It is {item.status.value}.",
        last_error=None if done else outcome.error,
        cause="" if done else outcome.cause,
        verification_results=outcome.results,
        budget_used=item.budget_used,
        artifacts=outcome.passed_on if done else {},
        next_steps=outcome.next_steps if done else [],
        changes=outcome.taken if done and has_owners_files(item) else [],
        left=outcome.left,
    )


def _result(
    item: WorkItem, summary: str, *, last_error: str | None = None, cause: str = ""
) -> WorkItemResult:
    return WorkItemResult(
        work_item_id=item.id,
        status=item.status,
        summary=summary,
        last_error=last_error,
        cause=cause,
        verification_results=item.verification_results,
        budget_used=item.budget_used,
    )


@dataclass(frozen=True)
class WorkEnd:
    """How a cycle of a goal, or a project, ended."""

    status: WorkItemStatus
    summary: str
    error: str | None = None
    results: list[VerificationResult] = field(default_factory=list)
    used: BudgetUsed | None = None
    """What a repair has used, with what was used before it; None if there was no repair."""


async def claim_and_end(
    ctx: ExecutionContext,
    approved: WorkItem,
    work: Callable[[WorkItem], Coroutine[Any, Any, WorkEnd]],
    *,
    startable: Set[WorkItemStatus],
    close: Callable[[WorkItem, WorkEnd], Coroutine[Any, Any, WorkItem]],
) -> tuple[WorkItem, WorkEnd]:
    """Do the work on the item that was admitted; returns it as it was closed.

    To be stopped by the owner, or blocked, is an ending too.
    """
    item = await ctx.attempts.start(approved.id, runner=ctx.runner, only_from=startable)
    ending = WorkEnd(WorkItemStatus.PENDING, "It was stopped.")
    try:
        require_same(approved, item)
        ending = await ctx.control.unless_stopped(item.id, work(item))
    except StoppedByOwner as stopped:
        ending = WorkEnd(stopped.status, f"It was {stopped.verb} by the owner.")
    except Blocked as blocked:
        await ctx.audit.log(blocked.event, work_item_id=item.id, reason=blocked.reason)
        ending = WorkEnd(WorkItemStatus.BLOCKED, "It is blocked.", blocked.reason)
    finally:
        # Also when it was cancelled: nothing that nobody works on stays open.
        item = await asyncio.shield(close(item, ending))
    return item, ending
