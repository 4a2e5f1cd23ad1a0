"""Questions to the owner, each followed by its answer."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from silas.approval import Base64Bytes
from silas.gates.risk import RiskLevel, Step
from silas.kernel.models import Data, UtcDatetime
from silas.web.wire.fields import Name, Text
from silas.web.wire.plans import PlanShown


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


class Checkpoint(Data):
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
    selected_item_ids: list[Name] = Field(default_factory=list, max_length=1000)

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
