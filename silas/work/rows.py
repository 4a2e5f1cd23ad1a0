"""Work items as rows: the plan in its canonical bytes, the runtime's state beside it."""

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from silas.kernel import WorkError, canonical_bytes, format_timestamp, parse_timestamp
from silas.storage import Row, SqlValue
from silas.work.checks import VerificationResult
from silas.work.models import WorkItem

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
