"""The rows of the bus: each function is one change inside the caller's transaction.

1. Of one lane, at most one message is not `waiting`: the first.
2. A lease is held by whoever has its id. When it is over, the id is gone from the row.
3. A row leaves the table only as done, as a dead letter, or because a person dropped it.
4. A message is checked when it is written and again when it is read: other programs can write to
   this table as well. What cannot be read is a `DamagedMessage`.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from pydantic import ValidationError

from silas.kernel import format_timestamp
from silas.kernel.models import problem_text
from silas.queue.errors import LeaseLost, NoRoute
from silas.queue.models import PRIORITY, QueueMessage, QueueName, lane_of, refused, route
from silas.storage import Reader, Transaction

# Nothing here says RETURNING or IN (SELECT …): SQLite builds a table in memory for each of these,
# at several times the cost of the lookups. A transaction of ours is alone with the data anyhow.
_KNOWN = """
SELECT EXISTS (SELECT 1 FROM queue_messages WHERE message_id = ?1)
    OR EXISTS (SELECT 1 FROM processed_messages WHERE message_id = ?1)
    OR EXISTS (SELECT 1 FROM dead_letters WHERE message_id = ?1)
"""
_INSERT = """
INSERT INTO queue_messages
    (message_id, queue, lane, priority, body, enqueued_at, ready_at, state)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6,
    CASE WHEN EXISTS (SELECT 1 FROM queue_messages WHERE lane = ?3) THEN 'waiting' ELSE 'ready' END)
"""
_NEXT = """
SELECT seq, message_id, body, ready_at, attempts + 1, expiries, EXISTS (
    SELECT 1 FROM processed_messages AS done
    WHERE done.message_id = queue_messages.message_id AND done.consumer = ?
)
FROM queue_messages WHERE queue = ? AND state = 'ready' ORDER BY priority, seq LIMIT ?
"""
_LEASE = """
UPDATE queue_messages
SET state = 'leased', leased_at = ?, due_at = ?, lease_id = ?, consumer = ?, holder = ?,
    attempts = attempts + 1
WHERE seq = ?
"""
_RENEW = "UPDATE queue_messages SET due_at = ? WHERE message_id = ? AND lease_id = ?"
_REMOVE_HELD = "DELETE FROM queue_messages WHERE message_id = ? AND lease_id = ?"
_REMOVE = "DELETE FROM queue_messages WHERE message_id = ?"
_PROMOTE = """
UPDATE queue_messages SET state = 'ready'
WHERE seq = (SELECT MIN(seq) FROM queue_messages WHERE lane = ?) AND state = 'waiting'
"""
_PROMOTE_ALL = """
UPDATE queue_messages SET state = 'ready'
WHERE state = 'waiting'
    AND seq IN (SELECT MIN(seq) FROM queue_messages WHERE lane IS NOT NULL GROUP BY lane)
"""
_SELECT = """
SELECT message_id, queue, lane, state, body, enqueued_at, ready_at, attempts, failures, expiries,
    holder, last_error
FROM queue_messages
"""
_MARK = """
INSERT INTO processed_messages (message_id, consumer, processed_at) VALUES (?, ?, ?)
ON CONFLICT (message_id, consumer) DO NOTHING
"""
_MARK_DONE = """
INSERT INTO processed_messages (message_id, consumer, processed_at, queue, attempts, expiries,
    waited_seconds, leased_seconds)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (message_id, consumer) DO NOTHING
