"""The tools that write to the journal: each one operation of the journal's, within the scope."""

from collections.abc import Callable, Mapping
from typing import Any

from silas.companions.tools import inputs
from silas.companions.tools.models import ToolEffect
from silas.companions.tools.reach import ToolReach
from silas.companions.tools.registry import Handler
from silas.companions.tools.writing import by, written
from silas.journal.desk import call
from silas.journal.operations import BlockInput, ItemUpdate

Arguments = Callable[[Any], Mapping[str, Any]]
"""From what a tool is asked to what the operation of the same name takes."""


def _as_asked(asked: Any) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in type(asked).model_fields}


def _operation(name: str, told: str, arguments: Arguments = _as_asked) -> Handler:
    """A handler that makes the operation of this name."""

    async def handler(reach: ToolReach, asked: Any) -> ToolEffect:
        return written(reach, await call(reach.journal, name, arguments(asked), **by(reach)))

    handler.__name__, handler.__doc__ = name, told
    return handler


def _fields(asked: inputs.UpdateTaskFields) -> dict[str, Any]:
    given = asked.model_fields_set - {"task_id"}
    return {"task_id": asked.task_id, "fields": {name: getattr(asked, name) for name in given}}


def _concluded(asked: inputs.ConcludeTask) -> dict[str, Any]:
    return {
        "task_id": asked.task_id,
        "close_as": asked.close_as,
        "follow_up_title": asked.rollover_title,
    }


def _item_updates(asked: inputs.UpdateChecklistItems) -> dict[str, Any]:
    updates = (
        ItemUpdate(id=each.item_id, text=each.text, checked=each.checked) for each in asked.changes
    )
    return {"updates": tuple(updates)}


def _upserts(asked: inputs.UpsertDayBlocks) -> dict[str, Any]:
    return {
        "plan_date": asked.plan_date,
        "upserts": _blocks(asked.upserts),
        "deletes": asked.deletes,
    }


def _whole_day(asked: inputs.ReplanDay) -> dict[str, Any]:
    return {"plan_date": asked.plan_date, "blocks": _blocks(asked.blocks)}


def _blocks(drafts: tuple[inputs.DayBlockDraft, ...]) -> tuple[BlockInput, ...]:
    return tuple(BlockInput(**each.model_dump()) for each in drafts)


set_task_language = _operation("set_task_language", "Say which language a task is in.")
update_task_estimate = _operation("update_task_estimate", "Say how long a task will take.")
update_task_due_date = _operation("update_task_due_date", "Say when a task is due.")
update_task_priority = _operation("update_task_priority", "Say how much a task matters.")
assign_task_labels = _operation("assign_task_labels", "Add labels to a task.")
create_task = _operation("create_task", "Write a new task down.")
update_task_fields = _operation("update_task_fields", "Change several fields of a task.", _fields)
create_follow_up_task = _operation(
    "create_follow_up_task",
    "Write down what comes after a task; its open steps go along if wanted.",
)
conclude_task_with_rollover = _operation(
    "conclude_task_with_rollover", "End a task; steps that are open go on in a new one.", _concluded
)
add_multiple_checklist_items = _operation(
    "add_multiple_checklist_items", "Add steps to a checklist."
)
update_checklist_items = _operation(
    "update_checklist_items", "Check steps, or change what they say.", _item_updates
)
create_checklist = _operation("create_checklist", "Give a task a checklist.")
move_checklist_items = _operation("move_checklist_items", "Move steps to another checklist.")
move_checklist_items_to_new_task = _operation(
    "move_checklist_items_to_new_task", "Make a task of some steps."
)
create_retrospective_time_entry = _operation(
    "create_retrospective_time_entry", "Write down time that was spent."
)
start_task_timer = _operation("start_task_timer", "Start the timer for a task.")
stop_task_timer = _operation("stop_task_timer", "Stop the timer that runs.")
annotate_time_entry = _operation("annotate_time_entry", "Say what the time was spent on.")
get_or_create_day_plan = _operation(
    "get_or_create_day_plan", "The plan of a day; an empty one is made if there is none."
)
upsert_day_plan_blocks = _operation(
    "upsert_day_plan_blocks", "Add, change and take out blocks of a day.", _upserts
)
replan_day_blocks = _operation(
    "replan_day_blocks",
    "Let a day have exactly these blocks, as far as it is in reach.",
    _whole_day,
)
pin_day_plan_tasks = _operation("pin_day_plan_tasks", "Pin tasks to a day.")
create_or_update_rating = _operation("create_or_update_rating", "Say how something was.")
