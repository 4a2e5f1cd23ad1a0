"""Who works, who is asked, and what they are told: the ports of work, and their messages.

A port that is absent means no: see each one. Whether a worker can wait, and whether calls can be
reviewed, is declared (`pauses`, `reviewer`), never found out by looking for methods.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic import Field

from silas.kernel import TaintLevel, WorkError
from silas.kernel.models import Data
from silas.review import OwnersWord, ShownQuestion
from silas.tools.declaration import Tool, ToolOffer
from silas.tools.execution import ModelView
from silas.work.models import InteractionMode, VerificationResult, WorkItem


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
    interaction_mode: InteractionMode | None = None
    """How to proceed, as it was resolved for the plan."""


class ExecutorAgentOutput(Data):
    """What the executor's model says about its run. It decides nothing."""

    summary: str
    artifact_refs: list[str] = Field(default_factory=list)
    next_steps: list[str] = Field(default_factory=list)


class AgentRun(Data):
    """What a worker says and what it used. Nothing of it decides whether the work is done."""

    output: ExecutorAgentOutput
    error: str | None = None
    """Why the run failed, if it did; what it used is charged all the same."""
    unfinished: str | None = None
    """Which step of a script was not made, and why. Without checks, that is a failed attempt."""
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


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

    @property
    def reviewer(self) -> "CallReviewer | None":
        """What reviews and performs its calls, if they can wait for the owner; else None."""
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


class CallReviewer(Protocol):
    """Calls that can wait for the owner: first reviewed, then performed."""

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


class AttemptWorker(Protocol):
    """The worker of one attempt. It keeps nothing, and may be cancelled at any moment.

    Absent: nothing is executed, and the item is blocked.
    """

    @property
    def pauses(self) -> bool:
        """Whether it can wait for the owner's decision. For one that cannot, later means no."""
        ...

    async def run(self, briefing: Briefing, tools: ToolCaller) -> AgentRun | PausedRun:
        """Work through the briefing."""
        ...

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


class OneRunWorker:
    """Base of a worker that works through its briefing in one run, and never waits."""

    pauses = False

    async def resume(
        self,
        briefing: Briefing,
        tools: ToolCaller,
        *,
        paused: PausedRun,
        verdicts: Sequence[CallVerdict],
    ) -> AgentRun | PausedRun:
        raise WorkError("This worker cannot go on with a run that was paused.")


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


class Later(Data):
    """The owner decides later; until then the run is paused."""


class Approver(Protocol):
    """Asks the owner in the middle of a run. Absent: everything that would be asked is declined.

    What it says counts for nothing without the proof that comes with it.
    """

    async def decide_call(self, call: PausedCall, question: ShownQuestion) -> OwnersWord | Later:
        """The owner's decision about one call, now or later."""
        ...

    async def decide_item(self, item: WorkItem, question: ShownQuestion) -> OwnersWord | Later:
        """The owner's decision about a whole work item; if it comes later, it is not begun."""
        ...


class SkillFiles(Protocol):
    """The skills that are installed. Absent: there are none."""

    async def digest(self, name: str) -> str | None:
        """SHA-256 over all files of a skill; None if there is no such skill."""
        ...

    async def instructions(self, name: str) -> str:
        """The text of the skill for the worker."""
        ...

    def directories(self, hashes: Mapping[str, str]) -> list[str]:
        """Where the files of exactly these versions lie: the worker's commands may read them."""
        ...

    async def tools(self, hashes: Mapping[str, str]) -> Sequence[Tool]:
        """The tools that exactly these versions bring, for one attempt.

        Whoever calls one of them runs what was approved: each call compares the files again.
        """
        ...


class ProgressListener(Protocol):
    """Hears how work goes; what it does with that cannot change the outcome."""

    def __call__(self, work_item_id: str, what: str, detail: str = "") -> None:
        """Something happened."""
        ...
