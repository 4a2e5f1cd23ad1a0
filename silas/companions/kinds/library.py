"""The kinds of companions, read from their YAML files; and what each companion was made from.

Five kinds come with Silas, further ones are files of the owner's. Reading one tells every problem
with the line that it is in. The definition that a companion was made from is kept with it.
"""

import types
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.ids import digest
from silas.companions.messages import KeptDefinition
from silas.companions.models import (
    AgentInteractionMode,
    BudgetLimits,
    ReportScope,
    SubscriptionPredicate,
    TimerKind,
)
from silas.companions.projection import PROVIDER_FIELDS
from silas.companions.store import CompanionStore, among
from silas.companions.timers import TIME_OF_DAY
from silas.companions.tools.registry import (
    AgentCapability,
    AgentCapabilityProfile,
    AgentToolRegistry,
)
from silas.gates.risk import RiskLevel
from silas.journal.notifications import TypedToken
from silas.kernel.models import (
    Data,
    FieldPath,
    FieldProblem,
    dotted,
    problems_in,
    refuse,
    text_like,
)
from silas.kernel.yaml_positions import YamlDocument, YamlError, YamlLimits, load_yaml
from silas.scheduler import CronSchedule, InvalidCron
from silas.storage import Transaction
from silas.storage.errors import translated
from silas.work.plan_text import meant_instead

Name = Annotated[
    str,
    text_like(r"[a-z][a-z0-9_]{0,39}", "must be small letters, digits and `_`, up to 40 of them"),
]
TODAY = "today"
_BUDGET: Final[dict[str, Any]] = {
    "tokens": 200_000,
    "cost_micro_usd": 1_000_000,
    "runtime_ms": 600_000,
    "tool_calls": 500,
}
Line = Annotated[str, Field(min_length=1, max_length=500)]
Lines = Annotated[str, Field(min_length=1, max_length=4_000)]


class SubscriptionDefinition(Data):
    """A change that wakes the companion. Only changes in its own categories ever do."""

    name: Name
    tokens: Annotated[tuple[TypedToken, ...], Field(min_length=1, max_length=20)]
    predicate: SubscriptionPredicate = SubscriptionPredicate()


class TimerDefinition(Data):
    """A time at which the companion wakes, on the owner's clock."""

    name: Name
    kind: TimerKind = TimerKind.DAILY
    expression: Line


class ReadDefinition(Data):
    """What is looked up at the start of every run; `today` stands for the owner's day."""

    tool: Name
    arguments: dict[str, Any] = Field(default_factory=dict)
    scope: ReportScope | None = None
    """Only where a report of this scope is written; None: in every run."""

    def arguments_on(self, day: date) -> dict[str, Any]:
        """The arguments on this day."""
        return {
            name: day.isoformat() if value == TODAY else value
            for name, value in self.arguments.items()
        }


class ReportSection(Data):
    """A part of the report, and what the offline brain puts into it."""

    id: Name
    title: Line
    shows: Literal[
        "changed", "open_tasks", "overdue", "due_soon", "done", "checklists", "time", "ratings",
        "day_plan", "streak", "nothing",
    ] = "nothing"  # fmt: skip


class LongerReport(Data):
    """A report of another time, made from the facts in the first run of that day, week or month."""

    scope: ReportScope
    headline: Line
    max_age_hours: Annotated[int, Field(ge=1, le=24 * 366)] | None = None


class ReportDefinition(Data):
    """What a report looks like, and how long it is fresh.

    `scope` is written in every run, by the model if there is one; what it writes is filed there.
    """

    scope: ReportScope = ReportScope.CURRENT
    max_age_hours: Annotated[int, Field(ge=1, le=24 * 366)] = 24
    headline: Line
    sections: Annotated[tuple[ReportSection, ...], Field(min_length=1, max_length=12)]
    also: Annotated[tuple[LongerReport, ...], Field(max_length=3)] = ()

    @property
    def scopes(self) -> tuple[ReportScope, ...]:
        """Every scope that it is written for, its own first."""
        return (self.scope, *(each.scope for each in self.also))

    def headline_of(self, scope: ReportScope) -> str:
        """What a report of this scope is called."""
        return next((each.headline for each in self.also if each.scope is scope), self.headline)


