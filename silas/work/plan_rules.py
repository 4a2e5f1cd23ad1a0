"""Rules that go beyond a record's own: a plan that keeps to them means what it says.

Each rule refuses something that would be accepted silently and then not work, or not guard: a check
that never runs, a gate that nobody asks, a name that leads nowhere, a level that is open to all.
"""

from collections.abc import Iterator, Mapping

from silas.gates import EscalationAction, GateTrigger
from silas.gates.escalation import BUILT_IN_ESCALATIONS
from silas.kernel.field_problems import FieldPath, FieldProblem, quoted
from silas.work.models import WorkItem, WorkItemType
from silas.work.offline_script import would_execute
from silas.work.plan_keys import meant_instead
from silas.work.spawning import PLACEHOLDER

CONSULT_PLANNER = "consult_planner"
PUBLIC = "public"

_ON_THE_STREAM = {
    GateTrigger.EVERY_USER_MESSAGE,
    GateTrigger.EVERY_AGENT_RESPONSE,
    GateTrigger.ON_TOOL_CALL,
}
_IN_A_RUN = {GateTrigger.ON_TOOL_CALL, GateTrigger.AFTER_STEP}


def rule_problems(item: WorkItem, project: WorkItem | None = None) -> Iterator[FieldProblem]:
    """Everything about one item that could not work; `project` is the one it belongs to."""
    yield from _content_problems(item)
    yield from _goal_problems(item)
    yield from _reference_problems(item)
    yield from _gate_problems(item, project)
    yield from _escalation_problems(item, project)
    yield from _access_problems(item)


def _content_problems(item: WorkItem) -> Iterator[FieldProblem]:
    if item.type is WorkItemType.TASK and not item.body.strip():
        yield FieldProblem(("body",), "is empty; write below the front matter what is to be done")
    if item.type is WorkItemType.PROJECT:
        if not item.tasks:
            yield FieldProblem(("tasks",), "is missing; a project consists of its tasks")
        if item.approvals:
            yield FieldProblem(("approvals",), "belongs to the task that makes the call")
    if not item.needs_approval:
        yield FieldProblem(
            ("needs_approval",), "must be true: a plan cannot waive its own approval; remove it"
        )


def _goal_problems(item: WorkItem) -> Iterator[FieldProblem]:
    if item.type is not WorkItemType.GOAL:
        for name in ("failure_context", "access_levels"):
            if getattr(item, name):
                yield FieldProblem((name,), "is for goals only")
        return
    if item.agent == "ephemeral" and not item.verify:
        yield FieldProblem(("verify",), "is missing; a goal is what its checks look at")
    chosen = item.escalation.get(item.on_failure)
    spawns = (chosen.action if chosen else item.on_failure) == "spawn_task"
    if spawns and not (item.failure_context or "").strip():
        yield FieldProblem(("failure_context",), "is missing; it briefs the task that is spawned")
    if would_execute(item.failure_context or "", PLACEHOLDER):
        told = f"has {PLACEHOLDER} inside a block: what checks print would be executed"
        yield FieldProblem(("failure_context",), told)


def _reference_problems(item: WorkItem) -> Iterator[FieldProblem]:
    for name in ("parent", "follow_up_of"):
        if getattr(item, name) == item.id:
            yield FieldProblem((name,), "names the item itself")
    if item.input_artifacts_from and not (item.follow_up_of or item.depends_on):
        yield FieldProblem(
            ("input_artifacts_from",), "needs `follow_up_of` or `depends_on` to take them from"
        )


def _gate_problems(item: WorkItem, project: WorkItem | None) -> Iterator[FieldProblem]:
    heard = _ON_THE_STREAM if item.agent == "stream" else _IN_A_RUN
    outer = {gate.name for gate in project.gates} if project else set()
    for index, gate in enumerate(item.gates):
        if gate.on not in heard:
            names = ", ".join(sorted(heard))
            yield FieldProblem(("gates", index, "on"), f"never happens here; possible: {names}")
        if gate.name in outer:
            yield FieldProblem(("gates", index, "name"), "is the name of a gate of the project")


def _escalation_problems(item: WorkItem, project: WorkItem | None) -> Iterator[FieldProblem]:
    known = (
        set(item.escalation)
        | set(BUILT_IN_ESCALATIONS)
        | set(project.escalation if project else ())
    )
    for path, name in _escalation_names(item):
        allowed = known | ({CONSULT_PLANNER} if path == ("on_stuck",) else set())
        if name not in allowed:
            hint = meant_instead(name, sorted(allowed))
            yield FieldProblem(path, f"{quoted(name)} is not defined in `escalation`{hint}")
    for name in item.escalation:
        if _leads_back(name, item.escalation):
            yield FieldProblem(("escalation", name, "fallback"), "leads back to itself")


def _escalation_names(item: WorkItem) -> Iterator[tuple[FieldPath, str]]:
    yield ("on_failure",), item.on_failure
    yield ("on_stuck",), item.on_stuck
    for index, gate in enumerate(item.gates):
        yield ("gates", index, "on_block"), gate.on_block
    for name, action in item.escalation.items():
        if action.fallback:
            yield ("escalation", name, "fallback"), action.fallback


def _leads_back(start: str, escalation: Mapping[str, EscalationAction]) -> bool:
    name = escalation[start].fallback
    for _ in escalation:
        if name is None or name not in escalation:
            return False
        if name == start:
            return True
        name = escalation[name].fallback
    return False


def _access_problems(item: WorkItem) -> Iterator[FieldProblem]:
    if item.access_levels and PUBLIC not in item.access_levels:
        yield FieldProblem(("access_levels",), f"needs a level `{PUBLIC}`, where everybody starts")
    gates = [gate.name for gate in item.gates]
    for name, level in item.access_levels.items():
        path = ("access_levels", name, "requires")
        if name == PUBLIC and level.requires:
            yield FieldProblem(path, f"must be empty: everybody starts at `{PUBLIC}`")
        if name != PUBLIC and not level.requires:
            yield FieldProblem(path, "is empty: this level would be open to everybody")
        for index, gate in enumerate(level.requires):
            if gate not in gates:
                hint = meant_instead(gate, gates)
                yield FieldProblem(
                    (*path, index), f"{quoted(gate)} is not a gate of this plan{hint}"
                )
