"""What a turn works with, and what it is. Both are values: a step returns the turn that follows.

Text of others is marked as such before an agent reads it (`mark_foreign`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import Field

from silas.approval import PublicKeys
from silas.approval.devices import MessageVerifier
from silas.audit.models import AuditTrail
from silas.context.service import ContextService, PendingEntry
from silas.gates import Gate, GateResult
from silas.gates.access import Visitors, is_owner
from silas.gates.risk import EffectOf
from silas.gates.runner import GateRunner
from silas.journal.conversation import JournalConversation
from silas.kernel import Clock, IdFactory, TaintLevel
from silas.kernel.models import Data
from silas.kernel.told_secrets import ToldSecret
from silas.memory.service import MemoryService
from silas.personality import PersonalityEngine
from silas.queue.models import (
    Agent,
    AgentReply,
    MessageKind,
    Payload,
    PrintedOutput,
    QueueMessage,
    StatusPayload,
    Urgency,
    follow,
)
from silas.skills.loading import SkillResolver
from silas.storage import Durability, Transaction
from silas.stream.accounts import AccountReading
from silas.stream.answering import AnswersInProgress
from silas.stream.attachments import AttachmentStore, ReadFile
from silas.stream.cases import VisitorCases
from silas.stream.folders import Surroundings
from silas.stream.limits import RateLimit
from silas.stream.models import AgentResponse, InteractionRegister, RouteDecision, Usage
from silas.stream.places import OpenedPlaces, PlaceWish
from silas.stream.ports import ExactAgents, GateApprover, Live, Proactive, Reviews, RoutingAgent
from silas.stream.reading_tools import ReadingToolbox, ToolOutput
from silas.stream.store import ConversationStore, Origin
from silas.stream.visitors import VisitorDoor
from silas.tools.declaration import Tool
from silas.work.models import InteractionMode, WorkItem
from silas.work.off_limits import OffLimits
from silas.work.store import WorkItemStore


def mark_foreign(text: str, taint: TaintLevel) -> str:
    """The text, indented and announced if it is not the owner's: it informs, it does not order."""
    if taint is TaintLevel.OWNER:
        return text
    quoted = "\n".join(f"    {line}" for line in text.splitlines())
    return f"A message that is not verified as the owner's ({taint.value}). Its text:\n{quoted}"


Write = Callable[[Transaction], object]
Outbox = Callable[[QueueMessage], Any]


def nobody(_channel: str, _sender_id: str) -> bool:
    """No channel has recognised this sender."""
    return False


def no_tool(_name: str) -> Tool | None:
    """No tool of any goal's is here."""
    return None


async def no_goals() -> tuple[WorkItem, ...]:
    """No goal is always on."""
    return ()


class TurnPolicy(Data):
    """The owner's settings, as far as a turn is concerned."""

    owner_id: str = "owner"
    default_profile: str = "conversation"
    profiles: tuple[str, ...] = ("conversation",)
    high_initiative_min: float = 0.65
    default_modes: dict[InteractionRegister, InteractionMode] = Field(default_factory=dict)
    max_memory_ops: int = 10
    max_told: int = 3
    max_open_cards: int = 3
    """Of one scope that is not the owner's."""
    max_tokens: int = 50_000
    max_cost_usd: float = 0.5
    starts_goals: bool = True
    """Whether anything is begun at set times."""
    letters_wait: timedelta | None = None
    """For how long an approved letter can still be kept here before it leaves; None: not at all."""
    off_limits: OffLimits
    home: Path = Path("/")
    """What `~` stands for, and what relative paths are relative to where nothing else is."""
    workspace: Path | None = None
    """Where requests without a folder of their own work; None: a plan has to name one."""

    @property
    def surroundings(self) -> Surroundings:
        """What paths in a request are read against."""
        return Surroundings(self.home, self.off_limits, self.workspace)


AskSecret = Callable[[str, str], Awaitable[bool]]
"""Asks for a secret of this name, called so, on a page; False if there is no page for that."""


async def no_page(_name: str, _label: str) -> bool:
    """`AskSecret` where nothing can be typed on a page."""
    return False


@dataclass(frozen=True)
class VaultDoor:
    """What a conversation may do with the vault: know the names in it, and have one typed."""

    names: Callable[[], Sequence[str]]
    ask: AskSecret = no_page


SpeakToCompanion = Callable[["Turn", bool], Awaitable["Turn | None"]]
"""The turn that says whom it has asked; None if the message speaks to no companion. The second
argument says whether it is the owner's own message."""


