"""What a model may answer: actions of four types, and a report whose claims name their sources."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from silas.companions.models import AgentActionType, AgentInteractionType, ReportScope
from silas.kernel.models import Data, UtcDatetime

MAX_ACTIONS = 20
MAX_CLAIMS = 60
Sentence = Annotated[str, Field(max_length=2_000)]


class Question(Data):
    """A question to the owner."""

    interaction_type: AgentInteractionType = AgentInteractionType.YES_NO
    prompt_text: Annotated[str, Field(min_length=1, max_length=2_000)]
    options: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=10)] = ()


class ProposedAction(Data):
    """One thing to do."""

    action_type: AgentActionType
    tool_name: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    question: Question | None = None
    """For `ask_user` and `propose_plan`: what the owner is asked."""
    sleep_until: UtcDatetime | None = None
    """For `lifecycle_transition`: a companion can only ask to be left asleep for a while."""
    after: Annotated[tuple[int, ...], Field(max_length=MAX_ACTIONS)] = ()
    """The numbers (from 0) of the questions in this proposal that need a yes first."""
    reason: Sentence = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        asks = self.action_type in (AgentActionType.ASK_USER, AgentActionType.PROPOSE_PLAN)
        if (self.action_type is AgentActionType.TOOL_CALL) != (self.tool_name is not None):
            raise ValueError("a tool_call names its tool, and nothing else does")
        if asks != (self.question is not None):
            raise ValueError("ask_user and propose_plan have a question, and nothing else has one")
        if self.action_type is AgentActionType.LIFECYCLE_TRANSITION and self.sleep_until is None:
            raise ValueError("a lifecycle_transition says until when to sleep")
        return self


class ClaimDraft(Data):
    """One statement of a report."""

    text: Annotated[str, Field(min_length=1, max_length=1_000)]
    sources: tuple[str, ...] = ()
    """The `source_id`s of the facts that it is drawn from."""
    inferred: bool = False
    """True: concluded, not read."""
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None


class SectionDraft(Data):
    """A part of a report."""

    section_id: Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,39}$")]
    title: Annotated[str, Field(max_length=200)]
    claims: Annotated[tuple[ClaimDraft, ...], Field(max_length=MAX_CLAIMS)] = ()


class ReportDraft(Data):
    """A report before its sources were checked."""

    scope: ReportScope = ReportScope.CURRENT
    headline: Annotated[str, Field(min_length=1, max_length=500)]
    sections: Annotated[tuple[SectionDraft, ...], Field(max_length=20)] = ()
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None


class ModelUsage(Data):
    """What an answer used."""

    tokens: Annotated[int, Field(ge=0)] = 0
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    retries: Annotated[int, Field(ge=0)] = 0


class CompanionProposal(Data):
    """A model's whole answer."""

    actions: Annotated[tuple[ProposedAction, ...], Field(max_length=MAX_ACTIONS)] = ()
    report: ReportDraft | None = None
    thought: Annotated[str, Field(max_length=4_000)] = ""
    usage: ModelUsage = ModelUsage()
    model_id: str = "offline:brain"
    fallback: str | None = None
    """A sentence that says why this is not the model's own answer, if it is not."""
