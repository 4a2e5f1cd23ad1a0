"""How an operation is made: once for each operation id, and never outside of its scope.

Below are the steps that several operations share.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Required, TypeVar

from pydantic import ConfigDict, with_config
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from silas.journal import queries
from silas.journal.edit import Edit
from silas.journal.errors import RecordInvalid, RecordOutOfScope
from silas.journal.models import (
    AccessScope,
    Category,
    Checklist,
    ChecklistItem,
    DayPlan,
    Link,
    Record,
    Recurrence,
    Task,
    TaskStatus,
    TimeEntry,
    link_id,
    successor_id,
)
from silas.journal.notifications import entity
from silas.journal.records import as_seen, may_see
from silas.journal.store import Guard, Journal, Outcome, fingerprint_of
from silas.storage import Reader

R = TypeVar("R", bound=Record)
Payload = dict[str, Any]
_COMES_AGAIN = frozenset(Task.model_fields) - {
    *Record.model_fields,
    "kind",
    "status",
    "due_at",
    "remind_at",
}
"""What the next of a task that repeats has of it."""


@with_config(ConfigDict(extra="forbid"))
class By(TypedDict, total=False):
    """Who asks for an operation, and how far that one reaches."""

    scope: Required[AccessScope]
    actor: Required[str]
    operation_id: str | None
    """The same one a second time returns the first outcome and changes nothing."""
    preview_only: bool
    """Say what would be changed, and change nothing."""
    guard: Guard | None
    """Has the last word in the transaction of the change; see `silas.journal.store`."""


@dataclass(frozen=True)
class ScopedEdit:
    """An edit that reaches no further than its scope."""

    edit: Edit
    scope: AccessScope

    def get(self, kind: type[R], record_id: str, *, deleted: bool = False) -> R:
        """The record; raises `RecordUnknown`, or `RecordOutOfScope`."""
        found = self.edit.get(kind, record_id, deleted=deleted)
        if not may_see(self.edit.tx, found, self.scope):
            raise RecordOutOfScope(record_id=record_id)
        return found

    def require_category(self, category_id: str | None) -> None:
        """The category is there, and something may be put into it; None is the owner's alone."""
        if not self.scope.allows(category_id):
            raise RecordOutOfScope(category_id=category_id)
        if category_id is not None:
            self.edit.get(Category, category_id)

    def require_owner(self) -> None:
        """What concerns all categories is the owner's to decide."""
        if self.scope.allowed_category_ids is not None:
            raise RecordOutOfScope


async def perform(
    journal: Journal,
    name: str,
    arguments: Mapping[str, Any],
    edit: Callable[[ScopedEdit], Payload],
    by: By,
) -> Outcome:
    """Make the operation, or say what came of it when it was made before."""
    plain: dict[str, Any] = to_jsonable_python(dict(arguments))
    outcome = await journal.perform(
        lambda made: edit(ScopedEdit(made, by["scope"])),
        actor=by["actor"],
        operation_id=by.get("operation_id"),
        fingerprint=fingerprint_of(name, plain),
        preview_only=by.get("preview_only", False),
        guard=by.get("guard"),
    )
    return await outcome_in_scope(journal, outcome, by["scope"])


async def outcome_in_scope(journal: Journal, outcome: Outcome, scope: AccessScope) -> Outcome:
    """The outcome as the scope may know it.

    The plan of a day that was changed may also name what others have pinned to it.
    """
    if scope.allowed_category_ids is None:
        return outcome

    def look(reader: Reader) -> tuple[Record, ...]:
        return tuple(
            as_seen(reader, each, scope) or each if isinstance(each, DayPlan) else each
            for each in outcome.records
        )

    seen = await journal.read(look)
    hidden = {entity(each).token_key for each in _pins(outcome.records) - _pins(seen)}
    tokens = tuple(each for each in outcome.changed_tokens if each not in hidden)
    return outcome.model_copy(update={"records": seen, "changed_tokens": tokens})


