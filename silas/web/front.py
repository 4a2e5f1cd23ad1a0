"""What the web page works with; `silas.app.web` puts it together."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from silas.approval import DeviceStore, NonceStore
from silas.audit.models import AuditTrail
from silas.companions.service import CompanionService
from silas.connections.service import ConnectionService
from silas.journal import Journal
from silas.kernel import Clock, IdFactory
from silas.mcp.service import ToolServerService
from silas.memory.curation import MemoryCuration
from silas.personality import PersonalityEngine
from silas.proactive.autonomy import AutonomyService
from silas.proactive.lessons import ItemAnswers
from silas.review.cards import CardStore
from silas.review.decisions import Decisions
from silas.skills.service import SkillService
from silas.stream.activity import ActivityTitles
from silas.stream.admission import Intake
from silas.stream.answering import AnswersInProgress
from silas.stream.attachments import AttachmentStore
from silas.stream.delivery import Deliveries, UserMessageStore
from silas.stream.limits import RateLimit
from silas.stream.places import OpenedPlaces
from silas.stream.proposed_work import ProposedWork
from silas.stream.search import Search
from silas.web.access import WebSessions
from silas.web.calls import WaitingCalls
from silas.web.host_guard import Origins
from silas.web.onboarding import SetupService
from silas.web.pairing import PairingCodes
from silas.web.passkeys import PasskeyService
from silas.web.pending_secrets import PendingSecrets
from silas.web.usage import UsageView
from silas.web.visitors import Visits
from silas.work.store import WorkItemStore


@dataclass(frozen=True)
class Front:
    """One data directory's front."""

    owner_id: str
    origins: Origins
    public_origins: tuple[str, ...]
    """Those of them that the owner has named, the first one first."""
    devices: DeviceStore
    nonces: NonceStore
    cards: CardStore
    decisions: Decisions
    deliveries: Deliveries
    said: UserMessageStore
    search: Search
    """All conversations of the owner's, and all work."""
    intake: Intake
    answers: AnswersInProgress
    attachments: AttachmentStore
    items: WorkItemStore
    journal: Journal
    companions: CompanionService
    memory: MemoryCuration
    """What Silas remembers of the owner, and of nobody else."""
    zone: ZoneInfo
    """The owner's time zone."""
    calls: WaitingCalls
    audit: AuditTrail
    titles: ActivityTitles
    pairing: PairingCodes
    passkeys: PasskeyService
    sessions: WebSessions
    secrets: PendingSecrets
    visits: Visits
    """Those who are not the owner."""
    usage: UsageView
    """What models have used, and what is left of limits."""
    per_address: RateLimit
    clock: Clock
    ids: IdFactory
    version: str
    places: OpenedPlaces
    """What Silas may read without a plan."""
    skills: SkillService
    tool_servers: ToolServerService
    proposals: ProposedWork
    """What other programs ask the owner."""
    connections: ConnectionService
    """The owner's accounts elsewhere."""
    item_answers: ItemAnswers
    """What the owner has answered about items of these accounts."""
    autonomy: AutonomyService
    """How much is asked, and the way back."""
    token: str | None = None
    """What a browser must present besides, where one is configured."""
    personality: PersonalityEngine | None = None
    model: str | None = None
    scripted: bool = False
    """Whether the blocks of every plan are executed as they stand: no model does the work."""
    chips: tuple[str, ...] = ()
    setup: SetupService | None = None
    """The first run, and the choice of a model; without it, nothing is set up from the page."""
