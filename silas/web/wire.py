"""What travels between the page and Silas: one JSON object per frame, each with its `type`.

`docs/wire.schema.json` is generated from here. Times are UTC in the one canonical spelling.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, TypeAdapter, model_validator

from silas.approval import Assertion, Base64Bytes
from silas.gates.risk import RiskLevel, Step
from silas.kernel.models import Data, UtcDatetime

MAX_TEXT = 32_000
Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Number = Annotated[int, Field(ge=0, le=2**53 - 1)]


# From the page.


class Auth(Data):
    """The first frame. `signature` is the device's, over `auth_bytes`."""

    type: Literal["auth"] = "auth"
    device_id: Name | None = None
    signature: Base64Bytes | None = None
    token: Annotated[str, Field(max_length=1000)] | None = None
    """`channels.web.auth_token`, where one is configured."""
    delivery: Number = 0
    """The number of the last answer that the page has."""
    said: Number = 0
    """The number of the last message of the owner's that the page has."""


class Say(Data):
    """A message, signed over text, timestamp and nonce."""

    type: Literal["message"] = "message"
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    message_id: Annotated[str, Field(pattern=r"^msg_[A-Za-z0-9_-]{8,60}$")]
    timestamp: UtcDatetime
    nonce: Name
    signature: Base64Bytes
    sender_id: Name | None = None


class ApprovalResponse(Data):
    """The owner's decision about a plan, signed over what the card shows."""

    type: Literal["approval_response"] = "approval_response"
    request_id: Name
    verdict: Literal["approved", "declined", "edit_requested"]
    signature: Base64Bytes
    passkey: Assertion | None = None
    """For what cannot be undone: its challenge is the plan's hash."""
    chosen: list[Name] | None = Field(default=None, min_length=1, max_length=1000)
    """On a card with several calls: those that are meant. None: all of them."""


class Answer(Data):
    """The answer to a question, signed over its content and everything that is answered."""

    request_id: Name
    signature: Base64Bytes


class GateResponse(Answer):
    """The answer to a gate's question."""

    type: Literal["gate_response"] = "gate_response"
    verdict: Literal["approve", "block"]


class CheckpointResponse(Data):
    """The answer to a checkpoint."""

    type: Literal["checkpoint"] = "checkpoint"
    request_id: Name
    verdict: Text


class BatchReviewResponse(Answer):
    """The answer to a reviewed batch."""

    type: Literal["batch_review_response"] = "batch_review_response"
    verdict: Literal["approve", "decline", "edit_selection"]
    selected_item_ids: list[Name] = Field(default_factory=list, max_length=1000)

    @model_validator(mode="after")
    def _chosen_if_edited(self) -> Self:
        if bool(self.selected_item_ids) != (self.verdict == "edit_selection"):
            raise ValueError("selected_item_ids belongs to edit_selection, and only there")
        return self


class DraftReviewResponse(Answer):
    """The answer to a draft."""

    type: Literal["draft_review_response"] = "draft_review_response"
    verdict: Literal["approve", "edit", "rephrase", "reject"]
    edited_text: Text | None = None


class DecisionResponse(Answer):
    """The answer to a question with options."""

    type: Literal["decision_response"] = "decision_response"
    selected_value: Text | None = None
    freetext: Text | None = None


class SuggestionResponse(Answer):
    """The answer to a suggestion."""

    type: Literal["suggestion_response"] = "suggestion_response"
    selected_value: Text | None = None
    freetext: Text | None = None


class AutonomyThresholdResponse(Answer):
    """The answer to a proposal about autonomy."""

    type: Literal["autonomy_threshold_response"] = "autonomy_threshold_response"
    verdict: Literal["approve", "decline", "tighten_now"]


class SecureInputCompleted(Data):
    """A secret was stored through `/secrets/{ref_id}`. Its value never comes here."""

    type: Literal["secure_input_completed"] = "secure_input_completed"
    ref_id: Name
    success: bool


class ConnectionSetupResponse(Answer):
    """The answer to a step of setting up a connection."""

    type: Literal["connection_setup_response"] = "connection_setup_response"
    step_type: Name
    action: Literal["done", "cancel", "trouble", "retry"]


class PermissionEscalationResponse(Answer):
    """The answer to a connection that wants to do more."""

    type: Literal["permission_escalation_response"] = "permission_escalation_response"
    verdict: Literal["approve", "just_this_once", "deny"]


class ConnectionFailureResponse(Answer):
    """What to do about a connection that failed."""

    type: Literal["connection_failure_response"] = "connection_failure_response"
    selected_action: Name


