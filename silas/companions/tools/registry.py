"""Tool calls and their results, and the registry: every tool with its contract.

Companions' tools are declared and registered as all tools are (`silas.tools.declaration`): what a
tool does to the journal and which tool undoes it decide how risky a call is. A tool that does not
declare it counts as a write that is irreversible. A handler reaches the journal, within one scope,
under one operation, and nothing else.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field, ValidationError

from silas.approval import ApprovalScope
from silas.companions.errors import InvalidArguments
from silas.companions.models import ToolResultStatus, WakeReason
from silas.companions.ports import ToolSketch
from silas.gates.risk import RiskLevel, risk_of_tool, riskiest
from silas.journal.models import AccessScope
from silas.journal.store import Guard, Journal
from silas.kernel import TaintLevel
from silas.kernel.models import Data, FieldProblem, problem_text, problems_in
from silas.tools.declaration import ToolDeclaration, ToolRegistry


class AgentCapability(StrEnum):
    """What a companion may be able to do at all."""

    CATEGORY_READ = "category_read"
    TASK_READ = "task_read"
    TASK_WRITE = "task_write"
    CHECKLIST_WRITE = "checklist_write"
    TIME_WRITE = "time_write"
    DAY_PLAN_READ = "day_plan_read"
    DAY_PLAN_WRITE = "day_plan_write"
    RATING_READ = "rating_read"
    RATING_WRITE = "rating_write"


class ToolClass(StrEnum):
    """What can be stopped together."""

    READ = "read"
    WRITE = "write"
    TASK = "task"
    CHECKLIST = "checklist"
    TIME = "time"
    DAY_PLAN = "day_plan"
    RATING = "rating"
    HIGH_RISK = "high_risk"
    MODEL = "model"
    """Asking a model; no tool, but stopped like one."""


class AgentCapabilityProfile(Data):
    """What a companion may do: whatever is not named is not allowed."""

    capabilities: frozenset[AgentCapability]
    tools: frozenset[str]

    def allows(self, tool_name: str, needed: frozenset[AgentCapability]) -> bool:
        """Whether the tool is named and everything that it needs is granted."""
        return tool_name in self.tools and bool(needed) and needed <= self.capabilities


class AgentAccessScope(Data):
    """The categories that a call may touch; an empty scope touches nothing."""

    allowed_category_ids: frozenset[str]


class AgentToolCall(Data):
    """One call, as it is checked, approved and executed."""

    agent_id: str
    agent_kind: str
    thread_id: str
    run_key: str
    tool_name: str
    operation_id: str
    wake_reason: WakeReason
    scope: AgentAccessScope
    arguments: dict[str, Any] = Field(default_factory=dict)
    preview_only: bool = False
    taint: TaintLevel = TaintLevel.EXTERNAL
    """Whose words it is made of; where nobody has looked, anybody's."""


class AgentToolResult(Data):
    """What came of a call, for the memory, for retries and for the trace."""

    success: bool
    status: ToolResultStatus
    tool_action_id: str
    tool_name: str
    operation_id: str
    changed_entity_ids: tuple[str, ...] = ()
    changed_tokens: tuple[str, ...] = ()
    payload: dict[str, Any] = Field(default_factory=dict)
    error_code: str | None = None
    error_message: str | None = None


class ToolEffect(Data):
    """What a handler did, or would do if this is a preview."""

    payload: dict[str, Any] = Field(default_factory=dict)
    changed_entity_ids: tuple[str, ...] = ()
    changed_tokens: tuple[str, ...] = ()


class SideEffects(Data):
    """What a tool may change, and which tokens tell others about it."""

    entity_types: tuple[str, ...] = ()
    notification_tokens: tuple[str, ...] = ()


class IdempotencyStrategy(StrEnum):
    """Why a call that is made twice has one effect."""

    READ_ONLY = "read_only"
    OPERATION_ID = "operation_id"


