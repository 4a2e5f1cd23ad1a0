"""What travels on the bus: one kind of envelope, and a payload for each kind of message.

A message names a work item by its id and never carries one, nor a token: whoever executes loads
both from their stores, so that a forged or altered row on the bus can authorise nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, ModelWrapValidatorHandler, Tag, model_validator

from silas.kernel import TaintLevel
from silas.kernel.models import Data, UtcDatetime

MAX_CONTENT_CHARS = 1_000_000

Identifier = Annotated[str, Field(min_length=1, max_length=200)]


class Agent(StrEnum):
    """Who sends, and where an error came from."""

    USER = "user"
    PROXY = "proxy"
    PLANNER = "planner"
    EXECUTOR = "executor"
    RUNTIME = "runtime"


class QueueName(StrEnum):
    """The queues; each has one kind of consumer."""

    PROXY = "proxy_queue"
    PLANNER = "planner_queue"
    EXECUTOR = "executor_queue"
    RUNTIME = "runtime_queue"
    CHANNEL = "channel_queue"
    """What is on its way to a person: answers and reports, until a channel has delivered them."""
    COMPANION = "companion_queue"


class MessageKind(StrEnum):
    """What a message is."""

    USER_MESSAGE = "user_message"
    PLAN_REQUEST = "plan_request"
    PLAN_RESULT = "plan_result"
    RESEARCH_REQUEST = "research_request"
    RESEARCH_RESULT = "research_result"
    EXECUTION_REQUEST = "execution_request"
    EXECUTION_STATUS = "execution_status"
    CONSULT_PLANNER = "consult_planner"
    PLANNER_GUIDANCE = "planner_guidance"
    REPLAN_REQUEST = "replan_request"
    AGENT_RESPONSE = "agent_response"
    SYSTEM_EVENT = "system_event"
    COMPANION_WAKE = "companion_wake"


class Urgency(StrEnum):
    """What is leased first."""

    BACKGROUND = "background"
    INFORMATIONAL = "informational"
    NEEDS_ATTENTION = "needs_attention"


class ErrorCode(StrEnum):
    """Why something on the bus failed."""

    TOOL_FAILURE = "tool_failure"
    BUDGET_EXCEEDED = "budget_exceeded"
    GATE_BLOCKED = "gate_blocked"
    APPROVAL_DENIED = "approval_denied"
    VERIFICATION_FAILED = "verification_failed"
    TIMEOUT = "timeout"


class ExecutionStatus(StrEnum):
    """How far a work item is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STUCK = "stuck"
    BLOCKED = "blocked"
    VERIFICATION_FAILED = "verification_failed"


