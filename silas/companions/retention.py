"""How long what companions leave behind is kept, class by class.

What a person reads stays: messages, reports, personas, questions and answers. What only explains a
run, or waited and is over, goes after a while; the pruning goes from the oldest on.
"""

from datetime import timedelta
from typing import Final

from silas.companions.models import SagaStatus, WaitingStatus
from silas.companions.store import CompanionStore
from silas.kernel import format_timestamp
from silas.storage import Transaction

TRACES: Final = timedelta(days=90)
OVER: Final = timedelta(days=90)

_TRACES = "DELETE FROM agent_run_traces WHERE started_at < ?"
_PLANS = "DELETE FROM agent_action_plans WHERE created_at < ?"
_SAGAS = "DELETE FROM agent_saga_log WHERE status <> ? AND updated_at < ?"
_WAITED = "DELETE FROM agent_waiting_actions WHERE status NOT IN (?, ?, ?) AND created_at < ?"
_BUDGETS = "DELETE FROM agent_budget_windows WHERE window_start_local_date < ?"


class Retention:
    """Prunes what nobody needs any more."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def prune(self) -> int:
        """Remove what is too old; returns how many rows that were."""
        now = self._store.clock.now()
        traces, over = format_timestamp(now - TRACES), format_timestamp(now - OVER)
        live = [each.value for each in WaitingStatus if not each.is_over]

        def remove(tx: Transaction) -> int:
            return (
                tx.execute(_TRACES, (traces,))
                + tx.execute(_PLANS, (traces,))
                + tx.execute(_SAGAS, (SagaStatus.PENDING.value, over))
                + tx.execute(_WAITED, (*live, over))
                + tx.execute(_BUDGETS, ((now - OVER).date().isoformat(),))
            )

        return await self._store.transaction(remove)
