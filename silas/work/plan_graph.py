"""How the tasks of a project hang together: every name is known, and nothing waits for itself."""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from silas.kernel.field_problems import FieldPath, FieldProblem, quoted
from silas.work.plan_keys import meant_instead


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
