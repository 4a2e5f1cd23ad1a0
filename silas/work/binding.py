"""Ties a plan to what it refers to, before it is shown; and finds out whether that still holds.

1. The workspace is named by its real path, and by which directory that is. It is no place that is
   off limits (`off_limits`): for such a plan no card is ever shown.
2. A declared path is a regular file or none, below no link. One that is declared as added and is
   there already is declared as changed.
3. Every check names the files that it runs or obeys and that the plan lets a worker write. A
   program of a check that is not there, and that nobody declares, cannot be bound.
4. Every file that the plan lists is named with its hash, and so is every program in a `run` block
   and every file that a check runs, sources or finds, unless the plan declares that it changes. A
   goal outlives many changes of its owner's: of what its checks find, only the named is bound.
5. Every skill is named with the hash of all its files. A skill that is not there cannot be bound.
6. Before work starts, the same is looked up again. Files are compared in the private copy that will
   be worked on, so that nobody can change them between the look and the use; programs of `run`
   blocks again before every call, and all of them in the tree that is checked and published.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from silas.tools.tree import FileRefused, Listing, Tree, is_pattern
from silas.work.check_influences import (
    discovered,
    influences_among,
    is_installed,
    list_files,
    may_be_written,
    programs_of,
)
from silas.work.effects import EDITABLE, DeclaredChanges, Workspace
from silas.work.errors import BindingBroken
from silas.work.models import VerificationCheck, WorkItem, WorkItemType
from silas.work.off_limits import OffLimits
from silas.work.plan import Plan
from silas.work.ports import SkillFiles
from silas.work.script import RunStep, ScriptInvalid, read_script

_SCRIPT_SUFFIXES = (".sh", ".bash", ".py", ".pl", ".rb", ".js", ".mjs")
_MAX_PINS = 200


async def bind_plan(
    plan: Plan, *, base: Path, off_limits: OffLimits, skills: SkillFiles | None = None
) -> Plan:
    """The plan with everything filled in; `base` is the directory of the plan's file."""
    bound = await asyncio.to_thread(bind_workspaces, plan, base=base, off_limits=off_limits)
    items = [await _bind_skills(item, skills) for item in bound.items]
    return replace(plan, root=items[0], tasks=tuple(items[1:]))


def bind_workspaces(plan: Plan, *, base: Path, off_limits: OffLimits) -> Plan:
    """The plan with its workspaces and checks filled in, and nothing else."""
    items = [
        _bind_files(item, base, off_limits, _declared_beside(item, plan, base))
        for item in plan.items
    ]
    return replace(plan, root=items[0], tasks=tuple(items[1:]))


async def bind(
    item: WorkItem, *, base: Path, off_limits: OffLimits, skills: SkillFiles | None = None
) -> WorkItem:
    """One work item with its workspace, checks and skills filled in; raises `BindingBroken`."""
    return (await bind_plan(Plan(item), base=base, off_limits=off_limits, skills=skills)).root


async def require_skills(item: WorkItem, skills: SkillFiles | None) -> None:
    """Raise `BindingBroken` unless the skills are those that were approved."""
    for name, approved in item.skill_hashes.items():
        now = await skills.digest(name) if skills else None
        if now != approved:
            problem = (
                "is not installed any more" if now is None else "was changed after the approval"
            )
            raise BindingBroken(f"The skill {name} {problem}.", skill=name)


def require_files(tree: Tree, pinned: Mapping[str, str]) -> None:
    """Raise `BindingBroken` unless the files hold what was approved."""
    for name, approved in pinned.items():
        try:
            now = tree.digest(name)
        except FileRefused as error:
            raise BindingBroken(error.message, file=name) from error
        if now != approved:
            problem = "is not there any more" if now is None else "was changed after the approval"
            raise BindingBroken(f"{name} {problem}.", file=name)


def require_directory(tree: Tree, workspace: Workspace) -> None:
    """Raise `BindingBroken` unless this is the directory that was approved."""
    if workspace.identity is None or tree.identity != workspace.identity:
        raise BindingBroken(
            f"{workspace.path} is not the directory that was approved: another one is in its place."
        )


def _bind_files(
    item: WorkItem, base: Path, off_limits: OffLimits, beside: Sequence[DeclaredChanges]
) -> WorkItem:
    workspace = item.workspace or Workspace()
    if workspace.path is None:
        if any(pin != EDITABLE for pin in workspace.files.values()):
            raise BindingBroken("workspace.files names files, but there is no workspace.path.")
        written = _union([workspace.changes, *beside])
        checks = [_influenced(check, None, None, written) for check in item.verify]
        return _rebuilt(item, verify=checks)
    path = (base / workspace.path).resolve()
    try:
        off_limits.require_allowed(path)
        with Tree.open(path) as tree:
            return _bind_tree(item, workspace, tree, beside)
    except FileRefused as error:
        raise BindingBroken(f"The workspace cannot be bound: {error.message}") from error


def _bind_tree(
    item: WorkItem, workspace: Workspace, tree: Tree, beside: Sequence[DeclaredChanges]
) -> WorkItem:
    changes = _bind_changes(tree, workspace.changes)
    editable = [name for name, pin in workspace.files.items() if pin == EDITABLE]
    written = _union([changes, DeclaredChanges.model_construct(change=editable), *beside])
    listing = list_files(tree) if item.verify else None
    checks = [_influenced(check, tree, listing, written) for check in item.verify]
    pins = {name: _pin(tree, name, pin) for name, pin in workspace.files.items()}
    for name in (*_programs(item, tree), *_run_by_checks(item, tree, listing)):
        if name not in pins and not may_be_written(written, name):
            pins[name] = _pin(tree, name, None)
    bound = {"path": str(tree.path), "identity": tree.identity, "files": pins, "changes": changes}
    return _rebuilt(item, verify=checks, workspace=workspace.model_copy(update=bound))


