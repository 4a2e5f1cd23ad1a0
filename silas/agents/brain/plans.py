"""Plans of the offline brain: what was wished, as a plan that anybody can read before the yes."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

import yaml

from silas.agents.brain.intents import (
    AppendToFile,
    ApplyPatch,
    EditFile,
    MakeFile,
    Planned,
    RunCommand,
    Watch,
    Watched,
)
from silas.agents.brain.patches import PatchInvalid, read_patch
from silas.work.offline_script import (
    AppendStep,
    EditStep,
    FileStep,
    RunStep,
    ScriptInvalid,
    Step,
    read_script,
)

_BUDGET = {"max_tokens": 20_000, "max_cost_usd": 0.1, "max_attempts": 2}
_ADDRESS_SECONDS = 20
_LONGEST_TITLE = 60
_PYTHON = re.compile(r"(?:python[\d.]*|py\.?test)\b")


class CannotPlan(ValueError):
    """What is missing before a plan can be made; the text is for the person."""


@dataclass(frozen=True)
class Places:
    """Where files are: the owner's home, and the directory for everything without a place."""

    home: Path
    workspace: Path | None = None


@dataclass(frozen=True)
class _Draft:
    title: str
    what: str
    steps: tuple[Step, ...] = ()
    checks: tuple[Mapping[str, Any], ...] = ()
    workspace: Path | None = None
    schedule: str | None = None


def write_plan(wish: Planned, *, plan_id: str, places: Places) -> str:
    """The plan as markdown; raises `CannotPlan`."""
    draft = _draft(wish, places)
    head: dict[str, Any] = {
        "id": plan_id,
        "type": "goal" if draft.schedule else "task",
        "title": _title(draft.title),
    }
    if draft.schedule:
        head |= {"schedule": draft.schedule, "on_failure": "report"}
    else:
        head |= {"interaction_mode": "act_and_report"}
    head |= {"budget": _BUDGET, "on_stuck": "report"}
    if draft.checks:
        head["verify"] = [dict(check) for check in draft.checks]
    if draft.workspace:
        head["workspace"] = {"path": str(draft.workspace)}
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{front}---\n\n{_body(draft)}"


def _draft(wish: Planned, places: Places) -> _Draft:
    match wish:
        case RunCommand():
            return _run(wish, places)
        case MakeFile() | AppendToFile() | EditFile():
            return _file(wish, places)
        case ApplyPatch():
            return _patch(wish, places)
        case Watch():
            return _watch(wish, places)
    assert_never(wish)


def _run(wish: RunCommand, places: Places) -> _Draft:
    checks: list[Mapping[str, Any]] = []
    if wish.expected is not None:
        checks.append(
            _check("it prints what was expected", wish.command, {"contains": wish.expected})
        )
    if wish.check is not None:
        checks.append(_check("the check works", wish.check, {"exit_code": 0}))
    again = " The check runs the command once more, by itself." if wish.expected else ""
    return _Draft(
        title=f"Run {wish.command}",
        what=f"Run the command and report what it printed.{again}",
        steps=tuple(_command_step(line) for line in wish.command.splitlines() if line.strip()),
        checks=tuple(checks),
        workspace=_directory(wish.where, places) if wish.where else places.workspace,
    )


def _file(wish: MakeFile | AppendToFile | EditFile, places: Places) -> _Draft:
    directory, name = _place(wish.path, places)
    shown = f"cat -- {shlex.quote(name)}"
    step: Step
    expect: dict[str, Any]
    match wish:
        case MakeFile(content=content):
            text = content if content.endswith("\n") else f"{content}\n"
            step, title, what = FileStep(name, text), f"Write {wish.path}", "Write the file."
            expect = {"equals": text}
        case AppendToFile(content=content):
            step, title = AppendStep(name, f"{content}\n"), f"Add to {wish.path}"
            what, expect = "Add the text at the end of the file.", {"contains": content}
        case EditFile(old=old, new=new):
            step, title = EditStep(name, old, new), f"Change {wish.path}"
            what = "Replace the passage. It must be there exactly once."
            expect = {"contains": new} if new else {"exit_code": 0}
            shown = shown if new else f"! grep -qF -- {shlex.quote(old)} {shlex.quote(name)}"
    check = _check("the file is as wished", shown, expect)
    return _Draft(title, what, (step,), (check,), directory)


