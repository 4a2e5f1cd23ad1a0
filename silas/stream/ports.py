"""What the stream needs from others. A port that is absent means no: see each one."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from silas.approval import ApprovalDecision, PublicKeys, SignedMessage
from silas.gates import GateResult
from silas.journal.spoken import Told
from silas.journal.wishes import JournalOp
from silas.kernel import TaintLevel
from silas.kernel.models import Data, UtcDatetime
from silas.memory.models import MemoryItem, MemoryOp, MemoryQuery
from silas.queue.consumer import Handled
from silas.queue.models import QueueMessage
from silas.storage import Transaction
from silas.stream.models import AgentResponse, AgentTurn, Answered, RouteDecision
from silas.stream.store import Origin
from silas.work.models import WorkItem, WorkItemResult
from silas.work.ports import GateRunner, ToolCaller

TextListener = Callable[[str], None]
"""Hears the answer grow; each call brings the text that is new."""


class ProxyAgent(Protocol):
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


class PlannerAgent(Protocol):
    """Writes plans. It asks for research through the tool `request_research`."""

    async def plan(
        self, turn: AgentTurn, tools: ToolCaller, *, findings: Sequence[Finding] = (), final: bool
    ) -> Answered[AgentResponse]:
        """A plan, or an answer; with `final`, no more research is offered."""
        ...

    async def advise(self, turn: AgentTurn) -> Answered[str]:
        """Guidance for a worker that is stuck."""
        ...


class Research(Data):
    """What a research run gave."""

    text: str
    ok: bool
    sources: list[str]


class ResearchAgent(Protocol):
    """The executor in research mode: it reads, and can change nothing."""

    async def research(
        self, turn: AgentTurn, tools: ToolCaller, *, return_format: str
    ) -> Answered[Research]:
        """The answer to one question."""
        ...


class ChronicleEntry(Data):
    """One line of a conversation, as it is kept and shown to the agents."""

    entry_id: str
    """Made from the message's own id: the same entry, added again, is the same entry."""
    scope_id: str
    turn_number: int
    source: str
    """Such as `channel:web` or `agent:planner`."""
    text: str
    taint: TaintLevel


class Saying(Protocol):
    """An entry on its way into a conversation: written in somebody's transaction, then shown.

    If it is committed and not shown, the next entry of the conversation brings it along.
    """

    @property
    def session(self) -> str | None:
        """The session that it belongs to, once it was written."""
        ...

    def write(self, tx: Transaction) -> None:
        """Put it into the chronicle."""
        ...

    async def show(self) -> None:
        """Put it into the context, once it is committed."""
        ...


class ContextRoom(Protocol):
    """What the agents see (context manager and chronicle). Absent: they see the message alone.

    Everything is of one scope, and no method reads another. A repetition with the same ids changes
    nothing: a turn that a crash interrupted is done again from the start.
    """

    async def saying(self, entry: ChronicleEntry) -> Saying:
        """An entry of the chronicle, to be written down and then shown."""
        ...

    async def add_memories(
        self, scope_id: str, items: Sequence[MemoryItem], *, turn_number: int
    ) -> None:
        """Put memories into the memory zone, those that are not there yet."""
        ...

    async def add_plan(
        self, scope_id: str, work_item_id: str, *, markdown: str, taint: TaintLevel
    ) -> None:
        """Pin a plan in the workspace zone, with the taint of what it was made from."""
        ...

    async def watch_query(self, scope_id: str, query: str, *, turn_number: int) -> None:
        """Show what is remembered about this from now on, as long as it is spoken of."""
        ...

    async def set_directives(self, scope_id: str, text: str) -> None:
        """Replace the pinned directives of the personality."""
        ...

    async def set_profile(self, scope_id: str, profile_name: str) -> None:
        """Switch the budget profile."""
        ...

    def fit_skills(self, descriptions: Mapping[str, str]) -> dict[str, str]:
        """The descriptions of skills, the first ones first, that fit into their share."""
        ...

    async def enforce_budget(
        self, scope_id: str, turn_number: int, *, current_goal: str | None
    ) -> None:
        """Evict what does not fit."""
        ...

    async def render(self, scope_id: str, turn_number: int) -> str:
        """The whole context as text for a model."""
        ...

    async def taint(self, scope_id: str) -> TaintLevel:
        """What the rendered context is derived from, joined."""
        ...


