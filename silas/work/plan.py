"""The plan parser: markdown with YAML front matter becomes work items, or a list of problems.

Pure: text in, data out. `docs/plans.md` describes the format. A plan that is accepted means what
it says; whatever is unknown, ambiguous or without effect is refused with its line.

Of the tasks of a project, every name is known, and nothing waits for itself. Beyond a record's own
rules, each rule here refuses something that would be accepted silently and then not work, or not
guard: a check that never runs, a gate that nobody asks, a name that leads nowhere, a level that is
open to all.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from pydantic import ValidationError

from silas.gates import EscalationAction, GateTrigger
from silas.gates.escalation import BUILT_IN_ESCALATIONS
from silas.kernel.models import FieldPath, FieldProblem, dotted, problems_in, quoted
from silas.kernel.yaml_positions import Position, YamlDocument, YamlError, YamlLimits, load_yaml
from silas.work.errors import PlanInvalid, PlanProblem
from silas.work.models import WorkItem, WorkItemType
from silas.work.plan_text import (
    MAX_PLAN_BYTES,
    NOT_IN_PLANS,
    PlanText,
    keys_at,
    meant_instead,
    split_plan,
)
from silas.work.script import ScriptInvalid, read_script, would_execute
from silas.work.spawning import PLACEHOLDER
from silas.work.vacuous_checks import vacuous


class TaskNode(NamedTuple):
    """A task as far as the graph is concerned; the path says where it is written."""

    path: FieldPath
    id: str
    depends_on: list[str]


def task_nodes(entries: Sequence[Any]) -> list[TaskNode]:
    """The nodes of a project's `tasks`, as far as they can be made out in an unchecked list."""
    return [node for index, entry in enumerate(entries) if (node := _node(("tasks", index), entry))]


def graph_problems(nodes: Sequence[TaskNode], project_id: Any) -> Iterator[FieldProblem]:
    """Names that appear twice or lead nowhere, and circles."""
    ids = [node.id for node in nodes]
    for position, node in enumerate(nodes):
        if node.id == project_id:
            yield FieldProblem((*node.path, "id"), "is the id of the project itself")
        elif node.id in ids[:position]:
            yield FieldProblem((*node.path, "id"), f"{quoted(node.id)} is there already")
        for index, name in enumerate(node.depends_on):
            if name not in ids:
                hint = meant_instead(name, ids)
                message = f"{quoted(name)} is not a task of this project{hint}"
                yield FieldProblem((*node.path, "depends_on", index), message)
    yield from _circles(nodes)


def _node(path: FieldPath, entry: Any) -> TaskNode | None:
    if isinstance(entry, str):
        return TaskNode(path, entry, [])
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        return None
    names = entry.get("depends_on")
    wanted = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return TaskNode(path, entry["id"], wanted)


def _circles(nodes: Sequence[TaskNode]) -> Iterator[FieldProblem]:
    graph = {node.id: node.depends_on for node in nodes}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        # The sorter lists each task before the one that waits for it.
        shown = " waits for ".join(quoted(name) for name in reversed(circle))
        where = next(node.path for node in nodes if node.id == circle[-1])
        yield FieldProblem((*where, "depends_on"), f"goes in a circle: {shown}")


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
    yield from _check_problems(item)
    yield from _goal_problems(item)
    yield from _reference_problems(item)
    yield from _gate_problems(item, project)
    yield from _escalation_problems(item, project)
    yield from _access_problems(item)


def _content_problems(item: WorkItem) -> Iterator[FieldProblem]:
    if item.type is WorkItemType.TASK and not item.body.strip():
        yield FieldProblem(("body",), "is empty; write below the front matter what is to be done")
    if item.script:
        yield from _script_problems(item.body)
    if item.type is WorkItemType.PROJECT:
        if not item.tasks:
            yield FieldProblem(("tasks",), "is missing; a project consists of its tasks")
        if item.approvals:
            yield FieldProblem(("approvals",), "belongs to the task that makes the call")
    if not item.needs_approval:
        yield FieldProblem(
            ("needs_approval",), "must be true: a plan cannot waive its own approval; remove it"
        )


def _script_problems(body: str) -> Iterator[FieldProblem]:
    try:
        steps = read_script(body)
    except ScriptInvalid as error:
        yield FieldProblem(("script",), f"is true, but the body cannot be executed: {error}")
        return
    if not steps:
        yield FieldProblem(("script",), "is true, but the body has no block to be executed")


def _check_problems(item: WorkItem) -> Iterator[FieldProblem]:
    for index, check in enumerate(item.verify):
        reason = vacuous(check)
        if reason:
            yield FieldProblem(("verify", index, "run"), reason)
        if check.influenced_by:
            message = "is kept by Silas itself and cannot be written in a plan; remove it"
            yield FieldProblem(("verify", index, "influenced_by"), message)


