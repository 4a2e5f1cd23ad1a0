"""What companions need from others: a model, the owner's decisions, secrets, a way out.

A port that is absent means no: without approvals nothing that needs one is done, without a way out
nothing leaves the machine. What a model may answer (`CompanionProposal`) is actions of four types,
and a report whose claims name their sources.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol, Self

from pydantic import Field, model_validator

from silas.companions.models import (
    AgentActionType,
    AgentInteractionType,
    ReportScope,
    WakeReason,
)
from silas.gates.risk import RiskLevel
from silas.kernel import canonical_bytes
from silas.kernel.models import Data, UtcDatetime

MAX_ACTIONS = 20
MAX_CLAIMS = 60
Sentence = Annotated[str, Field(max_length=2_000)]


class CompanionQuestion(Data):
    """A question to the owner."""

    interaction_type: AgentInteractionType = AgentInteractionType.YES_NO
    prompt_text: Annotated[str, Field(min_length=1, max_length=2_000)]
    options: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=10)] = ()


class ProposedAction(Data):
    """One thing to do."""

    action_type: AgentActionType
    tool_name: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    question: CompanionQuestion | None = None
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


_HTTPS = 443


class ToolSketch(Data):
    """One tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]


class CallAllowance(Data):
    """How much of today's budget one question may use."""

    tokens: int
    cost_usd: float
    seconds: float


class CompanionRequest(Data):
    """One question to a model. `payload` is all that it learns, and it has been projected."""

    agent_id: str
    agent_kind: str
    category_ids: tuple[str, ...]
    run_key: str
    round: int = 0
    wake_reason: WakeReason
    prompt_id: str
    prompt_version: str
    persona_version_id: str | None
    payload: dict[str, Any]
    tools: tuple[ToolSketch, ...] = ()
    offline_rules: str = "report_only"
    """What the offline brain does for this kind."""
    allowance: CallAllowance


class CompanionModel(Protocol):
    """Somebody who proposes. Nothing happens because of a proposal alone."""

    async def propose(self, request: CompanionRequest) -> CompanionProposal:
        """What to do and what to report; raises `SilasError` if there is no answer."""
        ...


class ModelDestination(Data):
    """Where a model is, and what is needed to reach it."""

    provider: str
    model: str
    host: str | None = None
    """None: on this machine, inside this process; nothing leaves it."""
    port: int | None = None
    """None: wherever the provider's own servers listen."""
    secret_ref_id: str | None = None

    @property
    def local(self) -> bool:
        return self.host is None

    @property
    def address(self) -> str | None:
        """Host and port, as people write them: two servers on one host are two addresses."""
        if self.host is None or self.port in (None, _HTTPS):
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def model_id(self) -> str:
        return f"{self.provider}:{self.model}"


class ProviderGateway(Protocol):
    """The only way out: the endpoints of configured model providers, and nothing else."""

    def names(self) -> tuple[str, ...]:
        """The models that a companion may be given."""
        ...

    def destination(self, model_id: str | None) -> ModelDestination | None:
        """Where this model is; None if the owner has configured no such model."""
        ...

    async def propose(
        self, destination: ModelDestination, request: CompanionRequest
    ) -> CompanionProposal:
        """Ask the model there."""
        ...


SecretAvailable = Callable[[str], bool]
"""Whether the vault is open and has the secret of this name. Its value never comes this way."""


class ApprovableAction(Data):
    """One call of a companion's as something to approve: `silas.approval.Approvable`.

    What is shown, hashed and signed are the same bytes.
    """

    operation_id: str
    agent_id: str
    display_name: str
    agent_kind: str
    tool_name: str
    tool_version: int
    arguments: dict[str, Any]
    allowed_category_ids: tuple[str, ...]
    preview: dict[str, Any] = Field(default_factory=dict)
    risk: RiskLevel
    reason: str = ""

    @property
    def id(self) -> str:
        return self.operation_id

    @property
    def parent(self) -> str | None:
        return None

    def plan_bytes(self) -> bytes:
        return canonical_bytes(self.shown())

    def spawn_policy_bytes(self) -> bytes:
        return b""

    def shown(self) -> Mapping[str, Any]:
        """Everything that the owner is shown."""
        return {
            "type": "companion_action",
            **self.model_dump(mode="json"),
        }
