"""Operations that take many records in at once."""

from typing import Annotated, Any, Unpack

from pydantic import Field

from silas.journal import reading
from silas.journal.models import AnyRecord, Category, Priority, Task, TaskStatus
from silas.journal.operations.scoped import By, Payload, ScopedEdit, perform
from silas.journal.results import Outcome
from silas.journal.store import Journal
from silas.kernel.models import Data, UtcDatetime

MOST = 500
"""How many records one operation takes in."""


class TaskInput(Data):
    """A task from another program; its category is named as people name it."""

    title: Annotated[str, Field(min_length=1, max_length=500)]
    status: TaskStatus = TaskStatus.OPEN
    priority: Priority = Priority.P2
    due_at: UtcDatetime | None = None
    estimate_minutes: Annotated[int, Field(ge=1)] | None = None
    language: str | None = None
    labels: tuple[str, ...] = ()
    body: str = ""
    category: str | None = None


async def import_tasks(
    journal: Journal,
    *,
    tasks: Annotated[tuple[TaskInput, ...], Field(max_length=MOST)],
    **by: Unpack[By],
) -> Outcome:
    """Write many tasks down; categories that are not there yet are made."""

    def edit(here: ScopedEdit) -> Payload:
        here.require_owner()
        known = {each.name.casefold(): each.id for each in reading.categories(here.edit.tx)}
        made = [_import(here, task, known) for task in tasks]
        return {"task_ids": made}

    return await perform(journal, "import_tasks", {"tasks": tasks}, edit, by)


async def import_records(
    journal: Journal,
    *,
    records: Annotated[tuple[AnyRecord, ...], Field(max_length=MOST)],
    **by: Unpack[By],
) -> Outcome:
    """Merge records of another journal into this one; a second time changes nothing."""

    def edit(here: ScopedEdit) -> Payload:
        here.require_owner()
        for record in records:
            here.edit.merge(record)
        return {"changed": len(here.edit.changed)}

    return await perform(journal, "import_records", {"records": records}, edit, by)


def _import(here: ScopedEdit, wanted: TaskInput, known: dict[str, str]) -> str:
    fields: dict[str, Any] = wanted.model_dump(exclude={"category"})
    return here.edit.create(Task, category_id=_category(here, wanted.category, known), **fields).id


def _category(here: ScopedEdit, name: str | None, known: dict[str, str]) -> str | None:
    if name is None or not name.strip():
        return None
    wanted = name.strip().casefold()
    if wanted not in known:
        known[wanted] = here.edit.create(Category, name=name.strip()).id
    return known[wanted]
