"""What the web page works with; `silas.app.web` puts it together."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from silas.approval import DeviceStore, NonceStore
from silas.audit.models import AuditEntry
from silas.journal import Journal
from silas.kernel import Clock, IdFactory
from silas.personality import PersonalityEngine
from silas.stream.cards import CardStore
from silas.stream.delivery import Deliveries
from silas.stream.intake import Intake
from silas.stream.limits import RateLimit
from silas.stream.said import SaidStore
from silas.web.calls import WaitingCalls
from silas.web.onboarding import SetupDesk
from silas.web.origins import Origins
from silas.web.pairing import PairingDesk
from silas.web.passkeys import PasskeyDesk
from silas.web.pending_secrets import PendingSecrets
from silas.web.sessions import Sessions
from silas.work.store import WorkItemStore

CompanionCalls = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


class AuditLog(Protocol):
    """The audit log, as far as it is used here."""

    async def log(self, event: str, /, **data: Any) -> str:
        """Write an entry."""
        ...

    async def tail(
        self, count: int, *, event: str = "*", since: datetime | None = None
    ) -> list[AuditEntry]:
        """The last entries, oldest first."""
        ...


@dataclass(frozen=True)
class Front:
    """One data directory's front."""

    owner_id: str
    origins: Origins
    devices: DeviceStore
    nonces: NonceStore
    cards: CardStore
    deliveries: Deliveries
    said: SaidStore
    intake: Intake
    items: WorkItemStore
    journal: Journal
    zone: ZoneInfo
    """The owner's time zone."""
    calls: WaitingCalls
    audit: AuditLog
    pairing: PairingDesk
    passkeys: PasskeyDesk
    sessions: Sessions
    secrets: PendingSecrets
    per_address: RateLimit
    clock: Clock
    ids: IdFactory
    version: str
    token: str | None = None
    """What a browser must present besides, where one is configured."""
    personality: PersonalityEngine | None = None
    model: str | None = None
    chips: tuple[str, ...] = ()
    companions: CompanionCalls | None = None
    """The owner's desk for companions, by the names of its methods."""
    setup: SetupDesk | None = None
    """The first run, and the choice of a model; without it, nothing is set up from the page."""
