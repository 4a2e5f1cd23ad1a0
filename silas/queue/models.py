"""What travels on the bus, and where it goes: one kind of message, and a payload for each kind.

1. A message names a work item by its id and never carries one, nor a token: whoever executes loads
   both from their stores, so that a forged or altered row on the bus can authorise nothing.
2. No sender chooses a queue: sender and kind do, by `ROUTES`. A pair that is not in the table is
   refused. An error travels like its kind.
3. In an ordered queue, the messages of one scope are given out one at a time, in their order.
4. A message that follows from another (`follow`) keeps its trace and scope, and is never less
   tainted.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from silas.approval.devices import Attached
from silas.kernel import Clock, IdFactory, TaintLevel, join_taint
from silas.kernel.ids import CONVERSATION_ID
from silas.kernel.models import Data, UtcDatetime, problem_text
from silas.kernel.taint import MAX_SOURCES, first_sources
from silas.queue.errors import MessageRefused, NoRoute

MAX_CONTENT_CHARS = 1_000_000
MAX_PRINTED_CHARS = 4_000

Identifier = Annotated[str, Field(min_length=1, max_length=200)]
ConversationId = Annotated[str, Field(pattern=CONVERSATION_ID)]
FolderPath = Annotated[str, Field(min_length=1, max_length=4096)]


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
    UNCHECKED = "unchecked"
    """Carried out, and no check has shown that it is done."""
    FAILED = "failed"
    STUCK = "stuck"
    BLOCKED = "blocked"
    VERIFICATION_FAILED = "verification_failed"


class BusData(Data):
    """Data that is valid as long as it exists: a changed copy is checked as well.

    So a message need not be checked once more when it is sent.
    """

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with these changes; raises `MessageRefused`."""
        try:
            return self.model_validate({**dict(self), **(update or {})})
        except ValidationError as error:
            raise refused(error) from error


def refused(error: Exception) -> MessageRefused:
    """Why a message cannot be sent."""
    return MessageRefused(
        f"The message breaks the contract of the bus: {problem_text(error)}. Nothing was queued."
    )


class PrintedOutput(BusData):
    """What a command or a check printed, shortened: the words of that command, and of nobody else.

    They stand beside the content of a message and are never part of it: whoever shows them shows a
    quotation, and no agent reads them as something that was said.
    """

    title: str
    is_check: bool = False
    failed: bool = False
    error: str = ""
    """How it ended, if not well."""
    first: Annotated[str, Field(max_length=MAX_PRINTED_CHARS)] = ""
    last: Annotated[str, Field(max_length=MAX_PRINTED_CHARS)] = ""
    """What comes after the lines that are left out, if any are."""
    left_out: int = Field(default=0, ge=0)
    more: bool = False
    """Of the last output of a list: whether there is anything that the list does not show whole."""
    taint: TaintLevel = TaintLevel.EXTERNAL


class StatusPayload(BusData):
    """What became of a work item."""

    status: ExecutionStatus
    detail: str | None = None
    attempt_number: int | None = None
    budget_remaining_tokens: int | None = None
    budget_remaining_usd: float | None = Field(default=None, allow_inf_nan=False)
    printed: list[PrintedOutput] = Field(default_factory=list)
    undo_until: UtcDatetime | None = None
    """Until when one tap takes back what the work did in accounts."""


class ErrorPayload(BusData):
    """A failure that is not a status."""

    error_code: ErrorCode
    retryable: bool
    origin_agent: Literal[Agent.PROXY, Agent.PLANNER, Agent.EXECUTOR, Agent.RUNTIME]
    attempt_number: int
    detail: str
    about: dict[str, Any] = Field(default_factory=dict)
    """What it happened to, for whoever handles it."""


class UserMessage(BusData):
    """Where a message came from. Its text is the content; its signature makes it the owner's."""

    channel: Identifier
    connection_id: Identifier
    sender_id: Identifier
    timestamp: UtcDatetime
    signature: str | None = None
    """Base64, over text, timestamp, nonce, conversation and attachments."""
    nonce: str | None = None
    attachments: list[Attached] = Field(default_factory=list)
    """The files that it names. They are read only for the owner."""
    reply_to: str | None = None
    conversation: ConversationId | None = None
    """The conversation of the owner's that it is said in; None for the first one."""
    folder: FolderPath | None = None
    """The folder that was picked for it. It is read and worked on only for the owner."""
    said_in: FolderPath | None = None
    """The folder in which `silas ask` or `silas chat` was started."""
    after_question: Identifier | None = None
    """The question about a place to which the owner has said yes: his request is then answered."""


