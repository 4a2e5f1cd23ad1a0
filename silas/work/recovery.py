"""After a crash: what is true about the attempts that were going on?

1. An attempt whose runner may still be alive is left alone.
2. If its checks had passed and this was written down, what they passed is taken over now, and the
   item is done. Doing the work again would do it twice.
3. Everything else is closed as interrupted, and waits for a fresh attempt.
4. Files of attempts that nobody works on are removed.
5. If the disk fails just when an attempt is to be closed, it stays open in a process that lives on.
   The process knows what it is at: everything else of its own it treats like a dead runner's.
"""

import asyncio

from silas.work.attempts import Attempt, AttemptOutcome
from silas.work.door import Blocked
from silas.work.models import WorkItem, WorkItemStatus
from silas.work.runners import may_be_alive
from silas.work.store import require_item
from silas.work.taking_over import take_over_pending
from silas.work.workbench import Workbench


async def recover(bench: Workbench) -> list[WorkItem]:
    """Put the records of dead runners in order; returns the items concerned."""
    abandoned = [
        attempt
        for attempt in await bench.attempts.list_open()
        if attempt.runner != bench.runner and not may_be_alive(attempt.runner)
    ]
    finished = [await _finish(bench, attempt) for attempt in abandoned]
    interrupted = [
        item
        for runner in sorted({attempt.runner for attempt in abandoned})
        for item in await bench.attempts.interrupt(runner=runner)
    ]
    for item in interrupted:
        await _tell_interrupted(bench, item)
    await _sweep(bench)
    return [*(item for item in finished if item), *interrupted]


async def release_all(bench: Workbench) -> list[WorkItem]:
    """Rule 5, for every attempt; returns the items concerned."""
    released = []
    for attempt in await bench.attempts.list_open():
        name = attempt.work_item_id
        if attempt.runner != bench.runner or bench.control.is_at_work(name):
            continue
        with bench.control.at_work(name):
            released += [await release(bench, await require_item(bench.items, name))]
    return released


async def release(bench: Workbench, item: WorkItem) -> WorkItem:
    """Rule 5, for an item that whoever calls this is at; returns it as it then is."""
    attempt = await bench.attempts.open_of(item.id)
    if attempt is None or attempt.runner != bench.runner:
        return item
    done = await _finish(bench, attempt)
    if done is not None:
        return done
    item = await bench.attempts.give_up(item.id, attempt.attempt)
    await _tell_interrupted(bench, item)
    return item


async def _tell_interrupted(bench: Workbench, item: WorkItem) -> None:
    await bench.audit.log(
        "work_interrupted",
        work_item_id=item.id,
        attempt=item.attempts,
        status=item.status.value,
    )


async def _sweep(bench: Workbench) -> None:
    """Rule 4. Files are made after an attempt was opened: look at the files first."""
    left = await asyncio.to_thread(bench.workspaces.tasks_with_files)
    busy = {attempt.work_item_id for attempt in await bench.attempts.list_open()}
    for work_item_id in sorted(left - busy):
        item = await bench.items.get(work_item_id)
        if item is not None and not _still_needed(bench, item):
            await asyncio.to_thread(bench.workspaces.discard, item)


def _still_needed(bench: Workbench, item: WorkItem) -> bool:
    done = item.status is WorkItemStatus.DONE
    return not done and bench.workspaces.pending(item, item.attempts) is not None


async def _finish(bench: Workbench, attempt: Attempt) -> WorkItem | None:
    """Take over what had passed, if it came that far."""
    item = await bench.items.get(attempt.work_item_id)
    if item is None:
        return None
    try:
        publication = await take_over_pending(bench, item)
    except Blocked:
        return None  # it stays as it is, and says so when it is executed the next time
    if publication is None:
        return None
    item = await bench.attempts.finish(
        item.id,
        attempt.attempt,
        outcome=AttemptOutcome.PASSED,
        status=WorkItemStatus.DONE,
        budget_used=publication.budget_used,
        results=publication.results,
    )
    await asyncio.to_thread(bench.workspaces.discard, item)
    await bench.audit.log(
        "work_done", work_item_id=item.id, attempt=attempt.attempt, recovered=True
    )
    return item
