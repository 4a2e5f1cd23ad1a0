"""Operations on tasks."""

from typing import Any, Unpack

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from silas.journal.errors import RecordInvalid
from silas.journal.models import CLOSED, Priority, Task, TaskStatus
from silas.journal.operations.scoped import By, Payload, ScopedEdit, perform
from silas.journal.operations.steps import (
    add_items,
    close_task,
    link,
    open_items,
    take_items_along,
)
from silas.journal.results import Outcome
from silas.journal.store import Journal
from silas.kernel.models import UtcDatetime

_CONTINUED = " (continued)"


@with_config(ConfigDict(extra="forbid"))
class TaskFields(TypedDict, total=False):
    """What can be changed about a task; what is not named stays."""

    title: str
    status: TaskStatus
    priority: Priority
    estimate_minutes: int | None
    due_at: UtcDatetime | None
    language: str | None
    labels: tuple[str, ...]
    category_id: str | None
    body: str


async def create_task(
    journal: Journal,
    *,
    title: str,
    category_id: str | None = None,
    status: TaskStatus = TaskStatus.OPEN,
    priority: Priority = Priority.P2,
    estimate_minutes: int | None = None,
    due_at: UtcDatetime | None = None,
    language: str | None = None,
    labels: tuple[str, ...] = (),
    body: str = "",
    checklist_items: tuple[str, ...] = (),
    **by: Unpack[By],
) -> Outcome:
    """Write a new task down, with a checklist if it has items."""
    fields = {
        "title": title,
        "category_id": category_id,
        "status": status,
        "priority": priority,
        "estimate_minutes": estimate_minutes,
        "due_at": due_at,
        "language": language,
        "labels": labels,
        "body": body,
    }

    def edit(here: ScopedEdit) -> Payload:
        here.require_category(category_id)
        task = here.edit.create(Task, **fields)
        add_items(here, task, checklist_items)
        return {"task_id": task.id}

    whole = {**fields, "checklist_items": checklist_items}
    return await perform(journal, "create_task", whole, edit, by)


async def update_task_fields(
    journal: Journal, *, task_id: str, fields: TaskFields, **by: Unpack[By]
) -> Outcome:
    """Change a task. Moving it needs both categories; a task that is closed stops its timer."""
    return await _update(journal, "update_task_fields", task_id, dict(fields), by)


async def set_task_language(
    journal: Journal, *, task_id: str, language: str | None, **by: Unpack[By]
) -> Outcome:
    """Say which language a task is in."""
    return await _update(journal, "set_task_language", task_id, {"language": language}, by)


async def update_task_estimate(
    journal: Journal, *, task_id: str, estimate_minutes: int | None, **by: Unpack[By]
) -> Outcome:
    """Say how long a task will take."""
    fields = {"estimate_minutes": estimate_minutes}
    return await _update(journal, "update_task_estimate", task_id, fields, by)


async def update_task_due_date(
    journal: Journal, *, task_id: str, due_at: UtcDatetime | None, **by: Unpack[By]
) -> Outcome:
    """Say when a task is due."""
    return await _update(journal, "update_task_due_date", task_id, {"due_at": due_at}, by)


async def update_task_priority(
    journal: Journal, *, task_id: str, priority: Priority, **by: Unpack[By]
) -> Outcome:
    """Say how much a task matters."""
    return await _update(journal, "update_task_priority", task_id, {"priority": priority}, by)


async def assign_task_labels(
    journal: Journal,
    *,
    task_id: str,
    labels: tuple[str, ...],
    replace: bool = False,
    **by: Unpack[By],
) -> Outcome:
    """Add labels to a task, or put these in the place of those that it has."""

    def edit(here: ScopedEdit) -> Payload:
        task = here.get(Task, task_id)
        kept = () if replace else task.labels
        here.edit.update(task, labels=tuple(dict.fromkeys([*kept, *labels])))
        return {"task_id": task_id}

    arguments = {"task_id": task_id, "labels": labels, "replace": replace}
    return await perform(journal, "assign_task_labels", arguments, edit, by)