class ScopeRule(StrEnum):
    """How the category boundary is kept."""

    FILTER_BY_SCOPE = "filter_by_scope"
    """A read sees only what lies in the scope."""
    TARGET_IN_SCOPE = "target_in_scope"
    """What is written lies in the scope, before and after."""
    SOURCE_AND_DESTINATION_IN_SCOPE = "source_and_destination_in_scope"
    """Both ends of a move lie in the scope."""


@dataclass(frozen=True)
class ToolReach:
    """Handed to a handler for one call; nothing else is within its reach."""

    journal: Journal
    scope: AccessScope
    actor: str
    operation_id: str
    preview_only: bool
    now: datetime
    zone: ZoneInfo
    guard: Guard | None = None
    """Has the last word in the journal's own transaction."""

    @property
    def categories(self) -> frozenset[str]:
        """The categories that are in reach; without a scope, none."""
        return self.scope.allowed_category_ids or frozenset()


Handler = Callable[[ToolReach, Any], Awaitable[ToolEffect]]
"""Does what the tool is for, within the reach that it is given; gets the validated arguments."""

ALL_REASONS = frozenset(WakeReason)
_HIGH = (RiskLevel.HIGH, RiskLevel.IRREVERSIBLE)


@dataclass(frozen=True, kw_only=True)
class CompanionTool(ToolDeclaration):
    """One tool: what it takes and gives, who may call it when, and what it changes."""

    version: int
    output: type[BaseModel]
    capabilities: frozenset[AgentCapability]
    tool_class: ToolClass
    scope_rules: tuple[ScopeRule, ...]
    handler: Handler
    side_effects: SideEffects = field(default_factory=SideEffects)
    high_when: Callable[[Any], bool] | None = None
    """Which arguments make a call of it a high risk."""
    allowed_wake_reasons: frozenset[WakeReason] = ALL_REASONS
    data_minimization_policy_ref: str = "provider_inference_request/companion_run"

    @property
    def writes(self) -> bool:
        """Whether it may change something; also if nobody has said what it does."""
        return not self.only_observes

    @property
    def idempotency(self) -> IdempotencyStrategy:
        return IdempotencyStrategy.OPERATION_ID if self.writes else IdempotencyStrategy.READ_ONLY

    @property
    def sketch(self) -> ToolSketch:
        offer = self.offer
        return ToolSketch(
            name=self.name, description=offer.description, parameters=offer.parameters
        )

    def read_arguments(self, arguments: Mapping[str, Any]) -> BaseModel:
        """The arguments, validated; raises `InvalidArguments`."""
        try:
            return self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            problems = problem_text(error)
            raise InvalidArguments(f"These arguments do not fit {self.name}: {problems}") from error

    def argument_problems(self, arguments: Mapping[str, Any]) -> list[FieldProblem]:
        """What is wrong with the arguments, field by field."""
        try:
            self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            return problems_in(error)
        return []


class AgentToolRegistry(ToolRegistry[CompanionTool]):
    """The tools of companions by their names, and the risk that follows from their declarations."""

    def risk_of(self, tool: CompanionTool, arguments: BaseModel | None = None) -> RiskLevel:
        """The risk of a call; without arguments, that of the tool.

        Whose words a call is made of does not count here: the owner's card shows that.
        """
        level = risk_of_tool(
            ApprovalScope.SINGLE_STEP,
            self.effect_of(tool.name),
            taint=TaintLevel.EXTERNAL,
            inside_envelope=True,
        )
        raised = arguments is not None and tool.high_when is not None and tool.high_when(arguments)
        return riskiest(level, RiskLevel.HIGH) if raised else level

    def classes_of(
        self, tool: CompanionTool, arguments: BaseModel | None = None
    ) -> frozenset[ToolClass]:
        """Every class that stops a call when the owner stops it."""
        found = {tool.tool_class, ToolClass.WRITE if tool.writes else ToolClass.READ}
        if self.risk_of(tool, arguments) in _HIGH:
            found.add(ToolClass.HIGH_RISK)
        return frozenset(found)
