"""Operations on categories, ratings, notes and links; deleting, bringing back, importing."""

from typing import Annotated, Any, Unpack

from pydantic import Field

from silas.journal import queries
from silas.journal.errors import RecordInvalid, RecordOutOfScope, RecordUnknown
from silas.journal.models import (
    AnyRecord,
    Category,
    DayPlan,
    Link,
    Note,
    Priority,
    Rating,
    Record,
    Task,
    TaskStatus,
    rating_id,
)
from silas.journal.operations.scoped import By, Payload, ScopedEdit, link, perform
from silas.journal.records import content_of, kind_of, may_see, read_record
from silas.journal.store import Journal, Outcome
from silas.kernel.models import Data, UtcDatetime

_WRITTEN = """
SELECT h.record_id, h.before, h.after FROM history AS h JOIN batches AS b ON b.cursor = h.batch
WHERE b.operation_id IN (?, ?) ORDER BY h.number DESC
"""
_RATED = frozenset({"task", "time_entry", "day_plan", "day_block", "note"})
MOST = 500
"""How many records one operation takes in."""


async def create_category(
    journal: Journal, *, name: str, colour: str | None = None, **by: Unpack[By]
) -> Outcome:
    """Make a category; its name is not that of another one."""

    def edit(here: ScopedEdit) -> Payload:
        here.require_owner()
        _require_free_name(here, name)
        return {"category_id": here.edit.create(Category, name=name.strip(), colour=colour).id}

    arguments = {"name": name, "colour": colour}
    return await perform(journal, "create_category", arguments, edit, by)


async def update_category(
    journal: Journal,
    *,
    category_id: str,
    name: str | None = None,
    colour: str | None = None,
    **by: Unpack[By],
) -> Outcome:
    """Rename a category, or give it another colour."""

    def edit(here: ScopedEdit) -> Payload:
        here.require_owner()
        category = here.get(Category, category_id)
        fields: dict[str, Any] = {}
        if name is not None:
            _require_free_name(here, name, but=category)
            fields["name"] = name.strip()
        if colour is not None:
            fields["colour"] = colour
        here.edit.update(category, **fields)
        return {"category_id": category_id}

    arguments = {"category_id": category_id, "name": name, "colour": colour}
    return await perform(journal, "update_category", arguments, edit, by)


async def create_or_update_rating(
    journal: Journal,
    *,
    target_id: str,
    dimension: str,
    value: float,
    note: str = "",
    target_type: str | None = None,
    **by: Unpack[By],
) -> Outcome:
    """Say how something was in one respect; there is one rating for each respect.

    Who says what kind of record it is must be right about it.
    """

    def edit(here: ScopedEdit) -> Payload:
        target = here.get(Record, target_id)
        if kind_of(target) not in _RATED:
            raise RecordInvalid(f"A {kind_of(target)} cannot be rated.")
        if target_type not in (None, kind_of(target)):
            raise RecordInvalid(f"This is a {kind_of(target)}.")
        if isinstance(target, DayPlan):
            here.require_owner()  # a day is more than one category
        name = rating_id(target_id, dimension)
        fields = {"value": value, "note": note}
        known = here.edit.find(Rating, name, deleted=True)
        if known is not None:
            here.edit.update(here.edit.restore(known), **fields)
        else:
            kind = kind_of(target)
            here.edit.create(
                Rating,
                id=name,
                target_type=kind,
                target_id=target_id,
                dimension=dimension,
                **fields,
            )
        return {"rating_id": name}

    arguments = {"target_id": target_id, "dimension": dimension, "value": value, "note": note}
    return await perform(journal, "create_or_update_rating", arguments, edit, by)


async def create_note(
    journal: Journal,
    *,
    text: str,
    category_id: str | None = None,
    language: str | None = None,
    about_id: str | None = None,
    **by: Unpack[By],
) -> Outcome:
    """Write something down; `about_id` is the record that it is about."""

    def edit(here: ScopedEdit) -> Payload:
        here.require_category(category_id)
        note = here.edit.create(Note, text=text, category_id=category_id, language=language)
        if about_id is not None:
            link(here, note.id, here.get(Record, about_id).id, "about")
        return {"note_id": note.id}

    arguments = {
        "text": text,
        "category_id": category_id,
        "language": language,
        "about_id": about_id,
    }
    return await perform(journal, "create_note", arguments, edit, by)


async def update_note(journal: Journal, *, note_id: str, text: str, **by: Unpack[By]) -> Outcome:
    """Change what was written down."""

    def edit(here: ScopedEdit) -> Payload:
        here.edit.update(here.get(Note, note_id), text=text)
        return {"note_id": note_id}

    return await perform(journal, "update_note", {"note_id": note_id, "text": text}, edit, by)