async def create_follow_up_task(
    journal: Journal,
    *,
    source_task_id: str,
    new_task_title: str,
    carry_over_open_checklist_items: bool = True,
    close_source_task_as: TaskStatus | None = None,
    preserve_category_and_labels: bool = True,
    category_id: str | None = None,
    **by: Unpack[By],
) -> Outcome:
    """Write down what comes after a task; its open checklist items go along if wanted."""

    def edit(here: ScopedEdit) -> Payload:
        source = here.get(Task, source_task_id)
        kept = _kept(source) if preserve_category_and_labels else {"category_id": category_id}
        return _follow_up(
            here,
            source,
            {"title": new_task_title, **kept},
            carry_over=carry_over_open_checklist_items,
            close_as=close_source_task_as,
        )

    arguments = {
        "source_task_id": source_task_id,
        "new_task_title": new_task_title,
        "carry_over_open_checklist_items": carry_over_open_checklist_items,
        "close_source_task_as": close_source_task_as,
        "preserve_category_and_labels": preserve_category_and_labels,
        "category_id": category_id,
    }
    return await perform(journal, "create_follow_up_task", arguments, edit, by)


async def conclude_task_with_rollover(
    journal: Journal,
    *,
    task_id: str,
    close_as: TaskStatus = TaskStatus.DONE,
    follow_up_title: str | None = None,
    **by: Unpack[By],
) -> Outcome:
    """Close a task; if checklist items are open, they go along to a follow-up task."""

    def edit(here: ScopedEdit) -> Payload:
        task = here.get(Task, task_id)
        if not open_items(here, task) and follow_up_title is None:
            close_task(here, task, _closing(close_as))
            return {"task_id": task_id, "follow_up_task_id": None, "moved_item_ids": []}
        title = follow_up_title or f"{task.title.removesuffix(_CONTINUED)}{_CONTINUED}"
        fields = {"title": title, **_kept(task)}
        return _follow_up(here, task, fields, carry_over=True, close_as=close_as)

    arguments = {"task_id": task_id, "close_as": close_as, "follow_up_title": follow_up_title}
    return await perform(journal, "conclude_task_with_rollover", arguments, edit, by)


async def _update(
    journal: Journal, name: str, task_id: str, fields: dict[str, Any], by: By
) -> Outcome:
    def edit(here: ScopedEdit) -> Payload:
        unknown = fields.keys() - TaskFields.__annotations__.keys()
        if unknown:
            raise RecordInvalid(f"A task has no {', '.join(sorted(unknown))} to change.")
        task = here.get(Task, task_id)
        if "category_id" in fields and fields["category_id"] != task.category_id:
            here.require_category(fields["category_id"])
        after = here.edit.update(task, **fields)
        if after.closed and not task.closed:
            close_task(here, after, after.status)
        return {"task_id": task_id}

    return await perform(journal, name, {"task_id": task_id, "fields": fields}, edit, by)


def _follow_up(
    here: ScopedEdit,
    source: Task,
    fields: dict[str, Any],
    *,
    carry_over: bool,
    close_as: TaskStatus | None,
) -> Payload:
    here.require_category(fields["category_id"])
    task = here.edit.create(Task, **fields)
    link(here, source.id, task.id, "follow_up")
    moved = take_items_along(here, source, task) if carry_over else []
    if close_as is not None:
        close_task(here, source, _closing(close_as))
    return {"task_id": source.id, "follow_up_task_id": task.id, "moved_item_ids": moved}


def _kept(task: Task) -> dict[str, Any]:
    return {
        "category_id": task.category_id,
        "labels": task.labels,
        "priority": task.priority,
        "language": task.language,
    }


def _closing(status: TaskStatus) -> TaskStatus:
    if status not in CLOSED:
        raise RecordInvalid("A task is closed as done or rejected.")
    return status
