"""What becomes of a message that was not done: it is tried again, or given up with a sentence.

1. A failure is counted, and the message waits, longer each time, before it is given out again.
2. A lease that ran out is a failure. A process that ended is not, but it is counted as well: a
   message that kills its reader must not do so for ever.
3. A message beyond a limit, without hope, or damaged becomes a dead letter that says why, in the
   transaction that notices it, together with what is to be sent instead (`OnDeadLetter`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from silas.kernel import format_timestamp
from silas.queue import table
from silas.queue.models import QueueMessage
from silas.storage import Transaction

OnDeadLetter = Callable[[QueueMessage, str, int], Sequence[QueueMessage]]
"""What is to be sent when a message is given up: why it was, and after how many attempts."""
LEASE_RAN_OUT = "The lease ran out before the work was done."

Woken = set[str]
"""The queues in which something can be leased now."""

_PUT_BACK = """
UPDATE queue_messages
SET state = ?, ready_at = ?, due_at = ?, attempts = ?, failures = ?, expiries = ?, last_error = ?,
    leased_at = NULL, lease_id = NULL, consumer = NULL, holder = NULL
WHERE message_id = ?
"""
_INSERT_DEAD = """
INSERT INTO dead_letters
    (message_id, queue, body, reason, enqueued_at, died_at, attempts, failures, expiries)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


@dataclass(frozen=True)
class RetryPolicy:
    """Every limit here ends in a dead letter, never in a message that is forgotten."""

    max_failures: int = 5
    """A handler that failed, or a lease that ran out."""
    max_attempts: int = 25
    """Also counts processes that ended."""
    first_delay: float = 1.0
    max_delay: float = 60.0

    def delay_after(self, failures: int) -> float:
        """Seconds until the next try: doubled each time."""
        return min(self.first_delay * 2.0 ** max(failures - 1, 0), self.max_delay)


def no_messages(_message: QueueMessage, _reason: str, _attempts: int) -> Sequence[QueueMessage]:
    """Nothing follows from a dead letter."""
    return ()


def release(tx: Transaction, row: table.QueuedRow, *, counted: bool) -> Woken:
    """Put a message back as if it had not been leased; `counted`: the attempt remains counted."""
    attempts = row.attempts if counted else row.attempts - 1
    back = ("ready", row.ready_at, None, attempts, row.failures, row.expiries, row.last_error)
    tx.execute(_PUT_BACK, (*back, row.message_id))
    return {row.queue}


def postpone(tx: Transaction, row: table.QueuedRow, *, until: datetime) -> Woken:
    """Put a message back until then, as if it had not been leased."""
    at, attempts = format_timestamp(until), row.attempts - 1
    back = ("delayed", at, at, attempts, row.failures, row.expiries, row.last_error)
    tx.execute(_PUT_BACK, (*back, row.message_id))
    return set()


@dataclass(frozen=True)
class DeadLetterPolicy:
    """When a message is given up, and which others follow from that."""

    retries: RetryPolicy
    on_dead_letter: OnDeadLetter

    def fail(
        self,
        tx: Transaction,
        row: table.QueuedRow,
        *,
        reason: str,
        now: datetime,
        delay: float | None = None,
        expired: bool = False,
    ) -> Woken:
        """Count a failure: the message is tried again after a while, or given up."""
        failures, expiries = row.failures + 1, row.expiries + expired
        row = row._replace(failures=failures, expiries=expiries)
        if failures >= self.retries.max_failures or row.attempts >= self.retries.max_attempts:
            message = f"It was tried {row.attempts} times. The last time: {reason}"
            return self.give_up(tx, row, reason=message, now=now)
        wait = self.retries.delay_after(failures) if delay is None else delay
        again = format_timestamp(now + timedelta(seconds=wait))
        state, due_at = ("delayed", again) if wait > 0 else ("ready", None)
        counts = (row.attempts, failures, expiries, reason)
        tx.execute(_PUT_BACK, (state, again, due_at, *counts, row.message_id))
        return set() if due_at else {row.queue}

    def give_up(
        self, tx: Transaction, row: table.QueuedRow, *, reason: str, now: datetime
    ) -> Woken:
        """Make a dead letter of a message, with a sentence why, and send what follows from it."""
        table.remove(tx, row)
        died_at = format_timestamp(now)
        known = (row.message_id, row.queue, row.body, reason, row.enqueued_at, died_at)
        tx.execute(_INSERT_DEAD, (*known, row.attempts, row.failures, row.expiries))
        woken = {row.queue}
        try:
            message = table.read_message(row.message_id, row.queue, row.body)
        except table.DamagedMessage:
            return woken  # what cannot be read has no answer
        for following in map(table.envelope_of, self.on_dead_letter(message, reason, row.attempts)):
            table.insert(tx, following, now=died_at)
            woken.add(following.queue)
        return woken

    def recall_due(self, tx: Transaction, *, now: datetime) -> Woken:
        """Put back what has waited long enough, and what was leased for too long."""
        woken: Woken = set()
        for row in table.due(tx, now=format_timestamp(now)):
            if row.state == "leased":
                woken |= self.fail(tx, row, reason=LEASE_RAN_OUT, now=now, delay=0, expired=True)
            else:
                woken |= release(tx, row, counted=True)
        return woken

    def recover(
        self, tx: Transaction, *, alive: Callable[[str], bool], now: datetime
    ) -> tuple[int, Woken]:
        """Put back what is held by processes that are gone; returns how many, and the queues."""
        woken: Woken = set()
        gone = [row for row in table.leased(tx) if not (row.holder and alive(row.holder))]
        for row in gone:
            if row.attempts >= self.retries.max_attempts:
                reason = f"It was begun {row.attempts} times, and each time the process ended."
                woken |= self.give_up(tx, row, reason=reason, now=now)
            else:
                woken |= release(tx, row, counted=True)
        table.promote_all(tx)
        return len(gone), woken
