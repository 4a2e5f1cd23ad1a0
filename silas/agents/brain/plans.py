"""Plans of the offline brain: what was wished, as a plan that anybody can read before the yes.

A unified diff in a wish becomes edits: each hunk is a passage that must be there, and what replaces
it.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, assert_never
from urllib.parse import urlsplit

import yaml
from pydantic import TypeAdapter

from silas.agents.brain.intents import (
    AppendToFile,
    ApplyPatch,
    EditFile,
    MakeFile,
    Planned,
    RunCommand,
    SaveAttachment,
    Watch,
    WatchedKind,
)
from silas.egress import Hosts
from silas.tools.tree import is_pattern
from silas.work.errors import PlanInvalid
from silas.work.plan import parse_plan
from silas.work.script import (
    AppendStep,
    AttachmentStep,
    EditStep,
    FileStep,
    RunStep,
    ScriptInvalid,
    Step,
    read_script,
)

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")
_NOTHING = "/dev/null"


class PatchInvalid(ValueError):
    """The patch cannot be turned into edits; the text says why."""


def read_patch(text: str) -> list[EditStep | FileStep]:
    """The steps of a patch, in order; raises `PatchInvalid`."""
    steps = [step for old, new, hunks in _files(text) for step in _steps(old, new, hunks)]
    if not steps:
        raise PatchInvalid("it has no hunk: lines `--- a/NAME`, `+++ b/NAME`, `@@ … @@`")
    return steps


def _files(text: str) -> Iterator[tuple[str, str, list[list[str]]]]:
    """Old name, new name and hunks of each file."""
    lines = text.splitlines()
    starts = [
        number
        for number, line in enumerate(lines[:-1])
        if line.startswith("--- ") and lines[number + 1].startswith("+++ ")
    ]
    for start, end in pairwise([*starts, len(lines)]):
        hunks: list[list[str]] = []
        for line in lines[start + 2 : end]:
            if _HUNK.fullmatch(line):
                hunks.append([])
            elif hunks and (line[:1] in " +-" or not line):
                hunks[-1].append(line or " ")
        yield _name(lines[start]), _name(lines[start + 1]), hunks


def _name(line: str) -> str:
    name = line[4:].split("\t", maxsplit=1)[0].strip()
    return name[2:] if name[:2] in ("a/", "b/") else name


def _steps(old: str, new: str, hunks: list[list[str]]) -> Iterator[EditStep | FileStep]:
    if new == _NOTHING:
        raise PatchInvalid(f"it removes {old}; only changes and new files are understood")
    if old == _NOTHING:
        yield FileStep(new, "".join(f"{line[1:]}\n" for hunk in hunks for line in hunk))
        return
    if old != new:
        raise PatchInvalid(f"it renames {old}; only changes and new files are understood")
    for hunk in hunks:
        before = "\n".join(line[1:] for line in hunk if line[0] in " -")
        after = "\n".join(line[1:] for line in hunk if line[0] in " +")
        if not before:
            raise PatchInvalid(f"a hunk of {new} has no line that is there already")
        yield EditStep(new, before, after)


_BUDGET = {"max_tokens": 20_000, "max_cost_usd": 0.1, "max_attempts": 2}
_ADDRESS_SECONDS = 20
_LONGEST_TITLE = 60
_PYTHON = re.compile(r"(?:python[\d.]*|py\.?test)\b")
_REFUSED_CHECK = re.compile(r"verify\[(\d+)\]")
NOT_CHECKED = "Nothing about it can be checked afterwards."
_TESTS_A_FILE = re.compile(r"(?:test|\[) -[efs]")
_MOST_PATCH_CHECKS = 5
_WRITES = frozenset({">", ">>", ">|"})
_SHELLS = frozenset({"sh", "bash", "/bin/sh", "/bin/bash"})


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
    makes: tuple[str, ...] = ()
    """Files that a command makes, as far as the wish tells."""
    without_proof: bool = False
    """No check fails before the work and passes after it."""


def write_plan(wish: Planned, *, plan_id: str, places: Places) -> str:
    """The plan as markdown; raises `CannotPlan`."""
    draft = _draft(wish, places)
    text = _markdown(draft, plan_id)
    refused = _refused_checks(text)
    if not refused:
        return text
    kept = tuple(each for index, each in enumerate(draft.checks) if index not in refused)
    if draft.schedule and not kept:
        raise CannotPlan(
            "I can watch a command that looks at something and can fail, such as "
            "`test -s backup.tar`. This one does not."
        )
    unproven = draft.without_proof or not kept
    return _markdown(replace(draft, checks=kept, without_proof=unproven), plan_id)


def _refused_checks(text: str) -> set[int]:
    """Those of the checks that no plan may have, such as `echo`: they cannot fail."""
    try:
        parse_plan(text)
    except PlanInvalid as error:
        found = [_REFUSED_CHECK.match(problem.field) for problem in error.problems]
        return {int(each[1]) for each in found if each}
    return set()


def _markdown(draft: _Draft, plan_id: str) -> str:
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
    if draft.steps:
        head["script"] = True
    if draft.without_proof:
        head["without_proof"] = True
    if draft.workspace:
        changes = _changes(draft)
        head["workspace"] = {"path": str(draft.workspace)} | (
            {"changes": changes} if changes else {}
        )
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{front}---\n\n{_body(draft)}"


def _draft(wish: Planned, places: Places) -> _Draft:
    match wish:
        case RunCommand():
            return _run(wish, places)
        case MakeFile() | AppendToFile() | EditFile():
            return _file(wish, places)
        case SaveAttachment():
            return _save(wish, places)
        case ApplyPatch():
            return _patch(wish, places)
        case Watch():
            return _watch(wish, places)
    assert_never(wish)


def _changes(draft: _Draft) -> dict[str, list[str]]:
    """What the plan declares: exactly the files of its blocks, and those that commands name."""
    changed = {step.path for step in draft.steps if isinstance(step, EditStep | AppendStep)}
    written = {step.path for step in draft.steps if isinstance(step, FileStep | AttachmentStep)}
    declared = {"add": sorted((written | {*draft.makes}) - changed), "change": sorted(changed)}
    return {kind: paths for kind, paths in declared.items() if paths}


def _run(wish: RunCommand, places: Places) -> _Draft:
    checks: list[Mapping[str, Any]] = []
    if wish.expected is not None:
        checks.append(
            _check("it prints what was expected", wish.command, {"contains": wish.expected})
        )
    if wish.check is not None:
        checks.append(_check("the check works", wish.check, {"exit_code": 0}))
    return _Draft(
        title=f"Run {wish.command}",
        what="Run the command and report what it printed.",
        steps=tuple(_command_step(line) for line in wish.command.splitlines() if line.strip()),
        checks=tuple(checks),
        workspace=_directory(wish.where, places) if wish.where else places.workspace,
        makes=tuple(sorted({*_made_by(wish.command), *_tested_by(wish.check or "")})),
        # What a command prints, it prints before the work too.
        without_proof=wish.check is None,
    )


def _made_by(command: str) -> Iterator[str]:
    """The files that a command says it writes: where its output goes, and what it touches."""
    for line in command.splitlines():
        words = _shell_words(line)
        for before, word in pairwise(words):
            if before in _WRITES and _is_plain(word):
                yield word
        if words[:1] == ["touch"]:
            yield from filter(_is_plain, words[1:])
        if len(words) == 3 and words[0] in _SHELLS and words[1] == "-c":
            yield from _made_by(words[2])


def _tested_by(check: str) -> Iterator[str]:
    """The file that a check wants to be there: whoever asks for it wants it made."""
    if _TESTS_A_FILE.match(check):
        words = _shell_words(check.removesuffix("]").strip())
        if len(words) == 3 and _is_plain(words[2]):  # `test`, its option, the file
            yield words[2]


def _shell_words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return []


def _is_plain(name: str) -> bool:
    """Whether this names one file below the workspace."""
    return re.fullmatch(r"[\w.][\w./ -]*", name) is not None and name == _below(name)


def _below(name: str) -> str | None:
    """A name below the workspace as plans write it; None if it is none."""
    path = PurePosixPath(name)
    outside = path.is_absolute() or ".." in path.parts or not path.parts
    return None if outside or is_pattern(name) or not name.isprintable() else str(path)


def _file(wish: MakeFile | AppendToFile | EditFile, places: Places) -> _Draft:
    directory, name = _place(wish.path, places)
    quoted = shlex.quote(name)
    step: Step
    match wish:
        case MakeFile(content=content):
            text = content if content.endswith("\n") else f"{content}\n"
            step, title, what = FileStep(name, text), f"Write {wish.path}", "Write the file."
            said = "the file says what you asked for"
            checks = [_check(said, f"cat -- {quoted}", {"equals": text})]
        case AppendToFile(content=content):
            text = f"{content}\n"
            step, title = AppendStep(name, text), f"Add to {wish.path}"
            what = "Add the text at the end of the file."
            shown = f"tail -c {len(text.encode())} -- {quoted}"
            checks = [_check("the file ends with it", shown, {"equals": text})]
        case EditFile(old=old, new=new):
            step, title = EditStep(name, old, new), f"Change {wish.path}"
            what = "Replace the passage. It must be there exactly once."
            checks = _edit_checks(name, old, new)
    return _Draft(title, what, (step,), tuple(checks), directory, without_proof=not checks)


def _save(wish: SaveAttachment, places: Places) -> _Draft:
    if not wish.sha256:
        raise CannotPlan("Nothing is attached to this message. Attach the file, and say it again.")
    directory, name = _place(wish.path, places)
    called = wish.name or "the attached file"
    return _Draft(
        title=f"Save {called} as {wish.path}",
        what=f"Write {called} to {name}, byte by byte as it was attached.",
        steps=(AttachmentStep(name, wish.sha256),),
        checks=(
            _check(
                "the file is the attached one",
                f"sha256sum -- {shlex.quote(name)}",
                {"contains": wish.sha256},
            ),
        ),
        workspace=directory,
    )


def _edit_checks(name: str, old: str, new: str) -> list[Mapping[str, Any]]:
    """The old passage is gone, the new one is there; the first fails as long as nothing is done."""
    quoted = shlex.quote(name)
    checks = []
    if "\n" not in old and old not in new:
        gone = f"! grep -qF -- {shlex.quote(old)} {quoted}"
        checks.append(_check("the old passage is gone", gone, {"exit_code": 0}))
    if new:
        shown = f"cat -- {quoted}"
        checks.append(_check("the new passage is there", shown, {"contains": new}))
    return checks


def _patch(wish: ApplyPatch, places: Places) -> _Draft:
    try:
        steps = read_patch(wish.patch)
    except PatchInvalid as error:
        raise CannotPlan(f"I cannot read that patch: {error}.") from error
    directory = _directory(wish.where, places) if wish.where else places.workspace
    if directory is None:
        raise CannotPlan("In which folder? Say it as: fix the test in ~/project with this patch …")
    for step in steps:
        if _declarable(step.path) != step.path:
            raise CannotPlan(f"I cannot read that patch: {step.path} is no plain path.")
    return _Draft(
        title=f"Patch {', '.join(sorted({step.path for step in steps}))}",
        what="Apply the patch, passage by passage.",
        steps=tuple(steps),
        checks=(
            _check("the tests pass", _importing(wish.check), {"exit_code": 0}),
            *_patch_checks(steps),
        ),
        workspace=directory,
    )


def _patch_checks(steps: Sequence[EditStep | FileStep]) -> Iterator[Mapping[str, Any]]:
    """One for each new file and the first passage of each file that is changed."""
    seen: set[str] = set()
    for step in steps:
        shown = f"cat -- {shlex.quote(step.path)}"
        text = step.new if isinstance(step, EditStep) else step.content
        if step.path not in seen and text.strip() and len(seen) < _MOST_PATCH_CHECKS:
            seen.add(step.path)
            yield _check(f"{step.path} is as the patch says", shown, {"contains": text})


def _watch(wish: Watch, places: Places) -> _Draft:
    if wish.what is WatchedKind.ADDRESS:
        quoted = shlex.quote(wish.target)
        command = f"curl -fsS -o /dev/null --max-time {_ADDRESS_SECONDS} -- {quoted}"
        check = {
            **_check("it answers", command, {"exit_code": 0}),
            "network": [_host_of(wish.target)],
            "timeout": 30,
        }
    else:
        check = dict(_check("it works", wish.target, {"exit_code": 0}))
    return _Draft(
        title=f"Watch {wish.target}",
        what=f"Look {wish.often}, and report when it does not work.",
        checks=(check,),
        workspace=places.workspace if wish.what is WatchedKind.COMMAND else None,
        schedule=wish.schedule,
    )


def _host_of(address: str) -> str:
    """The host of an address, as a plan lists it."""
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
        (listed,) = TypeAdapter(Hosts).validate_python([host])
    except ValueError as error:
        raise CannotPlan(
            f"I can watch public hosts, such as https://example.org; {address} is none."
        ) from error
    return listed


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
        return path.parent, _declarable(path.name)
    if places.workspace is None:
        raise CannotPlan(f"Where should {name} be? Please give the whole path, such as ~/{name}.")
    return places.workspace, _declarable(name)


def _declarable(name: str) -> str:
    """The name as a plan declares it: one file below the directory."""
    below = _below(name)
    if below is None:
        raise CannotPlan(
            f"A plan names each file that it changes, and {name} names none: please give one "
            "path without `..`, `*` and `?`."
        )
    return below


def _expanded(name: str, places: Places) -> Path:
    return places.home / name[2:] if name.startswith("~/") else Path(name)


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1]}…"


def _body(draft: _Draft) -> str:
    what = draft.what if draft.checks else f"{draft.what} {NOT_CHECKED}"
    parts = ["# What to do", what, *map(_block, draft.steps)]
    return "\n\n".join(parts) + "\n"


def _block(step: Step) -> str:
    match step:
        case RunStep(argv):
            kind, inside = "run", f"{shlex.join(argv)}\n"
        case FileStep(path, content):
            kind, inside = f"file path={path}", content
        case AppendStep(path, content):
            kind, inside = f"append path={path}", content
        case AttachmentStep(path, sha256):
            kind, inside = f"attachment path={path} sha256={sha256}", ""
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
