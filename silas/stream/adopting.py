"""From an agent's plan to work items that can be shown to the owner (5.1.2, steps 1 and 2).

1. The plan is parsed; what is wrong with it is said, and nothing is kept.
2. It may refer only to work items of its own scope. The owner's plans may refer to any.
3. Ids that are taken are made free, everywhere in the plan.
4. It goes on from the item that it deepens (`follow_up_of`), with that item's artifacts.
5. The interaction mode is resolved, in the one place that does.
6. It is bound to its workspace and skills, and needs approval, whatever it says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from silas.approval import ApprovalScope
from silas.gates.actions import action_of
from silas.gates.risk import ActionKind, Reversibility, RiskLevel, risk_of
from silas.kernel import TaintLevel
from silas.stream.interaction import resolve_interaction_mode
from silas.stream.models import InteractionRegister, PlanAction
from silas.stream.turn_context import TurnContext
from silas.work.binding import bind_plan
from silas.work.errors import WorkItemUnknown
from silas.work.models import ALL_ARTIFACTS, InteractionMode, WorkItem, WorkItemType
from silas.work.plan import Plan, parse_plan

_CONFIRMED = (RiskLevel.HIGH, RiskLevel.IRREVERSIBLE)


@dataclass(frozen=True)
class Wanted:
    """How a plan came about."""

    action: PlanAction
    scope_id: str
    is_owners: bool
    taint: TaintLevel
    initiative: float = 0.0
    proxy_mode: InteractionMode | None = None
    register: InteractionRegister = InteractionRegister.EXECUTION


async def adopt(room: TurnContext, wanted: Wanted) -> Plan:
    """The plan as it will be shown and stored; raises `WorkError` with what is wrong."""
    plan = parse_plan(wanted.action.plan_markdown or "")  # 1
    plan = _deepening(plan, wanted.action.continuation_of)  # 4
    await _require_references(room, plan, wanted)  # 2
    plan = await _free_ids(room, plan)  # 3
    items = [_resolved(room, item, wanted) for item in plan.items]  # 5
    plan = replace(plan, root=items[0], tasks=tuple(items[1:]))
    return await bind_plan(plan, base=room.policy.plans_base, skills=room.skills)  # 6


def _deepening(plan: Plan, continues: str | None) -> Plan:
    if continues is None:
        return plan
    root = plan.root
    changes: dict[str, object] = {"follow_up_of": continues}
    if not root.input_artifacts_from:
        changes["input_artifacts_from"] = [ALL_ARTIFACTS]
    return replace(plan, root=root.model_copy(update=changes))


async def _require_references(room: TurnContext, plan: Plan, wanted: Wanted) -> None:
    named = plan.outside_references
    if wanted.is_owners:
        reachable = await room.items.known(named)
    else:
        reachable = await room.store.of_scope(wanted.scope_id, named)
    missing = sorted(named - reachable)
    if missing:
        told = ", ".join(missing)
        raise WorkItemUnknown(f"The plan refers to work items that do not exist: {told}.")


async def _free_ids(room: TurnContext, plan: Plan) -> Plan:
    ids = [item.id for item in plan.items]
    taken = await room.items.known(ids)
    if not taken:
        return plan
    renamed: dict[str, str] = {}
    for name in ids:
        if name in taken:
            renamed[name] = await _free(room, name, {*ids, *renamed.values()})
    items = [_renamed(item, renamed) for item in plan.items]
    return replace(plan, root=items[0], tasks=tuple(items[1:]))


async def _free(room: TurnContext, name: str, used: set[str]) -> str:
    number = 2
    while (candidate := f"{name[:120]}-{number}") in used or await room.items.known([candidate]):
        number += 1
    return candidate


def _renamed(item: WorkItem, names: Mapping[str, str]) -> WorkItem:
    def new(name: str) -> str:
        return names.get(name, name)

    return item.model_copy(
        update={
            "id": new(item.id),
            "parent": new(item.parent) if item.parent else None,
            "tasks": [new(each) for each in item.tasks],
            "depends_on": [new(each) for each in item.depends_on],
        }
    )


def _resolved(room: TurnContext, item: WorkItem, wanted: Wanted) -> WorkItem:
    said = item.interaction_mode if "interaction_mode" in item.model_fields_set else None
    mode = resolve_interaction_mode(
        wanted.proxy_mode,
        wanted.action.interaction_mode_override,
        work_item_mode=said,
        risk_requires_confirmation=plan_risk(item, wanted.taint) in _CONFIRMED,
        initiative_level=wanted.initiative,
        interaction_register=wanted.register,
        high_initiative_min=room.policy.high_initiative_min,
        default_mode_by_register=room.policy.default_modes,
    )
    return item.model_copy(update={"interaction_mode": mode, "needs_approval": True})


def plan_risk(item: WorkItem, taint: TaintLevel) -> RiskLevel:
    """How risky it is to approve this item, from what the runtime knows about it.

    Inside the sandbox everything can be thrown away; what an envelope lets out cannot.
    """
    goal = item.type is WorkItemType.GOAL
    destroys = any(action_of(each.tool) is ActionKind.DESTROY for each in item.approvals)
    return risk_of(
        ApprovalScope.STANDING if goal else ApprovalScope.FULL_PLAN,
        ActionKind.DESTROY if destroys else ActionKind.CHANGE,
        reversibility=Reversibility.HARD if item.approvals else Reversibility.REVERSIBLE,
        taint=taint,
        inside_envelope=False,
    )
