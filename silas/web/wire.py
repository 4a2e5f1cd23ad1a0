"""What travels between the page and Silas: every frame, in the order of a conversation.

The models are strict both ways: a frame with a field too many is refused. `docs/wire.schema.json`
is made from them.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, TypeAdapter, model_validator

from silas.approval import Assertion, Base64Bytes
from silas.approval.devices import Attached
from silas.gates.risk import RiskLevel
from silas.kernel.ids import FIRST_CONVERSATION
from silas.kernel.models import Data, UtcDatetime
from silas.queue.models import ConversationId, FolderPath, PrintedOutput, UndoableItem
from silas.review.cards import MAX_CHANGES_CHARS
from silas.review.decisions import Step
from silas.stream.attachments import MAX_FILES, FileKind
from silas.stream.conversations import ConversationLine
from silas.work.effects import ChangeKind
from silas.work.previews import PlanPreview

MAX_TEXT = 32_000
Name = Annotated[str, Field(min_length=1, max_length=200)]
ItemId = Annotated[str, Field(min_length=1, max_length=600)]
"""What an account calls one of its items."""
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Gesture = Literal["tap", "slide", "passkey"]
"""What the owner does on a page to decide, from weakest to strongest."""
Number = Annotated[int, Field(ge=0, le=2**53 - 1)]


# How a page comes in and stays: the handshake, the heartbeat, and what was not taken.


class Hello(Data):
    """The first frame: sign this challenge within five seconds."""

    type: Literal["hello"] = "hello"
    challenge: str


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


class Failed(Data):
    """Why something was not taken. `about` is the id that it was about, if it had one."""

    type: Literal["error"] = "error"
    code: str
    message: str
    about: str | None = None
    retry_after: int | None = None
    """Seconds to wait before it is sent again, where that helps."""


class Ping(Data):
    """Is anybody there?"""

    type: Literal["ping"] = "ping"


class Pong(Data):
    """Yes."""

    type: Literal["pong"] = "pong"


# What is said: the owner's messages, and what is answered while it grows and when it is whole.


class FileAttached(Data):
    """A file of a message. `kind` is what its bytes are; `size` is 0 if it is not kept any more."""

    sha256: str
    name: str
    kind: FileKind
    size: Number


class Say(Data):
    """A message, signed over text, timestamp, nonce, and conversation and attachments if named."""

    type: Literal["message"] = "message"
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    message_id: Annotated[str, Field(pattern=r"^msg_[A-Za-z0-9_-]{8,60}$")]
    timestamp: UtcDatetime
    nonce: Name
    signature: Base64Bytes
    sender_id: Name | None = None
    folder: FolderPath | None = None
    """The folder that was picked in the page, to read and to work in."""
    conversation: ConversationId | None = None
    """The conversation that it is said in: the first one, or begun by this very message."""
    attachments: list[Attached] = Field(default_factory=list, max_length=MAX_FILES)
    """Files that were brought to `/api/attachments` before."""


class Accepted(Data):
    """The message was written down, and will be answered."""

    type: Literal["accepted"] = "accepted"
    message_id: str
    trace_id: str


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
    answers: bool = False
    """Whether it is the answer to what the owner said, and not a word in between or a report."""
    chips: list[str] = Field(default_factory=list)
    interaction_register: str = ""
    interaction_mode: str = ""
    """Options are shown as a list to choose from where somebody explores."""
    card_id: str | None = None
    journal_changes: list[str] = Field(default_factory=list)
    """What it changed in the journal: each is undone with `undo_change`."""
    work_item_id: str | None = None
    """The work whose result this tells: `/api/work/{id}` has all of it."""
    printed: list[PrintedOutput] = Field(default_factory=list)
    """What commands and checks printed, shortened: their words, not Silas'."""
    undo_until: UtcDatetime | None = None
    """Until when what the work did in accounts is taken back with `/api/work/{id}/undo`."""
    undo_items: list[UndoableItem] = Field(default_factory=list)
    """Of several items, each that can be taken back by itself."""
    leaves_at: UtcDatetime | None = None
    """When it is sent: until then `/api/approvals/{work_item_id}/revoke` keeps it here."""
    attachments: list[FileAttached] = Field(default_factory=list)
    conversation: str = FIRST_CONVERSATION
    """The conversation that it belongs to."""