class RequestFolders(BusData):
    """The folders that a request is about (`silas.stream.folders`); whole paths."""

    base: str | None = None
    """Where work happens that names no folder."""
    named: list[str] = Field(default_factory=list)
    """The folders that the request names."""
    said_in: str | None = None
    """Where it was said, if that is none of these."""
    repositories: list[str] = Field(default_factory=list)
    """Which of them are git repositories."""
    note: str = ""
    """Why a folder that was picked is not used."""

    @property
    def landing(self) -> str | None:
        """Where a plan works that names no folder itself."""
        return self.named[0] if self.named else self.base

    @property
    def readable(self) -> list[str]:
        """What research may read, the most likely first."""
        known = (*self.named, self.base, self.said_in)
        return list(dict.fromkeys(each for each in known if each))


class PlanRequest(BusData):
    """What the planner is asked to plan; the request itself is the content."""

    connection_id: Identifier
    interaction_register: str
    interaction_mode: str
    request_kind: str | None = None
    """What the front door takes it for, as a hint."""
    continuation_of: str | None = None
    goal_id: str | None = None
    folders: RequestFolders = RequestFolders()
    attachments: list[Attached] = Field(default_factory=list)
    """The files that came with it."""
    attached_at: UtcDatetime | None = None
    revises: str | None = None
    """The work item whose plan the owner wants changed; how is the content."""


class PlanResult(BusData):
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
    revises: str | None = None
    """The work item whose plan this one replaces, as the owner has asked."""
    folders: RequestFolders = RequestFolders()
    plan_action: str = "propose"
    """What the planner wants done with the plan; `execute_next` and `abort` are about
    `continuation_of`."""
    asked: Annotated[str, Field(max_length=4000)] = ""
    """How the request begins, as it was said."""


class ResearchConstraints(BusData):
    """What an answer must look like, and how it may be found."""

    return_format: str
    max_tokens: int = Field(default=500, ge=1, le=20_000)
    tools_allowed: list[str] = Field(
        default_factory=lambda: ["web_search", "read_file", "memory_search"]
    )


class ResearchRequest(BusData):
    """One question of the planner's; the question is the content."""

    research_id: Identifier
    request_id: Identifier
    """The plan request for which the planner asks."""
    round: int = Field(ge=1)
    deadline: UtcDatetime
    folders: RequestFolders = RequestFolders()
    attachments: list[Attached] = Field(default_factory=list)
    """What came with the owner's request."""
    attached_at: UtcDatetime | None = None


class ResearchResult(BusData):
    """What was found; the text is the content."""

    research_id: Identifier
    request_id: Identifier
    ok: bool
    stopped: bool = False
    """The owner has stopped the answer that it was for."""
    sources: list[str] = Field(default_factory=list)
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class ExecutionRequest(BusData):
    """Execute this item now. Whether that is allowed is decided by its approval alone."""

    work_item_id: Identifier
    connection_id: Identifier
    resume: bool = False
    """The run was paused for a decision that has been made."""
    not_before: UtcDatetime | None = None
    """The owner wants what is sent to wait so long, so that he can still stop it."""


class ConsultRequest(BusData):
    """A worker is stuck; what happened is the content."""

    consult_id: Identifier
    work_item_id: Identifier
    attempt_number: int
    failures: list[str] = Field(default_factory=list)
    deadline: UtcDatetime


class PlannerGuidance(BusData):
    """The planner's advice; the advice is the content."""

    consult_id: Identifier
    work_item_id: Identifier
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class ReplanRequest(BusData):
    """Everything was tried; a different approach is wanted. What happened is the content."""

    work_item_id: Identifier
    connection_id: Identifier
    depth: int = Field(ge=1)
    failures: list[str] = Field(default_factory=list)


class UndoableItem(BusData):
    """One of several items with which something was done, and its call."""

    attempt: int
    call: int
    line: str
    """The line that was shown; may hold a stranger's text."""


OWN_CHANNEL = "home"
"""The channel of what Silas says of its own accord: the owner's, whichever is open."""


class AgentReply(BusData):
    """An answer for a person; its text is the content."""

    connection_id: Identifier
    channel: Identifier
    in_reply_to: str | None = None
    """The id of the message that this answers."""
    surface: str = "stream"
    final: bool = True
    """False: more about the same thing follows by itself."""
    chips: list[str] = Field(default_factory=list)
    interaction_register: str = ""
    interaction_mode: str = ""
    """How the turn was resolved, for whoever shows the answer; empty where no turn was routed."""
    card_id: str | None = None
    journal_changes: list[str] = Field(default_factory=list)
    """What this answer changed in the journal, by the ids with which it is undone."""
    companion_id: str | None = None
    """Whose word this is, if a companion has said it."""
    work_item_id: str | None = None
    """The work whose result this tells, if it does."""
    printed: list[PrintedOutput] = Field(default_factory=list)
    undo_until: UtcDatetime | None = None
    """Until when one tap takes back what the work did in accounts."""
    undo_items: list[UndoableItem] = Field(default_factory=list)
    """Of several items, each that can be taken back by itself."""
    leaves_at: UtcDatetime | None = None
    """When the work that sends something begins; until then one tap stops it."""