def _goal_problems(item: WorkItem) -> Iterator[FieldProblem]:
    if item.type is not WorkItemType.GOAL:
        for name in ("failure_context", "access_levels"):
            if getattr(item, name):
                yield FieldProblem((name,), "is for goals only")
        return
    if item.agent == "ephemeral" and not item.verify and item.batch is None:
        yield FieldProblem(("verify",), "is missing; a goal is what its checks look at")
    chosen = item.escalation.get(item.on_failure)
    spawns = (chosen.action if chosen else item.on_failure) == "spawn_task"
    if spawns and not (item.failure_context or "").strip():
        yield FieldProblem(("failure_context",), "is missing; it briefs the task that is spawned")
    if would_execute(item.failure_context or "", PLACEHOLDER):
        message = f"has {PLACEHOLDER} inside a block: what checks print would be executed"
        yield FieldProblem(("failure_context",), message)


def _reference_problems(item: WorkItem) -> Iterator[FieldProblem]:
    for name in ("parent", "follow_up_of"):
        if getattr(item, name) == item.id:
            yield FieldProblem((name,), "names the item itself")
    if item.input_artifacts_from and not (item.follow_up_of or item.depends_on):
        yield FieldProblem(
            ("input_artifacts_from",), "needs `follow_up_of` or `depends_on` to take them from"
        )


def _gate_problems(item: WorkItem, project: WorkItem | None) -> Iterator[FieldProblem]:
    possible = _ON_THE_STREAM if item.agent == "stream" else _IN_A_RUN
    outer = {gate.name for gate in project.gates} if project else set()
    for index, gate in enumerate(item.gates):
        if gate.on not in possible:
            names = ", ".join(sorted(possible))
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


_LIMITS = YamlLimits(characters=MAX_PLAN_BYTES, depth=16, values=20_000)
_UNKNOWN_KEY = "is not a known key"
# Without these fields nothing sensible can be said about the others.
_DECISIVE = {"type", "agent", "gates", "escalation"}
_STAND_INS = {"id": "x" * 128, "title": "x"}


@dataclass(frozen=True)
class Plan:
    """A parsed plan: the item itself, and the tasks that a project brings along."""

    root: WorkItem
    tasks: tuple[WorkItem, ...] = ()

    @property
    def items(self) -> tuple[WorkItem, ...]:
        """All work items of the plan. Each is shown, hashed and approved by itself."""
        return (self.root, *self.tasks)

    @property
    def outside_references(self) -> frozenset[str]:
        """The ids that the plan refers to without containing them."""
        named = {
            name
            for item in self.items
            for name in (item.parent, item.follow_up_of, *item.depends_on, *item.tasks)
            if name is not None
        }
        return frozenset(named - {item.id for item in self.items})


def parse(markdown: str) -> WorkItem:
    """The work item of a plan; raises `PlanInvalid`. For a project's tasks, use `parse_plan`."""
    return parse_plan(markdown).root


def parse_plan(markdown: str, *, known: Collection[str] | None = None) -> Plan:
    """The work items of a plan; raises `PlanInvalid` with every problem that was found.

    With `known`, ids that the plan refers to must be in it or in the plan itself.
    """
    text = split_plan(markdown)
    try:
        document = load_yaml(text.yaml, limits=_LIMITS, first_line=2)
    except YamlError as error:
        raise PlanInvalid(
            PlanProblem(each.position.line, each.position.column, dotted(each.path), each.message)
            for each in error.problems
        ) from error
    reading = _Reading(text, document)
    plan = reading.plan(known)
    if plan is None:
        raise PlanInvalid(reading.problems)
    return plan


