"""The last hop: what is on its way to people is kept in order, and read by their channels.

A message for a person becomes a numbered row in the transaction that sends it (`write`), without a
stop in `channel_queue`; what another process put there becomes one when its lease ends. Channels
read from the number that they know, so that one that was away misses nothing, and one that asks
twice gets the same. Several processes may read; none of them takes anything away.

`UserMessageStore` holds what people said beside the answers, so that a conversation can be shown
again as it was. Nothing is decided by these rows: what is answered travels on the bus.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from silas.kernel import Clock, TaintLevel, format_timestamp, parse_timestamp
from silas.kernel.ids import person_of
from silas.kernel.told_secrets import told_secret
from silas.queue.consumer import Handled
from silas.queue.errors import NotWorthRetrying
from silas.queue.models import OWN_CHANNEL, Agent, AgentReply, MessageKind, QueueMessage
from silas.queue.table import Lease
from silas.storage import Database, Reader, Row, Transaction
from silas.stream.attachments import AttachedFile, FileKind, name_in
from silas.stream.visitors import is_visit

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
        if not isinstance(message.payload, AgentReply):
            raise NotWorthRetrying(f"{message.message_id} is not for a person.")

        async def tell() -> None:
            self.tell(message)

        return Handled(writes=(lambda tx: self.write(tx, message),), after=(tell,))

    def write(self, tx: Transaction, message: QueueMessage) -> bool:
        """`Outlet`: write a message for a person; False if it is for nobody."""
        reply = message.payload
        if not isinstance(reply, AgentReply):
            return False
        now = format_timestamp(self.clock.now())
        sent = (message.message_id, reply.connection_id, message.scope_id)
        tx.execute(_INSERT, (*sent, message.model_dump_json(), now))
        return True

    def tell(self, message: QueueMessage) -> None:
        """Wake those who follow; other processes look by themselves."""
        if isinstance(message.payload, AgentReply):
            for hear in tuple(self._news):
                hear(message.payload.connection_id)

    def listen(self, hear: Callable[[str], None]) -> Callable[[], None]:
        """Be told for whom there is something new in this process; the answer ends it."""
        self._news.add(hear)
        return lambda: self._news.discard(hear)

    async def last(self, connection_id: str) -> int:
        """The number of the newest delivery; 0 if there is none."""
        row = await self.database.fetch_one(_LAST, (connection_id,))
        return int(row[0]) if row else 0

    async def after(
        self, connection_id: str, number: int, *, limit: int = _AT_ONCE
    ) -> list[Delivery]:
        """What came after a number, in its order."""
        rows = await self.database.fetch_all(_AFTER, (connection_id, number, limit))
        return [read_delivery(connection_id, number, text) for number, text in rows]

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


def read_delivery(connection_id: str, number: int, text: str) -> Delivery:
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
            payload=AgentReply(
                connection_id=connection_id, channel=OWN_CHANNEL, surface="activity"
            ),
        ),
    )


_NOTE_SCOPE = """
INSERT INTO said_scopes (message_id, scope_id) VALUES (?, ?) ON CONFLICT (message_id) DO NOTHING
"""
_INSERT_SAID = """
INSERT INTO said (message_id, connection_id, text, created_at) VALUES (?, ?, ?, ?)
ON CONFLICT (message_id) DO NOTHING
"""
_ATTACHED = """
SELECT m.sha256, m.name, a.kind, a.size FROM message_attachments AS m
LEFT JOIN attachments AS a ON a.sha256 = m.sha256 WHERE m.message_id = ? ORDER BY m.position
"""
_SAID = """
SELECT number, said.message_id, text, created_at, coalesce(said_scopes.scope_id, connection_id)
FROM said LEFT JOIN said_scopes ON said_scopes.message_id = said.message_id
WHERE connection_id = ?
"""
_SAID_AFTER = f"{_SAID} AND number > ? ORDER BY number LIMIT ?"
_NEWEST_SAID = f"{_SAID} ORDER BY number DESC LIMIT ?"


@dataclass(frozen=True)
class StoredUserMessage:
    """One message of a person's."""

    number: int
    message_id: str
    text: str
    at: datetime
    scope_id: str = ""
    """The conversation in which it was said."""
    files: tuple[AttachedFile, ...] = ()
    """What was attached; what is not kept any more has the size 0."""


@dataclass(frozen=True)
class UserMessageStore:
    """What was said on the channels of one data directory."""

    database: Database
    clock: Clock

    def write(self, tx: Transaction, message: QueueMessage) -> bool:
        """Write down what is accepted; False if it is known by its id, and there already.

        A secret that the owner tells is never part of the history, as it is not of the memory.
        """
        sent_at = format_timestamp(message.created_at)
        person = person_of(message.scope_id)
        if person != message.scope_id:
            tx.execute(_NOTE_SCOPE, (message.message_id, message.scope_id))
        told = None if is_visit(message.scope_id) else told_secret(message.content)
        text = message.content if told is None else told.text
        values = (message.message_id, person, text, sent_at)
        name_in(tx, message)
        return bool(tx.execute(_INSERT_SAID, values))

    async def after(
        self, connection_id: str, number: int, *, limit: int = 200
    ) -> list[StoredUserMessage]:
        """What was said after a number, in its order."""
        return await self._read(_SAID_AFTER, (connection_id, number, limit))

    async def newest(self, connection_id: str, count: int) -> list[StoredUserMessage]:
        """The last things that were said, oldest first."""
        return (await self._read(_NEWEST_SAID, (connection_id, count)))[::-1]

    async def _read(self, sql: str, key: tuple[str | int, ...]) -> list[StoredUserMessage]:
        return await self.database.snapshot(
            lambda reader: [saying_of(reader, row) for row in reader.fetch_all(sql, key)]
        )

    async def prune(self, keep: timedelta) -> int:
        """Remove what is older; returns how much."""
        before = format_timestamp(self.clock.now() - keep)
        gone = await self.database.execute("DELETE FROM said WHERE created_at < ?", (before,))
        await self.database.execute(
            "DELETE FROM said_scopes WHERE message_id NOT IN (SELECT message_id FROM said)"
        )
        return gone


def saying_of(reader: Reader, row: Row) -> StoredUserMessage:
    """A row of `said` with its scope, and the files that came with it."""
    files = reader.fetch_all(_ATTACHED, (row[1],))
    return StoredUserMessage(
        number=row[0],
        message_id=row[1],
        text=row[2],
        at=parse_timestamp(row[3]),
        scope_id=row[4],
        files=tuple(
            AttachedFile(sha256=sha256, name=name, kind=FileKind(kind or "other"), size=size or 0)
            for sha256, name, kind, size in files
        ),
    )
