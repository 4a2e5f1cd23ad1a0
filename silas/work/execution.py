"""The execution of a task, step by step as the specification numbers it.

0    the door: approval, and everything that the approval covers (`door.py`)
0.5  artifacts of earlier work (`door.py`)
1    the budget: reaching a limit means that it is used up
2    attempts, as long as the budget lasts:
  a    start: counted, claimed, `running`
  b-f  brief, work, collect, gates, verify (`attempt.py`)
       passed: what was checked is taken over, and only then the task is `done`
       failed: after three attempts the planner is consulted, if the plan says so
       waits: a call needs the owner's decision; the next execution goes on with it (`paused.py`)
3    nothing is left: `stuck`

The owner may stop it anywhere. A crash anywhere leads to a fresh attempt, unless the checks had
passed: then what they passed is taken over (`recovery.py`).
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from silas.kernel import AuditError, SilasError
from silas.work.attempt import Earlier, Outcome, Paused, resume_attempt, run_attempt
from silas.work.attempts import STOPPED_BY_OWNER, AttemptOutcome
from silas.work.budget import BudgetUsed
from silas.work.control import Stopped
from silas.work.door import (
    CHANGED,
    NO_APPROVAL,
    Blocked,
    hydrate,
    require_entry,
    require_same,
    require_unused,
)
from silas.work.errors import (
    ArtifactRefused,
    BindingBroken,
    FileRefused,
    PublicationConflict,
    WorkItemConflict,
)
from silas.work.models import WorkItem, WorkItemResult, WorkItemStatus
from silas.work.paused import KeptRun
from silas.work.plan_rules import CONSULT_PLANNER
from silas.work.ports import PausingAgent
from silas.work.recovery import release
from silas.work.store import require_item
from silas.work.taking_over import (
    CONFLICT,
    Passed,
    clear_files,
    keep_artifacts,
    passed_before,
    publish,
)
from silas.work.workbench import Workbench
from silas.work.workspaces import AttemptWorkspace

_CONSULT_AFTER = 3
_GUIDANCE_SECONDS = 90
_NOT_EXHAUSTING = {"max_planner_calls"}
_OVER = {
    WorkItemStatus.DONE: "This was done before.",
    WorkItemStatus.PAUSED: "It is paused. Resume it first.",
    WorkItemStatus.FAILED: "It has failed or was cancelled. Resume it first.",
}
_TAKEN_UP_AGAIN = {WorkItemStatus.BLOCKED, WorkItemStatus.STUCK}
_WAITS = "It waits for the owner's decision about"
_FORGED = (
    "What waited for a decision is not what was paused, or an older Silas has paused it. "
    "Resume it for a fresh attempt."
)
_WENT_ON = "What waited for a decision went on before. Resume it for a fresh attempt."
_WAITING = frozenset({WorkItemStatus.PENDING})
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """What came through the door: the item as it was approved, and the artifacts to start with."""

    item: WorkItem
    imported: dict[str, bytes]


async def execute_task(bench: Workbench, item: WorkItem) -> WorkItemResult:
    """Execute one task to its end; the result says what is so, not what the worker says."""
    item = await stored(bench, item)
    if item.status in _OVER:
        return _result(item, _OVER[item.status])
    with bench.control.at_work(item.id):
        return await _execute(bench, await release(bench, item))


async def _execute(bench: Workbench, item: WorkItem) -> WorkItemResult:
    if item.status in _OVER:
        return _result(item, _OVER[item.status])
    if item.status is WorkItemStatus.RUNNING:
        # Before the door: an approval that has run out since must not say of it that it is blocked.
        raise WorkItemConflict(f"{item.id} is being worked on. Wait until that has ended.")
    try:
        await require_entry(bench, item)  # 0
        imported = await hydrate(bench, item)  # 0.5
        passed = await passed_before(bench, item)
        kept = await _waiting_run(bench, item)
    except Blocked as blocked:
        return await block(bench, item, blocked)
    if kept is not None and (told := _waits_still(bench, kept)):
        if item.status is WorkItemStatus.PENDING:
            waiting, used = WorkItemStatus.BLOCKED, item.budget_used
            item = await bench.items.update_status(item.id, waiting, used)
        return _result(item, "It waits.", last_error=told)
    if kept is None and item.status in _TAKEN_UP_AGAIN:
        item = await bench.items.update_status(item.id, WorkItemStatus.PENDING, item.budget_used)
    if passed is not None:
        return await _close_as_done(bench, item, passed)
    try:
        entry = Entry(item, imported)
        return await bench.control.unless_stopped(item.id, _unless_blocked(bench, entry, kept))
    except Stopped:
        item = await require_item(bench.items, item.id)
        told = "paused" if item.status is WorkItemStatus.PAUSED else "cancelled"
        bench.progress(item.id, told)
        return _result(item, f"It was {told} by the owner.", last_error=f"{told} by the owner")


async def _waiting_run(bench: Workbench, item: WorkItem) -> KeptRun | None:
    """The run that waits, if any; one that nobody paused like that is dropped, and blocks."""
    if bench.paused is None:
        return None
    kept = await bench.paused.of(item.id)
    if kept is None and await bench.paused.is_forged(item.id):
        await bench.attempts.drop_waiting(item.id)
        raise Blocked(CHANGED, _FORGED)
    if kept is not None and await bench.paused.went_on(kept):
        await bench.attempts.drop_waiting(item.id)
        raise Blocked(CHANGED, _WENT_ON)
    return kept


async def stored(bench: Workbench, item: WorkItem) -> WorkItem:
    """The item as the store has it; one that is new is stored, one that differs is refused."""
    known = await bench.items.get(item.id)
    if known is None:
        return await bench.items.save(item)
    if known.plan_bytes() != item.plan_bytes():
        raise WorkItemConflict(
            f"The plan of {item.id} is not the one that is stored. Give it another id."
        )
    return known


async def _close_as_done(bench: Workbench, item: WorkItem, passed: Passed) -> WorkItemResult:
    """Nothing is left to do, and doing it again would be wrong."""
    number, used = passed.attempt, passed.used
    item = await bench.attempts.conclude(item.id, number, budget_used=used, results=passed.results)
    results = item.verification_results[-len(item.verify) :] if item.verify else []
    summary = "It had passed before."
    outcome = Outcome(AttemptOutcome.PASSED, used, summary=summary, results=results)
    return _final(await _closed(bench, item, outcome), outcome)


async def block(bench: Workbench, item: WorkItem, blocked: Blocked) -> WorkItemResult:
    """Set the item `blocked`, say why in the audit log, and return that."""
    await bench.audit.log(blocked.event, work_item_id=item.id, reason=blocked.reason)
    if item.status is not WorkItemStatus.BLOCKED:
        item = await bench.items.update_status(item.id, WorkItemStatus.BLOCKED, item.budget_used)
    bench.progress(item.id, "blocked", blocked.reason)
    return _result(item, "It is blocked.", last_error=blocked.reason)


def _waits_still(bench: Workbench, kept: KeptRun) -> str | None:
    """Why nobody can go on with a run that waits; None if somebody can."""
    open_calls = kept.undecided(bench.clock.now())
    if open_calls:
        return f"{_WAITS} {open_calls[0].call.tool}: {open_calls[0].call.reasons[0]}"
    if not isinstance(bench.agent, PausingAgent):
        return "It was paused by a worker that is not here. Go on with it where that one is."
    return None


async def _unless_blocked(bench: Workbench, entry: Entry, kept: KeptRun | None) -> WorkItemResult:
    try:
        most = entry.item.budget.max_attempts if kept is None else None
        if kept is not None or not _exhausted(entry.item):
            await require_unused(bench, entry.item, most=most)
        return await _attempts(bench, entry, kept)
    except Blocked as blocked:
        return await block(bench, entry.item, blocked)


async def _attempts(bench: Workbench, entry: Entry, kept: KeptRun | None) -> WorkItemResult:
    """Steps 1 to 3; a run that waited comes first."""
    item, earlier = entry.item, Earlier()
    for _ in range(item.budget.max_attempts + 1):  # rows may be set back meanwhile
        if kept is None and _exhausted(item):
            break
        async with bench.pool:
            item = await _start(bench, item, kept)  # 2a
            outcome, item = await _one_attempt(bench, item, entry, earlier, kept)
        if item.status is not WorkItemStatus.PENDING:
            return _final(item, outcome)
        earlier, kept = _lesson(outcome, earlier), None
    if item.status is WorkItemStatus.PENDING:  # 3
        item = await bench.items.update_status(item.id, WorkItemStatus.STUCK, item.budget_used)
    return _result(item, "The budget is used up.", last_error=earlier.error)


async def _start(bench: Workbench, item: WorkItem, kept: KeptRun | None) -> WorkItem:
    """Step 2a; raises `Stopped` if the owner was faster."""
    try:
        if kept is not None and bench.paused is not None:
            item = await bench.paused.claim(kept, runner=bench.runner)
            approved = [each.id for each in kept.approved()]
            await bench.audit.log("work_goes_on", work_item_id=item.id, approved=approved)
        else:
            item = await bench.attempts.start(item.id, runner=bench.runner, only_from=_WAITING)
    except WorkItemConflict:
        now = await require_item(bench.items, item.id)
        if now.status in STOPPED_BY_OWNER:
            raise Stopped(now.status) from None
        raise
    what = "attempt" if kept is None else "goes on"
    bench.progress(item.id, what, f"{item.attempts} of {item.budget.max_attempts}")
    return item


async def _one_attempt(
    bench: Workbench,
    item: WorkItem,
    entry: Entry,
    earlier: Earlier,
    kept: KeptRun | None,
) -> tuple[Outcome, WorkItem]:
    """One attempt, closed in the store unless it waits; returns the item as it then is."""
    outcome = Outcome(AttemptOutcome.STOPPED, item.budget_used, error="It was stopped.")
    status = WorkItemStatus.PENDING
    paused: Paused | None = None
    try:
        outcome, status = await _tried(bench, item, entry, earlier, kept)
    except Paused as waits:
        paused, outcome = waits, replace(outcome, error=f"{_WAITS} {waits}")
    except Blocked as blocked:
        await bench.audit.log(blocked.event, work_item_id=item.id, reason=blocked.reason)
        outcome = replace(outcome, outcome=AttemptOutcome.BLOCKED, error=blocked.reason)
        status = WorkItemStatus.BLOCKED
    finally:
        # Also when it was cancelled: an attempt that nobody works on must not stay open.
        ending = (
            _close(bench, item, outcome, status) if paused is None else _wait(bench, item, paused)
        )
        item = await asyncio.shield(ending)
    return outcome, item


async def _wait(bench: Workbench, item: WorkItem, paused: Paused) -> WorkItem:
    """Keep the run until the owner has decided."""
    if bench.paused is None:
        raise WorkItemConflict("Nothing can wait for a decision here.")
    item = await bench.paused.keep(
        item, paused.run, scene=paused.scene, runner=bench.runner, used=paused.used
    )
    tools = [each.call.tool for each in paused.run.calls]
    await bench.audit.log("work_waits", work_item_id=item.id, attempt=item.attempts, tools=tools)
    bench.progress(item.id, "waits", ", ".join(tools))
    return item


async def _close(
    bench: Workbench, item: WorkItem, outcome: Outcome, status: WorkItemStatus
) -> WorkItem:
    item = await bench.attempts.finish(
        item.id,
        item.attempts,
        outcome=outcome.outcome,
        status=status,
        budget_used=outcome.used,
        detail=outcome.error or "",
        results=outcome.results,
    )
    return await _closed(bench, item, outcome)


async def _closed(bench: Workbench, item: WorkItem, outcome: Outcome) -> WorkItem:
    """After an attempt was closed: its files are removed, and it is told."""
    event = "work_done" if item.status is WorkItemStatus.DONE else "work_attempt_ended"
    passed = outcome.outcome is AttemptOutcome.PASSED
    await asyncio.gather(
        asyncio.to_thread(clear_files, bench, item, passed=passed),
        bench.audit.log(
            event,
            work_item_id=item.id,
            attempt=item.attempts,
            outcome=outcome.outcome.value,
            status=item.status.value,
            reason=outcome.error,
        ),
    )
    bench.progress(item.id, item.status.value, outcome.error or "")
    return item


async def _tried(
    bench: Workbench,
    item: WorkItem,
    entry: Entry,
    earlier: Earlier,
    kept: KeptRun | None,
) -> tuple[Outcome, WorkItemStatus]:
    started, places = bench.clock.monotonic(), bench.workspaces
    require_same(entry.item, item)
    await _vouch_for_beginning(bench)
    try:
        if kept is None:
            number, imported = item.attempts, entry.imported
            files = await asyncio.to_thread(places.open_attempt, item, number, imported)
        else:
            files = await asyncio.to_thread(places.reopen, item, item.attempts)
    except (BindingBroken, FileRefused) as error:
        raise Blocked(CHANGED, error.message) from error
    try:
        if kept is None:
            outcome = await run_attempt(bench, files, earlier, started)
        else:
            outcome = await resume_attempt(bench, files, kept, started)
    except Paused:
        await asyncio.to_thread(places.keep, files)
        raise
    if outcome.outcome is AttemptOutcome.PASSED:
        return await _to_the_end(_take_over(bench, files, outcome))
    return await _after_failure(bench, item, outcome)


async def _vouch_for_beginning(bench: Workbench) -> None:
    """Before anything is done, the owner's key vouches for it that this was begun."""
    try:
        await bench.audit.write_checkpoint()
    except AuditError as error:
        raise Blocked(NO_APPROVAL, error.message) from error


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do the work even if it is cancelled in the middle: half of it would be worse than late."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


