"""A plan in a few fields, for models that lose their way in a whole plan file.

A guided model (`silas.agents.models.modes.is_guided`) fills in what only it can know: what is to be
done, which files that touches, and what must be so at the end. Everything else of the plan is
written here, and always alike:

1. Paths become relative to the folder of the work, whichever way the model has written them.
2. A check says which file must have, or lack, which text. The command that looks is written here,
   so that it reads and nothing else. A setting (`name: value`, `name = value`) is looked for in
   whatever notation its file has. A command of the model's own is taken as it is, but a Python test
   is told where the folder's modules are.
3. A new file without a check must be there and hold something; a file that goes away must be gone.
4. Where nothing is declared and nothing can be checked, the plan says so: `without_proof`.

The plan that comes out is read, tried on, shown and approved like any other.
"""

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from pydantic_core import to_json

from silas.kernel.models import Data
from silas.stream.models import RequestKind

_PYTHON_TEST = re.compile(r"\A\s*(?:python[\d.]* -m (?:unittest|pytest)|py\.?test)\b")
_SETTING = re.compile(r"""["']?(?P<name>[\w.-]+)["']?\s*[:=]\s*["']?(?P<value>[\w.-]+)["']?,?""")
_CRON = r"^[0-9*/,-]+( [0-9*/,-]+){4}$"
_MOST_CHECKS = 3
_POSSIBLE = {
    None: ("task", "goal", "answer"),
    RequestKind.TASK: ("task", "answer"),
    RequestKind.GOAL: ("goal", "answer"),
    RequestKind.QUESTION: ("answer",),
}
_TEXT = {"type": "string", "minLength": 1}
_PATHS = {"type": "array", "items": _TEXT, "maxItems": 10}


class CheckFields(Data):
    """What must be so at the end: of a file, or told by a command that ends with 0."""

    file: str = ""
    contains: str = ""
    lacks: str = ""
    run: str = ""


class PlanFields(Data):
    """What a guided model says of a plan. `answer`: there is none, the message says it all."""

    kind: Literal["task", "goal", "answer"]
    title: str = ""
    schedule: str = ""
    add: list[str] = Field(default_factory=list)
    change: list[str] = Field(default_factory=list)
    remove: list[str] = Field(default_factory=list)
    steps: list[str] = Field(default_factory=list)
    checks: list[CheckFields] = Field(default_factory=list)
    message: str = ""


def fields_schema(asked: RequestKind | None, *, found: bool) -> dict[str, Any]:
    """What the server holds the model to: one object, whose first field decides about the rest.

    If it is known what was `asked` for, only that can be said, besides an answer. What was `found`
    for a question is its answer: there is nothing left to plan.
    """
    steps = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 8}
    checks: dict[str, Any] = {"type": "array", "items": _check_schema(), "maxItems": _MOST_CHECKS}
    paths = {"add": _PATHS, "change": _PATHS, "remove": _PATHS}
    task = {"title": _TEXT, **paths, "steps": steps, "checks": checks, "message": _TEXT}
    goal = {
        "title": _TEXT,
        "schedule": {"type": "string", "pattern": _CRON},
        "steps": steps,
        "checks": {**checks, "minItems": 1},
        "message": _TEXT,
    }
    forms: dict[str, dict[str, Any]] = {"task": task, "goal": goal, "answer": {"message": _TEXT}}
    possible = _POSSIBLE[asked] if asked is not RequestKind.QUESTION or found else tuple(forms)
    return {
        "type": "object",
        "description": "A plan, or an answer without one.",
        "anyOf": [_object({"kind": {"const": kind}, **forms[kind]}) for kind in possible],
    }


def _check_schema() -> dict[str, Any]:
    kinds = ({"file": _TEXT, "contains": _TEXT}, {"file": _TEXT, "lacks": _TEXT}, {"run": _TEXT})
    return {"anyOf": [_object(each) for each in kinds]}


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def response_of_fields(said: dict[str, Any], workspace: Path | None) -> dict[str, Any]:
    """What the fields mean as an `AgentResponse`; anything else is returned as it is."""
    if "kind" not in said:
        return said
    fields = PlanFields.model_validate(said)
    if fields.kind == "answer":
        return {"message": fields.message, "plan_action": None}
    markdown = plan_of_fields(fields, workspace)
    return {
        "message": fields.message or fields.title,
        "plan_action": {"action": "propose", "plan_markdown": markdown},
    }


