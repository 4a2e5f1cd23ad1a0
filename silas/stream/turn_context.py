"""What a turn works with, and what it is. Both are values: a step returns the turn that follows."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from silas.approval import PublicKeys
from silas.gates import Gate, GateResult
from silas.gates.access import is_owner
from silas.kernel import Clock, IdFactory, TaintLevel
from silas.kernel.models import Data
from silas.queue.follow import follow
from silas.queue.models import (
    Agent,
    AgentReply,
    MessageKind,
    Payload,
    QueueMessage,
    Urgency,
)
from silas.storage import Durability, Transaction
from silas.stream.access import Visitors
from silas.stream.cadence import CadenceWatch
from silas.stream.framing import mark_foreign
from silas.stream.limits import RateLimit
from silas.stream.models import AgentResponse, InteractionRegister, RouteDecision, Usage
from silas.stream.ports import (
    ContextRoom,
    GateDesk,
    JournalRoom,
    Live,
    MemoryRoom,
    MessageCheck,
    PersonalityRoom,
    Proactive,
    ProxyAgent,
    Reviews,
    Saying,
    TurnGates,
)
from silas.stream.reading_room import ReadingRoom
from silas.stream.store import ConversationStore, Origin
from silas.work.models import InteractionMode, WorkItem
from silas.work.ports import AuditTrail, GateRunner, SkillFiles
from silas.work.store import WorkItemStore

Write = Callable[[Transaction], object]
Outbox = Callable[[QueueMessage], Any]


def nobody(_channel: str, _sender_id: str) -> bool:
    """No channel has recognised this sender."""
    return False


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
    plans_base: Path = Path("/")
    """What relative paths in a plan are relative to."""


@dataclass(frozen=True)
class TurnContext:
    """Everything that the steps use. Whatever is None is absent: see each port what that means."""

    store: ConversationStore
    items: WorkItemStore
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    reading: ReadingRoom
    visitors: Visitors
    policy: TurnPolicy
    enqueue: Outbox
    proxy: ProxyAgent | None = None
    gates: TurnGates | None = None
    system_gates: Sequence[Gate] = ()
    messages: MessageCheck | None = None
    keys: Callable[[], PublicKeys] = lambda: PublicKeys(())
    is_known: Callable[[str, str], bool] = nobody
    memory: MemoryRoom | None = None
    journal: JournalRoom | None = None
    context: ContextRoom | None = None
    personality: PersonalityRoom | None = None
    reviews: Reviews | None = None
    gate_desk: GateDesk | None = None
    proactive: Proactive | None = None
    skills: SkillFiles | None = None
    live: Live | None = None
    active_goal: WorkItem | None = None
    cadence: CadenceWatch | None = None
    memory_ops: RateLimit | None = None
    """How many memory operations a scope may have in a minute."""
    proxy_hears_context: bool = True
    """False: the proxy is told the message alone, so nothing else is in its answer."""
    frame: Callable[[str, TaintLevel], str] = mark_foreign

    def tools_of(self, origin: Origin) -> frozenset[str]:
        """The tools that whoever began this may have used for it."""
        mine = is_owner(origin.connection_id, owner_id=self.policy.owner_id, taint=origin.taint)
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
    speaker: Agent = Agent.PROXY
    gates: tuple[Gate, ...] = ()
    runner: GateRunner | None = None
    input_results: tuple[GateResult, ...] = ()
    allowed: frozenset[str] = frozenset()
    skills: Mapping[str, str] = field(default_factory=dict)
    directives: str = ""
    initiative: float = 0.0
    decision: RouteDecision | None = None
    mode: InteractionMode | None = None
    usage: Usage = field(default_factory=Usage)
    """What the proxy used for its answer."""
    response: AgentResponse | None = None
    taint: TaintLevel = TaintLevel.EXTERNAL
    """What the response is derived from."""
    card_id: str | None = None
    surface: str | None = None
    """Set where the runtime has chosen already."""
    needs_attention: bool = False
    mood: str | None = None
    outgoing: tuple[QueueMessage, ...] = ()
    writes: tuple[Write, ...] = ()
    after: tuple[Callable[[], Awaitable[None]], ...] = ()
    """What the rooms show in memory, once the end of the turn is committed."""
    found: tuple[Write, ...] = ()
    """What was found out about the message, until it is written down before the proxy is asked."""
    said: Saying | None = None
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

    def having(self, **changes: Any) -> "Turn":
        """The turn with something changed."""
        # As `dataclasses.replace` does it, at a tenth of its cost: nearly every step comes here.
        if not changes.keys() <= self.__dict__.keys():
            raise TypeError(f"a turn has no {', '.join(changes.keys() - self.__dict__.keys())}")
        changed = object.__new__(Turn)
        changed.__dict__.update(self.__dict__)
        changed.__dict__.update(changes)
        return changed

    def sending(self, *messages: QueueMessage) -> "Turn":
        """The turn with more to send at its end."""
        return self.having(outgoing=(*self.outgoing, *messages))

    def writing(self, *writes: Write) -> "Turn":
        """The turn with more to write at its end."""
        return self.having(writes=(*self.writes, *writes))

    def auditing(self, *writes: Write) -> "Turn":
        """The turn with entries of the audit log, so that its end has to reach the disk."""
        return self.having(writes=(*self.writes, *writes), durability=Durability.TRUST)

    def saying(self, text: str) -> "Turn":
        """The turn with another text as its answer."""
        response = self.response or AgentResponse(message=text)
        return self.having(response=response.model_copy(update={"message": text}))


def message_of(
    room: TurnContext, turn: Turn, *, kind: MessageKind, content: str, payload: Payload, **more: Any
) -> QueueMessage:
    """A message that follows from this turn."""
    return follow(
        turn.message,
        sender=more.pop("sender", turn.speaker),
        kind=kind,
        content=content,
        payload=payload,
        ids=room.ids,
        clock=room.clock,
        **more,
    )


def reply_of(
    room: TurnContext,
    turn: Turn,
    text: str,
    *,
    surface: str,
    answers: bool = True,
    card_id: str | None = None,
    urgent: bool = False,
) -> QueueMessage:
    """An answer on its way to the person; `answers` says whether it is the one to the message."""
    origin = turn.origin
    return message_of(
        room,
        turn,
        kind=MessageKind.AGENT_RESPONSE,
        content=text,
        payload=AgentReply(
            connection_id=origin.connection_id,
            channel=origin.channel,
            in_reply_to=origin.message_id if answers else None,
            surface=surface,
            card_id=card_id,
        ),
        taint=turn.taint,
        urgency=Urgency.NEEDS_ATTENTION if urgent else Urgency.INFORMATIONAL,
    )
