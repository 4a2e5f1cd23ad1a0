"""Goals and projects from their claim to their end: whatever happens between, they are closed."""

import asyncio
from collections.abc import Callable, Coroutine, Set
from dataclasses import dataclass, field
from typing import Any

from silas.work.budget import BudgetUsed
from silas.work.checks import VerificationResult
from silas.work.control import Stopped
from silas.work.door import Blocked, require_same
from silas.work.models import WorkItem, WorkItemStatus
from silas.work.workbench import Workbench


@dataclass(frozen=True)
class Ending:
    """How a cycle of a goal, or a project, ended."""

    status: WorkItemStatus
    summary: str
    error: str | None = None
    results: list[VerificationResult] = field(default_factory=list)
    used: BudgetUsed = field(default_factory=BudgetUsed)


async def claim_and_end(
    bench: Workbench,
    approved: WorkItem,
    work: Callable[[WorkItem], Coroutine[Any, Any, Ending]],
    *,
    startable: Set[WorkItemStatus],
    close: Callable[[WorkItem, Ending], Coroutine[Any, Any, WorkItem]],
) -> tuple[WorkItem, Ending]:
    """Do the work on the item that came through the door; returns it as it was closed.

    To be stopped by the owner, or blocked, is an ending too.
    """
    item = await bench.attempts.start(approved.id, runner=bench.runner, only_from=startable)
    ending = Ending(WorkItemStatus.PENDING, "It was stopped.")
    try:
        require_same(approved, item)
        ending = await bench.control.unless_stopped(item.id, work(item))
    except Stopped as stopped:
        ending = Ending(stopped.status, f"It was {stopped.told} by the owner.")
    except Blocked as blocked:
        await bench.audit.log(blocked.event, work_item_id=item.id, reason=blocked.reason)
        ending = Ending(WorkItemStatus.BLOCKED, "It is blocked.", blocked.reason)
    finally:
        # Also when it was cancelled: nothing that nobody works on stays open.
        item = await asyncio.shield(close(item, ending))
    return item, ending