@dataclass(frozen=True)
class TurnContext:
    """Everything that the steps use. Whatever is None is absent: see each port what that means."""

    store: ConversationStore
    items: WorkItemStore
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    reading: ReadingToolbox
    visitors: Visitors
    policy: TurnPolicy
    enqueue: Outbox
    effect_of: EffectOf
    system_gates: Sequence[Gate]
    memory_ops: RateLimit
    """How many memory operations a scope may have in a minute."""
    worker_tools: frozenset[str]
    """The tools that a worker is offered."""
    answers: AnswersInProgress
    proxy: RoutingAgent | None = None
    gates: GateRunner | None = None
    messages: MessageVerifier | None = None
    keys: Callable[[], PublicKeys] = lambda: PublicKeys(())
    is_known: Callable[[str, str], bool] = nobody
    memory: MemoryService | None = None
    journal: JournalConversation | None = None
    context: ContextService | None = None
    personality: PersonalityEngine | None = None
    reviews: Reviews | None = None
    gate_approver: GateApprover | None = None
    proactive: Proactive | None = None
    skills: SkillResolver | None = None
    accounts: AccountReading | None = None
    """Looks into the owner's accounts. Absent: nobody does."""
    live: Live | None = None
    door: VisitorDoor | None = None
    """Lets visitors in. Absent: nobody is let in."""
    cases: VisitorCases | None = None
    """Hands a visitor over to a person. Absent: nobody can be handed over."""
    places: OpenedPlaces | None = None
    """What may be read without a plan. Absent: nothing, and nobody is asked."""
    goal_tool: Callable[[str], Tool | None] = no_tool
    """The tool of this name, for goals whose visitors may use it."""
    active_goal: WorkItem | None = None
    """The goal that the settings name: it configures the conversation."""
    standing_goals: Callable[[], Awaitable[tuple[WorkItem, ...]]] = no_goals
    """Gives the goals that are always on and approved; they do so too."""
    proxy_hears_context: bool = True
    """False: the proxy is told the message alone, so nothing else is in its answer."""
    planner_hears_context: bool = True
    """The same for the planner: a plan is made from what the planner was told."""
    attachments: AttachmentStore | None = None
    """The files of messages. Absent: none is read."""
    proxy_sees_images: bool = False
    """Whether the proxy's model can be given images."""
    planner_sees_images: bool = False
    """The same for the planner's."""
    vault: VaultDoor | None = None
    """Absent: what is told is taken out all the same, and the owner stores it at the terminal."""
    spoken_to: SpeakToCompanion | None = None
    """Passes on what is said to a companion. Absent: nobody is spoken to."""
    exact: ExactAgents | None = None
    """Asked before the agents that have a model; None: those are asked at once."""
    proxy_model: str | None = None
    """What the proxy asks is called; None: it asks no model."""
    frame: Callable[[str, TaintLevel], str] = mark_foreign

    def is_owners(self, origin: Origin) -> bool:
        """Whether the owner began this, whatever was read for it since."""
        return is_owner(origin.connection_id, owner_id=self.policy.owner_id, taint=origin.taint)

    def level_of(self, origin: Origin) -> str:
        """The access level of whoever began this."""
        if self.is_owners(origin):
            return "owner"
        return self.visitors.of(origin.connection_id, owner=False).level

    def exact_for(
        self, text: str, taint: TaintLevel | None, *, with_files: bool = False
    ) -> ExactAgents | None:
        """Who answers this without a model; None if it is not the owner's, or not exact."""
        exact = self.exact
        if exact is None or taint is not TaintLevel.OWNER:
            return None
        return exact if exact.understands(text, with_files) else None

    async def goals_in_force(self) -> tuple[WorkItem, ...]:
        """The goals that configure this conversation now."""
        named = () if self.active_goal is None else (self.active_goal,)
        return (*named, *await self.standing_goals())

    def tools_of(self, origin: Origin) -> frozenset[str]:
        """The tools that whoever began this may have used for it."""
        mine = self.is_owners(origin)
        return frozenset(self.visitors.of(origin.connection_id, owner=mine).get_allowed_tools())