class Conversations(Data):
    """The owner's conversations, the last used first, whenever something about them changes."""

    type: Literal["conversations"] = "conversations"
    conversations: list[ConversationLine]


class History(Data):
    """What the page has missed, in its order."""

    type: Literal["history"] = "history"
    messages: list[Message]


class Answering(Data):
    """An answer is being made: at which stage it is, in the runtime's words, and for how long."""

    type: Literal["answering"] = "answering"
    trace_id: str
    stage: str
    words: str
    note: str
    seconds: float
    over: bool


class Streaming(Data):
    """An answer grows: from `start` on, its text is `piece`. The whole comes as a `message`."""

    type: Literal["text"] = "text"
    trace_id: str
    start: int
    piece: str


class StopAnswer(Data):
    """End the answer that is being made; one that is there already stays."""

    type: Literal["stop"] = "stop"
    trace_id: Name


class ProgressFrame(Data):
    """Work goes on."""

    type: Literal["progress"] = "progress"
    trace_id: str
    what: str
    detail: str


# Plans and calls on their cards, the owner's decision about them, and how far the work is.


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
    sources: list[str] = Field(default_factory=list)
    """The strangers' texts that it comes from."""
    trace_id: str
    state: str
    created_at: UtcDatetime
    expires_at: UtcDatetime
    notes: dict[str, str] = Field(default_factory=dict)
    """What to know of the paths that the plans declare: what a pattern means, who executes it."""
    preview: PlanPreview = Field(default_factory=PlanPreview)
    """What the plans would write, as far as that is known before the work."""
    refusal: str = ""
    """Why it can only be declined, if so."""
    replaces: str | None = None
    """The work item that this plan is another version of, or that it undoes."""


class ApprovalResponse(Data):
    """The owner's decision about a plan, signed over what the card shows."""

    type: Literal["approval_response"] = "approval_response"
    request_id: Name
    verdict: Literal["approved", "declined", "edit_requested"]
    signature: Base64Bytes
    strength: Gesture = "tap"
    """What was done for it on the page; part of what is signed."""
    passkey: Assertion | None = None
    """For what cannot be undone: its challenge is the plan's hash."""
    chosen: list[Name] | None = Field(default=None, min_length=1, max_length=1000)
    """On a card with several calls: those that are meant. None: all of them."""
    changes: Annotated[str, Field(max_length=MAX_CHANGES_CHARS)] = ""
    """With `edit_requested`: what should be different, in the owner's words. They are part of what
    is signed, as `changes` in the decision's `conditions`."""


class CardClosed(Data):
    """A card was decided, here or elsewhere."""

    type: Literal["card_closed"] = "card_closed"
    request_id: str
    state: str


class Attention(Data):
    """Cues about deciding: many decisions wait, or they are made faster than they can be read.

    They are shown and nothing else: no decision is delayed or made harder.
    """

    type: Literal["attention"] = "attention"
    crowded: bool = False
    hasty: bool = False


class CheckShown(Data):
    """One check and what came of it; `passed` is None until it has run."""

    name: str
    passed: bool | None
    reason: str = ""
    outcome: str = ""
    """What it says about the work: `failed before, passes now`, `still passes` …"""


class FileShown(Data):
    """One file that work has changed; `taken` says whether it is so in the owner's files."""

    kind: ChangeKind
    path: str
    taken: bool


class Work(Data):
    """How far a work item is."""

    type: Literal["work"] = "work"
    trace_id: str
    work_item_id: str
    title: str
    status: str
    attempts: int
    why: str = ""
    """Why no check has shown that it is done, if the status is `unchecked`."""
    checks: list[CheckShown]
    files: list[FileShown] = Field(default_factory=list)
    budget: dict[str, Any]
    budget_used: dict[str, Any]


# Questions to the owner, each followed by its answer.


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


