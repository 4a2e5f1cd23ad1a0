"""The catalogue: every tool that companions have. `docs/agent_tools` says the same, for review.

A write declares what it does to the journal. What `undo_change` puts back as it was is reversible;
where a write touches several records, one later change of any of them is enough to be in its way.
"""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from silas.companions.models import WakeReason
from silas.companions.tools import calls, schemas
from silas.companions.tools.calls import operation
from silas.companions.tools.registry import (
    ALL_REASONS,
    AgentCapability,
    AgentToolRegistry,
    CompanionTool,
    Handler,
    ScopeRule,
    SideEffects,
    ToolClass,
)
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility
from silas.journal.notifications import SEMANTIC_KEYS
from silas.tools.declaration import CHANGES, OBSERVES

_CAN = AgentCapability
_TIDIES = DeclaredEffect(action=ActionKind.TIDY, reversibility=Reversibility.REVERSIBLE)
_CHANGES_SEVERAL = DeclaredEffect(action=ActionKind.CHANGE, reversibility=Reversibility.HARD)
_UNDO = "undo_change"
_ONE_END, _BOTH_ENDS = ScopeRule.TARGET_IN_SCOPE, ScopeRule.SOURCE_AND_DESTINATION_IN_SCOPE
_NEW_TASK = ("task", "checklist", "checklist_item", "link")
_NOW = ALL_REASONS - {WakeReason.RECOVERY_CATCHUP}
"""A timer of the owner's says what is done at this moment; what woke late knows nothing of it."""
_TOLD = ALL_REASONS - {WakeReason.TIMER, WakeReason.RECOVERY_CATCHUP}
"""What only a person or a change can tell: a clock does not know how long something took."""
_WHOLE_DAY = ALL_REASONS - {WakeReason.SUBSCRIPTION, WakeReason.RECOVERY_CATCHUP}
"""A whole day is not arranged anew because one record has changed, nor after the fact."""


def _look(
    handler: Handler,
    asked: type[BaseModel],
    given: type[BaseModel],
    *,
    can: AgentCapability,
    of: ToolClass,
    version: int = 1,
) -> CompanionTool:
    return CompanionTool(
        handler.__name__,
        asked,
        contained=False,
        effect=OBSERVES,
        version=version,
        description=(handler.__doc__ or "").strip(),
        output=given,
        capabilities=frozenset({can}),
        tool_class=of,
        scope_rules=(ScopeRule.FILTER_BY_SCOPE,),
        handler=handler,
    )


def _write(
    name: str,
    description: str,
    asked: type[BaseModel],
    effect: DeclaredEffect,
    *can: AgentCapability,
    of: ToolClass,
    changes: tuple[str, ...],
    scope: ScopeRule = _ONE_END,
    high_when: Callable[[Any], bool] | None = None,
    offered: bool = True,
    woken_by: frozenset[WakeReason] = ALL_REASONS,
    version: int = 1,
) -> CompanionTool:
    tokens = tuple(SEMANTIC_KEYS[each] for each in changes)
    return CompanionTool(
        name,
        asked,
        contained=False,
        effect=effect,
        inverse=_UNDO,
        offered=offered,
        version=version,
        description=description,
        output=schemas.WriteOutput,
        capabilities=frozenset(can),
        tool_class=of,
        scope_rules=(scope,),
        handler=operation(name),
        side_effects=SideEffects(entity_types=changes, notification_tokens=tokens),
        high_when=high_when,
        allowed_wake_reasons=woken_by,
    )


