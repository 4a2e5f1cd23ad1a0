"""What a kind of companion is, as its YAML file says it."""

from datetime import date
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from silas.companions.models import BudgetLimits, InteractionMode, ReportScope, TimerKind
from silas.companions.models.identity import SubscriptionPredicate
from silas.companions.policy.fields import PROVIDER_FIELDS
from silas.companions.tools.models import AgentCapability, AgentCapabilityProfile
from silas.gates.risk import RiskLevel
from silas.journal.notifications import TypedToken
from silas.kernel.field_problems import FieldProblem, refuse, text_like
from silas.kernel.models import Data
from silas.work.plan_keys import meant_instead

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
        "day_plan", "nothing",
    ] = "nothing"  # fmt: skip


class ReportDefinition(Data):
    """What a report looks like, and how long it is fresh."""

    scope: ReportScope = ReportScope.CURRENT
    max_age_hours: Annotated[int, Field(ge=1, le=24 * 366)] = 24
    headline: Line
    sections: Annotated[tuple[ReportSection, ...], Field(min_length=1, max_length=12)]


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
    mode: InteractionMode = InteractionMode.HYBRID
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
    offline: Literal["planner", "gym_coach", "strategist", "report_only"] = "report_only"
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