"""

_SERIALIZER = QueueMessage.__pydantic_serializer__


class Envelope(NamedTuple):
    """A message that was checked, with its queue, its lane and its text."""

    message: QueueMessage
    queue: QueueName
    lane: str | None
    priority: int
    body: str


class Lease(NamedTuple):
    """The right to work on a message, for a while."""

    message: QueueMessage
    queue: QueueName
    lease_id: str
    attempt: int
    """1 for the first time that the message is given out."""
    leased_at: datetime
    expires_at: datetime
    waited_seconds: float
    expiries: int = 0
    """How often a lease of this message has run out."""
    processed: bool = False
    """Its consumer has processed it before: it only needs to be ended."""


class Terms(NamedTuple):
    """Who leases, from when, and for how long."""

    lease_id: str
    consumer: str
    holder: str
    now: datetime
    until: datetime


class QueuedRow(NamedTuple):
    """What the table says about one message."""

    message_id: str
    queue: str
    lane: str | None
    state: str
    body: str
    enqueued_at: str
    ready_at: str
    attempts: int
    failures: int
    expiries: int
    holder: str | None
    last_error: str | None


class DamagedMessage(ValueError):
    """A stored text that is not a message."""


def envelope_of(message: QueueMessage) -> Envelope:
    """Address a message and write its text; raises `MessageRefused` or `NoRoute`."""
    try:
        # As `model_dump_json` does, without its many parameters. A list or mapping in the message
        # that was changed after the message was checked is noticed here.
        body = _SERIALIZER.to_json(message, warnings="error").decode()
        queue, priority = route(message), PRIORITY[message.urgency]
    except (ValueError, AttributeError) as error:
        raise refused(error) from error
    return Envelope(message, queue, lane_of(message, queue), priority, body)


def read_message(message_id: str, queue: str, body: str) -> QueueMessage:
    """The message in a row that any program may have written; raises `DamagedMessage`."""
    try:
        message = QueueMessage.model_validate_json(body)
        meant = route(message)
    except (ValidationError, NoRoute) as error:
        raise DamagedMessage(problem_text(error)) from error
    if (message.message_id, meant) != (message_id, queue):
        raise DamagedMessage("its text belongs to another message or queue")
    return message


def is_known(tx: Reader, message_id: str) -> bool:
    """Whether a message of this id was queued, done or given up before."""
    return tx.fetch_one(_KNOWN, (message_id,)) == (1,)


def insert(tx: Transaction, envelope: Envelope, *, now: str) -> bool:
    """Queue a message; False if its id is known already."""
    message, *address = envelope
    if is_known(tx, message.message_id):
        return False
    tx.execute(_INSERT, (message.message_id, *address, now))
    return True


def lease_next(
    tx: Transaction, queue: QueueName, terms: Terms, *, limit: int
) -> tuple[list[Lease], dict[str, Exception]]:
    """Lease the next messages, the most urgent and oldest first; and which of them are damaged."""
    rows = tx.fetch_all(_NEXT, (terms.consumer, queue, limit))
    lease = (format_timestamp(terms.now), format_timestamp(terms.until), *terms[:3])
    tx.execute_many(_LEASE, [(*lease, row[0]) for row in rows])
    leases: list[Lease] = []
    damaged: dict[str, Exception] = {}
    for _seq, message_id, body, ready_at, attempt, expiries, processed in rows:
        try:
            message = read_message(message_id, queue, body)
            waited = max((terms.now - datetime.fromisoformat(ready_at)).total_seconds(), 0.0)
        except (ValueError, TypeError) as error:
            damaged[message_id] = error
        else:
            times = (terms.now, terms.until, waited)
            held = (terms.lease_id, attempt, *times, expiries, bool(processed))
            leases.append(Lease(message, queue, *held))
    return leases, damaged


def renew(tx: Transaction, lease: Lease, *, until: datetime) -> None:
    """Let a lease last longer; raises `LeaseLost`."""
    held = (lease.message.message_id, lease.lease_id)
    if tx.execute(_RENEW, (format_timestamp(until), *held)) == 0:
        raise _lost(lease)


def end_lease(tx: Transaction, lease: Lease) -> bool:
    """Take a leased message off its queue; raises `LeaseLost`, having changed nothing.

    Says whether another message of its lane can be leased now.
    """
    if tx.execute(_REMOVE_HELD, (lease.message.message_id, lease.lease_id)) == 0:
        raise _lost(lease)
    return _promote(tx, lane_of(lease.message, lease.queue))


def finish(tx: Transaction, lease: Lease, *, consumer: str, now: datetime) -> bool:
    """The same, and mark the message as processed."""
    promoted = end_lease(tx, lease)
    worked = (now - lease.leased_at).total_seconds()
    counts = (lease.attempt, lease.expiries, lease.waited_seconds, worked)
    marked = (lease.message.message_id, consumer, format_timestamp(now), lease.queue)
    tx.execute(_MARK_DONE, (*marked, *counts))
    return promoted


def mark(tx: Transaction, consumer: str, message_id: str, *, now: datetime) -> None:
    """Remember that this consumer has done with this message."""
    tx.execute(_MARK, (message_id, consumer, format_timestamp(now)))


def remove(tx: Transaction, row: QueuedRow) -> None:
    """Take a message off its queue, whoever has it."""
    tx.execute(_REMOVE, (row.message_id,))
    _promote(tx, row.lane)


def promote_all(tx: Transaction) -> int:
    """Let the first message of every lane come to its turn, whatever happened to the lane."""
    return tx.execute(_PROMOTE_ALL)


def find(tx: Reader, message_id: str) -> QueuedRow | None:
    """The row of a message."""
    row = tx.fetch_one(f"{_SELECT} WHERE message_id = ?", (message_id,))
    return QueuedRow._make(row) if row else None


def held(tx: Reader, lease: Lease) -> QueuedRow:
    """The row that this lease holds; raises `LeaseLost`."""
    sql = f"{_SELECT} WHERE message_id = ? AND lease_id = ?"
    row = tx.fetch_one(sql, (lease.message.message_id, lease.lease_id))
    if row is None:
        raise _lost(lease)
    return QueuedRow._make(row)


def due(tx: Reader, *, now: str) -> list[QueuedRow]:
    """What has waited long enough, and what was leased for too long."""
    sql = f"{_SELECT} WHERE due_at <= ? ORDER BY due_at"
    return [QueuedRow._make(row) for row in tx.fetch_all(sql, (now,))]


def leased(tx: Reader) -> list[QueuedRow]:
    """Everything that some process holds."""
    return [QueuedRow._make(row) for row in tx.fetch_all(f"{_SELECT} WHERE state = 'leased'")]


def _promote(tx: Transaction, lane: str | None) -> bool:
    """Let the next message of a lane come to its turn; False if there is none."""
    return lane is not None and tx.execute(_PROMOTE, (lane,)) > 0


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"Somebody else has the message {lease.message.message_id} now. "
        "What was done with it here was taken back.",
        message_id=lease.message.message_id,
    )


def forget(tx: Transaction, queue: QueueName, fits: Callable[[str], bool]) -> int:
    """Erase what is like that, and let the next of its lane be leased; returns how many.

    What somebody works on just now is theirs to end.
    """
    count = 0
    for name, but in (("queue_messages", " AND state <> 'leased'"), ("dead_letters", "")):
        sql = f"SELECT message_id, body FROM {name} WHERE queue = ?{but}"  # noqa: S608 - our names
        found = [key for key, body in tx.fetch_all(sql, (queue.value,)) if fits(str(body))]
        for key in found:
            tx.execute(f"DELETE FROM {name} WHERE message_id = ?", (key,))  # noqa: S608
        count += len(found)
    tx.execute(_PROMOTE_ALL)
    return count
