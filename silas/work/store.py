"""Where work items survive a crash.

1. A new item is inserted; its id must be free.
2. A change is written only over the version that it was made from: a stale copy is refused, so
   that a worker cannot undo the owner's pause and two workers cannot overwrite each other.
3. A change of status must be in the table `TRANSITIONS`, checked against the row, not the copy.
4. What is being executed, or has been, keeps its plan.

A row holds the plan in its canonical bytes, and the runtime's state beside it.
"""

import json
from collections.abc import Callable, Collection
from typing import Any

from pydantic import TypeAdapter, ValidationError

from silas.approval import ApprovalToken
from silas.kernel import Clock, WorkError, canonical_bytes, format_timestamp, parse_timestamp
from silas.storage import Database, Durability, Reader, Row, SqlValue, Transaction
from silas.work.errors import WorkItemConflict, WorkItemUnknown
from silas.work.models import (
    ENDED_WELL,
    STOPPED_BY_OWNER,
    BudgetUsed,
    VerificationResult,
    WorkItem,
    WorkItemStatus,
    require_transition,
)
from silas.work.plan import Plan

SELECT_ITEM = """
SELECT plan, needs_approval, approval_token, status, attempts, budget_used, verification_results,
    created_at, version
FROM work_items
"""
INSERT_ITEM = """
INSERT INTO work_items (id, type, parent, follow_up_of, plan, needs_approval, approval_token,
    status, attempts, budget_used, verification_results, version, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
UPDATE_ITEM = """
UPDATE work_items SET parent = ?, follow_up_of = ?, plan = ?, needs_approval = ?,
    approval_token = ?, status = ?, attempts = ?, budget_used = ?, verification_results = ?,
    version = ?, updated_at = ?
WHERE id = ? AND version = ?
"""
_APPROVED_GOALS = """
SELECT id, version FROM work_items
WHERE status = 'pending' AND type = 'goal' AND approval_token IS NOT NULL ORDER BY id
"""
_RESULTS = TypeAdapter(list[VerificationResult])


def item_from_row(row: Row) -> WorkItem:
    """The work item of a row that `SELECT_ITEM` gave."""
    plan, needs_approval, token, status, attempts, used, results, created_at, version = row
    data: dict[str, Any] = json.loads(plan)
    data |= {
        "needs_approval": bool(needs_approval),
        "approval_token": json.loads(token) if token else None,
        "status": status,
        "attempts": attempts,
        "budget_used": json.loads(used),
        "verification_results": json.loads(results),
        "created_at": parse_timestamp(created_at),
        "version": version,
    }
    try:
        return WorkItem.model_validate(data)
    except ValidationError as error:
        raise WorkError(
            f"The stored work item {data.get('id')} cannot be read: {error}. "
            "It was written by another version of Silas; nothing has been changed."
        ) from error


def insert_values(item: WorkItem, now: str) -> tuple[SqlValue, ...]:
    """The parameters of `INSERT_ITEM`."""
    created = format_timestamp(item.created_at) if item.created_at else now
    return (item.id, item.type.value, *_changeable(item), 1, created, now)


def update_values(item: WorkItem, now: str) -> tuple[SqlValue, ...]:
    """The parameters of `UPDATE_ITEM`: the row must still be as old as this copy."""
    return (*_changeable(item), item.version + 1, now, item.id, item.version)


def _changeable(item: WorkItem) -> tuple[SqlValue, ...]:
    return (
        item.parent,
        item.follow_up_of,
        item.plan_bytes().decode(),
        int(item.needs_approval),
        item.approval_token.model_dump_json() if item.approval_token else None,
        item.status.value,
        item.attempts,
        canonical_bytes(item.budget_used.model_dump(mode="json")).decode(),
        _RESULTS.dump_json(item.verification_results).decode(),
    )


_FIXED_PLAN = {WorkItemStatus.RUNNING, WorkItemStatus.HEALTHY, *ENDED_WELL}


class WorkItemStore:
    """The work items of one data directory."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def save(self, item: WorkItem) -> WorkItem:
        """Insert or change an item; returns it as it is stored now, for the next change."""
        now = format_timestamp(self._clock.now())
        return await self._write(lambda tx: save_item(tx, item, now=now))

    async def save_below_running(self, item: WorkItem) -> WorkItem:
        """Insert an item, unless its parent does not run any more; then `WorkItemConflict`.

        So what the owner has just cancelled gets nothing new below it.
        """
        now = format_timestamp(self._clock.now())

        def insert(tx: Transaction) -> WorkItem:
            parent = load_item(tx, item.parent or "")
            if parent.status is not WorkItemStatus.RUNNING:
                raise WorkItemConflict(f"{parent.id} is {parent.status.value}, not running.")
            return save_item(tx, item, now=now)

        return await self._write(insert)

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

    async def approved_goals(self) -> list[tuple[str, int]]:
        """Id and version of every goal that was approved and is not being executed."""
        rows = await self._database.fetch_all(_APPROVED_GOALS)
        return [(name, version) for name, version in rows]

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
        record: Callable[[Transaction, WorkItem], object] | None = None,
    ) -> WorkItem:
        """Change status and budget together; with `expected`, only from that status.

        `record` is called with the item as it was, in the same transaction.
        """
        now = format_timestamp(self._clock.now())

        def change(tx: Transaction) -> WorkItem:
            item = load_item(tx, work_item_id)
            if expected is not None and item.status is not expected:
                raise WorkItemConflict(
                    f"The work item {work_item_id} is {item.status.value}, not {expected.value}. "
                    "Look at it again before you change it."
                )
            if record is not None:
                record(tx, item)
            return move_item(tx, item, status=status, budget_used=budget_used, now=now)

        return await self._write(change)

    def attach_in(self, tx: Transaction, shown: WorkItem, token: ApprovalToken) -> None:
        """Store the token with the item that was shown, in the decision's own transaction.

        What the owner has stopped stays as it is. Raises `WorkItemConflict` if the stored plan is
        not the one that was shown: then the decision is not taken.
        """
        item = load_item(tx, shown.id)
        if item.plan_bytes() != shown.plan_bytes():
            raise WorkItemConflict(
                f"The plan of {shown.id} was changed meanwhile. Nothing was approved.",
                work_item=shown.id,
            )
        if item.status in STOPPED_BY_OWNER:
            return
        now = format_timestamp(self._clock.now())
        save_item(tx, item.model_copy(update={"approval_token": token}), now=now)

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


def load_children(reader: Reader, parent_id: str) -> list[WorkItem]:
    """The tasks of a project or goal inside a transaction, oldest first."""
    rows = reader.fetch_all(f"{SELECT_ITEM} WHERE parent = ? ORDER BY created_at, id", (parent_id,))
    return [item_from_row(row) for row in rows]


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