def _pins(records: Iterable[Record]) -> set[str]:
    plans = (each for each in records if isinstance(each, DayPlan))
    return {pin for plan in plans for pin in plan.pinned_task_ids}


def add_items(here: ScopedEdit, task: Task, texts: Sequence[str]) -> list[str]:
    """Put items at the end of the task's first checklist, which is made if need be."""
    if not texts:
        return []
    lists = queries.checklists_of(here.edit.tx, task.id)
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
    known = queries.items_of(here.edit.tx, target.id)
    return max((each.position for each in known), default=-1) + 1


def open_items(here: ScopedEdit, task: Task) -> list[ChecklistItem]:
    """The items of a task that are not checked."""
    lists = queries.checklists_of(here.edit.tx, task.id)
    return [item for _, items in lists for item in items if not item.checked]


def take_items_along(here: ScopedEdit, source: Task, target: Task) -> list[str]:
    """Move the open items of one task to another, each list to one of the same name."""
    moved: list[str] = []
    for old, items in queries.checklists_of(here.edit.tx, source.id):
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
    """Set the status, and stop the timer if it runs for this task; if it repeats, it comes again.

    One that is rejected is not to be done any more, and does not come again.
    """
    here.edit.update(task, status=status)
    if status is TaskStatus.DONE and task.repeats is not None:
        _come_again(here, task)
    running = queries.running_timer(here.edit.tx)
    if running is not None and running.task_id == task.id:
        stop(here, running)


def take_back_successor(here: ScopedEdit, task: Task) -> None:
    """A task that repeats is open again: the one after it goes, if nothing was done about it."""
    following = here.edit.find(Task, successor_id(task.id))
    if following is not None and following.status is TaskStatus.OPEN:
        here.edit.delete(following)
        for checklist, items in queries.checklists_of(here.edit.tx, following.id):
            for part in (checklist, *items):
                here.edit.delete(part)


def with_first_due(fields: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The fields of a task; one that repeats is due at its first time, unless one is named."""
    repeats: Recurrence | None = fields.get("repeats")
    if repeats is None or fields.get("due_at") is not None:
        return fields
    due = repeats.next_after(now)
    if due is None:
        raise RecordInvalid("This never comes: name a day that there is.")
    return {**fields, "due_at": due}


def _come_again(here: ScopedEdit, task: Task) -> None:
    """The next of a task that repeats: after its own date, and after now. It is made once."""
    after = max(here.edit.now, task.due_at or here.edit.now)
    due = task.repeats.next_after(after) if task.repeats else None
    if due is None:
        return
    times = {"due_at": due, "remind_at": _as_long_before(task, due)}
    name = successor_id(task.id)
    known = here.edit.find(Task, name, deleted=True)
    if known is not None:
        if known.deleted:
            here.edit.update(here.edit.restore(known), status=TaskStatus.OPEN, **times)
            _restore_parts(here, name)
        return
    kept = task.model_dump(include=set(_COMES_AGAIN))
    following = here.edit.create(Task, id=name, **kept, **times)
    for checklist, items in queries.checklists_of(here.edit.tx, task.id):
        copy = here.edit.create(
            Checklist, id=successor_id(checklist.id), task_id=following.id, title=checklist.title
        )
        for item in items:
            here.edit.create(
                ChecklistItem,
                id=successor_id(item.id),
                checklist_id=copy.id,
                text=item.text,
                position=item.position,
            )


def _restore_parts(here: ScopedEdit, task_id: str) -> None:
    for checklist in queries.parts_of(here.edit.tx, task_id, "checklist", deleted=True):
        here.edit.restore(checklist)
        for item in queries.parts_of(here.edit.tx, checklist.id, "checklist_item", deleted=True):
            here.edit.restore(item)


def _as_long_before(task: Task, due: datetime) -> datetime | None:
    if task.remind_at is None or task.due_at is None:
        return None
    return due - (task.due_at - task.remind_at)


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