class SystemEvent(BusData):
    """Something that the runtime tells itself."""

    event: Identifier
    data: dict[str, Any] = Field(default_factory=dict)


class CompanionWake(BusData):
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
    return type(value).__name__ if isinstance(value, Data) else None


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


class QueueMessage(BusData):
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
    taint_sources: list[str] = Field(default_factory=list, max_length=MAX_SOURCES)
    """The strangers' texts that an `external` message comes from."""
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


ROUTES: Mapping[tuple[Agent, MessageKind], QueueName] = MappingProxyType(
    {
        (Agent.USER, MessageKind.USER_MESSAGE): QueueName.PROXY,
        (Agent.PROXY, MessageKind.PLAN_REQUEST): QueueName.PLANNER,
        (Agent.PLANNER, MessageKind.PLAN_REQUEST): QueueName.PLANNER,
        (Agent.RUNTIME, MessageKind.PLAN_REQUEST): QueueName.PLANNER,
        (Agent.PLANNER, MessageKind.PLAN_RESULT): QueueName.PROXY,
        (Agent.PLANNER, MessageKind.RESEARCH_REQUEST): QueueName.EXECUTOR,
        (Agent.EXECUTOR, MessageKind.RESEARCH_RESULT): QueueName.PLANNER,
        (Agent.PROXY, MessageKind.EXECUTION_REQUEST): QueueName.EXECUTOR,
        (Agent.RUNTIME, MessageKind.EXECUTION_REQUEST): QueueName.EXECUTOR,
        (Agent.RUNTIME, MessageKind.EXECUTION_STATUS): QueueName.PROXY,
        (Agent.RUNTIME, MessageKind.CONSULT_PLANNER): QueueName.PLANNER,
        (Agent.PLANNER, MessageKind.PLANNER_GUIDANCE): QueueName.RUNTIME,
        (Agent.RUNTIME, MessageKind.REPLAN_REQUEST): QueueName.PLANNER,
        (Agent.PROXY, MessageKind.AGENT_RESPONSE): QueueName.CHANNEL,
        (Agent.PLANNER, MessageKind.AGENT_RESPONSE): QueueName.CHANNEL,
        (Agent.EXECUTOR, MessageKind.AGENT_RESPONSE): QueueName.CHANNEL,
        (Agent.RUNTIME, MessageKind.AGENT_RESPONSE): QueueName.CHANNEL,
        (Agent.RUNTIME, MessageKind.SYSTEM_EVENT): QueueName.RUNTIME,
        (Agent.RUNTIME, MessageKind.COMPANION_WAKE): QueueName.COMPANION,
    }
)

ORDERED = frozenset({QueueName.PROXY, QueueName.CHANNEL, QueueName.COMPANION})
"""What a person sees must come in the order in which it happened; a companion runs once at a time.
"""

PRIORITY: Mapping[Urgency, int] = MappingProxyType(
    {Urgency.NEEDS_ATTENTION: 0, Urgency.INFORMATIONAL: 1, Urgency.BACKGROUND: 2}
)
"""The smaller, the sooner. In an ordered queue it ranks the scopes, never within one."""


def route(message: QueueMessage) -> QueueName:
    """The queue for this message; raises `NoRoute`."""
    queue = ROUTES.get((message.sender, message.message_kind))
    if queue is None:
        raise NoRoute(
            f"Nobody receives {message.message_kind} from {message.sender}. Nothing was queued.",
            message_id=message.message_id,
        )
    return queue


def lane_of(message: QueueMessage, queue: QueueName) -> str | None:
    """Where order is kept for this message; None where it does not matter."""
    return f"{queue}/{message.scope_id}" if queue in ORDERED else None


def follow(
    message: QueueMessage,
    *,
    sender: Agent,
    kind: MessageKind,
    content: str,
    payload: Payload,
    ids: IdFactory,
    clock: Clock,
    taint: TaintLevel | None = None,
    sources: Iterable[str] = (),
    **more: Any,
) -> QueueMessage:
    """A message that this one leads to: same trace, scope and task, and never less tainted."""
    inherited = {
        "task_id": message.task_id,
        "parent_task_id": message.parent_task_id,
        "urgency": message.urgency,
    }
    return QueueMessage(
        **(inherited | more),
        message_id=ids.new("msg"),
        trace_id=message.trace_id,
        scope_id=message.scope_id,
        taint=message.taint if taint is None else join_taint(message.taint, taint),
        taint_sources=list(first_sources((*message.taint_sources, *sources))),
        created_at=clock.now(),
        sender=sender,
        message_kind=kind,
        content=content,
        payload=payload,
    )