class Answer(Data):
    """The answer to a question, signed over its content and everything that is answered."""

    request_id: Name
    signature: Base64Bytes
    strength: Gesture = "tap"
    """What was done for it on the page; part of what is signed unless it is a tap."""
    passkey: Assertion | None = None
    """For what cannot be undone: its challenge is the content's hash."""


class GateApproval(Asked):
    """A gate asks whether something may go on."""

    type: Literal["gate_approval"] = "gate_approval"
    gate_name: str
    value: str
    context: dict[str, Any]


class GateResponse(Answer):
    """The answer to a gate's question."""

    type: Literal["gate_response"] = "gate_response"
    verdict: Literal["approve", "block"]


class CheckpointQuestion(Data):
    """Work has come to a point where the owner chooses."""

    type: Literal["checkpoint"] = "checkpoint"
    request_id: str
    message: str
    options: list[str]


class CheckpointResponse(Data):
    """The answer to a checkpoint."""

    type: Literal["checkpoint"] = "checkpoint"
    request_id: Name
    verdict: Text


class BatchReview(Asked):
    """Several like actions, to be decided together."""

    type: Literal["batch_review"] = "batch_review"
    batch: dict[str, Any]


class BatchReviewResponse(Answer):
    """The answer to a reviewed batch."""

    type: Literal["batch_review_response"] = "batch_review_response"
    verdict: Literal["approve", "decline", "edit_selection"]
    selected_item_ids: list[ItemId] = Field(default_factory=list, max_length=1000)

    @model_validator(mode="after")
    def _chosen_if_edited(self) -> Self:
        if bool(self.selected_item_ids) != (self.verdict == "edit_selection"):
            raise ValueError("selected_item_ids belongs to edit_selection, and only there")
        return self


class DraftReview(Asked):
    """A text to be sent in the owner's name."""

    type: Literal["draft_review"] = "draft_review"
    context: str
    draft: str
    metadata: dict[str, Any]


class DraftReviewResponse(Answer):
    """The answer to a draft."""

    type: Literal["draft_review_response"] = "draft_review_response"
    verdict: Literal["approve", "edit", "rephrase", "reject"]
    edited_text: Text | None = None
    words: Text | None = None
    """What should be different, for whoever rewrites it."""


class Decision(Asked):
    """A question with options."""

    type: Literal["decision"] = "decision"
    question: str
    options: list[dict[str, Any]]
    allow_freetext: bool


class DecisionResponse(Answer):
    """The answer to a question with options."""

    type: Literal["decision_response"] = "decision_response"
    selected_value: Text | None = None
    freetext: Text | None = None


class Suggestion(Asked):
    """Something that Silas would do next."""

    type: Literal["suggestion"] = "suggestion"
    suggestion: dict[str, Any]


class SuggestionResponse(Answer):
    """The answer to a suggestion."""

    type: Literal["suggestion_response"] = "suggestion_response"
    selected_value: Text | None = None
    freetext: Text | None = None


class AutonomyThresholdReview(Asked):
    """A proposal to ask less, or more."""

    type: Literal["autonomy_threshold_review"] = "autonomy_threshold_review"
    proposal: dict[str, Any]


class AutonomyThresholdResponse(Answer):
    """The answer to a proposal about autonomy."""

    type: Literal["autonomy_threshold_response"] = "autonomy_threshold_response"
    verdict: Literal["approve", "decline", "tighten_now"]


# What connections to other services ask of the owner, each followed by its answer.


class SecureInputRequest(Data):
    """A secret is needed; it goes to `/secrets/{ref_id}`, never through here."""

    type: Literal["secure_input_request"] = "secure_input_request"
    ref_id: str
    label: str
    expires_at: UtcDatetime
    input_hint: str = ""
    guidance: dict[str, Any] = Field(default_factory=dict)


class SecureInputCompleted(Data):
    """A secret was stored through `/secrets/{ref_id}`. Its value never comes here."""

    type: Literal["secure_input_completed"] = "secure_input_completed"
    ref_id: Name
    success: bool


class ConnectionSetupStep(Asked):
    """A step of setting up a connection."""

    type: Literal["connection_setup_step"] = "connection_setup_step"
    step_type: str
    fields: dict[str, Any]