def _patch(wish: ApplyPatch, places: Places) -> _Draft:
    try:
        steps = read_patch(wish.patch)
    except PatchInvalid as error:
        raise CannotPlan(f"I cannot read that patch: {error}.") from error
    directory = _directory(wish.where, places) if wish.where else places.workspace
    if directory is None:
        raise CannotPlan("In which folder? Say it as: fix the test in ~/project with this patch …")
    return _Draft(
        title=f"Patch {', '.join(sorted({step.path for step in steps}))}",
        what="Apply the patch, passage by passage.",
        steps=tuple(steps),
        checks=(_check("the tests pass", _importing(wish.check), {"exit_code": 0}),),
        workspace=directory,
    )


def _watch(wish: Watch, places: Places) -> _Draft:
    if wish.what is Watched.ADDRESS:
        quoted = shlex.quote(wish.target)
        command = f"curl -fsS -o /dev/null --max-time {_ADDRESS_SECONDS} -- {quoted}"
        check = {**_check("it answers", command, {"exit_code": 0}), "network": True, "timeout": 30}
    else:
        check = dict(_check("it works", wish.target, {"exit_code": 0}))
    return _Draft(
        title=f"Watch {wish.target}",
        what=f"Look {wish.often}, and report when it does not work.",
        checks=(check,),
        workspace=places.workspace if wish.what is Watched.COMMAND else None,
        schedule=wish.schedule,
    )


def _importing(command: str) -> str:
    """The command, with the folder on Python's path: checks do not take modules from it unasked."""
    return f"PYTHONPATH=. {command}" if _PYTHON.match(command) else command


def _check(name: str, command: str, expect: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": name, "run": command, "expect": dict(expect)}


def _command_step(command: str) -> RunStep:
    """The command as it stands; what only a shell understands is given to one, in the sandbox."""
    try:
        steps = read_script(f"```run\n{command}\n```")
    except ScriptInvalid:
        return RunStep(("sh", "-c", command))
    return steps[0] if isinstance(steps[0], RunStep) else RunStep(("sh", "-c", command))


def _directory(where: str, places: Places) -> Path:
    path = _expanded(where, places)
    if path.is_absolute():
        return path
    if places.workspace is None:
        raise CannotPlan(f"Where is {where}? Please give the whole path, such as ~/{where}.")
    return places.workspace / path


def _place(name: str, places: Places) -> tuple[Path, str]:
    """The directory that is worked on, and the file's name in it."""
    path = _expanded(name, places)
    if path.is_absolute():
        return path.parent, path.name
    if places.workspace is None:
        raise CannotPlan(f"Where shall {name} be? Please give the whole path, such as ~/{name}.")
    return places.workspace, name


def _expanded(name: str, places: Places) -> Path:
    return places.home / name[2:] if name.startswith("~/") else Path(name)


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1]}…"


def _body(draft: _Draft) -> str:
    parts = ["# What to do", draft.what, *map(_block, draft.steps)]
    return "\n\n".join(parts) + "\n"


def _block(step: Step) -> str:
    match step:
        case RunStep(argv):
            kind, inside = "run", f"{shlex.join(argv)}\n"
        case FileStep(path, content):
            kind, inside = f"file path={path}", content
        case AppendStep(path, content):
            kind, inside = f"append path={path}", content
        case EditStep(path, old, new):
            kind = f"edit path={path}"
            inside = (
                f"<<<<<<<\n{old}\n=======\n{new}\n>>>>>>>\n"
                if new
                else (f"<<<<<<<\n{old}\n=======\n>>>>>>>\n")
            )
    ticks = "`" * max(3, _longest_ticks(inside) + 1)
    block = f"{ticks}{kind}\n{inside}{ticks}"
    if read_script(block) != [step]:
        raise CannotPlan("I cannot write that down exactly. Please put it into a file by hand.")
    return block


def _longest_ticks(text: str) -> int:
    longest = current = 0
    for letter in text:
        current = current + 1 if letter == "`" else 0
        longest = max(longest, current)
    return longest
