"""What a consumer holds while it works on a message."""

from dataclasses import dataclass
from datetime import datetime

from silas.queue.models import QueueMessage, QueueName


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a message, for a while."""

    message: QueueMessage
    queue: QueueName
    lease_id: str
    attempt: int
    """1 for the first time that the message is given out."""
    expires_at: datetime
    waited_seconds: float
    processed: bool = False
    """Its consumer has processed it before: it only needs to be ended."""
