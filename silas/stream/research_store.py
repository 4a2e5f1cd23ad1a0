"""Where the planner's requests survive a crash; see `research.py` for what the states mean."""

from datetime import datetime

from silas.kernel import format_timestamp
from silas.storage import Database, Transaction
from silas.stream.errors import ConversationMoved
from silas.stream.research import ResearchLimits, ResearchState, Result, received

_INSERT = """
INSERT INTO planner_requests (request_id, scope_id, status, state, next_deadline, version)
VALUES (?, ?, ?, ?, ?, 1)
"""
_UPDATE = """
UPDATE planner_requests SET status = ?, state = ?, next_deadline = ?, version = version + 1
WHERE request_id = ? AND version = ?
"""
_SELECT = "SELECT state, version FROM planner_requests WHERE request_id = ?"
_OVERDUE = "SELECT state FROM planner_requests WHERE next_deadline <= ? ORDER BY request_id LIMIT ?"


class ResearchStore:
    """The planner's requests. A finished one is removed: what comes for it then is late."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, request_id: str) -> tuple[ResearchState, int] | None:
        """The state and its version; None if there is no such request, or not any more."""
        row = await self._database.fetch_one(_SELECT, (request_id,))
        return (ResearchState.model_validate_json(row[0]), row[1]) if row else None

    async def record(
        self, request_id: str, result: Result, limits: ResearchLimits
    ) -> tuple[ResearchState, int] | None:
        """Take in a result, and return the state after it; None if the request is over."""

        def change(tx: Transaction) -> tuple[ResearchState, int] | None:
            row = tx.fetch_one(_SELECT, (request_id,))
            if row is None:
                return None
            before, version = ResearchState.model_validate_json(row[0]), row[1]
            after = received(before, result, limits)
            if after == before:
                return before, version
            self.save_in(tx, after, version=version)
            return after, version + 1

        return await self._database.transaction(change)

    def save_in(self, tx: Transaction, state: ResearchState, *, version: int) -> None:
        """Write the state over this version of it (0: it is new)."""
        deadline = format_timestamp(state.next_deadline) if state.next_deadline else None
        written = state.model_dump_json()
        request = state.request
        if version == 0:
            tx.execute(
                _INSERT,
                (request.message_id, request.scope_id, state.status.value, written, deadline),
            )
        elif not tx.execute(
            _UPDATE, (state.status.value, written, deadline, request.message_id, version)
        ):
            raise ConversationMoved

    def remove_in(self, tx: Transaction, request_id: str, *, version: int) -> None:
        """The planner is done with this version of the request."""
        gone = tx.execute(
            "DELETE FROM planner_requests WHERE request_id = ? AND version = ?",
            (request_id, version),
        )
        if version and not gone:
            raise ConversationMoved

    async def overdue(self, now: datetime, *, limit: int = 100) -> list[ResearchState]:
        """Requests in which something that is waited for is too late."""
        rows = await self._database.fetch_all(_OVERDUE, (format_timestamp(now), limit))
        return [ResearchState.model_validate_json(row[0]) for row in rows]
