"""Which surface shows an event. The runtime decides by this table; no agent has a say."""

from enum import StrEnum

from silas.queue.models import ExecutionStatus


class Surface(StrEnum):
    """Where a person sees something."""

    STREAM = "stream"
    """The conversation."""
    REVIEW = "review"
    """What waits for a decision."""
    ACTIVITY = "activity"
    """What has happened, to be looked at when one likes."""


_IN_BETWEEN = frozenset({ExecutionStatus.RUNNING, ExecutionStatus.VERIFICATION_FAILED})


def surface_of_status(status: ExecutionStatus, *, asked_for: bool, is_last: bool) -> Surface:
    """Where a status is shown.

    `asked_for`: a person is waiting for it, rather than the scheduler. `is_last`: nothing more will
    be tried without a person.
    """
    if status in _IN_BETWEEN:
        return Surface.ACTIVITY
    if status is ExecutionStatus.DONE:
        return Surface.STREAM if asked_for else Surface.ACTIVITY
    return Surface.STREAM if is_last else Surface.ACTIVITY


def surface_of_reply(*, has_card: bool) -> Surface:
    """Where an answer is shown: one that asks for a decision goes where decisions are made."""
    return Surface.REVIEW if has_card else Surface.STREAM
