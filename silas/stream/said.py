"""What people said, kept beside the answers, so that a conversation can be shown again as it was.

Nothing is decided by these rows: what is answered travels on the bus.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from silas.kernel import Clock, format_timestamp, parse_timestamp
from silas.queue.models import QueueMessage
from silas.storage import Database, Row, briefly

_INSERT = """
INSERT INTO said (message_id, connection_id, text, created_at) VALUES (?, ?, ?, ?)
ON CONFLICT (message_id) DO NOTHING
"""
_AFTER = """
SELECT number, message_id, text, created_at FROM said WHERE connection_id = ? AND number > ?
ORDER BY number LIMIT ?
"""
_NEWEST = """
SELECT number, message_id, text, created_at FROM said WHERE connection_id = ?
ORDER BY number DESC LIMIT ?
"""


@dataclass(frozen=True)
class Saying:
    """One message of a person's."""

    number: int
    message_id: str
    text: str
    at: datetime


@dataclass(frozen=True)
class SaidStore:
    """What was said on the channels of one data directory."""

    database: Database
    clock: Clock

    async def keep(self, message: QueueMessage, *, connection_id: str) -> None:
        """Write down what was accepted; a message that is known by its id is kept already."""
        said_at = format_timestamp(message.created_at)
        values = (message.message_id, connection_id, message.content, said_at)
        await briefly(self.database, lambda tx: tx.execute(_INSERT, values))

    async def after(self, connection_id: str, number: int, *, limit: int = 200) -> list[Saying]:
        """What was said after a number, in its order."""
        rows = await self.database.fetch_all(_AFTER, (connection_id, number, limit))
        return [_saying(row) for row in rows]

    async def newest(self, connection_id: str, count: int) -> list[Saying]:
        """The last things that were said, oldest first."""
        rows = await self.database.fetch_all(_NEWEST, (connection_id, count))
        return [_saying(row) for row in reversed(rows)]

    async def prune(self, keep: timedelta) -> int:
        """Remove what is older; returns how much."""
        before = format_timestamp(self.clock.now() - keep)
        return await self.database.execute("DELETE FROM said WHERE created_at < ?", (before,))


def _saying(row: Row) -> Saying:
    return Saying(number=row[0], message_id=row[1], text=row[2], at=parse_timestamp(row[3]))
