"""How an error is answered over HTTP."""

from typing import Any

from starlette.responses import JSONResponse

from silas.approval.errors import TokenUnknown
from silas.companions.errors import CompanionUnknown
from silas.connections.models import ConnectionUnknown
from silas.journal.errors import RecordInvalid, RecordUnknown
from silas.kernel import (
    AccountError,
    CanonicalError,
    ChannelError,
    CompanionError,
    JournalError,
    ServerError,
    SilasError,
    SkillError,
    canonical_bytes,
)
from silas.kernel.program import as_typed
from silas.memory.errors import MemoryExists, MemoryInvalid, MemoryUnknown, TrustRefused
from silas.proactive.autonomy import AutonomyChangeUnknown
from silas.proactive.grants import StandingGrantUnknown
from silas.proposals.clients import ClientExists, ClientRefused
from silas.proposals.service import ProposalRefused
from silas.review import DecisionNotSigned, StrongerProofNeeded
from silas.secrets.errors import VaultLocked
from silas.skills.store import SkillUnknown
from silas.stream.attachments import AttachmentUnknown
from silas.stream.errors import LinkUnknown, VisitLimitReached, VisitorsClosed
from silas.web.commands import Body
from silas.web.errors import InvalidRequest, RequestTimedOut, TooManyConnections
from silas.work.errors import ArtifactRefused, WorkItemUnknown

_STATUSES: tuple[tuple[tuple[type[SilasError], ...], int], ...] = (
    ((InvalidRequest, RecordInvalid), 422),
    (
        (
            *(CompanionUnknown, ConnectionUnknown, RecordUnknown, TokenUnknown, WorkItemUnknown),
            *(ArtifactRefused, AttachmentUnknown, MemoryUnknown, SkillUnknown),
            *(AutonomyChangeUnknown, StandingGrantUnknown),
        ),
        404,
    ),
    ((ClientExists, ClientRefused, ProposalRefused), 400),
    ((MemoryExists, MemoryInvalid, TrustRefused), 400),
    ((AccountError, CompanionError, JournalError, SkillError), 400),
    ((DecisionNotSigned, StrongerProofNeeded), 403),
    ((LinkUnknown,), 401),
    ((VisitorsClosed,), 403),
    ((VaultLocked,), 423),
    ((VisitLimitReached,), 429),
    ((TooManyConnections,), 503),
    ((RequestTimedOut,), 504),
    ((ChannelError, ServerError), 409),
)
"""The first that fits says how an error is answered; any other one is a fault on this side."""


class Refusal(Body):
    """Why a request was not done: a sentence, and the code of the error."""

    detail: str
    code: str
    correlation_id: str | None = None
    details: dict[str, Any] | None = None
    """What else is known; for the owner at the machine alone."""


def refusal_of(error: SilasError, *, whole: bool) -> JSONResponse:
    """The answer; whole, with the details of the error."""
    status = next((status for kinds, status in _STATUSES if isinstance(error, kinds)), 503)
    answer: dict[str, Any] = {"detail": as_typed(error.message), "code": error.code}
    if whole:
        answer |= {"correlation_id": error.correlation_id, "details": _writable(error.details)}
    return JSONResponse(answer, status_code=500 if type(error) is SilasError else status)


def _writable(details: dict[str, Any]) -> dict[str, Any] | None:
    """The details, if JSON can hold them."""
    try:
        canonical_bytes(details)
    except CanonicalError:
        return None
    return details
