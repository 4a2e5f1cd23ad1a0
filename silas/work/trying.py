"""One attempt as the store sees it: claimed at its start, closed or kept waiting at its end.

What passed its checks is taken over before that. An attempt that is stopped in the middle is closed
as well: none that nobody works on stays open.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from silas.kernel import AuditError
from silas.work.after_failure import after_failure
from silas.work.attempt import Earlier, Outcome, Paused, resume_attempt, run_attempt
from silas.work.attempts import STOPPED_BY_OWNER, AttemptOutcome
from silas.work.control import Stopped
from silas.work.door import CHANGED, NO_APPROVAL, Blocked, require_same
from silas.work.errors import (
    ArtifactRefused,
    BindingBroken,
    FileRefused,
    PublicationConflict,
    WorkItemConflict,
)
from silas.work.models import WorkItem, WorkItemStatus
from silas.work.paused import KeptRun
from silas.work.store import require_item
from silas.work.taking_over import CONFLICT, clear_files, keep_artifacts, publish
from silas.work.workbench import Workbench
from silas.work.workspaces import AttemptWorkspace

WAITS = "It waits for the owner's decision about"
_WAITING = frozenset({WorkItemStatus.PENDING})
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """What came through the door: the item as it was approved, and the artifacts to start with."""

    item: WorkItem
    imported: dict[str, bytes]


async def start_attempt(bench: Workbench, item: WorkItem, kept: KeptRun | None) -> WorkItem:
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


async def one_attempt(
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
        paused, outcome = waits, replace(outcome, error=f"{WAITS} {waits}")
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
    return await after_failure(bench, item, outcome)


async def _vouch_for_beginning(bench: Workbench) -> None:
    """Before anything is done, the owner's key vouches for it that this was begun."""
    try:
        await bench.audit.write_checkpoint()
    except AuditError as error:
        raise Blocked(NO_APPROVAL, error.message) from error


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
        return await after_failure(bench, files.item, failed)
    return outcome, WorkItemStatus.DONE


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do the work even if it is cancelled in the middle: half of it would be worse than late."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


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
    return await closed(bench, item, outcome)


async def closed(bench: Workbench, item: WorkItem, outcome: Outcome) -> WorkItem:
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
