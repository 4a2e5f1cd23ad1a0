"""The plan parser: markdown with YAML front matter becomes work items, or a list of problems.

Pure: text in, data out. `docs/plans.md` describes the format. A plan that is accepted means what
it says; whatever is unknown, ambiguous or without effect is refused with its line.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from silas.kernel.field_problems import (
    FieldPath,
    FieldProblem,
    dotted,
    problems_in,
    quoted,
)
from silas.kernel.yaml_positions import Position, YamlDocument, YamlError, YamlLimits, load_yaml
from silas.work.errors import PlanInvalid, PlanProblem
from silas.work.front_matter import MAX_PLAN_BYTES, PlanText, split_plan
from silas.work.models import WorkItem, WorkItemType
from silas.work.plan_graph import graph_problems, task_nodes
from silas.work.plan_keys import NOT_IN_PLANS, keys_at, meant_instead
from silas.work.plan_rules import rule_problems

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
