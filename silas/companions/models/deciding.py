"""What waits for the owner, and what a companion was made from. Both stay on this device."""

from enum import StrEnum

from pydantic import Field

from silas.companions.models.identity import Identifier
from silas.companions.models.synced import JsonMap
from silas.kernel.models import Data, UtcDatetime


class WaitingStatus(StrEnum):
    """How far an action that cannot be done at once has come."""

    BLOCKED = "blocked"
    """A question has to be answered first."""
    WAITING = "waiting"
    """A card is before the owner."""
    APPROVED = "approved"
    """The owner's yes was used up for it; it is being done."""
    APPLIED = "applied"
    DECLINED = "declined"
    REFUSED = "refused"
    """It was approved, and could not be done all the same."""
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in (WaitingStatus.BLOCKED, WaitingStatus.WAITING, WaitingStatus.APPROVED)


class WaitingAction(Data):
    """An action that waits, with everything that is needed to do it later, and nothing else."""

    operation_id: Identifier
    agent_id: Identifier
    run_key: Identifier
    thread_id: Identifier
    status: WaitingStatus
    call: JsonMap
    """The `AgentToolCall`."""
    approvable: JsonMap | None = None
    """The `ApprovableAction` as it was shown; None while a question has to be answered first."""
    token: JsonMap | None = None
    """The owner's signed yes, as it was issued. Whoever changes it here has no token any more."""
    prompt_item_ids: tuple[str, ...] = ()
    reason: str = ""
    last_error: str | None = None
    created_at: UtcDatetime
    updated_at: UtcDatetime


class KeptDefinition(Data):
    """The definition that a companion was made from. A file that changes later changes nothing."""

    agent_id: Identifier
    definition: JsonMap = Field(default_factory=dict)
    definition_hash: Identifier
    updated_at: UtcDatetime
