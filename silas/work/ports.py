"""What the work room needs from others. A port that is absent means no: see each one."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from pydantic import Field

from silas.approval import Approvable, ApprovalDecision, ApprovalScope, ApprovalToken
from silas.approval.ports import Recorded
from silas.gates import Gate, GateResult, GateTrigger
from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.sandbox.models import SandboxRequest, SandboxResult
from silas.sandbox.ports import OutputListener
from silas.storage import Transaction
from silas.work.checks import VerificationResult
from silas.work.execution_models import (
    ExecutionEnvelope,
    ExecutionResult,
    ExecutorAgentOutput,
    ModelView,
)
from silas.work.models import WorkItem


class AgentLimits(Data):
    """How much of the budget is left for one attempt."""

    tokens: int
    cost_usd: float
    seconds: float
    requests: int = 50
    """How often a model may be asked."""


class Briefing(Data):
    """Everything that a worker is told about its attempt."""

    work_item_id: str
    attempt: int
    instructions: str
    """Everything in words: the plan's, then what came of earlier attempts, and advice."""
    limits: AgentLimits
    approved: str | None = None
    """The plan's own words alone, as they were approved; None if these are all there are."""
    skills: dict[str, str] = Field(default_factory=dict)
    """The instructions of each skill, by its name."""


class AgentRun(Data):
    """What a worker says and what it used. Nothing of it decides whether the work is done."""

    output: ExecutorAgentOutput
    error: str | None = None
    """Why the run failed, if it did; what it used is charged all the same."""
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class ToolOffer(Data):
    """One tool as a worker sees it: what it does, and which arguments it takes."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON schema of its arguments."""
    contained: bool
    """Whether it acts in the workspace and its sandbox, and nowhere else."""
    changes_state: bool
    """Whether the outside is different afterwards."""


class ToolCaller(Protocol):
    """The only way in which a worker can do anything."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tools that there are."""
        ...

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        """The same tools, described for a model."""
        ...

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        """Make one call; a refusal is an answer too, with `success` false and the reason."""
        ...


class PausedCall(Data):
    """A call that waits for the owner, with its exact arguments and why it waits."""

    work_item_id: str
    attempt: int
    tool: str
    args: dict[str, Any]
    reasons: list[str]
    taint: TaintLevel
    taint_sources: list[str] = Field(default_factory=list)
    """Where the foreign content in this run came from."""


class CallReview(Data):
    """What the runtime says about a call before it is made."""

    number: int
    tool: str
    args: dict[str, Any]
    """As the gates leave them: with these the call is made."""
    refusal: str | None = None
    """Why the call is not made."""
    waits: PausedCall | None = None
    """What the owner has to decide first, if the decision comes later."""


@runtime_checkable
class ReviewingCaller(ToolCaller, Protocol):
    """A `ToolCaller` whose calls can wait for the owner: first reviewed, then performed."""

    async def review(self, tool: str, args: Mapping[str, Any]) -> CallReview:
        """Everything that is checked before a call, without making it."""
        ...

    async def perform(self, review: CallReview) -> ModelView:
        """Make a call that was reviewed, once; what waits or was refused is not made."""
        ...

    def revoked(self) -> str | None:
        """Why no call is made any more; None as long as the run may go on."""
        ...

    def report(self, *, tokens: int, cost_usd: float) -> None:
        """What the run has used so far: it counts, also if the run is cut off."""
        ...


class WaitingCall(Data):
    """One call of a run that is paused."""

    call_id: str
    """Its name in the worker's history."""
    call: PausedCall


class PausedRun(Data):
    """A run that ended because calls wait for the owner, and everything to go on with it."""

    history: str
    """The worker's own record of its run; nobody else reads it."""
    calls: tuple[WaitingCall, ...] = Field(min_length=1)
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class CallVerdict(Data):
    """What was decided about a call that waited."""

    call_id: str
    approved: bool
    reason: str = ""
    """For the worker, if it was not approved."""


class ExecutorAgent(Protocol):
    """The worker of one attempt. It keeps nothing, and may be cancelled at any moment.

    Absent: nothing is executed, and the item is blocked.
    """

    async def run(self, briefing: Briefing, tools: ToolCaller) -> AgentRun | PausedRun:
        """Work through the briefing."""
        ...


@runtime_checkable
class PausingAgent(ExecutorAgent, Protocol):
    """A worker that can wait for the owner's decision. For another one, later means no."""

    async def resume(
        self,
        briefing: Briefing,
        tools: ToolCaller,
        *,
        paused: PausedRun,
        verdicts: Sequence[CallVerdict],
    ) -> AgentRun | PausedRun:
        """Go on with a run that was paused, in this process or in another one."""
        ...