class MemoryRoom(Protocol):
    """The memory. Absent: nothing is remembered, and nothing is found."""

    def raw_record(self, item: MemoryItem) -> Callable[[Transaction, str | None], None]:
        """What keeps a raw record, in a transaction and with its session; a known one is kept."""
        ...

    async def retrieve(self, query: MemoryQuery, scope_id: str) -> list[MemoryItem]:
        """What is remembered in this scope, best first."""
        ...

    async def apply(self, op: MemoryOp, *, scope_id: str, taint: TaintLevel, key: str) -> None:
        """Do what an agent wishes; `key` is the same if a crash lets it be wished twice."""
        ...


class JournalRoom(Protocol):
    """The owner's journal. Absent: nothing of it is read, and nothing is written.

    It does what it is told: whoever calls it has made sure that the owner wishes it.
    """

    async def day(self, text: str = "today") -> Told:
        """What a day is about."""
        ...

    async def open_tasks(self, category: str | None = None) -> Told:
        """The tasks that are not closed."""
        ...

    async def fulfil(self, op: JournalOp, *, operation_id: str, said_at: datetime) -> Told:
        """Do what is wished for, once for each `operation_id`, or say why not."""
        ...


class PersonalityRoom(Protocol):
    """How Silas speaks. Absent: plainly. Nothing of it decides what is allowed."""

    async def character(self, scope_id: str, text: str) -> tuple[str, float]:
        """How to answer a message: directives in natural language, and the initiative to take.

        Initiative, from 0 to 1, makes Silas proceed by itself.
        """
        ...

    def after_turn(
        self, scope_id: str, event: str, *, trusted: bool, now: datetime, key: str
    ) -> Callable[[Transaction], object]:
        """What applies the event of a turn and lets the mood decay, in the turn's transaction."""
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
    replaces: str | None = None
    requested_by: str = "planner"
    valid_for: timedelta | None = None
    """How long it can be decided, if that is another time than usual."""


class CardDecision(Data):
    """The owner's decision about a card, as the reviews have verified and kept it."""

    card_id: str
    plan_hashes: dict[str, str]
    """What the card showed: the hash of each item, by its id."""
    decision: ApprovalDecision
    decided_at: UtcDatetime | None = None
    """When it was kept; None if nobody vouches for that. Then it leads to no approval."""
    requested_by: str = "planner"


class Reviews(Protocol):
    """Durable cards. Absent: nobody can be asked, so no plan is taken.

    Whoever decides a card sends `decision_made` (`silas.stream.decisions`) in the transaction that
    keeps the decision. The event names the card and nothing else: what was decided is read here.
    """

    def ask_plan(self, tx: Transaction, review: PlanReview) -> None:
        """Put a card before the owner, as part of a transaction."""
        ...

    async def decision(self, card_id: str) -> CardDecision | None:
        """The decision, once there is one."""
        ...


class GateDesk(Protocol):
    """Asks a person about a gate, in the middle of a turn. Absent: the answer is no."""

    async def approve_gate(
        self, result: GateResult, *, connection_id: str, context: Mapping[str, Any]
    ) -> bool:
        """Whether it may go on."""
        ...


class TurnGates(Protocol):
    """The gate runner. Absent: a turn that has gates is blocked."""

    def for_turn(self) -> GateRunner:
        """The runner for one turn: all its calls keep to one limit."""
        ...


class MessageCheck(Protocol):
    """Whether a signed message is the owner's. Absent: no message is."""

    async def classify(
        self,
        signed: SignedMessage,
        keys: PublicKeys,
        *,
        also: Callable[[Transaction, TaintLevel], None] | None = None,
    ) -> SignedMessage:
        """The message with its taint; `also` is written together with the use of its nonce."""
        ...

    async def is_signed(self, signed: SignedMessage, keys: PublicKeys) -> bool:
        """Whether the owner has signed it, however long ago; nothing is used up."""
        ...


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


class Live(Protocol):
    """Whoever watches right now. Nothing relies on it: what matters travels on the bus."""

    def text(self, connection_id: str, trace_id: str, piece: str) -> None:
        """The answer grows by this piece."""
        ...

    def progress(self, trace_id: str, what: str, detail: str = "") -> None:
        """Something goes on."""
        ...
