"""The tools that write to the journal: each one operation of the journal's, within the scope."""

from silas.companions.tools import inputs
from silas.companions.tools.models import ToolEffect
from silas.companions.tools.reach import ToolReach
from silas.companions.tools.writing import by, written
from silas.journal import operations as journal
from silas.journal.errors import RecordUnknown
from silas.journal.models import Record, TimeEntry
from silas.journal.operations import BlockInput, ItemUpdate, TaskFields


async def set_task_language(reach: ToolReach, asked: inputs.SetTaskLanguage) -> ToolEffect:
    """Say which language a task is in."""
    return written(
        reach,
        await journal.set_task_language(
            reach.journal, task_id=asked.task_id, language=asked.language, **by(reach)
        ),
    )


async def update_task_estimate(reach: ToolReach, asked: inputs.UpdateTaskEstimate) -> ToolEffect:
    """Say how long a task will take."""
    return written(
        reach,
        await journal.update_task_estimate(
            reach.journal,
            task_id=asked.task_id,
            estimate_minutes=asked.estimate_minutes,
            **by(reach),
        ),
    )


async def update_task_due_date(reach: ToolReach, asked: inputs.UpdateTaskDueDate) -> ToolEffect:
    """Say when a task is due."""
    return written(
        reach,
        await journal.update_task_due_date(
            reach.journal, task_id=asked.task_id, due_at=asked.due_at, **by(reach)
        ),
    )


async def update_task_priority(reach: ToolReach, asked: inputs.UpdateTaskPriority) -> ToolEffect:
    """Say how much a task matters."""
    return written(
        reach,
        await journal.update_task_priority(
            reach.journal, task_id=asked.task_id, priority=asked.priority, **by(reach)
        ),
    )


async def assign_task_labels(reach: ToolReach, asked: inputs.AssignTaskLabels) -> ToolEffect:
    """Add labels to a task."""
    return written(
        reach,
        await journal.assign_task_labels(
            reach.journal, task_id=asked.task_id, labels=asked.labels, **by(reach)
        ),
    )


async def create_task(reach: ToolReach, asked: inputs.CreateTask) -> ToolEffect:
    """Write a new task down."""
    fields = {name: getattr(asked, name) for name in inputs.CreateTask.model_fields}
    return written(reach, await journal.create_task(reach.journal, **fields, **by(reach)))


async def update_task_fields(reach: ToolReach, asked: inputs.UpdateTaskFields) -> ToolEffect:
    """Change several fields of a task."""
    given = asked.model_fields_set - {"task_id"}
    fields = TaskFields(**{name: getattr(asked, name) for name in given})  # type: ignore[typeddict-item]
    return written(
        reach,
        await journal.update_task_fields(
            reach.journal, task_id=asked.task_id, fields=fields, **by(reach)
        ),
    )


async def create_follow_up_task(reach: ToolReach, asked: inputs.CreateFollowUpTask) -> ToolEffect:
    """Write down what comes after a task; its open steps go along if wanted."""
    return written(
        reach,
        await journal.create_follow_up_task(
            reach.journal,
            source_task_id=asked.source_task_id,
            new_task_title=asked.new_task_title,
            carry_over_open_checklist_items=asked.carry_over_open_checklist_items,
            close_source_task_as=asked.close_source_task_as,
            preserve_category_and_labels=asked.preserve_category_and_labels,
            **by(reach),
        ),
    )


async def conclude_task_with_rollover(reach: ToolReach, asked: inputs.ConcludeTask) -> ToolEffect:
    """End a task; steps that are open go on in a new one."""
    return written(
        reach,
        await journal.conclude_task_with_rollover(
            reach.journal,
            task_id=asked.task_id,
            close_as=asked.close_as,
            follow_up_title=asked.rollover_title,
            **by(reach),
        ),
    )


async def add_multiple_checklist_items(
    reach: ToolReach, asked: inputs.AddChecklistItems
) -> ToolEffect:
    """Add steps to a checklist."""
    of_task = None if asked.checklist_id is not None else asked.task_id
    return written(
        reach,
        await journal.add_multiple_checklist_items(
            reach.journal,
            items=asked.items,
            checklist_id=asked.checklist_id,
            task_id=of_task,
            **by(reach),
        ),
    )


async def update_checklist_items(
    reach: ToolReach, asked: inputs.UpdateChecklistItems
) -> ToolEffect:
    """Check steps, or change what they say."""
    updates = tuple(
        ItemUpdate(id=each.item_id, text=each.text, checked=each.checked) for each in asked.changes
    )
    return written(
        reach, await journal.update_checklist_items(reach.journal, updates=updates, **by(reach))
    )


async def create_checklist(reach: ToolReach, asked: inputs.CreateChecklist) -> ToolEffect:
    """Give a task a checklist."""
    return written(
        reach,
        await journal.create_checklist(
            reach.journal,
            task_id=asked.task_id,
            title=asked.title,
            items=asked.items,
            **by(reach),
        ),
    )