class Checked(Data):
    """Data that knows whether it was validated: `model_construct` and `model_copy` do not."""

    # Not a field, and not copied with the fields: a copy may have been changed.
    __slots__ = ("_checked",)

    @model_validator(mode="wrap")
    @classmethod
    def _note_check(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(value)
        # An object that comes from elsewhere is passed on as it is.
        if made is not value:
            object.__setattr__(made, "_checked", True)
        return made

    @property
    def was_checked(self) -> bool:
        """Whether this very object was validated when it was made."""
        return getattr(self, "_checked", False)


class StatusPayload(Checked):
    """What became of a work item."""

    status: ExecutionStatus
    detail: str | None = None
    attempt_number: int | None = None
    budget_remaining_tokens: int | None = None
    budget_remaining_usd: float | None = Field(default=None, allow_inf_nan=False)


class ErrorPayload(Checked):
    """A failure that is not a status."""

    error_code: ErrorCode
    retryable: bool
    origin_agent: Literal[Agent.PROXY, Agent.PLANNER, Agent.EXECUTOR, Agent.RUNTIME]
    attempt_number: int
    detail: str


class UserMessage(Checked):
    """Where a message came from. Its text is the content; its signature makes it the owner's."""

    channel: Identifier
    connection_id: Identifier
    sender_id: Identifier
    timestamp: UtcDatetime
    signature: str | None = None
    """Base64, over text, timestamp and nonce."""
    nonce: str | None = None
    attachments: list[str] = Field(default_factory=list)
    reply_to: str | None = None


class PlanRequest(Checked):
    """What the planner is asked to plan; the request itself is the content."""

    connection_id: Identifier
    interaction_register: str
    interaction_mode: str
    continuation_of: str | None = None
    goal_id: str | None = None


class PlanResult(Checked):
    """The planner's answer; the plan, if there is one, is the message's `plan_markdown`."""

    connection_id: Identifier
    needs_approval: bool = True
    interaction_register: str = "execution"
    interaction_mode: str | None = None
    """As the request had them."""
    interaction_mode_override: str | None = None
    continuation_of: str | None = None
    memory_ops: list[dict[str, Any]] = Field(default_factory=list)
    memory_queries: list[dict[str, Any]] = Field(default_factory=list)
    replaces: str | None = None
    """The work item that this plan is a new approach to."""


class ResearchConstraints(Checked):
    """What an answer must look like, and how it may be found."""

    return_format: str
    max_tokens: int = Field(default=500, ge=1, le=20_000)
    tools_allowed: list[str] = Field(
        default_factory=lambda: ["web_search", "read_file", "memory_search"]
    )


class ResearchRequest(Checked):
    """One question of the planner's; the question is the content."""

    research_id: Identifier
    request_id: Identifier
    """The plan request for which the planner asks."""
    round: int = Field(ge=1)
    deadline: UtcDatetime


class ResearchResult(Checked):
    """What was found; the text is the content."""

    research_id: Identifier
    request_id: Identifier
    ok: bool
    sources: list[str] = Field(default_factory=list)
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class ExecutionRequest(Checked):
    """Execute this item now. Whether that is allowed is decided by its approval alone."""

    work_item_id: Identifier
    connection_id: Identifier
    resume: bool = False
    """The run was paused for a decision that has been made."""


class ConsultRequest(Checked):
    """A worker is stuck; what happened is the content."""

    consult_id: Identifier
    work_item_id: Identifier
    attempt_number: int
    failures: list[str] = Field(default_factory=list)
    deadline: UtcDatetime


class PlannerGuidance(Checked):
    """The planner's advice; the advice is the content."""

    consult_id: Identifier
    work_item_id: Identifier
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class ReplanRequest(Checked):
    """Everything was tried; a different approach is wanted. What happened is the content."""

    work_item_id: Identifier
    connection_id: Identifier
    depth: int = Field(ge=1)
    failures: list[str] = Field(default_factory=list)


class AgentReply(Checked):
    """An answer for a person; its text is the content."""

    connection_id: Identifier
    channel: Identifier
    in_reply_to: str | None = None
    """The id of the message that this answers."""
    surface: str = "stream"
    final: bool = True
    """False: more about the same thing follows by itself."""
    chips: list[str] = Field(default_factory=list)
    card_id: str | None = None


class SystemEvent(Checked):
    """Something that the runtime tells itself."""

    event: Identifier
    data: dict[str, Any] = Field(default_factory=dict)


class CompanionWake(Checked):
    """Wake a companion. What became of it is in the log of wakes, under its run key."""

    run_key: Identifier
    agent_id: Identifier
    job: dict[str, Any]


PAYLOADS: Mapping[MessageKind, type[Data]] = MappingProxyType(
    {
        MessageKind.USER_MESSAGE: UserMessage,
        MessageKind.PLAN_REQUEST: PlanRequest,
        MessageKind.PLAN_RESULT: PlanResult,
        MessageKind.RESEARCH_REQUEST: ResearchRequest,
        MessageKind.RESEARCH_RESULT: ResearchResult,
        MessageKind.EXECUTION_REQUEST: ExecutionRequest,
        MessageKind.EXECUTION_STATUS: StatusPayload,
        MessageKind.CONSULT_PLANNER: ConsultRequest,
        MessageKind.PLANNER_GUIDANCE: PlannerGuidance,
        MessageKind.REPLAN_REQUEST: ReplanRequest,
        MessageKind.AGENT_RESPONSE: AgentReply,
        MessageKind.SYSTEM_EVENT: SystemEvent,
        MessageKind.COMPANION_WAKE: CompanionWake,
    }
)
"""The payload that each kind carries, unless it reports an error."""

_PAYLOADS_BY_NAME = {kind.value: payload for kind, payload in PAYLOADS.items()}


def _kind_of_payload(value: Any) -> str | None:
    """By what it is: to try one shape after the other takes longer than all the rest."""
    return type(value).__name__ if isinstance(value, Checked) else None


Payload = Annotated[
    Annotated[StatusPayload, Tag("StatusPayload")]
    | Annotated[ErrorPayload, Tag("ErrorPayload")]
    | Annotated[UserMessage, Tag("UserMessage")]
    | Annotated[PlanRequest, Tag("PlanRequest")]
    | Annotated[PlanResult, Tag("PlanResult")]
    | Annotated[ResearchRequest, Tag("ResearchRequest")]
    | Annotated[ResearchResult, Tag("ResearchResult")]
    | Annotated[ExecutionRequest, Tag("ExecutionRequest")]
    | Annotated[ConsultRequest, Tag("ConsultRequest")]
    | Annotated[PlannerGuidance, Tag("PlannerGuidance")]
    | Annotated[ReplanRequest, Tag("ReplanRequest")]
    | Annotated[AgentReply, Tag("AgentReply")]
    | Annotated[SystemEvent, Tag("SystemEvent")]
    | Annotated[CompanionWake, Tag("CompanionWake")],
    Discriminator(_kind_of_payload),
]


class QueueMessage(Checked):
    """One message on the bus."""

    message_id: Identifier
    """The idempotency key of its delivery."""
    trace_id: Identifier
    """Copied unchanged to every message that follows from this one."""
    content: str = Field(max_length=MAX_CONTENT_CHARS)
    sender: Agent
    message_kind: MessageKind
    scope_id: Identifier
    taint: TaintLevel
    """Given always: a default would call somebody's text the owner's."""
    created_at: UtcDatetime
    payload: Payload
    task_id: str | None = None
    """The work item that this is about."""
    parent_task_id: str | None = None
    plan_markdown: str | None = Field(default=None, max_length=MAX_CONTENT_CHARS)
    artifacts: dict[str, str] = Field(default_factory=dict)
    constraints: ResearchConstraints | None = None
    urgency: Urgency = Urgency.INFORMATIONAL
    error_code: ErrorCode | None = None
    retryable: bool | None = None
    origin_agent: Agent | None = None
    attempt_number: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _payload_of_its_kind(cls, values: Any) -> Any:
        """Read a payload as what its kind says, so that no other shape is tried."""
        if not isinstance(values, dict) or not isinstance(values.get("payload"), dict):
            return values
        payload, kind = values["payload"], values.get("message_kind")
        if "error_code" in payload and kind != MessageKind.EXECUTION_STATUS:
            return {**values, "payload": ErrorPayload.model_validate(payload)}
        expected = _PAYLOADS_BY_NAME.get(kind) if isinstance(kind, str) else None
        if expected is None:
            return values
        return {**values, "payload": expected.model_validate(payload)}

    @model_validator(mode="after")
    def _contract(self) -> Self:
        if isinstance(self.payload, ErrorPayload):
            self._require_error_headers(self.payload)
        elif type(self.payload) is not PAYLOADS[self.message_kind]:
            expected = PAYLOADS[self.message_kind].__name__
            raise ValueError(f"{self.message_kind} carries {expected}")
        elif self.error_code is not None and self.message_kind is not MessageKind.EXECUTION_STATUS:
            raise ValueError("an error must be described by its payload")
        return self

    def _require_error_headers(self, error: ErrorPayload) -> None:
        if self.message_kind is MessageKind.EXECUTION_STATUS:
            raise ValueError("execution_status carries a status, not an error")
        said = (self.error_code, self.retryable, self.origin_agent, self.attempt_number)
        meant = (error.error_code, error.retryable, error.origin_agent, error.attempt_number)
        if said != meant:
            raise ValueError("the headers of an error must repeat what its payload says")
