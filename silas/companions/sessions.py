"""Conversations with a companion: they are opened, spoken in, and end when nobody speaks."""

from datetime import datetime, timedelta

from silas.companions.errors import SessionClosed
from silas.companions.ids import run_message_id, session_thread, user_run_key
from silas.companions.log import MessageLog
from silas.companions.models import (
    AgentMessageKind,
    Companion,
    InteractionMode,
    InteractiveSession,
    MessageDraft,
    WakeJob,
    WakeReason,
)
from silas.companions.store import CompanionStore
from silas.kernel import format_timestamp, parse_timestamp
from silas.storage import Reader, Transaction

INACTIVITY = timedelta(minutes=20)
_NEAREST = "SELECT min(expires_at) FROM agent_sessions WHERE closed_at IS NULL"
_EXPIRED = "SELECT body FROM agent_sessions WHERE closed_at IS NULL AND expires_at <= ?"
_OPEN = """
SELECT body FROM agent_sessions WHERE agent_id = ? AND closed_at IS NULL
ORDER BY expires_at DESC LIMIT 1
"""


class Sessions:
    """The open conversations. While one is open, a companion that works alone also listens."""

    def __init__(self, store: CompanionStore, *, inactivity: timedelta = INACTIVITY) -> None:
        self._store = store
        self._log = MessageLog(store)
        self._inactivity = inactivity

    async def open(self, agent_id: str) -> InteractiveSession:
        """The conversation with this companion: the open one, or a new one."""
        return await self._store.transaction(lambda tx: self._open_in(tx, agent_id))

    async def say(self, session_id: str, text: str, *, turn_id: str) -> WakeJob:
        """The wake that answers this; raises `SessionClosed`. It still has to be enqueued."""

        def touch(tx: Transaction) -> InteractiveSession:
            session = self._store.require_in(tx, InteractiveSession, session_id)
            now = self._store.clock.now()
            if session.closed_at is not None or session.expires_at <= now:
                raise SessionClosed(session_id=session_id)
            alive = {"last_activity_at": now, "expires_at": now + self._inactivity}
            return self._store.put_in(tx, session.model_copy(update=alive))

        session = await self._store.transaction(touch)
        return WakeJob(
            run_key=user_run_key(session.agent_id, session.id, turn_id),
            thread_id=session.thread_id,
            agent_id=session.agent_id,
            reason=WakeReason.USER_INITIATED,
            reason_id=turn_id,
            session_id=session.id,
            seed_input=text,
        )

    async def close(self, session_id: str, *, reason: str = "closed") -> InteractiveSession:
        """End a conversation; ending it again changes nothing."""

        def end(tx: Transaction) -> InteractiveSession:
            session = self._store.require_in(tx, InteractiveSession, session_id)
            return self.close_in(tx, session, reason=reason)

        return await self._store.transaction(end)

    async def close_expired(self, now: datetime) -> list[InteractiveSession]:
        """End the conversations in which nobody has spoken for too long."""
        rows = await self._store.database.fetch_all(_EXPIRED, (format_timestamp(now),))
        if not rows:
            return []
        expired = [InteractiveSession.model_validate_json(row[0]) for row in rows]
        return await self._store.transaction(
            lambda tx: [self.close_in(tx, each, reason="inactivity") for each in expired]
        )

    async def nearest_expiry(self) -> datetime | None:
        """When the next conversation ends by itself."""
        row = await self._store.database.fetch_one(_NEAREST)
        return parse_timestamp(row[0]) if row and row[0] else None

    def close_in(
        self, tx: Transaction, session: InteractiveSession, *, reason: str
    ) -> InteractiveSession:
        """The same in a caller's transaction: a mark in its thread, and the mode it had before."""
        current = self._store.require_in(tx, InteractiveSession, session.id)
        if current.closed_at is not None:
            return current
        self._log.append_in(
            tx,
            [
                MessageDraft(
                    agent_id=current.agent_id,
                    thread_id=current.thread_id,
                    kind=AgentMessageKind.SYSTEM,
                    content={"event": "session_closed", "reason": reason},
                    message_id=run_message_id(current.id, "closed"),
                )
            ],
        )
        companion = self._store.require_in(tx, Companion, current.agent_id)
        if companion.mode is not current.baseline_mode:
            self._store.put_in(tx, companion.model_copy(update={"mode": current.baseline_mode}))
        changes = {"closed_at": self._store.clock.now(), "close_reason": reason}
        return self._store.put_in(tx, current.model_copy(update=changes))

    def open_session_in(self, reader: Reader, agent_id: str) -> InteractiveSession | None:
        """The conversation that is open with this companion, if one is."""
        row = reader.fetch_one(_OPEN, (agent_id,))
        return InteractiveSession.model_validate_json(row[0]) if row else None

    def _open_in(self, tx: Transaction, agent_id: str) -> InteractiveSession:
        self._store.require_alive_in(tx, agent_id)
        now = self._store.clock.now()
        known = self.open_session_in(tx, agent_id)
        if known is not None and known.expires_at > now:
            return known
        if known is not None:
            self.close_in(tx, known, reason="inactivity")
        companion = self._store.require_in(tx, Companion, agent_id)
        if companion.mode is InteractionMode.AUTONOMOUS:
            listening = companion.model_copy(update={"mode": InteractionMode.HYBRID})
            self._store.put_in(tx, listening)
        session_id = self._store.ids.new("session")
        return self._store.put_in(
            tx,
            InteractiveSession(
                id=session_id,
                agent_id=agent_id,
                thread_id=session_thread(agent_id, session_id),
                baseline_mode=companion.mode,
                opened_at=now,
                last_activity_at=now,
                expires_at=now + self._inactivity,
            ),
        )