class _Reading:
    """One plan on its way from YAML to work items; collects what is wrong."""

    def __init__(self, text: PlanText, document: YamlDocument) -> None:
        self._text = text
        self._document = document
        self._broken: dict[FieldPath, set[str]] = {}
        self.problems: list[PlanProblem] = []

    def plan(self, known: Collection[str] | None) -> Plan | None:
        front = self._document.value
        if not isinstance(front, dict):
            self._add(FieldProblem((), "the front matter must be a mapping of `key: value` lines"))
            return None
        entries = front.get("tasks")
        inline = entries if front.get("type") == "project" and isinstance(entries, list) else []
        root = self._root(front, inline)
        children = [
            (index, self._child(entry, index, front.get("id")))
            for index, entry in enumerate(inline)
            if isinstance(entry, dict)
        ]
        self._add(*graph_problems(task_nodes(inline), front.get("id")))
        for index, child in children:
            if child:
                self._apply_rules(child, ("tasks", index), project=root)
        if root:
            self._apply_rules(root, ())
        if known is not None:
            self._add(*_unknown_references(front, inline, known))
        if root is None or self.problems:
            return None
        return Plan(
            root, tuple(_inherit(child, root, inline[at]) for at, child in children if child)
        )

    def _root(self, front: dict[str, Any], inline: list[Any]) -> WorkItem | None:
        data = {**front, "body": self._text.body}
        if "body" in front:
            self._add(FieldProblem(("body",), "must stand below the front matter, as prose"))
        if inline:
            data["tasks"] = [node.id for node in task_nodes(inline)]
            for index, entry in enumerate(inline):
                if not isinstance(entry, str | dict):
                    message = "must be the id of a task, or a mapping that describes one"
                    self._add(FieldProblem(("tasks", index), message))
        return self._item(data, ())

    def _child(self, entry: dict[str, Any], index: int, project_id: Any) -> WorkItem | None:
        path = ("tasks", index)
        for name, only in (("type", WorkItemType.TASK.value), ("parent", project_id)):
            if entry.get(name, only) != only:
                self._add(FieldProblem((*path, name), f"must be {quoted(str(only))}; leave it out"))
        if "tasks" in entry:
            self._add(FieldProblem((*path, "tasks"), "a task of a project has no tasks itself"))
        parent = {"parent": project_id} if isinstance(project_id, str) else {}
        own = {name: value for name, value in entry.items() if name not in ("tasks", "parent")}
        return self._item({**own, "type": "task", **parent}, path)

    def _item(self, data: dict[str, Any], path: FieldPath) -> WorkItem | None:
        reserved = sorted(NOT_IN_PLANS & data.keys())
        for name in reserved:
            message = "is kept by Silas itself and cannot be written in a plan; remove it"
            self._add(FieldProblem((*path, name), message))
        self._broken[path] = set(reserved)
        left = {name: value for name, value in data.items() if name not in reserved}
        while True:
            try:
                # JSON's strict mode: no text for a number, but names for enumerations.
                return WorkItem.model_validate_json(json.dumps(left), strict=True)
            except ValidationError as error:
                problems = problems_in(error)
            self._add(*_with_hints(problems, path))
            # What is left can still be looked at, so that a person sees all problems at once.
            wrong = {str(inner[0]) for inner, _ in problems if inner}
            rest = {**_STAND_INS, **{name: left[name] for name in left if name not in wrong}}
            if wrong & _DECISIVE or rest == left:
                return None
            left = rest
            self._broken[path] |= wrong

    def _apply_rules(
        self, item: WorkItem, path: FieldPath, *, project: WorkItem | None = None
    ) -> None:
        for inner, message in rule_problems(item, project):
            if inner[0] not in self._broken[path]:
                self._add(FieldProblem((*path, *inner), message))

    def _add(self, *problems: FieldProblem) -> None:
        for path, message in problems:
            where = self._position(path)
            self.problems.append(PlanProblem(where.line, where.column, dotted(path), message))

    def _position(self, path: FieldPath) -> Position:
        if path == ("body",) and path not in self._document.keys:
            return Position(self._text.body_line, 1)
        return self._document.key_position(path)


def _with_hints(problems: list[FieldProblem], path: FieldPath) -> Iterator[FieldProblem]:
    for inner, message in problems:
        if message == _UNKNOWN_KEY:
            hint = meant_instead(str(inner[-1]), keys_at(inner[:-1]))
            yield FieldProblem((*path, *inner), f"{message}{hint}")
        else:
            yield FieldProblem((*path, *inner), message)


def _inherit(task: WorkItem, project: WorkItem, written: Mapping[str, Any]) -> WorkItem:
    """What a task takes over from its project: its limits always, the rest unless it says so."""
    update: dict[str, Any] = {
        "gates": [*project.gates, *task.gates],
        "escalation": {**project.escalation, **task.escalation},
    }
    for name in ("skills", "domain", "workspace"):
        if name not in written:
            update[name] = getattr(project, name)
    return task.model_copy(update=update)


def _unknown_references(
    front: dict[str, Any], inline: list[Any], known: Collection[str]
) -> Iterator[FieldProblem]:
    """Ids outside the plan that nobody knows. What the tasks wait for is checked by their graph."""
    waits = front.get("depends_on")
    waits = waits if isinstance(waits, list) else []
    references: list[tuple[FieldPath, Any]] = [
        *(((name,), front.get(name)) for name in ("parent", "follow_up_of")),
        *((("depends_on", at), each) for at, each in enumerate(waits)),
    ]
    for at, entry in enumerate(inline):
        if isinstance(entry, dict):
            references.append((("tasks", at, "follow_up_of"), entry.get("follow_up_of")))
        else:
            references.append((("tasks", at), entry))
    for path, name in references:
        if isinstance(name, str) and name not in known:
            yield FieldProblem(path, f"there is no work item {quoted(name)}")
