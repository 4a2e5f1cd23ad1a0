"""Reading a kind of companion from its YAML file, with every problem and the line that it is in."""

import types
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from silas.companions.errors import CompanionInvalid
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.models import TimerKind
from silas.companions.tools.catalogue import REGISTRY
from silas.companions.tools.registry import AgentToolRegistry
from silas.kernel.field_problems import FieldPath, FieldProblem, dotted, problems_in
from silas.kernel.yaml_positions import YamlDocument, YamlError, YamlLimits, load_yaml
from silas.scheduler import CronSchedule, InvalidCron
from silas.storage.errors import translated
from silas.work.plan_keys import meant_instead

_LIMITS = YamlLimits(characters=100_000, depth=12, values=2_000)
_DAILY = "must be a time of day such as `07:00`"


def load_definition(path: Path) -> CompanionDefinition:
    """The kind in this file; raises `CompanionInvalid` with a line for every problem."""
    with translated(str(path)):
        text = path.read_text("utf-8", errors="replace")
    return parse_definition(text, name=path.name)


def parse_definition(
    text: str, *, name: str = "companion.yaml", registry: AgentToolRegistry = REGISTRY
) -> CompanionDefinition:
    """The kind that this text describes; raises `CompanionInvalid`."""
    try:
        document = load_yaml(text, limits=_LIMITS)
    except YamlError as error:
        lines = [f"line {each.position.line}: {each.message}" for each in error.problems]
        raise _invalid(name, lines) from error
    try:
        definition = CompanionDefinition.model_validate(document.value)
    except ValidationError as error:
        raise _invalid(name, [_line(document, each) for each in problems_in(error)]) from error
    problems = definition_problems(definition, registry)
    if problems:
        raise _invalid(name, [_line(document, each) for each in problems])
    return definition


def definition_problems(
    definition: CompanionDefinition, registry: AgentToolRegistry
) -> list[FieldProblem]:
    """What a definition alone cannot tell: whether its tools exist, and its times are times."""
    return [
        *_tool_problems(definition, registry),
        *_read_problems(definition, registry),
        *_timer_problems(definition),
    ]


def _tool_problems(
    definition: CompanionDefinition, registry: AgentToolRegistry
) -> list[FieldProblem]:
    found = []
    for name in sorted(definition.tools):
        tool = registry.get(name)
        if tool is None:
            hint = meant_instead(name, list(registry.names))
            found.append(FieldProblem(("tools",), f"there is no tool `{name}`{hint}"))
        elif missing := sorted(tool.capabilities - definition.capabilities):
            lacking = ", ".join(missing)
            found.append(FieldProblem(("tools",), f"`{name}` needs the capability {lacking}"))
    return found


def _read_problems(
    definition: CompanionDefinition, registry: AgentToolRegistry
) -> list[FieldProblem]:
    found = []
    for number, read in enumerate(definition.reads):
        path: FieldPath = ("reads", number, "tool")
        tool = registry.get(read.tool)
        if tool is None or tool.writes:
            readable = [each.name for each in registry.tools if not each.writes]
            hint = meant_instead(read.tool, readable)
            found.append(FieldProblem(path, f"`{read.tool}` is no tool that only reads{hint}"))
        elif read.tool not in definition.tools:
            found.append(FieldProblem(path, f"`{read.tool}` is not among the tools"))
        else:
            inside = ("reads", number, "arguments")
            found += [
                FieldProblem((*inside, *problem.path), problem.message)
                for problem in tool.argument_problems(read.arguments_on(date.min))
            ]
    return found


def _timer_problems(definition: CompanionDefinition) -> list[FieldProblem]:
    found = []
    for number, timer in enumerate(definition.timers):
        path: FieldPath = ("timers", number, "expression")
        if timer.kind is TimerKind.CRON:
            try:
                CronSchedule.parse(timer.expression)
            except InvalidCron as error:
                found.append(FieldProblem(path, str(error)))
        elif timer.kind is TimerKind.DAILY and not _is_time(timer.expression):
            found.append(FieldProblem(path, _DAILY))
        elif timer.kind is TimerKind.ONCE:
            found.append(FieldProblem(("timers", number, "kind"), "must be one of: daily, cron"))
    return found


def _is_time(text: str) -> bool:
    hour, colon, minute = text.partition(":")
    if not colon or not (hour + minute).isascii() or not (hour + minute).isdecimal():
        return False
    return len(hour) == len(minute) == 2 and int(hour) < 24 and int(minute) < 60


def _line(document: YamlDocument, problem: FieldProblem) -> str:
    path, message = problem
    if message == "is not a known key" and path:
        message += meant_instead(str(path[-1]), _keys_at(CompanionDefinition, path[:-1]))
        where = document.key_position(path)
    else:
        where = document.position(path)
    return f"line {where.line}: {dotted(path)} {message}".replace("  ", " ")


def _keys_at(model: Any, path: FieldPath) -> list[str]:
    """The keys that may stand at this path."""
    for part in path:
        if isinstance(part, str) and _is_model(model):
            field = model.model_fields.get(part)
            model = field.annotation if field else None
        while not _is_model(model) and (inner := _inner(model)) is not None:
            model = inner
    return list(model.model_fields) if _is_model(model) else []


def _inner(annotation: Any) -> Any:
    arguments = [each for each in get_args(annotation) if each not in (Ellipsis, types.NoneType)]
    if isinstance(annotation, types.UnionType) or arguments:
        return arguments[-1] if arguments else None
    return None


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _invalid(name: str, lines: list[str]) -> CompanionInvalid:
    told = "\n".join(f"  {name}, {line}" for line in lines)
    return CompanionInvalid(f"This is not a companion yet:\n{told}", problems=lines)


def known_kinds(folder: Path | None) -> Mapping[str, Path]:
    """The owner's own kinds: each `NAME.yaml` in the folder, by its name."""
    if folder is None or not folder.is_dir():
        return {}
    return {each.stem: each for each in sorted(folder.glob("*.yaml"))}
