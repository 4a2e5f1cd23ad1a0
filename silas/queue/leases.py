"""What a consumer holds while it works on a message."""

from datetime import datetime
from typing import NamedTuple

from silas.queue.models import QueueMessage, QueueName


class Lease(NamedTuple):
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