_LOOKS = (
    _look(
        calls.list_allowed_categories, schemas.NoArguments, schemas.CategoryList,
        can=_CAN.CATEGORY_READ, of=ToolClass.TASK,
    ),
    _look(
        calls.list_tasks_in_scope, schemas.ListTasks, schemas.TaskList,
        can=_CAN.TASK_READ, of=ToolClass.TASK, version=2,
    ),
    _look(
        calls.resolve_task_reference, schemas.ResolveTask, schemas.TaskCandidates,
        can=_CAN.TASK_READ, of=ToolClass.TASK,
    ),
    _look(
        calls.get_time_summary, schemas.TimeSummary, schemas.TimeOverview,
        can=_CAN.TASK_READ, of=ToolClass.TIME, version=2,
    ),
    _look(
        calls.get_day_plan, schemas.PlanDate, schemas.DayPlanView,
        can=_CAN.DAY_PLAN_READ, of=ToolClass.DAY_PLAN,
    ),
    _look(
        calls.get_ratings_summary, schemas.RatingsSummary, schemas.RatingsOverview,
        can=_CAN.RATING_READ, of=ToolClass.RATING,
    ),
    _look(
        calls.get_rating_for_target, schemas.RatingForTarget, schemas.TargetRatings,
        can=_CAN.RATING_READ, of=ToolClass.RATING, version=2,
    ),
)  # fmt: skip

_TASKS = (
    _write(
        "set_task_language", "Say which language a task is in.", schemas.SetTaskLanguage,
        _TIDIES, _CAN.TASK_WRITE, of=ToolClass.TASK, changes=("task",),
    ),
    _write(
        "update_task_estimate", "Say how long a task will take.", schemas.UpdateTaskEstimate,
        CHANGES, _CAN.TASK_WRITE, of=ToolClass.TASK, changes=("task",),
    ),
    _write(
        "update_task_due_date", "Say when a task is due.", schemas.UpdateTaskDueDate,
        CHANGES, _CAN.TASK_WRITE, of=ToolClass.TASK, changes=("task",),
    ),
    _write(
        "update_task_priority", "Say how much a task matters.", schemas.UpdateTaskPriority,
        CHANGES, _CAN.TASK_WRITE, of=ToolClass.TASK, changes=("task",),
    ),
    _write(
        "assign_task_labels", "Add labels to a task.", schemas.AssignTaskLabels,
        _TIDIES, _CAN.TASK_WRITE, of=ToolClass.TASK, changes=("task",),
    ),
    _write(
        "create_task", "Write a new task down.", schemas.CreateTask,
        CHANGES, _CAN.TASK_WRITE, of=ToolClass.TASK,
        changes=("task", "checklist", "checklist_item"),
    ),
    _write(
        "update_task_fields", "Change several fields of a task.", schemas.UpdateTaskFields,
        _CHANGES_SEVERAL, _CAN.TASK_WRITE, of=ToolClass.TASK,
        changes=("task", "time_entry"), scope=_BOTH_ENDS,
    ),
    _write(
        "create_follow_up_task",
        "Write down what comes after a task; its open steps go along if wanted.",
        schemas.CreateFollowUpTask, CHANGES, _CAN.TASK_WRITE, _CAN.CHECKLIST_WRITE,
        of=ToolClass.TASK, changes=(*_NEW_TASK, "time_entry"), scope=_BOTH_ENDS,
        high_when=lambda asked: asked.close_source_task_as is not None,
    ),
    _write(
        "conclude_task_with_rollover", "End a task; steps that are open go on in a new one.",
        schemas.ConcludeTask, _CHANGES_SEVERAL, _CAN.TASK_WRITE, _CAN.CHECKLIST_WRITE,
        of=ToolClass.TASK, changes=(*_NEW_TASK, "time_entry"), scope=_BOTH_ENDS,
    ),
)  # fmt: skip

_CHECKLISTS = (
    _write(
        "add_multiple_checklist_items", "Add steps to a checklist.", schemas.AddChecklistItems,
        CHANGES, _CAN.CHECKLIST_WRITE, of=ToolClass.CHECKLIST,
        changes=("checklist", "checklist_item"),
    ),
    _write(
        "update_checklist_items", "Check steps, or change what they say.",
        schemas.UpdateChecklistItems, CHANGES, _CAN.CHECKLIST_WRITE, of=ToolClass.CHECKLIST,
        changes=("checklist_item",),
    ),
    _write(
        "create_checklist", "Give a task a checklist.", schemas.CreateChecklist,
        CHANGES, _CAN.CHECKLIST_WRITE, of=ToolClass.CHECKLIST,
        changes=("checklist", "checklist_item"),
    ),
    _write(
        "move_checklist_items", "Move steps to another checklist.", schemas.MoveChecklistItems,
        _CHANGES_SEVERAL, _CAN.CHECKLIST_WRITE, of=ToolClass.CHECKLIST,
        changes=("checklist_item",), scope=_BOTH_ENDS,
    ),
    _write(
        "move_checklist_items_to_new_task", "Make a task of some steps.",
        schemas.MoveItemsToNewTask, _CHANGES_SEVERAL, _CAN.TASK_WRITE, _CAN.CHECKLIST_WRITE,
        of=ToolClass.CHECKLIST, changes=_NEW_TASK, scope=_BOTH_ENDS,
    ),
)  # fmt: skip

