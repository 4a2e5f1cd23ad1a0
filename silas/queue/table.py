"""The rows of the bus: each function is one change inside somebody's transaction.

1. Of one lane, at most one message is not `waiting`: the first.
2. A lease is held by whoever has its id. When it is over, the id is gone from the row.
3. A row leaves the table only as done, as a dead letter, or because a person dropped it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from silas.kernel import format_timestamp
from silas.queue.leases import Lease
from silas.queue.letters import Letter
from silas.queue.models import QueueName
from silas.storage import Transaction

# Nothing here says RETURNING or IN (SELECT …): SQLite builds a table in memory for each of these,
# at several times the cost of the lookups. A transaction of ours is alone with the data anyhow.
_KNOWN = """
SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM queue_messages WHERE message_id = value)
    OR EXISTS (SELECT 1 FROM processed_messages WHERE message_id = value)
    OR EXISTS (SELECT 1 FROM dead_letters WHERE message_id = value)
"""
_INSERT = """
INSERT INTO queue_messages
    (message_id, queue, lane, priority, body, enqueued_at, ready_at, state)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6,
    CASE WHEN EXISTS (SELECT 1 FROM queue_messages WHERE lane = ?3) THEN 'waiting' ELSE 'ready' END)
"""
_NEXT = """
SELECT seq, message_id, body, ready_at, attempts + 1, EXISTS (
    SELECT 1 FROM processed_messages AS done
    WHERE done.message_id = queue_messages.message_id AND done.consumer = ?
)
FROM queue_messages WHERE queue = ? AND state = 'ready' ORDER BY priority, seq LIMIT ?
"""
_TAKE = """
UPDATE queue_messages
SET state = 'leased', leased_at = ?, due_at = ?, lease_id = ?, consumer = ?, holder = ?,
    attempts = attempts + 1
WHERE seq = ?
"""
_RENEW = "UPDATE queue_messages SET due_at = ? WHERE message_id = ? AND lease_id = ?"
_HELD = """
SELECT seq, message_id, lease_id, lane, attempts, expiries, leased_at
FROM json_each(?) CROSS JOIN queue_messages ON message_id = value
"""
_REMOVE_HELD = "DELETE FROM queue_messages WHERE seq = ?"
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

Woken = set[str]
"""The queues in which something can be leased now."""


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


class TakenRow(NamedTuple):
    """What a consumer gets."""

    seq: int
    message_id: str
    body: str
    ready_at: str
    attempts: int
    processed: int


class RemovedRow(NamedTuple):
    """What is left of a message that is done."""

    seq: int
    message_id: str
    lease_id: str | None
    lane: str | None
    attempts: int
    expiries: int
    leased_at: str


@dataclass(frozen=True, slots=True)
class Terms:
    """Who leases, from when, and for how long."""

    lease_id: str
    consumer: str
    holder: str
    now: datetime
    until: datetime


def insert(tx: Transaction, letters: Sequence[Letter], *, now: str) -> list[bool]:
    """Queue letters; False for each whose id was queued, done or given up before."""
    asked = json.dumps([letter.message.message_id for letter in letters])
    known = {key for (key,) in tx.fetch_all(_KNOWN, (asked,))}
    fresh, params = [], []
    for message, queue, lane, priority, body in letters:
        key = message.message_id
        fresh.append(key not in known)
        if key not in known:
            known.add(key)
            params.append((key, queue, lane, priority, body, now))
    tx.execute_many(_INSERT, params)
    return fresh


def take(tx: Transaction, queue: QueueName, terms: Terms, *, limit: int) -> list[TakenRow]:
    """Lease the next messages, the most urgent and oldest first."""
    if limit <= 0:
        return []
    rows = list(map(TakenRow._make, tx.fetch_all(_NEXT, (terms.consumer, queue, limit))))
    if rows:
        now, until = format_timestamp(terms.now), format_timestamp(terms.until)
        lease = (now, until, terms.lease_id, terms.consumer, terms.holder)
        tx.execute_many(_TAKE, [(*lease, row.seq) for row in rows])
    return rows


def renew(tx: Transaction, message_id: str, lease_id: str, *, until: str) -> bool:
    """Let a lease last longer; False if it is lost."""
    return tx.execute(_RENEW, (until, message_id, lease_id)) == 1


def remove_leased(tx: Transaction, held: Sequence[tuple[str, str]]) -> list[RemovedRow | None]:
    """Take messages off their queues by id and lease id; None for each whose lease is lost."""
    asked = json.dumps([message_id for message_id, _ in held])
    rows = map(RemovedRow._make, tx.fetch_all(_HELD, (asked,)))
    there = {(row.message_id, row.lease_id): row for row in rows}
    removed = [there.pop(each, None) for each in held]
    done = [row for row in removed if row is not None]
    tx.execute_many(_REMOVE_HELD, [(row.seq,) for row in done])
    for lane in {row.lane for row in done}:
        promote(tx, lane)
    return removed


def remove(tx: Transaction, row: QueuedRow) -> None:
    """Take a message off its queue, whoever has it."""
    tx.execute(_REMOVE, (row.message_id,))
    promote(tx, row.lane)


def promote(tx: Transaction, lane: str | None) -> None:
    """Let the next message of a lane come to its turn."""
    if lane is not None:
        tx.execute(_PROMOTE, (lane,))


def promote_all(tx: Transaction) -> int:
    """The same for all lanes at once, whatever happened to them."""
    return tx.execute(_PROMOTE_ALL)


def find(tx: Transaction, message_id: str, lease_id: str | None = None) -> QueuedRow | None:
    """The row of a message, or only if this lease holds it."""
    held, params = (
        ("", (message_id,)) if lease_id is None else (" AND lease_id = ?", (message_id, lease_id))
    )
    row = tx.fetch_one(f"{_SELECT} WHERE message_id = ?{held}", params)
    return QueuedRow._make(row) if row else None


def due(tx: Transaction, *, now: str) -> list[QueuedRow]:
    """What has waited long enough, and what was leased for too long."""
    sql = f"{_SELECT} WHERE due_at <= ? ORDER BY due_at"
    return [QueuedRow._make(row) for row in tx.fetch_all(sql, (now,))]


def leased(tx: Transaction) -> list[QueuedRow]:
    """Everything that somebody holds."""
    return [QueuedRow._make(row) for row in tx.fetch_all(f"{_SELECT} WHERE state = 'leased'")]


def mark(tx: Transaction, consumer: str, message_id: str, *, now: str) -> None:
    """Remember that this consumer has done with this message."""
    tx.execute(_MARK, (message_id, consumer, now))


def mark_done(
    tx: Transaction, done: Sequence[tuple[Lease, str, RemovedRow]], *, now: datetime
) -> None:
    """The same for leases with their consumers, and how long each took."""
    marked_at = format_timestamp(now)
    params = []
    for lease, consumer, removed in done:
        worked = (now - datetime.fromisoformat(removed.leased_at)).total_seconds()
        counts = (removed.attempts, removed.expiries, lease.waited_seconds, worked)
        params.append((removed.message_id, consumer, marked_at, lease.queue, *counts))
    tx.execute_many(_MARK_DONE, params)
