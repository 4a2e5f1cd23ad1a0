"""The catalogue: every tool that companions have. `docs/agent_tools` says the same, for review."""

from typing import Any

from pydantic import BaseModel

from silas.companions.tools import changing, inputs, outputs, reading
from silas.companions.tools.models import (
    AgentCapability,
    IdempotencyStrategy,
    ScopeRule,
    SideEffects,
    ToolClass,
)
from silas.companions.tools.registry import AgentToolRegistry, Handler, Tool
from silas.gates.risk import RiskLevel
from silas.journal.tokens import SEMANTIC_KEYS

_CAN = AgentCapability
_LOW, _MEDIUM, _HIGH = RiskLevel.LOW, RiskLevel.MEDIUM, RiskLevel.HIGH
_BOTH_ENDS = (ScopeRule.SOURCE_AND_DESTINATION_IN_SCOPE,)


def _look(
    handler: Handler,
    asked: type[BaseModel],
    given: type[BaseModel],
    *,
    can: AgentCapability,
    of: ToolClass,
) -> Tool:
    return Tool(
        name=handler.__name__,
        version=1,
        description=_told(handler),
        input=asked,
        output=given,
        capabilities=frozenset({can}),
        risk_level=_LOW,
        tool_class=of,
        idempotency=IdempotencyStrategy.READ_ONLY,
        scope_rules=(ScopeRule.FILTER_BY_SCOPE,),
        handler=handler,
    )


def _write(
    handler: Handler,
    asked: type[BaseModel],
    *,
    can: tuple[AgentCapability, ...],
    of: ToolClass,
    risk: RiskLevel,
    changes: tuple[str, ...],
    scope: tuple[ScopeRule, ...] = (ScopeRule.TARGET_IN_SCOPE,),
    **more: Any,
) -> Tool:
    return Tool(
        name=handler.__name__,
        version=1,
        description=_told(handler),
        input=asked,
        output=outputs.WriteOutput,
        capabilities=frozenset(can),
        risk_level=risk,
        tool_class=of,
        idempotency=IdempotencyStrategy.OPERATION_ID,
        scope_rules=scope,
        handler=handler,
        side_effects=SideEffects(
            entity_types=changes,
            notification_tokens=tuple(SEMANTIC_KEYS[each] for each in changes),
        ),
        **more,
    )


def _told(handler: Handler) -> str:
    return (handler.__doc__ or "").strip()


_LOOKS = (
    _look(
        reading.list_allowed_categories, inputs.NoArguments, outputs.CategoryList,
        can=_CAN.CATEGORY_READ, of=ToolClass.TASK,
    ),
    _look(
        reading.list_tasks_in_scope, inputs.ListTasks, outputs.TaskList,
        can=_CAN.TASK_READ, of=ToolClass.TASK,
    ),
    _look(
        reading.resolve_task_reference, inputs.ResolveTask, outputs.TaskCandidates,
        can=_CAN.TASK_READ, of=ToolClass.TASK,
    ),
    _look(
        reading.get_time_summary, inputs.TimeSummary, outputs.TimeOverview,
        can=_CAN.TASK_READ, of=ToolClass.TIME,
    ),
    _look(
        reading.get_day_plan, inputs.PlanDate, outputs.DayPlanView,
        can=_CAN.DAY_PLAN_READ, of=ToolClass.DAY_PLAN,
    ),
    _look(
        reading.get_ratings_summary, inputs.RatingsSummary, outputs.RatingsOverview,
        can=_CAN.RATING_READ, of=ToolClass.RATING,
    ),
    _look(
        reading.get_rating_for_target, inputs.RatingForTarget, outputs.TargetRatings,
        can=_CAN.RATING_READ, of=ToolClass.RATING,
    ),
)  # fmt: skip

_TASKS = (
    _write(
        changing.set_task_language, inputs.SetTaskLanguage, can=(_CAN.TASK_WRITE,),
        of=ToolClass.TASK, risk=_LOW, changes=("task",),
    ),
    _write(
        changing.update_task_estimate, inputs.UpdateTaskEstimate, can=(_CAN.TASK_WRITE,),
        of=ToolClass.TASK, risk=_MEDIUM, changes=("task",),
    ),
    _write(
        changing.update_task_due_date, inputs.UpdateTaskDueDate, can=(_CAN.TASK_WRITE,),
        of=ToolClass.TASK, risk=_MEDIUM, changes=("task",),
    ),
    _write(
        changing.update_task_priority, inputs.UpdateTaskPriority, can=(_CAN.TASK_WRITE,),
        of=ToolClass.TASK, risk=_MEDIUM, changes=("task",),
    ),
    _write(
        changing.assign_task_labels, inputs.AssignTaskLabels, can=(_CAN.TASK_WRITE,),
        of=ToolClass.TASK, risk=_LOW, changes=("task",),
    ),
    _write(
        changing.create_task, inputs.CreateTask, can=(_CAN.TASK_WRITE,),
        of=ToolClass.TASK, risk=_MEDIUM, changes=("task", "checklist", "checklist_item"),
    ),
    _write(
        changing.update_task_fields, inputs.UpdateTaskFields, can=(_CAN.TASK_WRITE,),
        of=ToolClass.TASK, risk=_HIGH, changes=("task", "time_entry"), scope=_BOTH_ENDS,
    ),
    _write(
        changing.create_follow_up_task, inputs.CreateFollowUpTask,
        can=(_CAN.TASK_WRITE, _CAN.CHECKLIST_WRITE), of=ToolClass.TASK, risk=_MEDIUM,
        changes=("task", "checklist", "checklist_item", "link", "time_entry"), scope=_BOTH_ENDS,
        high_when=lambda asked: asked.close_source_task_as is not None,
    ),
    _write(
        changing.conclude_task_with_rollover, inputs.ConcludeTask,
        can=(_CAN.TASK_WRITE, _CAN.CHECKLIST_WRITE), of=ToolClass.TASK, risk=_HIGH,
        changes=("task", "checklist", "checklist_item", "link", "time_entry"), scope=_BOTH_ENDS,
    ),
)  # fmt: skip

