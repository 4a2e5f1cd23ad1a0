"""Cancel, pause and resume: the owner's word, out of band, within a second.

The word is the item's status in the store. Whoever runs the item watches it: at once if it was said
in the same process, and by a look at one row a few times a second if it was said in another. A run
whose item is not `running` any more is ended with all its processes.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from silas.kernel import Clock, SilasError
from silas.work.attempts import STOPPED_BY_OWNER, WAITING, AttemptStore
from silas.work.errors import IllegalTransition, WorkItemConflict
from silas.work.models import WorkItem, WorkItemStatus, WorkItemType
from silas.work.ports import ApprovalDoor, AuditTrail
from silas.work.store import WorkItemStore, require_item

_LOOK_EVERY = 0.2
T = TypeVar("T")


class Stopped(Exception):
    """The owner has paused or cancelled the item; carries its status."""

    def __init__(self, status: WorkItemStatus) -> None:
        super().__init__(status.value)
        self.status = status

    @property
    def told(self) -> str:
        """What the owner did to it, in a word."""
        return "paused" if self.status is WorkItemStatus.PAUSED else "cancelled"


class WorkControl:
    """Stops and resumes work items, and tells runs that they were stopped."""

    def __init__(
        self,
        items: WorkItemStore,
        attempts: AttemptStore,
        *,
        audit: AuditTrail,
        clock: Clock,
        approvals: ApprovalDoor,
    ) -> None:
        self._approvals = approvals
        self._items = items
        self._attempts = attempts
        self._audit = audit
        self._clock = clock
        self._changed: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._at_work: set[str] = set()

    async def cancel(self, work_item_id: str) -> list[WorkItem]:
        """End an item and everything below it for good; returns the items that were changed.

        Its approval is taken back, so that no row lets it go on. Who resumes it approves it again.
        """
        stopped = await self._stop(work_item_id, WorkItemStatus.FAILED, "work_cancelled")
        for item in stopped:
            await self._attempts.drop_waiting(item.id)
            await self._withdraw(item)
        return stopped

    async def _withdraw(self, item: WorkItem) -> None:
        """It is stopped in any case, also where no vault can be opened."""
        if item.approval_token is None:
            return
        try:
            await self._approvals.withdraw(item.approval_token, item)
        except SilasError as error:
            reason = error.message
            await self._audit.log("approval_not_withdrawn", work_item_id=item.id, reason=reason)

    async def pause(self, work_item_id: str) -> list[WorkItem]:
        """Stop an item and everything below it until it is resumed."""
        return await self._stop(work_item_id, WorkItemStatus.PAUSED, "work_paused")

    async def resume(self, work_item_id: str) -> WorkItem:
        """Let a stopped item wait for its next attempt. What it may do is asked at the door."""
        for item in await self._family(work_item_id):
            below = item.id != work_item_id
            if below and item.status is not WorkItemStatus.PAUSED:
                continue
            if item.status is not WorkItemStatus.PENDING:
                await self._items.update_status(item.id, WorkItemStatus.PENDING, item.budget_used)
        await self._audit.log("work_resumed", work_item_id=work_item_id)
        return await require_item(self._items, work_item_id)

    async def wait_until_idle(self, work_item_id: str, *, seconds: float) -> bool:
        """Wait until nobody works on the item or below it; False if somebody still does."""
        ids = {item.id for item in await self._family(work_item_id)}
        deadline = self._clock.monotonic() + seconds
        while ids & {
            each.work_item_id for each in await self._attempts.list_open() if each.runner != WAITING
        }:
            if self._clock.monotonic() >= deadline:
                return False
            await asyncio.sleep(_LOOK_EVERY / 4)
        return True

    @contextmanager
    def at_work(self, work_item_id: str) -> Iterator[None]:
        """This process is at the item: from before an attempt is opened until after it is closed.

        Raises `WorkItemConflict` if it is at it already, whatever the rows say. And whatever they
        say, an attempt of this process at an item that it is not at is over.
        """
        if work_item_id in self._at_work:
            raise WorkItemConflict(f"The work item {work_item_id} is being worked on here.")
        self._at_work.add(work_item_id)
        try:
            yield
        finally:
            self._at_work.discard(work_item_id)

    def is_at_work(self, work_item_id: str) -> bool:
        """Whether this process is at the item."""
        return work_item_id in self._at_work

    async def unless_stopped(self, work_item_id: str, work: Coroutine[Any, Any, T]) -> T:
        """Do the work; if the owner stops the item, end it and raise `Stopped`."""
        running = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(self._until_stopped(work_item_id))
        try:
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            status = watching.result()
        finally:
            for task in (running, watching):
                task.cancel()
            # Only when this returns, no process of the work is left.
            await asyncio.gather(running, watching, return_exceptions=True)
            self._changed.pop(work_item_id, None)
        raise Stopped(status)

    async def _until_stopped(self, work_item_id: str) -> WorkItemStatus:
        changed = self._changed[work_item_id]
        while True:
            item = await self._items.get(work_item_id)
            if item is None or item.status in STOPPED_BY_OWNER:
                return item.status if item else WorkItemStatus.FAILED
            changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY):
                    await changed.wait()

    async def _stop(self, work_item_id: str, status: WorkItemStatus, event: str) -> list[WorkItem]:
        stopped = []
        for item in await self._family(work_item_id):
            if item.status is status or item.status is WorkItemStatus.DONE:
                continue
            try:
                changed = await self._items.update_status(item.id, status, item.budget_used)
            except IllegalTransition:
                if item.id == work_item_id:
                    raise
                continue
            self._changed[item.id].set()
            stopped.append(changed)
            await self._audit.log(event, work_item_id=item.id, was=item.status.value)
        return stopped

    async def _family(self, work_item_id: str) -> list[WorkItem]:
        """The item, and below a project or goal everything that is not over."""
        item = await require_item(self._items, work_item_id)
        if item.type is WorkItemType.TASK:
            return [item]
        return [item, *await self._items.list_by_parent(work_item_id)]