_TIME = (
    _write(
        "create_retrospective_time_entry", "Write down time that was spent.",
        schemas.RetrospectiveTimeEntry, CHANGES, _CAN.TIME_WRITE, of=ToolClass.TIME,
        changes=("time_entry", "link"), woken_by=_TOLD,
    ),
    _write(
        "start_task_timer", "Start the timer for a task.", schemas.OneTask,
        _TIDIES, _CAN.TIME_WRITE, of=ToolClass.TIME, changes=("time_entry", "task"),
        woken_by=_NOW,
    ),
    _write(
        "stop_task_timer", "Stop the timer that runs.", schemas.StopTaskTimer,
        _TIDIES, _CAN.TIME_WRITE, of=ToolClass.TIME, changes=("time_entry",), woken_by=_NOW,
    ),
    _write(
        "annotate_time_entry", "Say what the time was spent on.", schemas.AnnotateTimeEntry,
        _TIDIES, _CAN.TIME_WRITE, of=ToolClass.TIME, changes=("time_entry",), woken_by=_TOLD,
    ),
)  # fmt: skip

_DAYS = (
    _write(
        "get_or_create_day_plan", "The plan of a day; an empty one is made if there is none.",
        schemas.PlanDate, _TIDIES, _CAN.DAY_PLAN_READ, _CAN.DAY_PLAN_WRITE,
        of=ToolClass.DAY_PLAN, changes=("day_plan",),
    ),
    _write(
        "upsert_day_plan_blocks", "Add, change and take out blocks of a day.",
        schemas.UpsertDayBlocks, CHANGES, _CAN.DAY_PLAN_WRITE, of=ToolClass.DAY_PLAN,
        changes=("day_plan", "day_block"), high_when=lambda asked: bool(asked.deletes),
    ),
    _write(
        "pin_day_plan_tasks", "Pin tasks to a day.", schemas.PinTasks,
        _TIDIES, _CAN.DAY_PLAN_WRITE, of=ToolClass.DAY_PLAN, changes=("day_plan",),
    ),
    _write(
        "replan_day_blocks", "Let a day have exactly these blocks, as far as it is in reach.",
        schemas.ReplanDay, _CHANGES_SEVERAL, _CAN.DAY_PLAN_WRITE, of=ToolClass.DAY_PLAN,
        changes=("day_plan", "day_block"), woken_by=_WHOLE_DAY,
    ),
)  # fmt: skip

_RATINGS = (
    _write(
        "create_or_update_rating", "Say how something was.", schemas.CreateOrUpdateRating,
        CHANGES, _CAN.RATING_WRITE, of=ToolClass.RATING, changes=("rating",),
        woken_by=_TOLD, version=2,
    ),
)  # fmt: skip

# The inverse of every write is the owner's: no capability is enough for it, and none is offered it.
_INVERSE = _write(
    _UNDO,
    "Put back what the records were before a change.",
    schemas.UndoChange,
    _CHANGES_SEVERAL,
    of=ToolClass.WRITE,
    changes=tuple(SEMANTIC_KEYS),
    offered=False,
)


def companion_tools() -> AgentToolRegistry:
    """The registry with every tool of the catalogue: made once, where the process is composed."""
    return AgentToolRegistry((*_LOOKS, *_TASKS, *_CHECKLISTS, *_TIME, *_DAYS, *_RATINGS, _INVERSE))
