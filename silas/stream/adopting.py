"""From an agent's plan to work items that can be shown to the owner (5.1.2, steps 1 and 2).

1. The plan is parsed; what is wrong with it is said, and nothing is kept.
2. It may refer only to work items of its own scope, and to tools that are there. The owner's plans
   may refer to any work item.
3. Ids that are taken are made free, everywhere in the plan.
4. It goes on from the item that it deepens (`follow_up_of`), with that item's artifacts.
5. A part of it that names no folder works in the one that the request is about: that which the
   owner named, that of the work it goes on from, or the owner's workspace. `~` and relative paths
   are read against it.
6. The interaction mode is resolved, in the one place that does.
7. It is bound to its workspace and skills, and needs approval, whatever it says.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel, WorkError
from silas.queue.models import RequestFolders
from silas.stream.interaction import resolve_interaction_mode
from silas.stream.models import InteractionRegister, PlanAction
from silas.stream.skills import require_chosen, skill_tool_names
from silas.stream.turn_context import TurnContext
from silas.work.authorisation import plan_risk
from silas.work.binding import bind_plan
from silas.work.effects import Workspace
from silas.work.errors import WorkItemUnknown
from silas.work.letters import is_written_out
from silas.work.models import (
    ALL_ARTIFACTS,
    InteractionMode,
    WorkItem,
    WorkItemType,
)
from silas.work.plan import Plan, parse_plan

_IMPORTS = re.compile(
    r"\bpython[\d.]* (?:-m (?:unittest|pytest)\b|(?:\S*/)?(?:test\w*|\w+_test)\.py\b)"
    r"|^\s*py\.?test\b"
)
_NO_CHECK = (
    "Add one that fails as long as the work is not done, such as `cat` of the file that is asked "
    "for, or say `without_proof: true`."
)
_NO_MODULES = (
    "It does not find the modules of the folder: write `PYTHONPATH=.` before the command, and name "
    "the tests, such as `PYTHONPATH=. python3 -m unittest tests.test_login`."
)
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
    folders: RequestFolders = field(default_factory=RequestFolders)
    instead_of: str | None = None
    """The work item whose plan this one replaces."""
    asked: str = ""
    """The request, as it was said."""


@dataclass(frozen=True)
class Adopted:
    """A plan as it will be shown and stored."""

    plan: Plan
    filled_in: str | None = None
    """The folder that the runtime has chosen, if the plan named none."""


async def adopt(services: TurnContext, wanted: Wanted) -> Adopted:
    """The plan as it will be shown and stored; raises `WorkError` with what is wrong."""
    plan = parse_plan(wanted.action.plan_markdown or "")  # 1
    plan = _deepening(plan, wanted.action.continuation_of)  # 4
    await _require_references(services, plan, wanted)  # 2
    await require_chosen(services.skills, plan, asked=wanted.asked)
    named = {name for item in plan.items for name in item.skills}
    brought = await skill_tool_names(services.skills, named)
    _require_known_tools(plan, services.worker_tools, brought)
    plan = await _free_ids(services, plan)  # 3
    landing = await _landing(services, wanted)
    placed = [_placed(item, landing, services.policy.home) for item in plan.items]  # 5
    filled_in = any(
        folder_of(old) is None and folder_of(new) is not None
        for old, new in zip(plan.items, placed, strict=True)
    )
    items = [_resolved(services, item, wanted) for item in placed]  # 6
    plan = replace(plan, root=items[0], tasks=tuple(items[1:]))
    policy = services.policy
    bound = await bind_plan(  # 7
        plan, base=landing or policy.home, off_limits=policy.off_limits, skills=services.skills
    )
    return Adopted(bound, str(landing) if filled_in else None)


def doubts_about(plan: Plan) -> list[str]:
    """What would most likely not work as it is meant, though it may; for whoever wrote the plan."""
    doubts = []
    for item in plan.items:
        if item.type is WorkItemType.TASK and not item.verify and not item.without_proof:
            doubts.append(f"verify: {item.title} has no check. {_NO_CHECK}")
        doubts += [
            f"verify: the check {check.name} runs {check.run}. {_NO_MODULES}"
            for check in item.verify
            if _IMPORTS.search(check.run) and "PYTHONPATH" not in check.run
        ]
    return doubts


def _require_known_tools(plan: Plan, known: frozenset[str], brought: frozenset[str]) -> None:
    """An envelope for a tool that is not there would cover nothing; skills bring some."""
    named = {each.tool for item in plan.items for each in item.approvals}
    missing = sorted(named - known - brought)
    if missing and known:
        there = ", ".join(sorted(known))
        raise WorkError(
            f"approvals: there is no tool {', '.join(missing)}. There are: {there}. Name one of "
            "these, or leave the entry out."
        )


async def _landing(services: TurnContext, wanted: Wanted) -> Path | None:
    """The folder for what names none (rule 5)."""
    folders = wanted.folders
    if path := await _folder_of_known(services, wanted.instead_of):
        return path
    if folders.named:
        return Path(folders.named[0])
    if path := await _folder_of_known(services, wanted.action.continuation_of):
        return path
    return Path(folders.base) if folders.base else services.policy.workspace


async def _folder_of_known(services: TurnContext, work_item_id: str | None) -> Path | None:
    item = await services.items.get(work_item_id) if work_item_id else None
    folder = folder_of(item) if item else None
    return Path(folder) if folder else None


def folder_of(item: WorkItem) -> str | None:
    """The folder of the owner's that an item works on."""
    return item.workspace.path if item.workspace else None


