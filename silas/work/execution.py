"""The execution of a task, step by step as the specification numbers it.

0    the door: approval, and everything that the approval covers (`door.py`)
0.5  artifacts of earlier work (`door.py`)
1    the budget: reaching a limit means that it is used up
2    attempts, as long as the budget lasts (`trying.py`):
  a    start: counted, claimed, `running`
  b-f  brief, work, collect, gates, verify (`attempt.py`)
       passed: what was checked is taken over, and only then the task is `done` (`taking_over.py`)
       failed: after three attempts the planner is consulted, if the plan says so
               (`after_failure.py`)
       waits: a call needs the owner's decision; the next execution goes on with it (`paused.py`)
3    nothing is left: `stuck`

The owner may stop it anywhere. A crash anywhere leads to a fresh attempt, unless the checks had
passed: then what they passed is taken over (`recovery.py`).
"""

from silas.work.after_failure import exhausted
from silas.work.attempt import Earlier, Outcome
from silas.work.attempts import AttemptOutcome
from silas.work.control import Stopped
from silas.work.door import CHANGED, Blocked, hydrate, require_entry, require_unused
from silas.work.errors import WorkItemConflict
from silas.work.models import WorkItem, WorkItemResult, WorkItemStatus
from silas.work.paused import KeptRun
from silas.work.ports import PausingAgent
from silas.work.recovery import release
from silas.work.store import require_item
from silas.work.taking_over import Passed, passed_before
from silas.work.trying import WAITS, Entry, closed, one_attempt, start_attempt
from silas.work.workbench import Workbench

_OVER = {
    WorkItemStatus.DONE: "This was done before.",
    WorkItemStatus.PAUSED: "It is paused. Resume it first.",
    WorkItemStatus.FAILED: "It has failed or was cancelled. Resume it first.",
}
_TAKEN_UP_AGAIN = {WorkItemStatus.BLOCKED, WorkItemStatus.STUCK}
_FORGED = (
    "What waited for a decision is not what was paused, or an older Silas has paused it. "
    "Resume it for a fresh attempt."
)
_WENT_ON = "What waited for a decision went on before. Resume it for a fresh attempt."


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
        return await _stay_waiting(bench, item, told)
    if kept is None and item.status in _TAKEN_UP_AGAIN:
        item = await bench.items.update_status(item.id, WorkItemStatus.PENDING, item.budget_used)
    if passed is not None:
        return await _close_as_done(bench, item, passed)
    try:
        entry = Entry(item, imported)
        return await bench.control.unless_stopped(item.id, _unless_blocked(bench, entry, kept))
    except Stopped:
        return await _stopped(bench, item)


async def _stopped(bench: Workbench, item: WorkItem) -> WorkItemResult:
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
    return _final(await closed(bench, item, outcome), outcome)


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
        return f"{WAITS} {open_calls[0].call.tool}: {open_calls[0].call.reasons[0]}"
    if not isinstance(bench.agent, PausingAgent):
        return "It was paused by a worker that is not here. Go on with it where that one is."
    return None


async def _stay_waiting(bench: Workbench, item: WorkItem, told: str) -> WorkItemResult:
    if item.status is WorkItemStatus.PENDING:
        item = await bench.items.update_status(item.id, WorkItemStatus.BLOCKED, item.budget_used)
    return _result(item, "It waits.", last_error=told)


async def _unless_blocked(bench: Workbench, entry: Entry, kept: KeptRun | None) -> WorkItemResult:
    try:
        most = entry.item.budget.max_attempts if kept is None else None
        if kept is not None or not exhausted(entry.item):
            await require_unused(bench, entry.item, most=most)
        return await _attempts(bench, entry, kept)
    except Blocked as blocked:
        return await block(bench, entry.item, blocked)


async def _attempts(bench: Workbench, entry: Entry, kept: KeptRun | None) -> WorkItemResult:
    """Steps 1 to 3; a run that waited comes first."""
    item, earlier = entry.item, Earlier()
    for _ in range(item.budget.max_attempts + 1):  # rows may be set back meanwhile
        if kept is None and exhausted(item):
            break
        async with bench.pool:
            item = await start_attempt(bench, item, kept)  # 2a
            outcome, item = await one_attempt(bench, item, entry, earlier, kept)
        if item.status is not WorkItemStatus.PENDING:
            return _final(item, outcome)
        earlier, kept = _lesson(outcome, earlier), None
    if item.status is WorkItemStatus.PENDING:  # 3
        item = await bench.items.update_status(item.id, WorkItemStatus.STUCK, item.budget_used)
    return _result(item, "The budget is used up.", last_error=earlier.error)


def _lesson(outcome: Outcome, earlier: Earlier) -> Earlier:
    failed = tuple(result for result in outcome.results if not result.passed)
    return Earlier(outcome.error, failed, outcome.guidance or earlier.guidance)


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