class ConnectionSetupResponse(Answer):
    """The answer to a step of setting up a connection."""

    type: Literal["connection_setup_response"] = "connection_setup_response"
    step_type: Name
    action: Literal["done", "cancel", "trouble", "retry"]


class PermissionEscalation(Asked):
    """A connection wants to do more."""

    type: Literal["permission_escalation"] = "permission_escalation"
    connection_name: str
    current_permissions: list[str]
    requested_permissions: list[str]
    reason: str


class PermissionEscalationResponse(Answer):
    """The answer to a connection that wants to do more."""

    type: Literal["permission_escalation_response"] = "permission_escalation_response"
    verdict: Literal["approve", "just_this_once", "deny"]


class ConnectionFailure(Asked):
    """A connection has failed."""

    type: Literal["connection_failure"] = "connection_failure"
    failure_type: str
    service: str
    message: str
    draft: str = ""
    """A text that the owner may send to whoever runs the service."""
    recovery_options: list[dict[str, Any]]


class ConnectionFailureResponse(Answer):
    """What to do about a connection that failed."""

    type: Literal["connection_failure_response"] = "connection_failure_response"
    selected_action: Name


# What happened: the activity list, and news of the journal and of companions.


class ActivityRequest(Data):
    """Show what happened last, the newest first."""

    type: Literal["activity_request"] = "activity_request"
    count: Annotated[int, Field(ge=1, le=200)] = 60


class ActivityEntry(Data):
    """One thing that happened, in words."""

    seq: int
    at: str
    event: str
    text: str
    tone: Literal["good", "bad", ""] = ""
    times: int = 1
    """How often it happened in a row."""
    work_item_id: str | None = None
    """The work that it is about, which can be opened."""
    card_id: str | None = None


class Activity(Data):
    """What happened, the newest first."""

    type: Literal["activity"] = "activity"
    entries: list[ActivityEntry]


class JournalChanged(Data):
    """Something in the journal has changed, here or elsewhere."""

    type: Literal["journal_changed"] = "journal_changed"
    cursor: int


class ConnectionsChanged(Data):
    """Something about a connection is different: the page reads the list again."""

    type: Literal["connections_changed"] = "connections_changed"


class SkillsChanged(Data):
    """Another version of a skill is in force now, or none: it is read anew."""

    type: Literal["skills_changed"] = "skills_changed"


class CompanionAnswering(Data):
    """The answer of a companion grows: all of its text so far. The whole is read when it is told
    that something about companions has changed."""

    type: Literal["companion_answering"] = "companion_answering"
    agent_id: str
    run_key: str
    text: str


class CompanionsChanged(Data):
    """Something about companions may have changed, here or elsewhere: it is read anew."""

    type: Literal["companions_changed"] = "companions_changed"


# Who says what: every frame that the page may send, every frame that it gets, and their schema.

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
    | StopAnswer
    | ApprovalResponse
    | CheckpointResponse
    | AnyAnswer
    | SecureInputCompleted
    | ActivityRequest
    | Ping,
    Field(discriminator="type"),
]
ToPage = Annotated[
    Hello
    | Ready
    | Message
    | Conversations
    | History
    | Answering
    | Streaming
    | ProgressFrame
    | ApprovalRequest
    | CardClosed
    | Work
    | Activity
    | Attention
    | JournalChanged
    | SkillsChanged
    | ConnectionsChanged
    | CompanionsChanged
    | CompanionAnswering
    | Accepted
    | Failed
    | Pong
    | GateApproval
    | CheckpointQuestion
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
_LATER = ConfigDict(defer_build=True)
FROM_PAGE: TypeAdapter[FromPage] = TypeAdapter(FromPage, config=_LATER)
TO_PAGE: TypeAdapter[ToPage] = TypeAdapter(ToPage, config=_LATER)


def wire_schema() -> dict[str, Any]:
    """The JSON Schema of everything that travels."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Silas: what travels between the page and Silas",
        "from_page": FROM_PAGE.json_schema(ref_template="#/from_page/$defs/{model}"),
        "to_page": TO_PAGE.json_schema(ref_template="#/to_page/$defs/{model}"),
    }
