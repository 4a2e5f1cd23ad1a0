"""`SessionStore`: the sessions of each scope. One never ends; others come and go."""

import json
from datetime import datetime, timedelta

from silas.context.errors import SessionUnknown
from silas.context.models import Session, SessionType
from silas.kernel import Clock, IdFactory, format_timestamp, parse_timestamp
from silas.storage import Database, Row, Transaction

_COLUMNS = (
    "session_id, session_type, title, created_at, last_active, turn_count, active, pinned_ctx_ids"
)
_ONE = f"SELECT {_COLUMNS} FROM sessions WHERE scope_id = ? AND session_id = ?"  # noqa: S608
_ALL = f"SELECT {_COLUMNS} FROM sessions WHERE scope_id = ? ORDER BY created_at, session_id"  # noqa: S608
_ADD = f"""
INSERT INTO sessions (scope_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 0, 1, '[]')
"""  # noqa: S608
# The conversation itself: made by its first turn, and never set back by a turn that is done again.
_TURN = f"""
INSERT INTO sessions (scope_id, {_COLUMNS}) VALUES (?, ?, 'stream', '', ?, ?, ?, 1, '[]')
ON CONFLICT (scope_id, session_id) DO UPDATE SET
    last_active = CASE WHEN excluded.last_active > sessions.last_active
        THEN excluded.last_active ELSE sessions.last_active END,
    turn_count = CASE WHEN excluded.turn_count > sessions.turn_count
        THEN excluded.turn_count ELSE sessions.turn_count END
"""  # noqa: S608
# What is said without a long silence in between is one session beside the whole conversation.
_TALK = """
SELECT session_id, last_active, (
    SELECT whole.turn_count FROM sessions AS whole
    WHERE whole.scope_id = sessions.scope_id AND whole.session_type = 'stream'
)
FROM sessions WHERE scope_id = ? AND session_type = 'side' AND title = ? AND active = 1
ORDER BY last_active DESC LIMIT 1
"""
_END_TALK = """
UPDATE sessions SET active = 0
WHERE scope_id = ? AND session_type = 'side' AND title = ? AND active = 1
"""
_END_IDLE = """
UPDATE sessions SET active = 0
WHERE session_type = 'side' AND title = ? AND active = 1 AND last_active < ?
"""
_CLOSE = """
UPDATE sessions SET active = 0, last_active = ?
WHERE scope_id = ? AND session_id = ? AND session_type = 'side'
"""
_TOUCH = """
UPDATE sessions SET last_active = ?, turn_count = turn_count + 1
WHERE scope_id = ? AND session_id = ? AND active = 1
"""
_PIN = "UPDATE sessions SET pinned_ctx_ids = ? WHERE scope_id = ? AND session_id = ?"
_PRUNE = "DELETE FROM sessions WHERE session_type = 'side' AND active = 0 AND last_active < ?"
STREAM_ID = "stream"
TALK = "talk"
"""The title of a session that the turns themselves begin and end."""


class SessionStore:
    """The sessions of every scope; no method reads two."""

    def __init__(self, database: Database, *, clock: Clock, ids: IdFactory) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

    def note_turn(self, tx: Transaction, scope_id: str, *, turn_number: int, at: datetime) -> None:
        """Write down that the conversation had this turn; the same turn again changes nothing."""
        moment = format_timestamp(at)
        tx.execute(_TURN, (scope_id, STREAM_ID, moment, moment, turn_number))

    def continue_talk(
        self, tx: Transaction, scope_id: str, *, turn_number: int, at: datetime, idle: timedelta
    ) -> str:
        """The session that a turn belongs to; after a silence longer than `idle`, a new one.

        To be called before `note_turn`, which tells whether the turn is a new one.
        """
        moment = format_timestamp(at)
        row = tx.fetch_one(_TALK, (scope_id, TALK))
        if row is not None and at - parse_timestamp(row[1]) <= idle:
            if turn_number > (row[2] or 0):
                tx.execute(_TOUCH, (moment, scope_id, row[0]))
            return str(row[0])
        session_id = self._ids.new("ses")
        tx.execute(_END_TALK, (scope_id, TALK))
        tx.execute(_ADD, (scope_id, session_id, SessionType.SIDE.value, TALK, moment, moment))
        tx.execute(_TOUCH, (moment, scope_id, session_id))
        return session_id

    async def end_idle(self, before: datetime) -> int:
        """End the sessions in which nothing was said since; returns how many."""
        return await self._database.execute(_END_IDLE, (TALK, format_timestamp(before)))

    async def open_side(self, scope_id: str, title: str) -> Session:
        """Begin a session beside the conversation."""
        session_id, moment = self._ids.new("ses"), format_timestamp(self._clock.now())
        side = SessionType.SIDE.value
        await self._database.execute(_ADD, (scope_id, session_id, side, title, moment, moment))
        return await self.get(scope_id, session_id)

    async def get(self, scope_id: str, session_id: str) -> Session:
        """A session of this scope; raises `SessionUnknown`."""
        row = await self._database.fetch_one(_ONE, (scope_id, session_id))
        if row is None:
            raise SessionUnknown
        return _session(row)

    async def of_scope(self, scope_id: str) -> list[Session]:
        """All sessions of a scope, the oldest first."""
        return [_session(row) for row in await self._database.fetch_all(_ALL, (scope_id,))]

    async def touch(self, scope_id: str, session_id: str) -> None:
        """Count a turn of a session beside; raises `SessionUnknown` if it is not open."""
        moment = format_timestamp(self._clock.now())
        if not await self._database.execute(_TOUCH, (moment, scope_id, session_id)):
            raise SessionUnknown

    async def pin(self, scope_id: str, session_id: str, ctx_ids: list[str]) -> None:
        """Write down which items a session keeps pinned."""
        kept = json.dumps(list(dict.fromkeys(ctx_ids)))
        if not await self._database.execute(_PIN, (kept, scope_id, session_id)):
            raise SessionUnknown

    async def close(self, scope_id: str, session_id: str) -> None:
        """End a session beside; the conversation itself never ends."""
        moment = format_timestamp(self._clock.now())
        if not await self._database.execute(_CLOSE, (moment, scope_id, session_id)):
            raise SessionUnknown

    async def prune_before(self, cutoff: datetime) -> int:
        """Delete sessions that ended before; returns how many."""
        return await self._database.execute(_PRUNE, (format_timestamp(cutoff),))


def _session(row: Row) -> Session:
    session_id, kind, title, created_at, last_active, turn_count, active, pinned = row
    return Session(
        session_id=session_id,
        session_type=SessionType(kind),
        title=title,
        created_at=parse_timestamp(created_at),
        last_active=parse_timestamp(last_active),
        turn_count=turn_count,
        active=bool(active),
        pinned_ctx_ids=json.loads(pinned),
    )
