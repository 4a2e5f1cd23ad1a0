"""Operations on tasks and their checklists."""

from datetime import datetime
from typing import Annotated, Any, Unpack

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from silas.journal.errors import RecordInvalid
from silas.journal.models import (
    CLOSED,
    Checklist,
    ChecklistItem,
    Priority,
    Recurrence,
    Task,
    TaskStatus,
)
from silas.journal.operations.scoped import (
    By,
    Payload,
    ScopedEdit,
    add_items,
    append_items,
    close_task,
    link,
    move_items,
    open_items,
    perform,
    take_back_successor,
    take_items_along,
    with_first_due,
)
from silas.journal.store import Journal, Outcome
from silas.kernel.models import Data, UtcDatetime

_CONTINUED = " (continued)"
Ids = Annotated[tuple[str, ...], Field(min_length=1, max_length=500)]


@with_config(ConfigDict(extra="forbid"))
class TaskFields(TypedDict, total=False):
    """What can be changed about a task; what is not named stays."""

    title: str
    status: TaskStatus
    priority: Priority
    estimate_minutes: int | None
    due_at: UtcDatetime | None
    repeats: Recurrence | None
    remind_at: UtcDatetime | None
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
    repeats: Recurrence | None = None,
    remind_at: UtcDatetime | None = None,
    language: str | None = None,
    labels: tuple[str, ...] = (),
    body: str = "",
    checklist_items: tuple[str, ...] = (),
    **by: Unpack[By],
) -> Outcome:
    """Write a new task down, with a checklist if it has items.

    One that repeats is due at its first time, unless another one is named.
    """
    fields = {
        "title": title,
        "category_id": category_id,
        "status": status,
        "priority": priority,
        "estimate_minutes": estimate_minutes,
        "due_at": due_at,
        "repeats": repeats,
        "remind_at": remind_at,
        "language": language,
        "labels": labels,
        "body": body,
    }

    def edit(here: ScopedEdit) -> Payload:
        here.require_category(category_id)
        task = here.edit.create(Task, **with_first_due(fields, here.edit.now))
        add_items(here, task, checklist_items)
        return {"task_id": task.id}

    whole = {**fields, "checklist_items": checklist_items}
    return await perform(journal, "create_task", whole, edit, by)


async def update_task_fields(
    journal: Journal, *, task_id: str, fields: TaskFields, **by: Unpack[By]
) -> Outcome:
    """Change a task. Moving it needs both categories; a task that is closed stops its timer.

    One that repeats comes again when it is done; if it is open again, the next one goes.
    """
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
        after = here.edit.update(task, **_timed(fields, task, here.edit.now))
        if after.closed and not task.closed:
            close_task(here, after, after.status)
        if task.status is TaskStatus.DONE and not after.closed:
            take_back_successor(here, task)
        return {"task_id": task_id}

    return await perform(journal, name, {"task_id": task_id, "fields": fields}, edit, by)


def _timed(fields: dict[str, Any], task: Task, now: datetime) -> dict[str, Any]:
    """The changes; another recurrence has another first time, unless one is named."""
    changed = fields.get("repeats") is not None and fields["repeats"] != task.repeats
    return with_first_due(fields, now) if changed else fields


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


class ItemUpdate(Data):
    """What is to change about an item; None stays as it is."""

    id: str
    text: str | None = None
    checked: bool | None = None
    position: int | None = None


async def create_checklist(
    journal: Journal,
    *,
    task_id: str,
    title: str = "Checklist",
    items: tuple[str, ...] = (),
    **by: Unpack[By],
) -> Outcome:
    """Give a task a checklist."""

    def edit(here: ScopedEdit) -> Payload:
        task = here.get(Task, task_id)
        made = here.edit.create(Checklist, task_id=task.id, title=title)
        return {"checklist_id": made.id, "item_ids": append_items(here, made, items)}

    arguments = {"task_id": task_id, "title": title, "items": items}
    return await perform(journal, "create_checklist", arguments, edit, by)


async def add_multiple_checklist_items(
    journal: Journal,
    *,
    items: Ids,
    checklist_id: str | None = None,
    task_id: str | None = None,
    **by: Unpack[By],
) -> Outcome:
    """Add items to a checklist, or to the first checklist of a task."""

    def edit(here: ScopedEdit) -> Payload:
        if checklist_id is None and task_id is None:
            raise RecordInvalid("Name the checklist or the task.")
        if checklist_id is None:
            return {"item_ids": add_items(here, here.get(Task, str(task_id)), items)}
        checklist = here.get(Checklist, checklist_id)
        if task_id not in (None, checklist.task_id):
            raise RecordInvalid("This checklist belongs to another task.")
        return {"item_ids": append_items(here, checklist, items)}

    arguments = {"items": items, "checklist_id": checklist_id, "task_id": task_id}
    return await perform(journal, "add_multiple_checklist_items", arguments, edit, by)


async def update_checklist_items(
    journal: Journal, *, updates: tuple[ItemUpdate, ...], **by: Unpack[By]
) -> Outcome:
    """Change the text, the check mark or the place of items."""

    def edit(here: ScopedEdit) -> Payload:
        for update in updates:
            item = here.get(ChecklistItem, update.id)
            here.edit.update(item, **update.model_dump(exclude={"id"}, exclude_none=True))
        return {"item_ids": [update.id for update in updates]}

    return await perform(journal, "update_checklist_items", {"updates": updates}, edit, by)


async def move_checklist_items(
    journal: Journal,
    *,
    item_ids: Ids,
    from_checklist_id: str,
    to_checklist_id: str,
    preserve_checked_state: bool = True,
    **by: Unpack[By],
) -> Outcome:
    """Move items from one checklist to another; both must be in scope."""

    def edit(here: ScopedEdit) -> Payload:
        source = here.get(Checklist, from_checklist_id)
        target = here.get(Checklist, to_checklist_id)
        items = _items_in(here, item_ids, source)
        return {"item_ids": move_items(here, items, target, uncheck=not preserve_checked_state)}

    arguments = {
        "item_ids": item_ids,
        "from_checklist_id": from_checklist_id,
        "to_checklist_id": to_checklist_id,
        "preserve_checked_state": preserve_checked_state,
    }
    return await perform(journal, "move_checklist_items", arguments, edit, by)


async def move_checklist_items_to_new_task(
    journal: Journal,
    *,
    item_ids: Ids,
    from_checklist_id: str,
    new_task_title: str,
    **by: Unpack[By],
) -> Outcome:
    """Make a task of some items of a checklist; it is in the same category."""

    def edit(here: ScopedEdit) -> Payload:
        source = here.get(Checklist, from_checklist_id)
        items = _items_in(here, item_ids, source)
        old = here.get(Task, source.task_id)
        new = here.edit.create(
            Task, title=new_task_title, category_id=old.category_id, labels=old.labels
        )
        target = here.edit.create(Checklist, task_id=new.id, title=source.title)
        link(here, old.id, new.id, "split")
        return {"task_id": new.id, "item_ids": move_items(here, items, target)}

    arguments = {
        "item_ids": item_ids,
        "from_checklist_id": from_checklist_id,
        "new_task_title": new_task_title,
    }
    return await perform(journal, "move_checklist_items_to_new_task", arguments, edit, by)


def _items_in(here: ScopedEdit, item_ids: Ids, source: Checklist) -> list[ChecklistItem]:
    items = [here.get(ChecklistItem, each) for each in dict.fromkeys(item_ids)]
    if any(item.checklist_id != source.id for item in items):
        raise RecordInvalid("An item is not in the checklist that it should come from.")
    return items