class ActivityRequest(Data):
    """Show what happened, the newest first, before an entry of the log."""

    type: Literal["activity_request"] = "activity_request"
    count: Annotated[int, Field(ge=1, le=200)] = 60


class Ping(Data):
    """Is anybody there?"""

    type: Literal["ping"] = "ping"


AnyAnswer = (
    GateResponse
    | BatchReviewResponse
    | DraftReviewResponse
    | DecisionResponse
    | SuggestionResponse
    | AutonomyThresholdResponse
    | ConnectionSetupResponse
    | PermissionEscalationResponse
    | ConnectionFailureResponse
)
FromPage = Annotated[
    Auth
    | Say
    | ApprovalResponse
    | CheckpointResponse
    | AnyAnswer
    | SecureInputCompleted
    | ActivityRequest
    | Ping,
    Field(discriminator="type"),
]
_LATER = ConfigDict(defer_build=True)
FROM_PAGE: TypeAdapter[FromPage] = TypeAdapter(FromPage, config=_LATER)


# To the page.


class Hello(Data):
    """The first frame: sign this challenge within five seconds."""

    type: Literal["hello"] = "hello"
    challenge: str


class Ready(Data):
    """The device is known. `ticket` opens a session for HTTP requests, once."""

    type: Literal["ready"] = "ready"
    device_id: str
    device_name: str
    owner_id: str
    ticket: str
    version: str
    model: str | None
    """Who thinks; None for the offline brain."""
    chips: list[str]
    """What can be said, to begin with."""


class Message(Data):
    """One message of the conversation: `number` is its place among those of its sender."""

    type: Literal["message"] = "message"
    sender: Literal["owner", "silas"]
    number: int
    message_id: str
    text: str
    timestamp: UtcDatetime
    trace_id: str
    surface: str = "stream"
    final: bool = True
    chips: list[str] = Field(default_factory=list)
    card_id: str | None = None


class History(Data):
    """What the page has missed, in its order."""

    type: Literal["history"] = "history"
    messages: list[Message]


class Streaming(Data):
    """An answer grows; the whole of it comes as a `message`."""

    type: Literal["text"] = "text"
    trace_id: str
    piece: str


class Progress(Data):
    """Work goes on."""

    type: Literal["progress"] = "progress"
    trace_id: str
    what: str
    detail: str


class PlanShown(Data):
    """One work item of a plan: the very bytes whose hash is signed."""

    id: str
    plan: str
    plan_hash: str


class ApprovalRequest(Data):
    """A plan or a call that waits for the owner's decision, or has got one (`state`)."""

    type: Literal["approval_request"] = "approval_request"
    kind: Literal["plan", "call", "result"] = "plan"
    """`result`: the work is done, and this is the plan that undoes it."""
    request_id: str
    title: str
    body: str
    """What the planner says about it."""
    risk_level: RiskLevel
    rationale: str
    steps: tuple[Step, ...]
    details_expanded: bool
    consequences: dict[str, str]
    """What each button does, by its verdict, in the order of the buttons."""
    items: list[PlanShown]
    budget: dict[str, Any]
    verify: list[dict[str, Any]]
    taint: str
    trace_id: str
    state: str
    created_at: UtcDatetime
    expires_at: UtcDatetime
    refusal: str = ""
    """Why it can only be declined, if so."""
    replaces: str | None = None
    """The work item that this plan is another version of, or that it undoes."""


class CardClosed(Data):
    """A card was decided, here or elsewhere."""

    type: Literal["card_closed"] = "card_closed"
    request_id: str
    state: str


class CheckShown(Data):
    """One check and what came of it; `passed` is None until it has run."""

    name: str
    passed: bool | None
    reason: str = ""


class Work(Data):
    """How far a work item is."""

    type: Literal["work"] = "work"
    trace_id: str
    work_item_id: str
    title: str
    status: str
    attempts: int
    checks: list[CheckShown]
    budget: dict[str, Any]
    budget_used: dict[str, Any]


class ActivityEntry(Data):
    """One thing that happened, in words."""

    seq: int
    at: str
    event: str
    text: str


class Activity(Data):
    """What happened, the newest first."""

    type: Literal["activity"] = "activity"
    entries: list[ActivityEntry]


class JournalChanged(Data):
    """Something in the journal has changed, here or elsewhere."""

    type: Literal["journal_changed"] = "journal_changed"
    cursor: int


class Accepted(Data):
    """The message was written down, and will be answered."""

    type: Literal["accepted"] = "accepted"
    message_id: str
    trace_id: str