async def _take_over(
    bench: Workbench, files: AttemptWorkspace, outcome: Outcome
) -> tuple[Outcome, WorkItemStatus]:
    """What passed the checks becomes the result; until it is written down, nothing is done."""
    try:
        await keep_artifacts(bench, files, outcome)
        await publish(bench, files, outcome)
    except PublicationConflict as error:
        raise Blocked(CONFLICT, error.message) from error
    except (FileRefused, ArtifactRefused) as error:
        if bench.workspaces.pending(files.item, files.attempt):
            raise Blocked(CONFLICT, f"It could not be taken over: {error.message}") from error
        failed = replace(outcome, outcome=AttemptOutcome.FAILED, error=error.message)
        return await _after_failure(bench, files.item, failed)
    return outcome, WorkItemStatus.DONE


async def _after_failure(
    bench: Workbench, item: WorkItem, outcome: Outcome
) -> tuple[Outcome, WorkItemStatus]:
    """Whether there will be another attempt, with guidance if the plan wants it."""
    if item.attempts >= _CONSULT_AFTER and item.on_stuck == CONSULT_PLANNER:
        outcome = await _consult(bench, item, outcome)
    left = not _exhausted(item.model_copy(update={"budget_used": outcome.used}))
    return outcome, WorkItemStatus.PENDING if left else WorkItemStatus.STUCK


