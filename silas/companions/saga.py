"""One write to two databases: first the journal, then the companion's own, and never half of it.

1. Before the journal is touched, the call is written down here (`planned`).
2. The journal does it under the operation's id: once, however often it is asked.
3. What came of it is written down (`journal_committed`), then the entries of the log, together with
   the end of the saga (`agent_committed`), in one transaction.
4. At the start, whatever has not ended is looked at, one after the other. What the journal has done
   is written down; what it has not done is left to whoever still wants it, or ends as failed.
   Doing this again changes nothing.
"""

from collections.abc import Sequence
from typing import Any

from silas.companions.models import SagaEntry, SagaPhase, SagaStatus
from silas.companions.store import CompanionStore
from silas.companions.tools.models import AgentToolCall, AgentToolResult
from silas.storage import Transaction


class SagaLog:
    """How far each write has come."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def begin(self, call: AgentToolCall) -> SagaEntry:
        """Rule 1; what is there already stays, unless it had failed."""
        now = self._store.clock.now()

        def write(tx: Transaction) -> SagaEntry:
            known = self._store.get_in(tx, SagaEntry, call.operation_id)
            if known is not None and known.status is not SagaStatus.FAILED:
                tried = {"attempt_count": known.attempt_count + 1, "updated_at": now}
                return self._store.put_in(tx, known.model_copy(update=tried))
            return self._store.put_in(
                tx,
                SagaEntry(
                    operation_id=call.operation_id,
                    run_key=call.run_key,
                    agent_id=call.agent_id,
                    tool_name=call.tool_name,
                    call=call.model_dump(mode="json"),
                    attempt_count=1,
                    created_at=now,
                    updated_at=now,
                ),
            )

        return await self._store.transaction(write)

    async def journal_committed(self, operation_id: str, result: AgentToolResult) -> None:
        """Rule 3, its first half."""
        await self._change(
            operation_id,
            phase=SagaPhase.JOURNAL_COMMITTED,
            result=result.model_dump(mode="json"),
        )

    async def failed(self, operation_id: str, error: str) -> None:
        """The journal refused it, or nobody wants it any more: nothing was written."""
        await self._change(operation_id, status=SagaStatus.FAILED, last_error=error)

    def finish_in(self, tx: Transaction, operation_id: str) -> None:
        """Rule 3, its second half, in the transaction that writes the log."""
        known = self._store.get_in(tx, SagaEntry, operation_id)
        if known is None or known.status is not SagaStatus.PENDING:
            return
        ended = {
            "phase": SagaPhase.AGENT_COMMITTED,
            "status": SagaStatus.DONE,
            "updated_at": self._store.clock.now(),
        }
        self._store.put_in(tx, known.model_copy(update=ended))

    async def pending(self) -> Sequence[SagaEntry]:
        """What has not ended, oldest first."""
        return await self._store.find(SagaEntry, {"status": SagaStatus.PENDING})

    async def get(self, operation_id: str) -> SagaEntry | None:
        """How far one write has come."""
        return await self._store.get(SagaEntry, operation_id)

    async def _change(self, operation_id: str, **changes: Any) -> None:
        def write(tx: Transaction) -> None:
            known = self._store.require_in(tx, SagaEntry, operation_id)
            now = self._store.clock.now()
            self._store.put_in(tx, known.model_copy(update={**changes, "updated_at": now}))

        await self._store.transaction(write)
