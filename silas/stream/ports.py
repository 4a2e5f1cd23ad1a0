"""What the stream needs from others. A port that is absent means no: see each one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from silas.gates import GateResult
from silas.kernel import TaintLevel
from silas.kernel.models import Data, UtcDatetime
from silas.queue.consumer import Handled
from silas.queue.models import QueueMessage
from silas.review.cards import CardDecision
from silas.storage import Transaction
from silas.stream.models import AgentResponse, AgentTurn, Answered, RouteDecision
from silas.stream.store import Origin
from silas.work.models import WorkItem, WorkItemResult
from silas.work.ports import ToolCaller

TextListener = Callable[[str], None]
"""Hears the answer grow; each call brings all of its text so far. An empty one takes back what was
heard before: it will not be the answer."""


class RoutingAgent(Protocol):
    """The front door: answers, or says that a plan is needed."""

    async def route(
        self, turn: AgentTurn, tools: ToolCaller, *, on_text: TextListener | None = None
    ) -> Answered[RouteDecision]:
        """The decision for one turn; a model that fails gives the deterministic fallback."""
        ...


class Finding(Data):
    """One piece of research, as the planner sees it."""

    question: str
    answer: str
    ok: bool
    sources: list[str]


class PlanningAgent(Protocol):
    """Writes plans. It asks for research through the tool `request_research`."""

    async def plan(
        self, turn: AgentTurn, tools: ToolCaller, *, findings: Sequence[Finding] = (), final: bool
    ) -> Answered[AgentResponse]:
        """A plan, or an answer; with `final`, no more research is offered."""
        ...

    async def advise(self, turn: AgentTurn) -> Answered[str]:
        """Guidance for a worker that is stuck."""
        ...


@dataclass(frozen=True)
class ExactAgents:
    """Agents without a model, for what the owner says in words that mean one thing only.

    They are told the request alone: nothing that was read before is in what they answer.
    """

    understands: Callable[[str, bool], bool]
    """Whether these words say it to the letter; with files, or without."""
    proxy: RoutingAgent
    planner: PlanningAgent


class Research(Data):
    """What a research run gave."""

    text: str
    ok: bool
    sources: list[str]


class ReadingAgent(Protocol):
    """The executor in research mode: it reads, and can change nothing."""

    async def research(
        self, turn: AgentTurn, tools: ToolCaller, *, return_format: str
    ) -> Answered[Research]:
        """The answer to one question."""
        ...


class PlanReview(Data):
    """A card that asks the owner about a plan: exactly these items, whole."""

    card_id: str
    items: list[WorkItem]
    scope_id: str
    connection_id: str
    channel: str
    trace_id: str
    message: str
    """What the planner says about it."""
    taint: TaintLevel
    """What the plan is derived from."""
    sources: tuple[str, ...] = ()
    """The strangers' texts among it; those of earlier work that it goes on from are added."""
    replaces: str | None = None
    requested_by: str = "planner"
    valid_for: timedelta | None = None
    """How long it can be decided, if that is another time than usual."""


class Reviews(Protocol):
    """Durable cards. Absent: nobody can be asked, so no plan is taken.

    Whoever decides a card sends `decision_made` (`silas.review.cards`) in the transaction that
    keeps the decision. The event names the card and nothing else: what was decided is read here.
    """

    def ask_plan(self, tx: Transaction, review: PlanReview) -> None:
        """Put a card before the owner, as part of a transaction."""
        ...

    async def decision(self, card_id: str) -> CardDecision | None:
        """The decision, once there is one."""
        ...


class GateApprover(Protocol):
    """Asks a person about a gate, in the middle of a turn. Absent: the answer is no."""

    async def approve_gate(
        self, result: GateResult, *, connection_id: str, context: Mapping[str, Any]
    ) -> bool:
        """Whether it may go on."""
        ...


class ProposedChange(Data):
    """One change of the memory or the journal that an agent wishes for, and the owner did not."""

    room: Literal["memory", "journal"]
    op: dict[str, Any]
    key: str
    """What makes it happen once: the memory's key, or the journal's `operation_id`."""
    line: str
    """What it would do, in words."""
    before: str | None = None
    """The digest of the memory as it was shown; one that has changed since is left alone."""
    said_at: UtcDatetime | None = None
    """What times in words refer to."""


class RecordProposal(Data):
    """All such changes of one turn, put before the owner on one card."""

    key: str
    scope_id: str
    trace_id: str
    changes: list[ProposedChange]
    taint: TaintLevel


class Proactive(Protocol):
    """Reviews, suggestions and warnings that wait. Absent: there are none."""

    async def surface(self, scope_id: str, *, now: datetime) -> None:
        """Put what waits onto the owner's surfaces."""
        ...

    async def after_work(
        self, message: QueueMessage, item: WorkItem, result: WorkItemResult
    ) -> Sequence[Callable[[Transaction], object]]:
        """What work that has ended leaves to ask, written together with its report."""
        ...

    async def edit(
        self, origin: Origin, item: WorkItem
    ) -> Sequence[Callable[[Transaction], object]]:
        """Give the owner a plan's text to change; empty if it has none."""
        ...

    async def follow(self, message: QueueMessage, name: str) -> Handled:
        """What the owner's answer to a question leads to."""
        ...

    async def ask_changes(self, proposal: RecordProposal) -> Callable[[Transaction], object] | None:
        """What asks the owner, in somebody's transaction; None if too much waits already."""
        ...


class AnswerProgress(Data):
    """Where an answer is that is being made, in the runtime's words."""

    trace_id: str
    connection_id: str
    stage: str
    words: str
    note: str = ""
    """Why nothing of it is shown yet."""
    seconds: float = 0.0
    """For how long it has been there."""
    over: bool = False
    """It is not being made any more."""


class Live(Protocol):
    """Whoever watches right now. Nothing relies on it: what matters travels on the bus."""

    def text(self, connection_id: str, trace_id: str, piece: str, *, start: int) -> None:
        """From `start` on, the text of the answer is now this piece: it grows, or begins anew."""
        ...

    def answering(self, progress: AnswerProgress) -> None:
        """An answer is at another stage, or is over."""
        ...

    def progress(self, trace_id: str, what: str, detail: str = "") -> None:
        """Something goes on."""
        ...
