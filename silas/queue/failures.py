"""What becomes of a message that was not done: it is tried again, or given up with a sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from silas.kernel import format_timestamp
from silas.queue import table
from silas.queue.letters import DamagedLetter, Letter, read_letter, seal
from silas.queue.models import QueueMessage
from silas.queue.retries import RetryPolicy
from silas.storage import Transaction

AfterDeath = Callable[[QueueMessage, str], Sequence[QueueMessage]]
"""What is to be sent when a message is given up, and why it was; its only effect is its result."""

_PUT_BACK = """
UPDATE queue_messages
SET state = ?, ready_at = ?, due_at = ?, attempts = ?, failures = ?, expiries = ?, last_error = ?,
    leased_at = NULL, lease_id = NULL, consumer = NULL, holder = NULL
WHERE message_id = ?
"""
_BURY = """
INSERT INTO dead_letters
    (message_id, queue, body, reason, enqueued_at, died_at, attempts, failures, expiries)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def no_messages(_message: QueueMessage, _reason: str) -> Sequence[QueueMessage]:
    """Nothing follows from a dead letter."""
    return ()


@dataclass(frozen=True)
class Funeral:
    """When a message is given up, and which others follow from that."""

    policy: RetryPolicy
    after_death: AfterDeath

    def following(self, row: table.QueuedRow, reason: str) -> Sequence[Letter]:
        """What is sent instead of it; nothing if nobody can read what it was."""
        try:
            message = read_letter(row.message_id, row.queue, row.body)
        except DamagedLetter:
            return ()
        return [seal(each) for each in self.after_death(message, reason)]


def release(tx: Transaction, row: table.QueuedRow, *, counted: bool) -> None:
    """Put a message back as if it had not been leased; `counted`: the attempt remains counted."""
    attempts = row.attempts if counted else row.attempts - 1
    back = ("ready", row.ready_at, None, attempts, row.failures, row.expiries, row.last_error)
    tx.execute(_PUT_BACK, (*back, row.message_id))


def fail(
    tx: Transaction,
    row: table.QueuedRow,
    *,
    reason: str,
    now: datetime,
    delay: float | None,
    funeral: Funeral,
    expired: bool = False,
) -> table.Woken:
    """Count a failure: the message is tried again after a while, or given up."""
    failures, expiries = row.failures + 1, row.expiries + expired
    row = row._replace(failures=failures, expiries=expiries)
    policy = funeral.policy
    if failures >= policy.max_failures or row.attempts >= policy.max_attempts:
        told = f"It was tried {row.attempts} times. The last time: {reason}"
        return bury(tx, row, reason=told, now=now, funeral=funeral)
    wait = policy.delay_after(failures) if delay is None else delay
    again = format_timestamp(now + timedelta(seconds=wait))
    state, due_at = ("delayed", again) if wait > 0 else ("ready", None)
    counts = (row.attempts, failures, expiries, reason)
    tx.execute(_PUT_BACK, (state, again, due_at, *counts, row.message_id))
    return set() if due_at else {row.queue}


def bury(
    tx: Transaction, row: table.QueuedRow, *, reason: str, now: datetime, funeral: Funeral
) -> table.Woken:
    """Make a dead letter of a message, with a sentence why."""
    table.remove(tx, row)
    died_at = format_timestamp(now)
    counts = (row.attempts, row.failures, row.expiries)
    known = (row.message_id, row.queue, row.body, reason, row.enqueued_at, died_at)
    tx.execute(_BURY, (*known, *counts))
    following = funeral.following(row, reason)
    table.insert(tx, following, now=died_at)
    return {row.queue, *(letter.queue for letter in following)}


def recall_due(tx: Transaction, *, now: datetime, funeral: Funeral) -> table.Woken:
    """Put back what has waited long enough, and what was leased for too long."""
    woken: table.Woken = set()
    for row in table.due(tx, now=format_timestamp(now)):
        if row.state == "leased":
            reason = "The lease ran out before the work was done."
            woken |= fail(tx, row, reason=reason, now=now, delay=0, funeral=funeral, expired=True)
        else:
            release(tx, row, counted=True)
            woken.add(row.queue)
    return woken


def recover(
    tx: Transaction, *, alive: Callable[[str], bool], now: datetime, funeral: Funeral
) -> tuple[int, table.Woken]:
    """Put back what is held by processes that are gone; returns how many, and the queues."""
    woken: table.Woken = set()
    gone = [row for row in table.leased(tx) if not (row.holder and alive(row.holder))]
    for row in gone:
        if row.attempts >= funeral.policy.max_attempts:
            reason = f"It was begun {row.attempts} times, and each time the process ended."
            woken |= bury(tx, row, reason=reason, now=now, funeral=funeral)
        else:
            release(tx, row, counted=True)
            woken.add(row.queue)
    table.promote_all(tx)
    return len(gone), woken