async def link_records(
    journal: Journal,
    *,
    from_id: str,
    to_id: str,
    relation: str = "related",
    **by: Unpack[By],
) -> Outcome:
    """Say that two records belong together; both must be in scope."""

    def edit(here: ScopedEdit) -> Payload:
        ends = [here.get(Record, each) for each in (from_id, to_id)]
        if from_id == to_id or any(isinstance(end, Link) for end in ends):
            raise RecordInvalid("A link joins two records that are no links.")
        return {"link_id": link(here, from_id, to_id, relation).id}

    arguments = {"from_id": from_id, "to_id": to_id, "relation": relation}
    return await perform(journal, "link_records", arguments, edit, by)


async def delete_record(journal: Journal, *, record_id: str, **by: Unpack[By]) -> Outcome:
    """Delete a record; it can be brought back. The checklists of a task go along with it."""

    def edit(here: ScopedEdit) -> Payload:
        record = here.get(Record, record_id)
        if isinstance(record, Category):
            _require_empty(here, record)
        if isinstance(record, DayPlan):
            here.require_owner()
        here.edit.delete(record)
        for part in _parts(here, record):
            here.edit.delete(part)
        return {"record_id": record_id}

    return await perform(journal, "delete_record", {"record_id": record_id}, edit, by)


async def restore_record(journal: Journal, *, record_id: str, **by: Unpack[By]) -> Outcome:
    """Bring a deleted record back, with what went along with it."""

    def edit(here: ScopedEdit) -> Payload:
        record = here.edit.get(Record, record_id, deleted=True)
        if not may_see(here.edit.tx, record, here.scope):
            raise RecordOutOfScope(record_id=record_id)
        if isinstance(record, Category | DayPlan):
            here.require_owner()
        if isinstance(record, Category):
            _require_free_name(here, record.name, but=record)
        when = record.deleted_at
        here.edit.restore(record)
        for part in _gone_parts(here, record):
            if part.deleted_at == when:
                here.edit.restore(part)
        return {"record_id": record_id}

    return await perform(journal, "restore_record", {"record_id": record_id}, edit, by)


async def undo_change(journal: Journal, *, change_id: str, **by: Unpack[By]) -> Outcome:
    """Put back what the records were before an operation, if they still are what it made of them.

    A record that the operation made is deleted. What belonged to the operation is undone with it.
    """

    def edit(here: ScopedEdit) -> Payload:
        here.require_owner()
        rows = here.edit.tx.fetch_all(_WRITTEN, (change_id, f"{change_id}.category"))
        if not rows:
            raise RecordUnknown(f"There is no change {change_id!r} to undo.")
        for record_id, before, after in rows:
            now = here.edit.get(Record, record_id, deleted=True)
            if content_of(now) != after:
                raise RecordInvalid("Something of it was changed again since. Nothing was undone.")
            if before is None:
                here.edit.delete(now)
            else:
                here.edit.put(read_record(kind_of(now), before))
        return {"change_id": change_id}

    return await perform(journal, "undo_change", {"change_id": change_id}, edit, by)


def _parts(here: ScopedEdit, record: Record) -> list[Record]:
    return _children(here, record, deleted=False)


def _gone_parts(here: ScopedEdit, record: Record) -> list[Record]:
    return _children(here, record, deleted=True)


def _children(here: ScopedEdit, record: Record, *, deleted: bool) -> list[Record]:
    """What cannot be without the record: lists of a task, items of a list, blocks of a plan."""
    kinds = {"task": "checklist", "checklist": "checklist_item", "day_plan": "day_block"}
    kind = kinds.get(kind_of(record))
    if kind is None:
        return []
    parts = queries.parts_of(here.edit.tx, record.id, kind, deleted=deleted)
    return [
        *parts,
        *(deeper for part in parts for deeper in _children(here, part, deleted=deleted)),
    ]


def _require_free_name(here: ScopedEdit, name: str, *, but: Category | None = None) -> None:
    for other in queries.categories(here.edit.tx):
        same = other.name.casefold() == name.strip().casefold()
        if same and (but is None or other.id != but.id):
            raise RecordInvalid(f"There is a category with this name already: {other.id}.")


def _require_empty(here: ScopedEdit, category: Category) -> None:
    here.require_owner()
    if queries.tasks(here.edit.tx, limit_to={category.id}, limit=1):
        raise RecordInvalid("There are open tasks in this category. Move or close them first.")


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
        known = {each.name.casefold(): each.id for each in queries.categories(here.edit.tx)}
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
