"""Cancel, pause and resume: the owner's word, out of band, within a second.

The word is the item's status in the store. Whoever runs the item watches it: at once if it was said
in the same process, and by a look at one row a few times a second if it was said in another. A run
whose item is not `running` any more is ended with all its processes.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from silas.approval.engine import ApprovalEngine
from silas.audit.models import AuditTrail
from silas.kernel import Clock, SilasError, format_timestamp
from silas.storage import Database, Durability, Transaction
from silas.work.attempt_store import WAITING, AttemptStore, drop_waiting_in
from silas.work.errors import IllegalTransition, WorkItemConflict
from silas.work.models import STOPPED_BY_OWNER, WorkItem, WorkItemStatus, WorkItemType
from silas.work.store import (
    WorkItemStore,
    load_children,
    load_item,
    move_item,
    require_item,
    save_item,
)

CANCELLED, EXPIRED, WITHDRAWN = "work_cancelled", "work_expired", "work_withdrawn"
_LOOK_EVERY = 0.2
T = TypeVar("T")


class StoppedByOwner(Exception):
    """The owner has paused or cancelled the item; carries its status."""

    def __init__(self, status: WorkItemStatus) -> None:
        super().__init__(status.value)
        self.status = status

    @property
    def verb(self) -> str:
        """What the owner did to it, in a word."""
        return "paused" if self.status is WorkItemStatus.PAUSED else "cancelled"


class Cancelled(NamedTuple):
    """An item that was cancelled, as it was before and as it is now."""

    before: WorkItem
    after: WorkItem


class WorkControl:
    """Stops and resumes work items, and tells runs that they were stopped."""

    def __init__(
        self,
        database: Database,
        items: WorkItemStore,
        attempts: AttemptStore,
        *,
        audit: AuditTrail,
        clock: Clock,
        approvals: ApprovalEngine,
    ) -> None:
        self._database = database
        self._approvals = approvals
        self._items = items
        self._attempts = attempts
        self._audit = audit
        self.clock = clock
        self._changed: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._at_work: set[str] = set()

    async def cancel(self, work_item_id: str, *, event: str = CANCELLED) -> list[WorkItem]:
        """End an item and everything below it for good, in whatever state it is.

        Status, approval and waiting calls go in one transaction, so that no clock, repair or
        restart finds half of it. The approval is also withdrawn where no row can bring it back.
        Who resumes it approves it again. Returns the items that were changed. `event` is how the
        log calls it: what nobody decided in time was not cancelled by anybody.
        """
        ended = await self._database.transaction(
            lambda tx: self.cancel_in(tx, work_item_id, event=event), durability=Durability.TRUST
        )
        return await self.after_cancel(ended)

    def cancel_in(
        self, tx: Transaction, work_item_id: str, *, event: str = CANCELLED
    ) -> list[Cancelled]:
        """The same as part of a transaction; `after_cancel` belongs after it."""
        now = format_timestamp(self.clock.now())
        family = [load_item(tx, work_item_id), *load_children(tx, work_item_id)]
        open_items = [each for each in family if not each.has_ended]
        return [Cancelled(each, self._cancel_in(tx, each, now, event)) for each in open_items]

    async def after_cancel(self, ended: Sequence[Cancelled]) -> list[WorkItem]:
        """Tell the runs of what was cancelled, and withdraw its approvals for good."""
        for each in ended:
            self._changed[each.before.id].set()
        for each in ended:
            await self._withdraw(each.before)
        return [each.after for each in ended]

    def _cancel_in(self, tx: Transaction, item: WorkItem, now: str, event: str) -> WorkItem:
        entry = {"work_item_id": item.id, "was": item.status.value}
        self._audit.append(tx, event, entry)
        drop_waiting_in(tx, item.id, now=now)
        if item.status is WorkItemStatus.FAILED:  # a goal whose last cycle failed, or a project
            return save_item(tx, item.model_copy(update={"approval_token": None}), now=now)
        return move_item(tx, item, status=WorkItemStatus.FAILED, now=now, approval_token=None)

    async def _withdraw(self, item: WorkItem) -> None:
        """The item is stopped in any case, also where no vault can be opened."""
        if item.approval_token is None:
            return
        try:
            await self._approvals.withdraw(item.approval_token, item)
        except SilasError as error:
            reason = error.message
            await self._audit.log("approval_not_withdrawn", work_item_id=item.id, reason=reason)

    async def pause(self, work_item_id: str) -> list[WorkItem]:
        """Stop an item and everything below it until it is resumed."""
        stopped = []
        for item in await self._family(work_item_id):
            if item.status is WorkItemStatus.PAUSED or item.has_ended:
                continue
            try:
                changed = await self._change(item, WorkItemStatus.PAUSED, "work_paused")
            except IllegalTransition:
                if item.id == work_item_id:
                    raise
                continue
            self._changed[item.id].set()
            stopped.append(changed)
        return stopped

    async def resume(self, work_item_id: str) -> WorkItem:
        """Let a stopped item wait for its next attempt. Admission asks what it may do."""
        for item in await self._family(work_item_id):
            below = item.id != work_item_id
            if below and item.status is not WorkItemStatus.PAUSED:
                continue
            if item.status is not WorkItemStatus.PENDING:
                await self._change(item, WorkItemStatus.PENDING, "work_resumed")
        return await require_item(self._items, work_item_id)

    async def wait_until_idle(self, work_item_id: str, *, seconds: float) -> bool:
        """Wait until nobody works on the item or below it; False if somebody still does."""
        ids = {item.id for item in await self._family(work_item_id)}
        deadline = self.clock.monotonic() + seconds
        while ids & {
            each.work_item_id for each in await self._attempts.list_open() if each.runner != WAITING
        }:
            if self.clock.monotonic() >= deadline:
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
        """Do the work; if the owner stops the item, end it and raise `StoppedByOwner`."""
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
        raise StoppedByOwner(status)

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

    async def _change(self, item: WorkItem, status: WorkItemStatus, event: str) -> WorkItem:
        """The owner's word and its entry in the audit log, in one transaction."""

        def record(tx: Transaction, before: WorkItem) -> None:
            entry = {"work_item_id": before.id, "was": before.status.value}
            self._audit.append(tx, event, entry)

        return await self._items.update_status(item.id, status, item.budget_used, record=record)

    async def _family(self, work_item_id: str) -> list[WorkItem]:
        """The item, and below a project or goal everything that is not over."""
        item = await require_item(self._items, work_item_id)
        if item.type is WorkItemType.TASK:
            return [item]
        return [item, *await self._items.list_by_parent(work_item_id)]
