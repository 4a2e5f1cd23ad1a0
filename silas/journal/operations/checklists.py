"""Operations on checklists."""

from typing import Annotated, Unpack

from pydantic import Field

from silas.journal.errors import RecordInvalid
from silas.journal.models import Checklist, ChecklistItem, Task
from silas.journal.operations.scoped import By, Payload, ScopedEdit, perform
from silas.journal.operations.steps import add_items, append_items, link, move_items
from silas.journal.results import Outcome
from silas.journal.store import Journal
from silas.kernel.models import Data

Ids = Annotated[tuple[str, ...], Field(min_length=1, max_length=500)]


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