def plan_of_fields(fields: PlanFields, workspace: Path | None) -> str:
    """The plan file."""
    place, paths = _placed(fields, workspace)
    changes = {
        kind: named
        for kind in ("add", "change", "remove")
        if (named := [paths[each] for each in getattr(fields, kind) if each in paths])
    }
    inside = {**({"path": place} if place else {}), **({"changes": changes} if changes else {})}
    checks = list(_checks(fields, paths))
    front: dict[str, Any] = {"type": fields.kind, "title": fields.title}
    if fields.kind == "goal":
        front["schedule"] = fields.schedule
    if inside:
        front["workspace"] = inside
    if checks:
        front["verify"] = checks
    elif fields.kind == "task" and not fields.change:
        front["without_proof"] = True
    front["on_stuck"] = "consult_planner"
    lines = [f"{key}: {to_json(value).decode()}" for key, value in front.items()]
    return "\n".join(["---", *lines, "---", "", *_body(fields, changes)])


def _body(fields: PlanFields, changes: dict[str, list[str]]) -> list[str]:
    steps = [f"{number}. {each}" for number, each in enumerate(fields.steps, 1)]
    told = {"add": "new", "change": "there already, to be changed", "remove": "to be removed"}
    files = [f"- `{path}`: {told[kind]}" for kind, paths in changes.items() for path in paths]
    lines = ["# What to do", *steps, ""]
    if files:
        lines += ["# Files", *files, "", "# Constraints", "Change no other file.", ""]
    return lines


def _placed(fields: PlanFields, workspace: Path | None) -> tuple[str | None, dict[str, str]]:
    """The folder, if the paths say where it is, and every path below it (rule 1)."""
    named = [*fields.add, *fields.change, *fields.remove, *(each.file for each in fields.checks)]
    clean = {each: posixpath.normpath(each.strip()) for each in named if each.strip()}
    holders = {each for each in clean.values() if _holds_another(each, clean.values())}
    clean = {said: each for said, each in clean.items() if each not in holders}
    whole = [each for each in clean.values() if each.startswith(("/", "~/"))]
    if not whole:
        return None, clean
    folder = _folder_of(whole, workspace)
    below = {said: each.removeprefix(f"{folder}/") for said, each in clean.items()}
    return folder, below


def _holds_another(path: str, others: Iterable[str]) -> bool:
    """Whether it is a folder: one that is named beside its files is no file itself."""
    return path in (".", "~") or any(each.startswith(f"{path}/") for each in others)


def _folder_of(whole: Sequence[str], workspace: Path | None) -> str:
    if workspace is not None and all(each.startswith(f"{workspace}/") for each in whole):
        return str(workspace)
    return posixpath.commonpath([posixpath.dirname(each) for each in whole])


def _checks(fields: PlanFields, paths: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Rules 2 and 3."""
    looked_at = set()
    for each in fields.checks[:_MOST_CHECKS]:
        path = paths.get(each.file, "")
        looked_at.add(path)
        if found := _check(each, path):
            yield found
    for path in (paths[each] for each in fields.add if each in paths and not fields.checks):
        yield _looks(f"{path} is there", f"cat {shlex.quote(path)}", not_empty=True)
    for path in (paths[each] for each in fields.remove if each in paths):
        if path not in looked_at:
            yield _looks(f"{path} is gone", f"test ! -e {shlex.quote(path)}", exit_code=0)


def _check(said: CheckFields, path: str) -> dict[str, Any] | None:
    file = shlex.quote(path)
    if path and (setting := _SETTING.fullmatch(said.contains.strip())):
        return _looks(f"{path} has {said.contains}", f"cat {file}", regex=_in_any_notation(setting))
    if path and said.contains:
        return _looks(f"{path} has {said.contains}", f"cat {file}", contains=said.contains)
    if path and said.lacks:
        text = shlex.quote(said.lacks)
        return _looks(f"{path} lacks {said.lacks}", f"grep -c -i -F -e {text} {file}", equals="0\n")
    if said.run.strip():
        command = said.run.strip()
        tests = _PYTHON_TEST.match(command) is not None
        return _looks(command, f"PYTHONPATH=. {command}" if tests else command, exit_code=0)
    return None


def _in_any_notation(setting: "re.Match[str]") -> str:
    """The same setting as JSON, YAML or a line of an ini file would write it."""
    name, value = re.escape(setting["name"]), re.escape(setting["value"])
    before, after = r"""(?m)^(?:[^#\n]*[\s{,"'])?""", r"""(?:["',}\s]|$)"""
    return rf"""{before}{name}["']?\s*[:=]\s*["']?{value}{after}"""


def _looks(name: str, run: str, **expect: Any) -> dict[str, Any]:
    shown = " ".join(name.split())[:200]
    return {"name": shown, "run": run, "expect": expect}
