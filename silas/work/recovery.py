"""After a crash: what is true about the attempts that were going on?

1. An attempt whose runner may still be alive is left alone.
2. If its checks had passed and this was written down, what they passed is taken over now, and the
   item is done. Doing the work again would do it twice. If the owner has stopped the item since, no
   file is changed, unless some were already.
3. Everything else is closed as interrupted, and waits for a fresh attempt.
4. Files of attempts that nobody works on are removed.
5. If the disk fails just when an attempt is to be closed, it stays open in a process that lives on.
   The process knows what it is at: everything else of its own it treats like a dead runner's.
"""

import asyncio

from silas.audit.models import AuditTrail
from silas.work.admission import Blocked
from silas.work.attempt_store import Attempt, AttemptOutcome, AttemptStore, may_be_alive
from silas.work.delivery import ended_as
from silas.work.execution_context import WorkRecords
from silas.work.models import ENDED_WELL, WorkItem
from silas.work.publication import (
    discard_files,
    left_alone,
    log_files,
    log_not_removed,
    take_over_pending,
)
from silas.work.store import WorkItemStore, require_item
from silas.work.workspaces import Workspaces


async def recover(records: WorkRecords) -> list[WorkItem]:
    """Put the records of dead runners in order; returns the items concerned."""
    abandoned = [
        attempt
        for attempt in await records.attempts.list_open()
        if attempt.runner != records.runner and not may_be_alive(attempt.runner)
    ]
    finished = [await _finish(records, attempt) for attempt in abandoned]
    interrupted = [
        item
        for runner in sorted({attempt.runner for attempt in abandoned})
        for item in await records.attempts.interrupt(runner=runner)
    ]
    for item in interrupted:
        await _log_interrupted(records.audit, item)
    await _sweep(records)
    return [*(item for item in finished if item), *interrupted]


async def release_all(records: WorkRecords) -> list[WorkItem]:
    """Rule 5, for every attempt; returns the items concerned."""
    released = []
    for attempt in await records.attempts.list_open():
        name = attempt.work_item_id
        if attempt.runner != records.runner or records.control.is_at_work(name):
            continue
        with records.control.at_work(name):
            released += [await release(records, await require_item(records.items, name))]
    return released


async def release(records: WorkRecords, item: WorkItem) -> WorkItem:
    """Rule 5, for an item that whoever calls this is at; returns it as it then is."""
    attempt = await records.attempts.open_of(item.id)
    if attempt is None or attempt.runner != records.runner:
        return item
    done = await _finish(records, attempt)
    if done is not None:
        return done
    item = await records.attempts.give_up(item.id, attempt.attempt)
    await _log_interrupted(records.audit, item)
    return item


async def _log_interrupted(audit: AuditTrail, item: WorkItem) -> None:
    await audit.log(
        "work_interrupted",
        work_item_id=item.id,
        attempt=item.attempts,
        status=item.status.value,
    )


async def _sweep(records: WorkRecords) -> None:
    """Rule 4. What cannot be removed is logged, and stops nothing."""
    left = await asyncio.to_thread(records.workspaces.discard_set_aside)
    if left:
        await log_not_removed(records.audit, left)
    for item in await ended_with_files(records.workspaces, records.items, records.attempts):
        await discard_files(records.workspaces, records.audit, item)


async def ended_with_files(
    workspaces: Workspaces, items: WorkItemStore, attempts: AttemptStore
) -> list[WorkItem]:
    """The items that have files of attempts which nobody works on, and nobody needs."""
    # Files are made after an attempt was opened: look at the files first.
    left = await asyncio.to_thread(workspaces.tasks_with_files)
    busy = {attempt.work_item_id for attempt in await attempts.list_open()}
    found = [await items.get(work_item_id) for work_item_id in sorted(left - busy)]
    return [item for item in found if item is not None and not _still_needed(workspaces, item)]


def _still_needed(workspaces: Workspaces, item: WorkItem) -> bool:
    done = item.status in ENDED_WELL
    return not done and workspaces.pending(item, item.attempts) is not None


async def _finish(records: WorkRecords, attempt: Attempt) -> WorkItem | None:
    """Take over what had passed, if it came that far."""
    item = await records.items.get(attempt.work_item_id)
    if item is None or await left_alone(records, item):
        return None
    try:
        publication = await take_over_pending(records, item)
    except Blocked:
        return None  # it stays as it is, and says so when it is executed the next time
    if publication is None:
        return None
    item = await records.attempts.finish(
        item.id,
        attempt.attempt,
        outcome=AttemptOutcome.PASSED,
        status=ended_as(publication.results),
        budget_used=publication.budget_used,
        results=publication.results,
    )
    await discard_files(records.workspaces, records.audit, item)
    details = {"status": item.status.value, "recovered": True}
    event = "work_done" if item.status in ENDED_WELL else "work_attempt_ended"
    await log_files(records.audit, item, event, publication.changes, publication.left, **details)
    return item