def _rebuilt(item: WorkItem, **changes: object) -> WorkItem:
    return WorkItem.model_validate(item.model_copy(update=changes).model_dump())


def _declared_beside(item: WorkItem, plan: Plan, base: Path) -> list[DeclaredChanges]:
    """What the other items of the plan declare for the same directory: their workers write, too."""
    place = _place(item, base)
    return [
        other.workspace.changes
        for other in plan.items
        if other is not item and other.workspace is not None and _place(other, base) == place
    ]


def _place(item: WorkItem, base: Path) -> Path | None:
    named = item.workspace.path if item.workspace else None
    return (base / named).resolve() if named is not None else None


def _union(declared: Sequence[DeclaredChanges]) -> DeclaredChanges:
    """All that is declared; not a valid declaration, since items may contradict each other."""
    return DeclaredChanges.model_construct(
        add=[path for each in declared for path in each.add],
        change=[path for each in declared for path in each.change],
        remove=[path for each in declared for path in each.remove],
    )


def _bind_changes(tree: Tree, declared: DeclaredChanges) -> DeclaredChanges:
    """Rule 2."""
    there = {path for path in _exact_paths(declared) if _is_there(tree, path)}
    moved = [path for path in declared.add if path in there and path not in declared.change]
    return DeclaredChanges(
        add=[path for path in declared.add if path not in there],
        change=[*declared.change, *moved],
        remove=declared.remove,
        executable=declared.executable,
    )


def _exact_paths(declared: DeclaredChanges) -> set[str]:
    every = {*declared.add, *declared.change, *declared.remove}
    return {path for path in every if not is_pattern(path)}


def _is_there(tree: Tree, path: str) -> bool:
    try:
        return tree.exists(path)
    except FileRefused as error:
        raise BindingBroken(
            f"{path} is declared in workspace.changes, but it is no regular file of the workspace: "
            f"{error.message} Name the file itself, not a directory or a link.",
            file=path,
        ) from error


def _influenced(
    check: VerificationCheck, tree: Tree | None, listing: Listing | None, written: DeclaredChanges
) -> VerificationCheck:
    """Rule 3."""
    programs = programs_of(check.run, tree, listing)
    for paths in programs.programs if tree is not None else ():
        if not any(_is_anything(tree, path) or may_be_written(written, path) for path in paths):
            raise BindingBroken(
                f"The check {check.name} runs {paths[0]}, which is not there. Let it run a program "
                "that exists, or read the result with cat, grep or cmp; if the work is to write "
                f"{paths[0]}, declare it in workspace.changes.add.",
                check=check.name,
                file=paths[0],
            )
    found = influences_among(programs, tree, listing, written)
    return check.model_copy(update={"influenced_by": found})


def _is_anything(tree: Tree | None, path: str) -> bool:
    try:
        return tree is not None and tree.exists(path)
    except FileRefused:
        return True  # A directory, or a link such as the interpreter of a virtual environment.


def _run_by_checks(item: WorkItem, tree: Tree, listing: Listing | None) -> list[str]:
    """Rule 4: what checks run and find, the named first, up to a limit."""
    every = [programs_of(check.run, tree, listing) for check in item.verify]
    named = {path for each in every for path in each.named if _is_file(tree, path)}
    found = {path for each in every for path in discovered(each, listing)}
    if item.type is WorkItemType.GOAL:
        found = set()
    return [*sorted(named), *sorted(found - named)][:_MAX_PINS]


def _is_file(tree: Tree, path: str) -> bool:
    try:
        return not is_installed(path) and tree.exists(path)
    except FileRefused:
        return False


def _pin(tree: Tree, name: str, written: str | None) -> str:
    if written == EDITABLE:
        return EDITABLE
    digest = tree.digest(name)
    if digest is None:
        raise BindingBroken(f"{name} is listed in workspace.files, but it is not there.")
    if written not in (None, digest):
        raise BindingBroken(f"{name} does not have the hash that the plan names.")
    return digest


def _programs(item: WorkItem, tree: Tree) -> Iterator[str]:
    """The programs below the workspace that the blocks of the briefing name."""
    for name in sorted(named_in_steps(item)):
        if _is_program(tree, name):
            yield name


def named_in_steps(item: WorkItem) -> set[str]:
    """The words of the commands in the briefing's `run` blocks, as paths below the workspace."""
    try:
        steps = read_script(item.body)
    except ScriptInvalid as error:
        raise BindingBroken(f"The briefing of {item.id} cannot be executed: {error}.") from error
    words = {word for step in steps if isinstance(step, RunStep) for word in step.argv}
    return {word.removeprefix("./") for word in words}


def _is_program(tree: Tree, name: str) -> bool:
    try:
        if not tree.exists(name):
            return False
        marked = tree.is_executable(name) or tree.starts_with(name, 2) == b"#!"
    except FileRefused:
        return False
    return marked or name.endswith(_SCRIPT_SUFFIXES)


async def _bind_skills(item: WorkItem, skills: SkillFiles | None) -> WorkItem:
    """Rule 5."""
    hashes = {}
    for name in item.skills:
        digest = await skills.digest(name) if skills else None
        if digest is None:
            raise BindingBroken(
                f"The skill {name} is not installed, so it cannot be approved. `silas skills list` "
                "shows what is; `silas skills install` asks you about another one.",
                skill=name,
            )
        hashes[name] = digest
    return _rebuilt(item, skill_hashes=hashes)