async def move_checklist_items(reach: ToolReach, asked: inputs.MoveChecklistItems) -> ToolEffect:
    """Move steps to another checklist."""
    return written(
        reach,
        await journal.move_checklist_items(
            reach.journal,
            item_ids=asked.item_ids,
            from_checklist_id=asked.from_checklist_id,
            to_checklist_id=asked.to_checklist_id,
            preserve_checked_state=asked.preserve_checked_state,
            **by(reach),
        ),
    )


async def move_checklist_items_to_new_task(
    reach: ToolReach, asked: inputs.MoveItemsToNewTask
) -> ToolEffect:
    """Make a task of some steps."""
    return written(
        reach,
        await journal.move_checklist_items_to_new_task(
            reach.journal,
            item_ids=asked.item_ids,
            from_checklist_id=asked.from_checklist_id,
            new_task_title=asked.new_task_title,
            **by(reach),
        ),
    )


async def create_retrospective_time_entry(
    reach: ToolReach, asked: inputs.RetrospectiveTimeEntry
) -> ToolEffect:
    """Write down time that was spent."""
    if asked.source_entry_id is not None:
        # What it was told in must be in reach, too: a link would show that it is there.
        await reach.journal.get(Record, asked.source_entry_id, scope=reach.scope)
    return written(
        reach,
        await journal.create_retrospective_time_entry(
            reach.journal,
            task_id=asked.task_id,
            started_at=asked.started_at,
            ended_at=asked.ended_at,
            description=asked.description,
            source_entry_id=asked.source_entry_id,
            **by(reach),
        ),
    )


async def start_task_timer(reach: ToolReach, asked: inputs.OneTask) -> ToolEffect:
    """Start the timer for a task."""
    return written(
        reach, await journal.start_task_timer(reach.journal, task_id=asked.task_id, **by(reach))
    )


async def stop_task_timer(reach: ToolReach, asked: inputs.StopTaskTimer) -> ToolEffect:
    """Stop the timer that runs."""
    running = await reach.journal.running_timer()
    if running is not None and asked.task_id is not None and running.task_id != asked.task_id:
        await reach.journal.get(TimeEntry, running.id, scope=reach.scope)
        raise RecordUnknown("The timer runs for another task.")
    return written(reach, await journal.stop_task_timer(reach.journal, **by(reach)))


async def annotate_time_entry(reach: ToolReach, asked: inputs.AnnotateTimeEntry) -> ToolEffect:
    """Say what the time was spent on."""
    return written(
        reach,
        await journal.annotate_time_entry(
            reach.journal, time_entry_id=asked.time_entry_id, note=asked.note, **by(reach)
        ),
    )


async def get_or_create_day_plan(reach: ToolReach, asked: inputs.PlanDate) -> ToolEffect:
    """The plan of a day; an empty one is made if there is none."""
    return written(
        reach,
        await journal.get_or_create_day_plan(reach.journal, plan_date=asked.plan_date, **by(reach)),
    )


async def upsert_day_plan_blocks(reach: ToolReach, asked: inputs.UpsertDayBlocks) -> ToolEffect:
    """Add, change and take out blocks of a day."""
    return written(
        reach,
        await journal.upsert_day_plan_blocks(
            reach.journal,
            plan_date=asked.plan_date,
            upserts=_blocks(asked.upserts),
            deletes=asked.deletes,
            **by(reach),
        ),
    )


async def replan_day_blocks(reach: ToolReach, asked: inputs.ReplanDay) -> ToolEffect:
    """Let a day have exactly these blocks, as far as it is in reach."""
    return written(
        reach,
        await journal.replan_day_blocks(
            reach.journal,
            plan_date=asked.plan_date,
            blocks=_blocks(asked.blocks),
            **by(reach),
        ),
    )


async def pin_day_plan_tasks(reach: ToolReach, asked: inputs.PinTasks) -> ToolEffect:
    """Pin tasks to a day."""
    return written(
        reach,
        await journal.pin_day_plan_tasks(
            reach.journal, plan_date=asked.plan_date, task_ids=asked.task_ids, **by(reach)
        ),
    )


async def create_or_update_rating(
    reach: ToolReach, asked: inputs.CreateOrUpdateRating
) -> ToolEffect:
    """Say how something was."""
    return written(
        reach,
        await journal.create_or_update_rating(
            reach.journal,
            target_id=asked.target_id,
            dimension=asked.dimension,
            value=asked.value,
            note=asked.note,
            **by(reach),
        ),
    )


def _blocks(drafts: tuple[inputs.DayBlockDraft, ...]) -> tuple[BlockInput, ...]:
    return tuple(BlockInput(**each.model_dump()) for each in drafts)
