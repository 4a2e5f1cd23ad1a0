"""The registry: every tool with its contract. What is not registered cannot be called."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ValidationError

from silas.companions.errors import InvalidArguments
from silas.companions.models import WakeReason
from silas.companions.ports import ToolSketch
from silas.companions.tools.models import (
    AgentCapability,
    IdempotencyStrategy,
    ScopeRule,
    SideEffects,
    ToolClass,
    ToolEffect,
)
from silas.companions.tools.reach import ToolReach
from silas.gates.risk import RiskLevel
from silas.kernel.field_problems import FieldProblem, dotted, problems_in

Handler = Callable[[ToolReach, Any], Awaitable[ToolEffect]]
"""Does what the tool is for, within the reach that it is given; gets the validated arguments."""

ALL_REASONS = frozenset(WakeReason)
_HIGH = (RiskLevel.HIGH, RiskLevel.IRREVERSIBLE)


@dataclass(frozen=True)
class Tool:
    """One tool: what it takes and gives, who may call it when, and what it changes."""

    name: str
    version: int
    description: str
    input: type[BaseModel]
    output: type[BaseModel]
    capabilities: frozenset[AgentCapability]
    risk_level: RiskLevel
    tool_class: ToolClass
    idempotency: IdempotencyStrategy
    scope_rules: tuple[ScopeRule, ...]
    handler: Handler
    side_effects: SideEffects = field(default_factory=SideEffects)
    high_when: Callable[[Any], bool] | None = None
    """Which arguments make a call of it a high risk."""
    allowed_wake_reasons: frozenset[WakeReason] = ALL_REASONS
    data_minimization_policy_ref: str = "provider_inference_request/companion_run"

    @property
    def writes(self) -> bool:
        return self.idempotency is IdempotencyStrategy.OPERATION_ID

    @property
    def classes(self) -> frozenset[ToolClass]:
        """Everything that stops this tool when it is stopped."""
        found = {self.tool_class, ToolClass.WRITE if self.writes else ToolClass.READ}
        return frozenset(found | ({ToolClass.HIGH_RISK} if self.high_risk else set()))

    def classes_of(self, arguments: BaseModel) -> frozenset[ToolClass]:
        """Everything that stops a call with these arguments."""
        high = self.risk_of(arguments) in _HIGH
        return self.classes | ({ToolClass.HIGH_RISK} if high else frozenset())

    @property
    def high_risk(self) -> bool:
        return self.risk_level in _HIGH

    def risk_of(self, arguments: BaseModel) -> RiskLevel:
        """The risk of a call with these arguments."""
        raised = self.high_when is not None and self.high_when(arguments)
        return RiskLevel.HIGH if raised and not self.high_risk else self.risk_level

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return self.input.model_json_schema()

    @property
    def sketch(self) -> ToolSketch:
        return ToolSketch(name=self.name, description=self.description, parameters=self.parameters)

    def read_arguments(self, arguments: Mapping[str, Any]) -> BaseModel:
        """The arguments, validated; raises `InvalidArguments`."""
        try:
            return self.input.model_validate(dict(arguments))
        except ValidationError as error:
            told = "; ".join(f"{dotted(path)}: {text}" for path, text in problems_in(error))
            raise InvalidArguments(f"These arguments do not fit {self.name}: {told}") from error

    def argument_problems(self, arguments: Mapping[str, Any]) -> list[FieldProblem]:
        """What is wrong with the arguments, field by field."""
        try:
            self.input.model_validate(dict(arguments))
        except ValidationError as error:
            return problems_in(error)
        return []


class AgentToolRegistry:
    """The tools by their names."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def get(self, name: str) -> Tool | None:
        """The tool of exactly this name, or None."""
        return self._tools.get(name)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)