_CHECKLISTS = (
    _write(
        changing.add_multiple_checklist_items, inputs.AddChecklistItems,
        can=(_CAN.CHECKLIST_WRITE,), of=ToolClass.CHECKLIST, risk=_MEDIUM,
        changes=("checklist", "checklist_item"),
    ),
    _write(
        changing.update_checklist_items, inputs.UpdateChecklistItems, can=(_CAN.CHECKLIST_WRITE,),
        of=ToolClass.CHECKLIST, risk=_MEDIUM, changes=("checklist_item",),
    ),
    _write(
        changing.create_checklist, inputs.CreateChecklist, can=(_CAN.CHECKLIST_WRITE,),
        of=ToolClass.CHECKLIST, risk=_MEDIUM, changes=("checklist", "checklist_item"),
    ),
    _write(
        changing.move_checklist_items, inputs.MoveChecklistItems, can=(_CAN.CHECKLIST_WRITE,),
        of=ToolClass.CHECKLIST, risk=_HIGH, changes=("checklist_item",), scope=_BOTH_ENDS,
    ),
    _write(
        changing.move_checklist_items_to_new_task, inputs.MoveItemsToNewTask,
        can=(_CAN.TASK_WRITE, _CAN.CHECKLIST_WRITE), of=ToolClass.CHECKLIST, risk=_HIGH,
        changes=("task", "checklist", "checklist_item", "link"), scope=_BOTH_ENDS,
    ),
)  # fmt: skip

_TIME = (
    _write(
        changing.create_retrospective_time_entry, inputs.RetrospectiveTimeEntry,
        can=(_CAN.TIME_WRITE,), of=ToolClass.TIME, risk=_MEDIUM, changes=("time_entry", "link"),
    ),
    _write(
        changing.start_task_timer, inputs.OneTask, can=(_CAN.TIME_WRITE,),
        of=ToolClass.TIME, risk=_LOW, changes=("time_entry", "task"),
    ),
    _write(
        changing.stop_task_timer, inputs.StopTaskTimer, can=(_CAN.TIME_WRITE,),
        of=ToolClass.TIME, risk=_LOW, changes=("time_entry",),
    ),
    _write(
        changing.annotate_time_entry, inputs.AnnotateTimeEntry, can=(_CAN.TIME_WRITE,),
        of=ToolClass.TIME, risk=_LOW, changes=("time_entry",),
    ),
)  # fmt: skip

_DAYS = (
    _write(
        changing.get_or_create_day_plan, inputs.PlanDate,
        can=(_CAN.DAY_PLAN_READ, _CAN.DAY_PLAN_WRITE), of=ToolClass.DAY_PLAN, risk=_LOW,
        changes=("day_plan",),
    ),
    _write(
        changing.upsert_day_plan_blocks, inputs.UpsertDayBlocks, can=(_CAN.DAY_PLAN_WRITE,),
        of=ToolClass.DAY_PLAN, risk=_MEDIUM, changes=("day_plan", "day_block"),
        high_when=lambda asked: bool(asked.deletes),
    ),
    _write(
        changing.pin_day_plan_tasks, inputs.PinTasks, can=(_CAN.DAY_PLAN_WRITE,),
        of=ToolClass.DAY_PLAN, risk=_LOW, changes=("day_plan",),
    ),
    _write(
        changing.replan_day_blocks, inputs.ReplanDay, can=(_CAN.DAY_PLAN_WRITE,),
        of=ToolClass.DAY_PLAN, risk=_HIGH, changes=("day_plan", "day_block"),
    ),
)  # fmt: skip

_RATINGS = (
    _write(
        changing.create_or_update_rating, inputs.CreateOrUpdateRating, can=(_CAN.RATING_WRITE,),
        of=ToolClass.RATING, risk=_MEDIUM, changes=("rating",),
    ),
)  # fmt: skip

REGISTRY = AgentToolRegistry((*_LOOKS, *_TASKS, *_CHECKLISTS, *_TIME, *_DAYS, *_RATINGS))