class EphemeralExecutor(Protocol):
    """One action, executed once; it keeps nothing."""

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        """Do what the envelope says, and say what came of it."""
        ...


class SandboxRunner(Protocol):
    """Runs commands contained, as `SandboxBackend` promises it."""

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        """Run one command to its end, or refuse to."""
        ...


class GateRunner(Protocol):
    """Evaluates gates. Absent: a plan that has gates is blocked."""

    async def check_gates(
        self, gates: list[Gate], trigger: GateTrigger, context: dict[str, Any]
    ) -> tuple[list[GateResult], list[GateResult], dict[str, Any]]:
        """The results of the policy lane, of the quality lane, and the merged context."""
        ...


class Planner(Protocol):
    """Helps a worker that does not get on. Absent: it has to get on alone."""

    async def consult(
        self, item: WorkItem, failures: Sequence[VerificationResult], *, reason: str
    ) -> "Guidance":
        """Advice for the next attempt."""
        ...


class Guidance(Data):
    """The planner's advice, and what it cost."""

    text: str
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class ApprovalDoor(Protocol):
    """The approval engine, as far as work is concerned."""

    async def issue_token(
        self,
        work_item: Approvable,
        decision: ApprovalDecision,
        scope: ApprovalScope = ApprovalScope.FULL_PLAN,
    ) -> ApprovalToken:
        """Sign the owner's yes."""
        ...

    async def verify(
        self,
        token: ApprovalToken,
        work_item: Approvable,
        spawned_task: Approvable | None = None,
        *,
        accept: frozenset[ApprovalScope] = ...,
    ) -> tuple[bool, str]:
        """Consume one use of the token."""
        ...

    async def check(
        self,
        token: ApprovalToken,
        work_item: Approvable,
        *,
        accept: frozenset[ApprovalScope] = ...,
    ) -> tuple[bool, str]:
        """Whether this work was authorised; consumes nothing."""
        ...

    async def token_for(
        self,
        work_item: Approvable,
        decision: ApprovalDecision,
        scope: ApprovalScope = ApprovalScope.FULL_PLAN,
        *,
        decided_at: datetime | None,
    ) -> ApprovalToken | None:
        """The one token that a decision of that time leads to; None if it is too long ago."""
        ...

    async def enter(
        self,
        token: ApprovalToken,
        work_item: Approvable,
        *,
        accept: frozenset[ApprovalScope] = ...,
        most: int | None = None,
    ) -> tuple[bool, str]:
        """`check`, borne out by the audit log; asked once for each execution."""
        ...

    async def withdraw(self, token: ApprovalToken, work_item: Approvable) -> None:
        """Take an approval back."""
        ...

    async def check_goal(self, token: ApprovalToken, goal: Approvable) -> tuple[bool, str]:
        """Whether a standing approval of this goal is in force; consumes nothing."""
        ...


class Later(Data):
    """The owner decides later; until then the run is paused."""


class Approver(Protocol):
    """Asks the owner in the middle of a run. Absent: everything that would be asked is declined."""

    async def decide_call(self, call: PausedCall) -> ApprovalDecision | Later:
        """The owner's decision about one call, now or later."""
        ...

    async def decide_item(self, item: WorkItem) -> ApprovalDecision:
        """The owner's decision about a whole work item."""
        ...


class AuditTrail(Protocol):
    """Where work leaves its trace."""

    def append(self, tx: Transaction, event: str, data: Mapping[str, Any]) -> str:
        """Add an entry as part of a transaction."""
        ...

    async def log(self, event: str, /, **data: Any) -> str:
        """Add an entry by itself."""
        ...

    async def write_checkpoint(self) -> str:
        """Have the owner's key vouch for the log as it is."""
        ...

    async def proven_since(
        self, moment: datetime, events: Collection[str], *, about: str
    ) -> Sequence[Recorded]:
        """All entries of these events since then that hold this text; raises `AuditError`."""
        ...


class SkillFiles(Protocol):
    """The skills that are installed. Absent: there are none."""

    async def digest(self, name: str) -> str | None:
        """SHA-256 over all files of a skill; None if there is no such skill."""
        ...

    async def instructions(self, name: str) -> str:
        """The text of the skill for the worker."""
        ...


class Progress(Protocol):
    """Hears how work goes; what it does with that cannot change the outcome."""

    def __call__(self, work_item_id: str, what: str, detail: str = "") -> None:
        """Something happened."""
        ...
