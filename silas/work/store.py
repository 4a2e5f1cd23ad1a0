"""Where work items survive a crash.

1. A new item is inserted; its id must be free.
2. A change is written only over the version that it was made from: a stale copy is refused, so
   that a worker cannot undo the owner's pause and two workers cannot overwrite each other.
3. A change of status must be in the table of `status.py`, checked against the row, not the copy.
4. What is being executed, or has been, keeps its plan.
"""

from collections.abc import Callable, Collection

from silas.kernel import Clock, format_timestamp
from silas.storage import Database, Durability, Reader, Transaction
from silas.work.budget import BudgetUsed
from silas.work.errors import WorkItemConflict, WorkItemUnknown
from silas.work.models import WorkItem, WorkItemStatus
from silas.work.plan import Plan
from silas.work.rows import (
    INSERT_ITEM,
    SELECT_ITEM,
    UPDATE_ITEM,
    insert_values,
    item_from_row,
    update_values,
)
from silas.work.status import require_transition

_FIXED_PLAN = {WorkItemStatus.RUNNING, WorkItemStatus.HEALTHY, WorkItemStatus.DONE}


class WorkItemStore:
    """The work items of one data directory."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def save(self, item: WorkItem) -> WorkItem:
        """Insert or change an item; returns it as it is stored now, for the next change."""
        now = format_timestamp(self._clock.now())
        return await self._write(lambda tx: save_item(tx, item, now=now))

    async def save_plan(self, plan: Plan) -> list[WorkItem]:
        """Insert all items of a plan, or none; every id that they refer to must exist."""
        now = format_timestamp(self._clock.now())

        def insert_all(tx: Transaction) -> list[WorkItem]:
            _require_references(tx, plan)
            return [save_item(tx, item, now=now) for item in plan.items]

        return await self._database.transaction(insert_all, durability=Durability.TRUST)

    async def get(self, work_item_id: str) -> WorkItem | None:
        """The item, or None."""
        row = await self._database.fetch_one(f"{SELECT_ITEM} WHERE id = ?", (work_item_id,))
        return item_from_row(row) if row else None

    async def list_by_status(self, status: WorkItemStatus) -> list[WorkItem]:
        """All items with this status, oldest first."""
        return await self._list("status = ?", status.value)

    async def list_by_parent(self, parent_id: str) -> list[WorkItem]:
        """The tasks of a project, or those that a goal has spawned, oldest first."""
        return await self._list("parent = ?", parent_id)

    async def list_follow_ups(self, work_item_id: str) -> list[WorkItem]:
        """The items that go on where this one ended, oldest first."""
        return await self._list("follow_up_of = ?", work_item_id)

    async def known(self, ids: Collection[str]) -> set[str]:
        """Those of the ids that belong to a stored item."""
        return await self._database.snapshot(lambda reader: _known(reader, ids))

    async def update_status(
        self,
        work_item_id: str,
        status: WorkItemStatus,
        budget_used: BudgetUsed,
        *,
        expected: WorkItemStatus | None = None,
    ) -> WorkItem:
        """Change status and budget together; with `expected`, only from that status."""
        now = format_timestamp(self._clock.now())

        def change(tx: Transaction) -> WorkItem:
            item = load_item(tx, work_item_id)
            if expected is not None and item.status is not expected:
                raise WorkItemConflict(
                    f"The work item {work_item_id} is {item.status.value}, not {expected.value}. "
                    "Look at it again before you change it."
                )
            return move_item(tx, item, status=status, budget_used=budget_used, now=now)

        return await self._write(change)

    async def _write(self, body: Callable[[Transaction], WorkItem]) -> WorkItem:
        # A status that a power cut takes back would let work be done twice.
        return await self._database.transaction(body, durability=Durability.TRUST)

    async def _list(self, condition: str, value: str) -> list[WorkItem]:
        sql = f"{SELECT_ITEM} WHERE {condition} ORDER BY created_at, id"
        return [item_from_row(row) for row in await self._database.fetch_all(sql, (value,))]


async def require_item(store: WorkItemStore, work_item_id: str) -> WorkItem:
    """The item; raises `WorkItemUnknown`."""
    item = await store.get(work_item_id)
    if item is None:
        raise WorkItemUnknown(f"There is no work item {work_item_id}.", work_item=work_item_id)
    return item


def load_item(reader: Reader, work_item_id: str) -> WorkItem:
    """The item inside a transaction; raises `WorkItemUnknown`."""
    row = reader.fetch_one(f"{SELECT_ITEM} WHERE id = ?", (work_item_id,))
    if row is None:
        raise WorkItemUnknown(f"There is no work item {work_item_id}.", work_item=work_item_id)
    return item_from_row(row)


def save_item(tx: Transaction, item: WorkItem, *, now: str) -> WorkItem:
    """Insert the item (version 0) or write it over the version that it was made from."""
    stored = tx.fetch_one(f"{SELECT_ITEM} WHERE id = ?", (item.id,))
    if stored is None and item.version == 0:
        tx.execute(INSERT_ITEM, insert_values(item, now))
        return load_item(tx, item.id)
    if stored is None:
        raise WorkItemUnknown(f"There is no work item {item.id} any more.", work_item=item.id)
    before = item_from_row(stored)
    _require_change(before, item)
    return _overwrite(tx, item.model_copy(update={"created_at": before.created_at}), now)


def move_item(
    tx: Transaction, item: WorkItem, *, status: WorkItemStatus, now: str, **changes: object
) -> WorkItem:
    """Give the item, as just loaded, another status and other runtime fields."""
    changed = item.model_copy(update={"status": status, **changes})
    require_transition(item.id, item.type, now=item.status, then=status)
    return _overwrite(tx, changed, now)


def _overwrite(tx: Transaction, item: WorkItem, now: str) -> WorkItem:
    if not tx.execute(UPDATE_ITEM, update_values(item, now)):
        raise _stale(item)
    return item.model_copy(update={"version": item.version + 1})


def _stale(item: WorkItem) -> WorkItemConflict:
    return WorkItemConflict(
        f"The work item {item.id} has changed in the meantime. Load it again and repeat.",
        work_item=item.id,
    )


def _require_change(before: WorkItem, after: WorkItem) -> None:
    """Rules 1 to 4 for an item that exists."""
    if after.version == 0:
        raise WorkItemConflict(
            f"There is a work item {after.id} already. Give the new one another id.",
            work_item=after.id,
        )
    if after.version != before.version:
        raise _stale(after)
    if after.status is not before.status:
        require_transition(after.id, before.type, now=before.status, then=after.status)
    replanned = after.plan_bytes() != before.plan_bytes()
    if after.type is not before.type or (replanned and before.status in _FIXED_PLAN):
        raise WorkItemConflict(
            f"The {before.type.value} {after.id} is {before.status.value}, so its plan cannot "
            "change like this. Make a follow-up of it instead.",
            work_item=after.id,
        )


def _require_references(reader: Reader, plan: Plan) -> None:
    missing = plan.outside_references - _known(reader, plan.outside_references)
    if missing:
        names = ", ".join(sorted(missing))
        raise WorkItemUnknown(f"The plan refers to work items that do not exist: {names}.")


def _known(reader: Reader, ids: Collection[str]) -> set[str]:
    found = (reader.fetch_one("SELECT id FROM work_items WHERE id = ?", (each,)) for each in ids)
    return {row[0] for row in found if row}
