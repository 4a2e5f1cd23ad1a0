"""What several operations do alike."""

from collections.abc import Sequence

from silas.journal import reading
from silas.journal.models import (
    Checklist,
    ChecklistItem,
    Link,
    Task,
    TaskStatus,
    TimeEntry,
    link_id,
)
from silas.journal.operations.scoped import ScopedEdit


def add_items(here: ScopedEdit, task: Task, texts: Sequence[str]) -> list[str]:
    """Put items at the end of the task's first checklist, which is made if need be."""
    if not texts:
        return []
    lists = reading.checklists_of(here.edit.tx, task.id)
    target = lists[0][0] if lists else here.edit.create(Checklist, task_id=task.id)
    return append_items(here, target, texts)


def append_items(here: ScopedEdit, target: Checklist, texts: Sequence[str]) -> list[str]:
    """Put items at the end of a checklist; returns their ids."""
    first = next_position(here, target)
    return [
        here.edit.create(
            ChecklistItem, checklist_id=target.id, text=text, position=first + number
        ).id
        for number, text in enumerate(texts)
    ]


def next_position(here: ScopedEdit, target: Checklist) -> int:
    """The place after the last item."""
    known = reading.items_of(here.edit.tx, target.id)
    return max((each.position for each in known), default=-1) + 1


def open_items(here: ScopedEdit, task: Task) -> list[ChecklistItem]:
    """The items of a task that are not checked."""
    lists = reading.checklists_of(here.edit.tx, task.id)
    return [item for _, items in lists for item in items if not item.checked]


def take_items_along(here: ScopedEdit, source: Task, target: Task) -> list[str]:
    """Move the open items of one task to another, each list to one of the same name."""
    moved: list[str] = []
    for old, items in reading.checklists_of(here.edit.tx, source.id):
        left = [item for item in items if not item.checked]
        if left:
            new = here.edit.create(Checklist, task_id=target.id, title=old.title)
            moved += move_items(here, left, new)
    return moved


def move_items(
    here: ScopedEdit, items: Sequence[ChecklistItem], target: Checklist, *, uncheck: bool = False
) -> list[str]:
    """Put items at the end of another checklist; returns their ids."""
    first = next_position(here, target)
    return [
        here.edit.update(
            item,
            checklist_id=target.id,
            position=first + number,
            checked=item.checked and not uncheck,
        ).id
        for number, item in enumerate(items)
    ]


def close_task(here: ScopedEdit, task: Task, status: TaskStatus) -> None:
    """Set the status, and stop the timer if it runs for this task."""
    here.edit.update(task, status=status)
    running = reading.running_timer(here.edit.tx)
    if running is not None and running.task_id == task.id:
        stop(here, running)


def stop(here: ScopedEdit, entry: TimeEntry) -> TimeEntry:
    """End a running entry now; one that would begin in the future lasts no time."""
    return here.edit.update(entry, ended_at=max(here.edit.now, entry.started_at))


def link(here: ScopedEdit, from_id: str, to_id: str, relation: str) -> Link:
    """Say that two records belong together; a second time changes nothing."""
    name = link_id(from_id, to_id, relation)
    known = here.edit.find(Link, name, deleted=True)
    if known is not None:
        return here.edit.restore(known)
    return here.edit.create(Link, id=name, from_id=from_id, to_id=to_id, relation=relation)
