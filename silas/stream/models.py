"""What the agents answer, and what they are given. An answer is a wish: the runtime decides."""

from enum import StrEnum
from typing import Generic, Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, model_validator

from silas.journal.wishes import JournalOp
from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.memory.models import MemoryOp, MemoryQuery
from silas.work.models import InteractionMode

MAX_MEMORY_QUERIES = 3
"""Recall, current state, related precedent; more would flood the context."""
MAX_JOURNAL_OPS = 5
"""What one message of the owner's can change; more is not said in one sentence."""

T = TypeVar("T")


class InteractionRegister(StrEnum):
    """What kind of conversation a turn is part of."""

    EXPLORATION = "exploration"
    EXECUTION = "execution"
    REVIEW = "review"
    STATUS = "status"


class PlanActionType(StrEnum):
    """What an agent wants to do with a plan."""

    PROPOSE = "propose"
    REVISE = "revise"
    EXECUTE_NEXT = "execute_next"
    ABORT = "abort"


class PlanAction(Data):
    """A plan that an agent proposes."""

    action: PlanActionType
    plan_markdown: str | None = None
    continuation_of: str | None = None
    interaction_mode_override: InteractionMode | None = None


class AgentResponse(Data):
    """What the proxy or the planner says to the user, and asks of the runtime."""

    message: str
    memory_queries: list[MemoryQuery] = Field(default_factory=list)
    memory_ops: list[MemoryOp] = Field(default_factory=list)
    journal_ops: list[JournalOp] = Field(default_factory=list)
    """The proxy's only, and only done if the owner said it: see `silas.stream.steps.journal`."""
    plan_action: PlanAction | None = None
    needs_approval: bool = True
    """A request only: without a valid token, everything needs approval."""

    @model_validator(mode="after")
    def _few(self) -> Self:
        if len(self.memory_queries) > MAX_MEMORY_QUERIES:
            raise ValueError(f"memory_queries: at most {MAX_MEMORY_QUERIES}")
        if len(self.journal_ops) > MAX_JOURNAL_OPS:
            raise ValueError(f"journal_ops: at most {MAX_JOURNAL_OPS}")
        return self


class RouteDecision(Data):
    """Who answers this turn, and how.

    The profiles that exist are given as validation context (`{"profiles": (...)}`).
    """

    route: Literal["direct", "planner"]
    reason: str
    response: AgentResponse | None = None
    interaction_register: InteractionRegister
    interaction_mode: InteractionMode
    continuation_of: str | None = None
    context_profile: str = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        if self.route == "direct" and self.response is None:
            raise ValueError("response is required when route is 'direct'")
        if self.route == "planner" and self.response is not None:
            raise ValueError("response must be null when route is 'planner'")
        profiles = (info.context or {}).get("profiles")
        if profiles is not None and self.context_profile not in profiles:
            raise ValueError(f"context_profile must be one of: {', '.join(profiles)}")
        return self


class Usage(Data):
    """What one call of an agent used."""

    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class Answered(Data, Generic[T]):
    """An agent's answer and what it cost. `fallback` says why it is not the agent's own."""

    output: T
    usage: Usage = Usage()
    taint: TaintLevel
    """What the answer is derived from, joined over everything that the agent has seen."""
    fallback: str | None = None


class AgentTurn(Data):
    """Everything that an agent is told for one answer."""

    scope_id: str
    trace_id: str
    request: str
    """The text to be answered, already framed if it is not the owner's."""
    context: str = ""
    """The rendered context of the scope."""
    directives: str = ""
    """How to speak; never what is allowed."""
    access_level: str = "owner"
    skills: dict[str, str] = Field(default_factory=dict)
    taint: TaintLevel
    max_tokens: int = Field(ge=1)
    max_cost_usd: float = Field(ge=0, allow_inf_nan=False)