class PersonaDefinition(Data):
    """How the companion speaks, to begin with."""

    voice: Line
    directives: Annotated[tuple[Line, ...], Field(max_length=20)] = ()
    tone_bounds: dict[Name, Line] = Field(default_factory=dict)
    coaching_style: Line | None = None
    anti_sycophancy_policy: Line | None = None


class CompanionDefinition(Data):
    """A kind of companion, whole."""

    kind: Name
    version: Annotated[int, Field(ge=1)] = 1
    display_name: Annotated[str, Field(min_length=1, max_length=120)]
    summary: Line
    instructions: Lines
    """What it is there for; a model is told this."""
    mode: AgentInteractionMode = AgentInteractionMode.HYBRID
    capabilities: Annotated[frozenset[AgentCapability], Field(min_length=1)]
    tools: Annotated[frozenset[Name], Field(min_length=1)]
    confirm_from: Literal[RiskLevel.LOW, RiskLevel.MEDIUM, RiskLevel.HIGH] = RiskLevel.MEDIUM
    """From which risk on a write needs the owner's yes. What is high always needs it."""
    subscriptions: Annotated[tuple[SubscriptionDefinition, ...], Field(max_length=20)] = ()
    timers: Annotated[tuple[TimerDefinition, ...], Field(max_length=10)] = ()
    reads: Annotated[tuple[ReadDefinition, ...], Field(max_length=10)] = ()
    report: ReportDefinition
    persona: PersonaDefinition
    budget: BudgetLimits = BudgetLimits(**_BUDGET)
    """What is not named has the usual limit; only `null` means none."""
    offline: Literal[
        "planner", "gym_coach", "strategist", "pomodoro", "task_keeper", "report_only"
    ] = "report_only"
    """What the offline brain does for it besides the report."""
    provider_fields: frozenset[str] | None = None
    """Which fields a model may be shown; None: all that any companion may show one."""

    @property
    def profile(self) -> AgentCapabilityProfile:
        """What it may do."""
        return AgentCapabilityProfile(capabilities=self.capabilities, tools=self.tools)

    @field_validator("budget", mode="before")
    @classmethod
    def _usual_limits(cls, budget: Any) -> Any:
        return {**_BUDGET, **budget} if isinstance(budget, dict) else budget

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        refuse([*_twice(self), *_unknown_fields(self)])
        return self


def _twice(definition: CompanionDefinition) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    named: dict[str, list[str]] = {
        "subscriptions": [each.name for each in definition.subscriptions],
        "timers": [each.name for each in definition.timers],
    }
    scopes = definition.report.scopes
    found += [
        FieldProblem(("report", "also", number, "scope"), "is written twice")
        for number, scope in enumerate(scopes[1:])
        if scope in scopes[: number + 1]
    ]
    for key, names in named.items():
        found += [
            FieldProblem((key, number, "name"), "is used twice")
            for number, name in enumerate(names)
            if name in names[:number]
        ]
    return found


def _unknown_fields(definition: CompanionDefinition) -> list[FieldProblem]:
    return [
        FieldProblem(
            ("provider_fields",),
            f"`{name}` can never be shown to a model{meant_instead(name, sorted(PROVIDER_FIELDS))}",
        )
        for name in sorted((definition.provider_fields or frozenset()) - PROVIDER_FIELDS)
    ]


_LIMITS = YamlLimits(characters=100_000, depth=12, values=2_000)
_DAILY = "must be a time of day such as `07:00`"
_HASHES = "SELECT agent_id, definition_hash FROM agent_definitions WHERE true{these}"
_BODIES = "SELECT definition_hash, body FROM agent_definitions WHERE true{these}"
BUILT_IN = ("planner", "gym_coach", "strategist", "pomodoro", "task_keeper")