class Failed(Data):
    """Why something was not taken. `about` is the id that it was about, if it had one."""

    type: Literal["error"] = "error"
    code: str
    message: str
    about: str | None = None
    retry_after: int | None = None
    """Seconds to wait before it is sent again, where that helps."""


class Pong(Data):
    """Yes."""

    type: Literal["pong"] = "pong"


class ActionShown(Data):
    """One button: what it answers, and what then happens."""

    value: str
    label: str


class Asked(Data):
    """What all questions have in common: the contract of cards."""

    request_id: str
    title: str
    risk_level: RiskLevel
    rationale: str
    steps: tuple[Step, ...]
    details_expanded: bool
    actions: list[ActionShown]
    """The recommended one first, the refusing one last."""
    shown: PlanShown
    """The very bytes whose hash is signed, and which everything on the card is read from."""
    taint: str
    trace_id: str
    state: str
    created_at: UtcDatetime
    expires_at: UtcDatetime


class GateApproval(Asked):
    """A gate asks whether something may go on."""

    type: Literal["gate_approval"] = "gate_approval"
    gate_name: str
    value: str
    context: dict[str, Any]


class Checkpoint(Data):
    """Work has come to a point where the owner chooses."""

    type: Literal["checkpoint"] = "checkpoint"
    request_id: str
    message: str
    options: list[str]


class BatchReview(Asked):
    """Several like actions, to be decided together."""

    type: Literal["batch_review"] = "batch_review"
    batch: dict[str, Any]


class DraftReview(Asked):
    """A text to be sent in the owner's name."""

    type: Literal["draft_review"] = "draft_review"
    context: str
    draft: str
    metadata: dict[str, Any]


class Decision(Asked):
    """A question with options."""

    type: Literal["decision"] = "decision"
    question: str
    options: list[dict[str, Any]]
    allow_freetext: bool


class Suggestion(Asked):
    """Something that Silas would do next."""

    type: Literal["suggestion"] = "suggestion"
    suggestion: dict[str, Any]


class AutonomyThresholdReview(Asked):
    """A proposal to ask less, or more."""

    type: Literal["autonomy_threshold_review"] = "autonomy_threshold_review"
    proposal: dict[str, Any]


class SecureInputRequest(Data):
    """A secret is needed; it goes to `/secrets/{ref_id}`, never through here."""

    type: Literal["secure_input_request"] = "secure_input_request"
    ref_id: str
    label: str
    input_hint: str = ""
    guidance: dict[str, Any] = Field(default_factory=dict)


class ConnectionSetupStep(Asked):
    """A step of setting up a connection."""

    type: Literal["connection_setup_step"] = "connection_setup_step"
    step_type: str
    fields: dict[str, Any]


class PermissionEscalation(Asked):
    """A connection wants to do more."""

    type: Literal["permission_escalation"] = "permission_escalation"
    connection_name: str
    current_permissions: list[str]
    requested_permissions: list[str]
    reason: str


class ConnectionFailure(Asked):
    """A connection has failed."""

    type: Literal["connection_failure"] = "connection_failure"
    failure_type: str
    service: str
    message: str
    recovery_options: list[dict[str, Any]]


class Attention(Data):
    """Cues about deciding: many decisions wait, or they are made faster than they can be read.

    They are shown and nothing else: no decision is delayed or made harder.
    """

    type: Literal["attention"] = "attention"
    crowded: bool = False
    hasty: bool = False


ToPage = Annotated[
    Hello
    | Ready
    | Message
    | History
    | Streaming
    | Progress
    | ApprovalRequest
    | CardClosed
    | Work
    | Activity
    | Attention
    | JournalChanged
    | Accepted
    | Failed
    | Pong
    | GateApproval
    | Checkpoint
    | BatchReview
    | DraftReview
    | Decision
    | Suggestion
    | AutonomyThresholdReview
    | SecureInputRequest
    | ConnectionSetupStep
    | PermissionEscalation
    | ConnectionFailure,
    Field(discriminator="type"),
]
TO_PAGE: TypeAdapter[ToPage] = TypeAdapter(ToPage, config=_LATER)


def wire_schema() -> dict[str, Any]:
    """The JSON Schema of everything that travels."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Silas: what travels between the page and Silas",
        "from_page": FROM_PAGE.json_schema(ref_template="#/from_page/$defs/{model}"),
        "to_page": TO_PAGE.json_schema(ref_template="#/to_page/$defs/{model}"),
    }
