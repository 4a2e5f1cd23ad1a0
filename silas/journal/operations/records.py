"""Operations on categories, ratings, notes and links; deleting and bringing back."""

from typing import Any, Unpack

from silas.journal import reading
from silas.journal.belonging import may_see
from silas.journal.errors import OutOfScope, RecordInvalid
from silas.journal.models import (
    Category,
    DayPlan,
    Link,
    Note,
    Rating,
    Record,
    rating_id,
)
from silas.journal.operations.scoped import By, Payload, ScopedEdit, perform
from silas.journal.operations.steps import link
from silas.journal.results import Outcome
from silas.journal.rows import kind_of
from silas.journal.store import Journal

_RATED = frozenset({"task", "time_entry", "day_plan", "day_block", "note"})


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
            raise OutOfScope(record_id=record_id)
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
    parts = reading.parts_of(here.edit.tx, record.id, kind, deleted=deleted)
    return [
        *parts,
        *(deeper for part in parts for deeper in _children(here, part, deleted=deleted)),
    ]


def _require_free_name(here: ScopedEdit, name: str, *, but: Category | None = None) -> None:
    for other in reading.categories(here.edit.tx):
        same = other.name.casefold() == name.strip().casefold()
        if same and (but is None or other.id != but.id):
            raise RecordInvalid(f"There is a category with this name already: {other.id}.")


def _require_empty(here: ScopedEdit, category: Category) -> None:
    here.require_owner()
    if reading.tasks(here.edit.tx, limit_to={category.id}, limit=1):
        raise RecordInvalid("There are open tasks in this category. Move or close them first.")
