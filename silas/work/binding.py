"""Ties a plan to what it refers to, before it is shown; and finds out whether that still holds.

1. The workspace is named by its real path, and by which directory that is.
2. Every file that the plan lists, and every program below the workspace that the plan names in a
   check or in a `run` block, is named with its hash, unless the plan says that it is `editable`.
3. Every skill is named with the hash of all its files. A skill that is not there cannot be bound.
4. At the door, the same is looked up again. Files are compared in the private copy that will be
   worked on, so that nobody can change them between the look and the use.
"""

import asyncio
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from silas.work.errors import BindingBroken, FileRefused
from silas.work.models import WorkItem
from silas.work.offline_script import RunStep, ScriptInvalid, read_script
from silas.work.plan import Plan
from silas.work.ports import SkillFiles
from silas.work.tree import Tree
from silas.work.workspace import EDITABLE, Workspace

_SCRIPT_SUFFIXES = (".sh", ".bash", ".py", ".pl", ".rb", ".js", ".mjs")


async def bind_plan(plan: Plan, *, base: Path, skills: SkillFiles | None = None) -> Plan:
    """The plan with everything filled in; `base` is the directory of the plan's file."""
    items = [await bind(item, base=base, skills=skills) for item in plan.items]
    return replace(plan, root=items[0], tasks=tuple(items[1:]))


def bind_workspaces(plan: Plan, *, base: Path) -> Plan:
    """The plan with its workspaces filled in, and nothing else."""
    items = [
        item.model_copy(update={"workspace": _bind_workspace(item, base)})
        if item.workspace is not None
        else item
        for item in plan.items
    ]
    return replace(plan, root=items[0], tasks=tuple(items[1:]))


async def bind(item: WorkItem, *, base: Path, skills: SkillFiles | None = None) -> WorkItem:
    """One work item with its workspace and its skills filled in; raises `BindingBroken`."""
    changes: dict[str, object] = {"skill_hashes": await _skill_hashes(item, skills)}
    if item.workspace is not None:
        changes["workspace"] = await asyncio.to_thread(_bind_workspace, item, base)
    bound = item.model_copy(update=changes)
    return WorkItem.model_validate(bound.model_dump())


async def require_skills(item: WorkItem, skills: SkillFiles | None) -> None:
    """Raise `BindingBroken` unless the skills are those that were approved."""
    for name, approved in item.skill_hashes.items():
        now = await skills.digest(name) if skills else None
        if now != approved:
            told = "is not installed any more" if now is None else "was changed after the approval"
            raise BindingBroken(f"The skill {name} {told}.", skill=name)


def require_files(tree: Tree, pinned: dict[str, str]) -> None:
    """Raise `BindingBroken` unless the files hold what was approved."""
    for name, approved in pinned.items():
        try:
            now = tree.digest(name)
        except FileRefused as error:
            raise BindingBroken(error.message, file=name) from error
        if now != approved:
            told = "is not there any more" if now is None else "was changed after the approval"
            raise BindingBroken(f"{name} {told}.", file=name)


def require_directory(tree: Tree, workspace: Workspace) -> None:
    """Raise `BindingBroken` unless this is the directory that was approved."""
    if workspace.identity is None or tree.identity != workspace.identity:
        raise BindingBroken(
            f"{workspace.path} is not the directory that was approved: another one is in its place."
        )


def _bind_workspace(item: WorkItem, base: Path) -> Workspace:
    workspace = item.workspace or Workspace()
    if workspace.path is None:
        if any(pin != EDITABLE for pin in workspace.files.values()):
            raise BindingBroken("workspace.files names files, but there is no workspace.path.")
        return workspace
    path = (base / workspace.path).resolve()
    try:
        with Tree.open(path) as tree:
            pins = {name: _pin(tree, name, pin) for name, pin in workspace.files.items()}
            pins |= {name: _pin(tree, name, None) for name in _programs(item, tree, pins)}
            return workspace.model_copy(
                update={"path": str(path), "identity": tree.identity, "files": pins}
            )
    except FileRefused as error:
        raise BindingBroken(f"The workspace cannot be bound: {error.message}") from error


def _pin(tree: Tree, name: str, written: str | None) -> str:
    if written == EDITABLE:
        return EDITABLE
    digest = tree.digest(name)
    if digest is None:
        raise BindingBroken(f"{name} is listed in workspace.files, but it is not there.")
    if written not in (None, digest):
        raise BindingBroken(f"{name} does not have the hash that the plan names.")
    return digest


def _programs(item: WorkItem, tree: Tree, known: dict[str, str]) -> Iterator[str]:
    """The programs below the workspace that the plan names."""
    for word in sorted(set(_words(item))):
        name = word.removeprefix("./")
        if name not in known and _is_program(tree, name):
            yield name


def _words(item: WorkItem) -> Iterator[str]:
    for check in item.verify:
        try:
            yield from shlex.split(check.run, comments=False)
        except ValueError:
            yield from check.run.split()
    try:
        steps = read_script(item.body)
    except ScriptInvalid as error:
        raise BindingBroken(f"The briefing of {item.id} cannot be executed: {error}.") from error
    for step in steps:
        if isinstance(step, RunStep):
            yield from step.argv


def _is_program(tree: Tree, name: str) -> bool:
    try:
        if not tree.exists(name):
            return False
        marked = tree.is_executable(name) or tree.starts_with(name, 2) == b"#!"
    except FileRefused:
        return False
    return marked or name.endswith(_SCRIPT_SUFFIXES)


async def _skill_hashes(item: WorkItem, skills: SkillFiles | None) -> dict[str, str]:
    hashes = {}
    for name in item.skills:
        digest = await skills.digest(name) if skills else None
        if digest is None:
            raise BindingBroken(f"The skill {name} is not installed, so it cannot be approved.")
        hashes[name] = digest
    return hashes
