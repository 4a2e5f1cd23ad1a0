"""What a person can see of the bus, and do about it: requeue a dead letter, drop a message."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from silas.kernel import Clock, format_timestamp
from silas.queue import table
from silas.queue.errors import MessageInWork, MessageRefused, MessageUnknown
from silas.queue.models import QueueMessage, QueueName
from silas.queue.store import Bus
from silas.queue.table import DamagedMessage, envelope_of, read_message
from silas.storage import Database, Durability, Reader, SqlValue, Transaction

Record = Callable[[Transaction, str, Mapping[str, Any]], object]
"""Writes to the audit log, in the same transaction."""

_QUEUED = """
SELECT message_id, queue, state, body, enqueued_at, due_at, consumer, attempts, failures, expiries,
    last_error
FROM queue_messages
"""
_DEAD = """
SELECT message_id, queue, 'dead', body, enqueued_at, died_at, NULL, attempts, failures, expiries,
    reason
FROM dead_letters
"""
_DEPTHS = """
SELECT queue, state, COUNT(*), MIN(enqueued_at) FROM queue_messages GROUP BY queue, state
UNION ALL
SELECT queue, 'dead', COUNT(*), MIN(died_at) FROM dead_letters GROUP BY queue
"""
_PROCESSED = """
SELECT queue, COUNT(*), AVG(waited_seconds), MAX(waited_seconds), AVG(leased_seconds),
    MAX(leased_seconds), SUM(attempts - 1), SUM(expiries)
FROM processed_messages WHERE queue IS NOT NULL AND processed_at >= ? GROUP BY queue
"""


@dataclass(frozen=True)
class Inspected:
    """One message as a person sees it."""

    message_id: str
    queue: str
    state: str
    body: str
    enqueued_at: str
    due_at: str | None
    """When the lease ends or the next try comes; for a dead letter, when it died."""
    consumer: str | None
    attempts: int
    failures: int
    expiries: int
    reason: str | None
    """Why it failed the last time."""

    def message(self) -> QueueMessage | None:
        """What was sent; None if it cannot be read."""
        try:
            return read_message(self.message_id, self.queue, self.body)
        except DamagedMessage:
            return None


@dataclass(frozen=True)
class Processed:
    """How messages of a queue fared that are done."""

    count: int
    mean_wait: float
    longest_wait: float
    mean_lease: float
    longest_lease: float
    redeliveries: int
    expiries: int


@dataclass(frozen=True)
class QueueStats:
    """One queue: what is in it by state, since when the oldest waits, and what it has done."""

    queue: str
    depth: Mapping[str, int]
    oldest: str | None
    processed: Processed | None

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


class QueueInspector:
    """Looks into the bus from outside."""

    def __init__(
        self, database: Database, *, clock: Clock, record: Record, bus: Bus | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._record = record
        self._bus = bus

    async def queued(
        self, *, queue: QueueName | None = None, state: str | None = None, limit: int = 100
    ) -> list[Inspected]:
        """Messages that wait or are being worked on, oldest first."""
        wanted = {"queue": queue, "state": state}
        chosen = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in chosen) or "1 = 1"
        sql = f"{_QUEUED} WHERE {where} ORDER BY seq LIMIT ?"
        return await self._list(sql, *chosen.values(), limit)

    async def dead(self, *, limit: int = 100) -> list[Inspected]:
        """Messages that were given up, oldest first."""
        return await self._list(f"{_DEAD} ORDER BY died_at, message_id LIMIT ?", limit)

    async def show(self, message_id: str) -> Inspected:
        """One message, queued or dead; raises `MessageUnknown`."""
        for sql in (_QUEUED, _DEAD):
            found = await self._list(f"{sql} WHERE message_id = ?", message_id)
            if found:
                return found[0]
        raise _unknown(message_id)

    async def requeue(self, message_id: str) -> None:
        """Try a dead letter again, as if it had just been sent."""
        queue = await self._database.transaction(
            lambda tx: self._requeue(tx, message_id), durability=Durability.TRUST
        )
        if self._bus is not None:
            self._bus.notify((queue,))

    async def drop(self, message_id: str) -> None:
        """Remove a dead letter, or a message that nobody works on, for good."""
        await self._database.transaction(
            lambda tx: self._drop(tx, message_id), durability=Durability.TRUST
        )

    async def stats(self, *, since: str = "") -> list[QueueStats]:
        """Every queue; `since` limits what is counted as done."""
        return await self._database.snapshot(lambda reader: _stats(reader, since))

    async def _list(self, sql: str, *params: SqlValue) -> list[Inspected]:
        return [Inspected(*row) for row in await self._database.fetch_all(sql, params)]

    def _requeue(self, tx: Transaction, message_id: str) -> QueueName:
        row = tx.fetch_one(
            "SELECT queue, body FROM dead_letters WHERE message_id = ?", (message_id,)
        )
        if row is None:
            raise _unknown(message_id)
        try:
            envelope = envelope_of(read_message(message_id, *row))
        except DamagedMessage as error:
            raise MessageRefused(
                f"The message {message_id} is damaged and cannot be sent again: {error}. "
                "Drop it with `silas queue drop`."
            ) from error
        tx.execute("DELETE FROM dead_letters WHERE message_id = ?", (message_id,))
        if not table.insert(tx, envelope, now=format_timestamp(self._clock.now())):
            raise MessageRefused(
                f"The message {message_id} was processed before. Drop it with `silas queue drop`."
            )
        self._record(tx, "queue_message_requeued", {"message_id": message_id})
        return envelope.queue

    def _drop(self, tx: Transaction, message_id: str) -> None:
        row = table.find(tx, message_id)
        if row is None:
            sql = "DELETE FROM dead_letters WHERE message_id = ?"
            if tx.execute(sql, (message_id,)) == 0:
                raise _unknown(message_id)
        elif row.state == "leased":
            raise MessageInWork(
                f"The message {message_id} is being worked on. Wait until it is done."
            )
        else:
            table.remove(tx, row)
        self._record(tx, "queue_message_dropped", {"message_id": message_id})


def _stats(reader: Reader, since: str) -> list[QueueStats]:
    depths: dict[str, dict[str, int]] = {queue.value: {} for queue in QueueName}
    oldest: dict[str, str] = {}
    for queue, state, count, first in reader.fetch_all(_DEPTHS):
        depths.setdefault(queue, {})[state] = count
        if state != "dead":
            oldest[queue] = min(first, oldest.get(queue, first))
    done = {row[0]: Processed(*row[1:]) for row in reader.fetch_all(_PROCESSED, (since,))}
    return [
        QueueStats(queue, depth, oldest.get(queue), done.get(queue))
        for queue, depth in depths.items()
    ]


def _unknown(message_id: str) -> MessageUnknown:
    return MessageUnknown(f"There is no message {message_id} on the bus.", message_id=message_id)
