"""What can go wrong on the bus, in words."""

from datetime import datetime

from silas.kernel import QueueError


class MessageRefused(QueueError):
    """The message breaks the contract of the bus. Nothing was queued: please report this."""

    code = "E_QUEUE_REFUSED"


class NoRoute(QueueError):
    """Nobody receives this kind of message from this sender. Nothing was queued."""

    code = "E_QUEUE_NO_ROUTE"


class LeaseLost(QueueError):
    """Somebody else has this message now. What was done with it here was taken back."""

    code = "E_QUEUE_LEASE_LOST"


class MessageUnknown(QueueError):
    """There is no such message. See `silas queue list` and `silas queue dead` for what is there."""

    code = "E_QUEUE_UNKNOWN"


class MessageInWork(QueueError):
    """The message is being worked on. Wait until it is done, or stop Silas first."""

    code = "E_QUEUE_IN_WORK"


class NotYet(Exception):
    """The message is to be handled later, and not because anything failed."""

    def __init__(self, until: datetime) -> None:
        super().__init__(str(until))
        self.until = until


class NotWorthRetrying(QueueError):
    """This message cannot be handled, now or later. Run `silas queue dead` to see why."""

    code = "E_QUEUE_HOPELESS"
