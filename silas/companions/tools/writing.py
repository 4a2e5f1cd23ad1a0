"""From the outcome of a journal operation to the result of a tool: what a person can read."""

from collections.abc import Mapping
from typing import Any, Literal

from silas.companions.tools.models import ToolEffect
from silas.companions.tools.outputs import RecordChange, WriteOutput
from silas.companions.tools.reach import ToolReach
from silas.journal.merging import FIRST, last_write
from silas.journal.models import Record
from silas.journal.operations import By
from silas.journal.results import Outcome
from silas.journal.rows import kind_of
from silas.kernel import format_timestamp

_LABELS = ("title", "name", "text", "note", "date", "dimension")
_SHOWN: Mapping[str, tuple[str, ...]] = {
    "task": ("status", "priority", "estimate_minutes", "due_at", "category_id", "labels", "body"),
    "checklist_item": ("checked",),
    "time_entry": ("started_at", "ended_at", "note", "task_id"),
    "day_block": ("starts_at", "ends_at", "note", "task_id", "category_id"),
    "day_plan": ("pinned_task_ids",),
    "rating": ("value", "note", "target_id"),
    "link": ("relation",),
}

_PLACES: Mapping[str, frozenset[str]] = {
    "checklist": frozenset({"task_id"}),
    "checklist_item": frozenset({"checklist_id", "position"}),
    "time_entry": frozenset({"task_id", "category_id"}),
}
"""The fields that say where a record belongs. If nothing else is different, it has moved."""


def by(reach: ToolReach) -> By:
    """Who asks, and how far that one reaches."""
    return {
        "scope": reach.scope,
        "actor": reach.actor,
        "operation_id": reach.operation_id,
        "preview_only": reach.preview_only,
        "guard": reach.guard,
    }


def written(reach: ToolReach, outcome: Outcome) -> ToolEffect:
    """The effect of an operation."""
    changes = tuple(_change(reach, each, preview=outcome.preview) for each in outcome.records)
    output = WriteOutput(
        preview=outcome.preview,
        changes=changes,
        ids={} if outcome.preview else outcome.payload,
    )
    return ToolEffect(
        payload=output.model_dump(mode="json"),
        changed_entity_ids=() if outcome.preview else outcome.changed_entity_ids,
        changed_tokens=() if outcome.preview else outcome.changed_tokens,
    )


def _change(reach: ToolReach, record: Record, *, preview: bool) -> RecordChange:
    kind = kind_of(record)
    shown: dict[str, Any] = record.model_dump(mode="json")
    now = format_timestamp(reach.now)
    # A preview must be the same when it is made again, so that it can be compared.
    fields = {
        name: shown[name] for name in _SHOWN.get(kind, ()) if shown[name] not in (None, "", [], now)
    }
    label = next((str(shown[name]) for name in _LABELS if shown.get(name)), kind)
    new = record.created_at == record.updated_at and set(record.versions) <= {FIRST}
    return RecordChange(
        kind=kind,
        what=_what(record, new=new),
        id=None if preview and new else record.id,
        label=label[:200],
        fields=fields,
    )


def _what(record: Record, *, new: bool) -> Literal["created", "updated", "moved", "deleted"]:
    if record.deleted:
        return "deleted"
    if new:
        return "created"
    last = last_write(record)
    touched = {name for name, version in record.versions.items() if version == last}
    return "moved" if touched <= _PLACES.get(kind_of(record), frozenset()) else "updated"