@dataclass(frozen=True)
class Turn:
    """One turn on its way. What it leads to is kept until all of it can happen together."""

    message: QueueMessage
    """The message that is answered; from step 2 on with the taint that was found."""
    origin: Origin
    number: int
    text: str
    """The message as the gates leave it."""
    told_secret: ToldSecret | None = None
    """The secret that the owner has told; `text` is without it."""
    speaker: Agent = Agent.PROXY
    gates: tuple[Gate, ...] = ()
    runner: GateRunner | None = None
    input_results: tuple[GateResult, ...] = ()
    allowed: frozenset[str] = frozenset()
    skills: Mapping[str, str] = field(default_factory=dict)
    skill_tools: Mapping[str, Tool] = field(default_factory=dict)
    """By name, what the skills of a visitor's goal bring."""
    is_resumed: bool = False
    """The owner has just signed a yes to read for this request, which he had said before."""
    goal: WorkItem | None = None
    """The goal that this visitor came for."""
    link_id: str | None = None
    """The link with which this visitor came."""
    files: tuple[ReadFile, ...] = ()
    """What is attached to the owner's message."""
    wishes: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Calls that a visitor wants and that change something: each is asked on a card."""
    place_wish: PlaceWish | None = None
    """A place that the owner's words name and that is not open: he is asked."""
    files_read: tuple[str, ...] = ()
    """The files that the answer was told something of."""
    blocked: tuple[GateResult, ...] = ()
    """Gates that have stopped calls of a visitor's."""
    directives: str = ""
    initiative: float = 0.0
    decision: RouteDecision | None = None
    is_exact: bool = False
    """The response is made from the owner's words to the letter: no model has said it."""
    mode: InteractionMode | None = None
    usage: Usage = field(default_factory=Usage)
    """What the proxy used for its answer."""
    outputs: tuple[ToolOutput, ...] = ()
    """What the tools gave that it called."""
    response: AgentResponse | None = None
    taint: TaintLevel = TaintLevel.EXTERNAL
    """What the response is derived from."""
    sources: tuple[str, ...] = ()
    """The strangers' texts among it."""
    read_taint: TaintLevel = TaintLevel.EXTERNAL
    """What the message says and what was read for this answer, without the conversation before."""
    card_id: str | None = None
    surface: str | None = None
    """Set where the runtime has chosen already."""
    needs_attention: bool = False
    goes_on: bool = False
    """Somebody else answers later: what is said now is not the end of it."""
    told_work: str | None = None
    """The work whose end the answer tells, if its message is not the status itself."""
    printed: tuple[PrintedOutput, ...] = ()
    """What checks of that work printed, to stand beside the answer."""
    journal_changes: tuple[str, ...] = ()
    """What was changed in the journal, by the ids with which it is undone."""
    mood: str | None = None
    outgoing: tuple[QueueMessage, ...] = ()
    writes: tuple[Write, ...] = ()
    after: tuple[Callable[[], Awaitable[None]], ...] = ()
    """What is shown in memory, once the end of the turn is committed."""
    message_writes: tuple[Write, ...] = ()
    """What was found out about the message, until it is written down before the proxy is asked."""
    entry: PendingEntry | None = None
    """The entry of the chronicle that is on its way."""
    durability: Durability = Durability.ORDINARY
    stopped: str | None = None
    """Why the turn ends early."""

    @property
    def scope_id(self) -> str:
        return self.origin.scope_id

    @property
    def sender_id(self) -> str:
        return self.origin.sender_id

    def sending(self, *messages: QueueMessage) -> "Turn":
        """The turn with more to send at its end."""
        return replace(self, outgoing=(*self.outgoing, *messages))

    def writing(self, *writes: Write) -> "Turn":
        """The turn with more to write at its end."""
        return replace(self, writes=(*self.writes, *writes))

    def auditing(self, *writes: Write) -> "Turn":
        """The turn with entries of the audit log, so that its end has to reach the disk."""
        return replace(self, writes=(*self.writes, *writes), durability=Durability.TRUST)

    def saying(self, text: str) -> "Turn":
        """The turn with another text as its answer."""
        response = self.response or AgentResponse(message=text)
        return replace(self, response=response.model_copy(update={"message": text}))


def message_of(
    services: TurnContext,
    turn: Turn,
    *,
    kind: MessageKind,
    content: str,
    payload: Payload,
    **more: Any,
) -> QueueMessage:
    """A message that follows from this turn."""
    sources = turn.sources if more.get("taint") is TaintLevel.EXTERNAL else ()
    return follow(
        turn.message,
        sources=sources,
        sender=more.pop("sender", turn.speaker),
        kind=kind,
        content=content,
        payload=payload,
        ids=services.ids,
        clock=services.clock,
        **more,
    )


def reply_of(
    services: TurnContext,
    turn: Turn,
    text: str,
    *,
    surface: str,
    answers: bool = True,
    card_id: str | None = None,
    chips: Sequence[str] = (),
    urgent: bool = False,
) -> QueueMessage:
    """An answer on its way to the person; `answers` says whether it is the one to the message."""
    origin, told = turn.origin, turn.message
    status = told.payload if isinstance(told.payload, StatusPayload) else None
    return message_of(
        services,
        turn,
        kind=MessageKind.AGENT_RESPONSE,
        content=text,
        payload=AgentReply(
            connection_id=origin.connection_id,
            channel=origin.channel,
            in_reply_to=origin.message_id if answers else None,
            surface=surface,
            final=not turn.goes_on,
            card_id=card_id,
            chips=list(chips),
            journal_changes=list(turn.journal_changes) if answers else [],
            interaction_register=turn.decision.interaction_register.value if turn.decision else "",
            interaction_mode=turn.mode.value if turn.mode else "",
            work_item_id=told.task_id if status else turn.told_work,
            printed=status.printed if status else list(turn.printed),
            undo_until=status.undo_until if status else None,
        ),
        taint=turn.taint,
        urgency=Urgency.NEEDS_ATTENTION if urgent else Urgency.INFORMATIONAL,
    )