def _placed(item: WorkItem, landing: Path | None, home: Path) -> WorkItem:
    workspace = item.workspace or Workspace()
    path = workspace.path
    if path is not None and (path == "~" or path.startswith("~/")):
        path = str(home / path[2:])
    elif path is None and landing is not None and _works_on_files(item):
        path = str(landing)
    if path == workspace.path:
        return item
    return item.model_copy(update={"workspace": workspace.model_copy(update={"path": path})})


def _works_on_files(item: WorkItem) -> bool:
    """Whether a folder is of any use: not to the stream, nor to a goal that looks at hosts alone.

    Nor to a plan that is nothing but calls of accounts.
    A project has the folders of its tasks; its own is for its checks.
    """
    if item.type is WorkItemType.TASK:
        return not is_written_out(item)
    return item.agent != "stream" and any(not check.network for check in item.verify)


def _deepening(plan: Plan, continues: str | None) -> Plan:
    if continues is None:
        return plan
    root = plan.root
    changes: dict[str, object] = {"follow_up_of": continues}
    if not root.input_artifacts_from:
        changes["input_artifacts_from"] = [ALL_ARTIFACTS]
    return replace(plan, root=root.model_copy(update=changes))


async def _require_references(services: TurnContext, plan: Plan, wanted: Wanted) -> None:
    named = plan.outside_references
    if wanted.is_owners:
        reachable = await services.items.known(named)
    else:
        reachable = await services.store.of_scope(wanted.scope_id, named)
    missing = sorted(named - reachable)
    if missing:
        told = ", ".join(missing)
        raise WorkItemUnknown(f"The plan refers to work items that do not exist: {told}.")


async def _free_ids(services: TurnContext, plan: Plan) -> Plan:
    ids = [item.id for item in plan.items]
    taken = await services.items.known(ids)
    if not taken:
        return plan
    renamed: dict[str, str] = {}
    for name in ids:
        if name in taken:
            renamed[name] = await _free(services, name, {*ids, *renamed.values()})
    items = [_renamed(item, renamed) for item in plan.items]
    return replace(plan, root=items[0], tasks=tuple(items[1:]))


async def _free(services: TurnContext, name: str, used: set[str]) -> str:
    number = 2
    while (candidate := f"{name[:120]}-{number}") in used or await services.items.known(
        [candidate]
    ):
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


def _resolved(services: TurnContext, item: WorkItem, wanted: Wanted) -> WorkItem:
    said = item.interaction_mode if "interaction_mode" in item.model_fields_set else None
    mode = resolve_interaction_mode(
        wanted.proxy_mode,
        wanted.action.interaction_mode_override,
        work_item_mode=said,
        risk_requires_confirmation=plan_risk(item, wanted.taint, services.effect_of) in _CONFIRMED,
        initiative_level=wanted.initiative,
        interaction_register=wanted.register,
        high_initiative_min=services.policy.high_initiative_min,
        default_mode_by_register=services.policy.default_modes,
    )
    return item.model_copy(update={"interaction_mode": mode, "needs_approval": True})
