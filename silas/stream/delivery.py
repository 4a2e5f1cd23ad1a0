"""The last hop: what is on its way to people is kept in order, and read by their channels.

A message of `channel_queue` becomes a numbered row in the transaction that ends its lease. Channels
read from the number that they know, so that one that was away misses nothing, and one that asks
twice gets the same. Several processes may read; none of them takes anything away.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from pydantic import ValidationError

from silas.kernel import Clock, TaintLevel, format_timestamp
from silas.queue.consumer import Handled
from silas.queue.errors import NotWorthRetrying
from silas.queue.leases import Lease
from silas.queue.models import Agent, AgentReply, MessageKind, QueueMessage
from silas.storage import Database, Transaction

_INSERT = """
INSERT INTO deliveries (message_id, connection_id, scope_id, message, created_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (message_id) DO NOTHING
"""
_AFTER = """
SELECT number, message FROM deliveries WHERE connection_id = ? AND number > ?
ORDER BY number LIMIT ?
"""
_LAST = "SELECT coalesce(max(number), 0) FROM deliveries WHERE connection_id = ?"
_PRUNE = "DELETE FROM deliveries WHERE created_at < ?"
_UNREADABLE = "A message to you was damaged and cannot be read. `silas doctor` looks at the data."
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_AT_ONCE = 100
_OTHER_PROCESS_SECONDS = 0.2

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Delivery:
    """One answer or report."""

    number: int
    message: QueueMessage

    @property
    def reply(self) -> AgentReply:
        """Where it belongs."""
        payload = self.message.payload
        if not isinstance(payload, AgentReply):
            raise NotWorthRetrying(f"{self.message.message_id} is not for a person.")
        return payload


@dataclass
class Deliveries:
    """What channels read."""

    database: Database
    clock: Clock
    _news: set[Callable[[str], None]] = field(default_factory=set)

    async def __call__(self, lease: Lease) -> Handled:
        """Handler of `channel_queue`."""
        message = lease.message
        reply = Delivery(0, message).reply
        values = (
            message.message_id,
            reply.connection_id,
            message.scope_id,
            message.model_dump_json(),
            format_timestamp(self.clock.now()),
        )

        def write(tx: Transaction) -> None:
            tx.execute(_INSERT, values)

        return Handled(writes=(write,), after=(partial(self._tell, reply.connection_id),))

    async def last(self, connection_id: str) -> int:
        """The number of the newest delivery; 0 if there is none."""
        row = await self.database.fetch_one(_LAST, (connection_id,))
        return int(row[0]) if row else 0

    async def after(
        self, connection_id: str, number: int, *, limit: int = _AT_ONCE
    ) -> list[Delivery]:
        """What came after a number, in its order."""
        rows = await self.database.fetch_all(_AFTER, (connection_id, number, limit))
        return [_delivery(connection_id, number, text) for number, text in rows]

    async def follow(self, connection_id: str, number: int) -> AsyncIterator[Delivery]:
        """What comes after a number, for as long as somebody listens."""
        news = asyncio.Event()

        def heard(who: str) -> None:
            if who == connection_id:
                news.set()

        self._news.add(heard)
        try:
            while True:
                for delivery in await self.after(connection_id, number):
                    number = delivery.number
                    yield delivery
                # The short wait is for what other processes write; ours wakes us. Not `wait_for`:
                # in Python 3.11 it loses a cancellation that comes together with the news.
                try:
                    async with asyncio.timeout(_OTHER_PROCESS_SECONDS):
                        await news.wait()
                except TimeoutError:
                    continue
                news.clear()
        finally:
            self._news.discard(heard)

    async def prune(self, keep: timedelta) -> int:
        """Remove what is older; returns how much."""
        before = format_timestamp(self.clock.now() - keep)
        return await self.database.execute(_PRUNE, (before,))

    async def _tell(self, connection_id: str) -> None:
        """Those who listen; other processes look by themselves."""
        for hear in tuple(self._news):
            hear(connection_id)


def _delivery(connection_id: str, number: int, text: str) -> Delivery:
    """The delivery of a row; one that cannot be read is told of in its place, and ends nothing."""
    try:
        found = Delivery(number, QueueMessage.model_validate_json(text))
        if isinstance(found.message.payload, AgentReply):
            return found
    except ValidationError:
        pass
    _log.warning("the delivery %s cannot be read", number)
    name = f"unreadable_{number}"
    return Delivery(
        number,
        QueueMessage(
            message_id=name,
            trace_id=name,
            content=_UNREADABLE,
            sender=Agent.RUNTIME,
            message_kind=MessageKind.AGENT_RESPONSE,
            scope_id=connection_id,
            taint=TaintLevel.EXTERNAL,
            created_at=_LONG_AGO,
            payload=AgentReply(connection_id=connection_id, channel="home", surface="activity"),
        ),
    )
