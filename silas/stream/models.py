"""What the agents answer, and what they are given. An answer is a wish: the runtime decides."""

from enum import StrEnum
from typing import Annotated, Generic, Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator

from silas.journal.conversation import JournalOp
from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.memory.models import MemoryOp, MemoryQuery
from silas.queue.models import RequestFolders
from silas.stream.attachments import AgentFile
from silas.work.models import InteractionMode

MAX_TEXT = 100_000
"""The longest text that an agent can send anybody, in characters."""
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


PLANNED = (PlanActionType.PROPOSE, PlanActionType.REVISE)
"""What comes with a plan; the others are about work that is there already."""


ALL_WATCHES = "*"
"""In the place of the id of work that is to be stopped: everything that is watched."""
WHAT_RUNS = "*running"
"""The same: what this conversation has set going and has not ended."""
LAST_UNDO = "*undo"
"""In the place of the id of work to go on with: the undo that was offered last."""
WHAT_CAN_BE_SAID = "the owner asks what can be said"
"""The reason of an answer that only lists requests: agents are not told of it later."""


class PlanAction(Data):
    """A plan that an agent proposes."""

    action: PlanActionType
    plan_markdown: str | None = None
    continuation_of: str | None = None
    interaction_mode_override: InteractionMode | None = None


_MAX_CHIPS = 4
_MAX_CHIP_CHARS = 120
Chip = Annotated[str, Field(min_length=1, max_length=_MAX_CHIP_CHARS)]


class AgentResponse(Data):
    """What the proxy or the planner says to the user, and asks of the runtime."""

    message: str
    memory_queries: list[MemoryQuery] = Field(default_factory=list)
    memory_ops: list[MemoryOp] = Field(default_factory=list)
    journal_ops: list[JournalOp] = Field(default_factory=list)
    """The proxy's only, and only done if the owner said it: see `silas.stream.steps.records`."""
    plan_action: PlanAction | None = None
    needs_approval: bool = True
    """A request only: without a valid token, everything needs approval."""
    chips: list[Chip] = Field(default_factory=list)
    """What the person could say next, to tap. It is sent as the person's own words, so none is
    offered where text from outside had a part in the answer."""

    @field_validator("chips", mode="before")
    @classmethod
    def _few_and_short(cls, chips: object) -> object:
        """What is too long or too many to tap is left out: an answer is not refused for it."""
        if not isinstance(chips, list):
            return []
        short = (each for each in chips if isinstance(each, str))
        return [each.strip() for each in short if 0 < len(each.strip()) <= _MAX_CHIP_CHARS][
            :_MAX_CHIPS
        ]

    @model_validator(mode="after")
    def _few(self) -> Self:
        if len(self.memory_queries) > MAX_MEMORY_QUERIES:
            raise ValueError(f"memory_queries: at most {MAX_MEMORY_QUERIES}")
        if len(self.journal_ops) > MAX_JOURNAL_OPS:
            raise ValueError(f"journal_ops: at most {MAX_JOURNAL_OPS}")
        return self


class RequestKind(StrEnum):
    """What a request for a plan is, where the front door has said so."""

    TASK = "task"
    GOAL = "goal"
    """It repeats."""
    QUESTION = "question"
    """It is answered by looking."""


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
    request_kind: RequestKind | None = None
    """For the planner, as a hint; None where nobody has said."""

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
    sources: tuple[str, ...] = ()
    """The strangers' texts among it, as far as the runtime has seen them."""
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
    interaction_register: InteractionRegister | None = None
    interaction_mode: InteractionMode | None = None
    """How to proceed, as the runtime has resolved it; None where it is not known yet."""
    request_kind: RequestKind | None = None
    """What the front door takes the request for; None where nobody has said."""
    access_level: str = "owner"
    briefing: str = ""
    """What the owner's goal says about how visitors are to be answered; empty for the owner."""
    customer: str = ""
    """The record of the customer who has proven to be one, as JSON: it informs."""
    goal_tools: tuple[str, ...] = ()
    """The tools of the goal that this visitor has reached."""
    skills: dict[str, str] = Field(default_factory=dict)
    folders: RequestFolders = RequestFolders()
    """Where work happens, and what research can read."""
    files: tuple[AgentFile, ...] = ()
    """What is attached to the message."""
    earlier_plan: str = ""
    """The plan that the request wants changed."""
    problem: str = ""
    """Why the plan that the agent has just written cannot be used."""
    taint: TaintLevel
    taint_sources: list[str] = Field(default_factory=list)
    """The strangers' texts in it; for the runtime, no agent is told."""
    max_tokens: int = Field(ge=1)
    max_cost_usd: float = Field(ge=0, allow_inf_nan=False)