class KindLibrary:
    """Kinds by name. A file of the owner's cannot take the place of one that comes with Silas."""

    def __init__(self, registry: AgentToolRegistry, folder: Path | None = None) -> None:
        """`registry` has the tools that a kind may name; `folder` has the owner's own kinds."""
        self._registry = registry
        self._folder = folder
        self._built_in: dict[str, CompanionDefinition] = {}

    def names(self) -> tuple[str, ...]:
        """What can be made, whether or not it is in order."""
        return (*BUILT_IN, *(name for name in self._own() if name not in BUILT_IN))

    def get(self, kind: str) -> CompanionDefinition:
        """The kind of this name; raises `CompanionInvalid` with what is wrong or close to it."""
        if kind in BUILT_IN:
            return self._built_in.get(kind) or self._built_in.setdefault(kind, self._shipped(kind))
        path = self._own().get(kind)
        if path is None:
            hint = meant_instead(kind, list(self.names()))
            raise CompanionInvalid(f"There is no kind of companion `{kind[:60]}`{hint or '.'}")
        return self.read(path)

    def read(self, path: Path) -> CompanionDefinition:
        """The kind in a file; raises `CompanionInvalid` with a line for every problem."""
        with translated(str(path)):
            text = path.read_text("utf-8", errors="replace")
        definition = parse_definition(text, registry=self._registry, name=path.name)
        if definition.kind in BUILT_IN:
            raise CompanionInvalid(
                f"`{definition.kind}` comes with Silas. Give your own kind another name."
            )
        return definition

    def _own(self) -> Mapping[str, Path]:
        """The owner's own kinds: each `NAME.yaml` in the folder, by its name."""
        if self._folder is None or not self._folder.is_dir():
            return {}
        return {each.stem: each for each in sorted(self._folder.glob("*.yaml"))}

    def _shipped(self, kind: str) -> CompanionDefinition:
        text = (files("silas.companions.kinds") / kind / "companion.yaml").read_text("utf-8")
        return parse_definition(text, registry=self._registry, name=f"{kind}/companion.yaml")


class Definitions:
    """Definitions by companion. Without one a companion can do nothing."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def of(self, agent_id: str) -> CompanionDefinition:
        """The definition; raises `CompanionUnknown`."""
        kept = await self._store.get(KeptDefinition, agent_id)
        if kept is None:
            raise CompanionUnknown(f"It is not known what {agent_id} may do, so it does nothing.")
        return CompanionDefinition.model_validate(kept.definition)

    async def all(self, agent_ids: Sequence[str] | None = None) -> dict[str, CompanionDefinition]:
        """The definitions of all, or of these, by companion; the same one is read once."""
        fetch = self._store.database.fetch_all
        hashes: dict[str, str] = dict(await fetch(*among(_HASHES, "agent_id", agent_ids)))
        one_each = {definition_hash: agent for agent, definition_hash in hashes.items()}
        rows = await fetch(*among(_BODIES, "agent_id", list(one_each.values())))
        read = {
            definition_hash: CompanionDefinition.model_validate(
                KeptDefinition.model_validate_json(body).definition
            )
            for definition_hash, body in rows
        }
        return {agent: read[definition_hash] for agent, definition_hash in hashes.items()}

    def keep_in(self, tx: Transaction, agent_id: str, definition: CompanionDefinition) -> None:
        """Keep a definition for a companion."""
        plain = definition.model_dump(mode="json")
        # Sets have no order: without one the same definition would have several hashes.
        plain["tools"], plain["capabilities"] = (
            sorted(plain["tools"]),
            sorted(plain["capabilities"]),
        )
        self._store.put_in(
            tx,
            KeptDefinition(
                agent_id=agent_id,
                definition=plain,
                definition_hash=digest("definition", plain),
                updated_at=self._store.clock.now(),
            ),
        )


def parse_definition(
    text: str, *, registry: AgentToolRegistry, name: str = "companion.yaml"
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
        if tool is None or not tool.offered:
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
            readable = [each.name for each in registry.tools.values() if not each.writes]
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
        elif timer.kind is TimerKind.DAILY and not TIME_OF_DAY.fullmatch(timer.expression):
            found.append(FieldProblem(path, _DAILY))
        elif timer.kind is TimerKind.ONCE:
            found.append(FieldProblem(("timers", number, "kind"), "must be one of: daily, cron"))
    return found


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
    listed = "\n".join(f"  {name}, {line}" for line in lines)
    return CompanionInvalid(f"This is not a companion yet:\n{listed}", problems=lines)