async def _consult(bench: Workbench, item: WorkItem, outcome: Outcome) -> Outcome:
    used = outcome.used
    if bench.planner is None or used.planner_calls >= item.budget.max_planner_calls:
        return outcome
    failures = [result for result in outcome.results if not result.passed]
    try:
        async with asyncio.timeout(_GUIDANCE_SECONDS):
            guidance = await bench.planner.consult(item, failures, reason=outcome.error or "")
    except (TimeoutError, SilasError) as error:
        await bench.audit.log("planner_silent", work_item_id=item.id, reason=str(error))
        return replace(outcome, used=_charge_planner(used, 0, 0.0))
    charged = _charge_planner(used, guidance.tokens, guidance.cost_usd)
    return replace(outcome, used=charged, guidance=guidance.text)


def _charge_planner(used: BudgetUsed, tokens: int, cost: float) -> BudgetUsed:
    return used.model_copy(
        update={
            "planner_calls": used.planner_calls + 1,
            "tokens": used.tokens + tokens,
            "cost_usd": used.cost_usd + cost,
        }
    )


def _lesson(outcome: Outcome, earlier: Earlier) -> Earlier:
    failed = tuple(result for result in outcome.results if not result.passed)
    return Earlier(outcome.error, failed, outcome.guidance or earlier.guidance)


def _exhausted(item: WorkItem) -> bool:
    """Step 1."""
    return bool(set(item.budget_used.reached(item.budget)) - _NOT_EXHAUSTING) or (
        item.attempts >= item.budget.max_attempts
    )


def _final(item: WorkItem, outcome: Outcome) -> WorkItemResult:
    done = item.status is WorkItemStatus.DONE
    summary = "Done, and checked." if item.verify else "Done. The plan has no checks."
    return WorkItemResult(
        work_item_id=item.id,
        status=item.status,
        summary=f"{summary} {outcome.summary}".strip() if done else f"It is {item.status.value}.",
        last_error=None if done else outcome.error,
        verification_results=outcome.results,
        budget_used=item.budget_used,
        artifacts=outcome.artifacts if done else {},
        next_steps=outcome.next_steps if done else [],
    )


def _result(item: WorkItem, summary: str, *, last_error: str | None = None) -> WorkItemResult:
    return WorkItemResult(
        work_item_id=item.id,
        status=item.status,
        summary=summary,
        last_error=last_error,
        verification_results=item.verification_results,
        budget_used=item.budget_used,
    )
