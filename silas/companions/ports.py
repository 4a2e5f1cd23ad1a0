"""What companions need from others: a model, the owner's decisions, secrets, a way out.

A port that is absent means no: without approvals nothing that needs one is done, without a way out
nothing leaves the machine.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import Field

from silas.approval import ApprovalToken
from silas.companions.models import WakeReason
from silas.companions.proposals import CompanionProposal
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel, canonical_bytes
from silas.kernel.models import Data

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


class Destination(Data):
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

    def destination(self, model_id: str | None) -> Destination | None:
        """Where this model is; None if the owner has configured no such model."""
        ...

    async def propose(
        self, destination: Destination, request: CompanionRequest
    ) -> CompanionProposal:
        """Ask the model there."""
        ...


class SecretProvider(Protocol):
    """Whether a secret can be used. Its value never comes this way."""

    def available(self, secret_ref_id: str) -> bool:
        """Whether the vault is open and has it."""
        ...


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


class ActionApprovals(Protocol):
    """Durable cards for actions. Absent: nothing that needs a yes is ever done."""

    async def ask(self, action: ApprovableAction, *, taint: TaintLevel) -> None:
        """Put the action before the owner, once: asking again changes nothing."""
        ...

    async def token_for(self, action: ApprovableAction) -> ApprovalToken | None:
        """A token for the owner's yes to exactly this action; None if there is no yes (yet)."""
        ...

    async def declined(self, action: ApprovableAction) -> bool:
        """Whether the owner said no, or the time to say yes is over."""
        ...

    async def consume(self, token: ApprovalToken, action: ApprovableAction) -> tuple[bool, str]:
        """Use the token up for exactly this action; (False, why) if it cannot be used."""
        ...

    async def check(self, token: ApprovalToken, action: ApprovableAction) -> tuple[bool, str]:
        """At the door of the tool: whether the token was used up for exactly this action."""
        ...

    async def carried_out(self, token: ApprovalToken, action: ApprovableAction) -> None:
        """It was done: the token opens no door any more, whatever the rows will say."""
        ...

    async def withdraw(self, agent_id: str) -> None:
        """Take the open cards of a companion away: it was stopped or destroyed."""
        ...
