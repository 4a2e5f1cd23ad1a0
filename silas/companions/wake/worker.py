"""The consumer of wakes: one run at a time for each companion, and an end for every wake.

1. A wake that has ended is not run again.
2. Under the companion's lock it is marked as begun, and skipped if `skipping.py` says so.
3. It runs. What it leaves behind and its end are committed together.
4. If it fails, that is its end: what it has done is known by its operations, and the next cause is
   a new wake. If the process dies, it is begun again, but not for ever.
5. One that the owner cancels is at its end from then on, also if the process dies. What it still
   does is not kept, except how it ended.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from silas.companions.errors import CALLED_OFF, AgentDestroyed, OutOfScope, Stopped, tool_code
from silas.companions.models import (
    AgentRunStatus,
    AgentRuntimeState,
    AgentState,
    Companion,
    RunOutcome,
    WakeJob,
    WakeRun,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.companions.wake.committing import OutcomeWriter
from silas.companions.wake.ports import CompanionRuns
from silas.companions.wake.runlog import WakeRunLog
from silas.companions.wake.skipping import reason_to_skip
from silas.kernel import CompanionError, SilasError
from silas.queue import Handled, Lease
from silas.queue.models import CompanionWake
from silas.storage import Durability, Transaction

_MOST_STARTS = 3
_log = logging.getLogger(__name__)

Ended = Callable[[WakeRun], Awaitable[None] | None]


@dataclass(frozen=True)
class _Begun:
    """A wake that may run, with what it is given."""

    run: WakeRun
    companion: Companion
    state: AgentState


class WakeWorker:
    """Handles the messages of the companion queue."""

    def __init__(
        self, store: CompanionStore, runs: CompanionRuns, *, ended: Ended | None = None
    ) -> None:
        """`ended` is called after every wake that has come to its end."""
        self._store = store
        self._runs = runs
        self._log = WakeRunLog(store)
        self._writer = OutcomeWriter(store)
        self._ended = ended
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._running: dict[str, AgentRuntimeState] = {}
        self._called_off: set[str] = set()

    async def __call__(self, lease: Lease) -> Handled:
        """Carry out one wake."""
        payload = lease.message.payload
        if not isinstance(payload, CompanionWake):
            raise CompanionError("A message for companions does not say whom to wake.")
        await self.wake(WakeJob.model_validate(payload.job))
        return Handled()

    async def wake(self, job: WakeJob) -> WakeRun | None:
        """The line of the wake after it, or None if there was nothing to do."""
        async with self._locks[job.agent_id]:
            begun = await self._store.transaction(
                lambda tx: self._begin_in(tx, job), durability=Durability.TRUST
            )
            if begun is None:
                return None
            ended = begun if isinstance(begun, WakeRun) else await self._carry_out(begun)
        if self._ended is not None:
            told = self._ended(ended)
            if told is not None:
                await told
        return ended

    def call_off(self, agent_id: str | None = None) -> int:
        """Ask what is running (of one companion, or of all) to stop; returns how many that are."""
        called = [
            state.active_run_id
            for state in self._running.values()
            if state.active_run_id and agent_id in (None, state.agent_id)
        ]
        self._called_off |= {run_key for run_key in called if run_key}
        return len(called)

    async def cancel(self, agent_id: str) -> int:
        """Bring what runs of a companion to its end (rule 5); returns how many runs those were."""

        def write(tx: Transaction) -> int:
            mine = {"agent_id": agent_id, "status": WakeStatus.RUNNING}
            running = self._store.find_in(tx, WakeRun, mine)
            for run in running:
                self._end_in(tx, run, WakeStatus.CANCELLED, Stopped(CALLED_OFF))
            return len(running)

        try:
            return await self._store.transaction(write, durability=Durability.TRUST)
        finally:
            self.call_off(agent_id)

    def runtime(self, agent_id: str) -> AgentRuntimeState:
        """What a companion does just now."""
        return self._running.get(agent_id) or AgentRuntimeState(agent_id=agent_id)

    def _begin_in(self, tx: Transaction, job: WakeJob) -> _Begun | WakeRun | None:
        """Mark it as begun; a line that is at its end already if it is skipped."""
        store = self._store
        run = self._log.start_in(tx, job)
        if run is None:
            return None
        companion = store.get_in(tx, Companion, run.agent_id)
        state = store.get_in(tx, AgentState, companion.current_state_id) if companion else None
        if companion is None or state is None:
            return self._log.end_in(
                tx, run.run_key, WakeStatus.SKIPPED_DESTROYED, reason="agent_unknown"
            )
        skip = reason_to_skip(
            store, tx, companion, state, reason=run.job.reason, now=store.clock.now()
        )
        if skip is not None:
            return self._log.end_in(tx, run.run_key, skip.status, reason=skip.reason)
        if run.start_count > _MOST_STARTS:
            return self._log.end_in(
                tx,
                run.run_key,
                WakeStatus.FAILED_TERMINAL,
                error_code="crash_loop",
                error_message=f"It was begun {_MOST_STARTS} times, and each time Silas ended.",
            )
        return _Begun(run, companion, state)

    async def _carry_out(self, begun: _Begun) -> WakeRun:
        run_key, agent_id = begun.run.run_key, begun.run.agent_id
        self._running[agent_id] = AgentRuntimeState(
            agent_id=agent_id,
            run_status=AgentRunStatus.RUNNING,
            active_run_id=run_key,
            active_session_id=begun.run.job.session_id,
            last_run_started_at=begun.run.started_at,
            failure_streak=begun.state.consecutive_failure_count,
        )
        try:
            outcome = await self._runs.run(
                begun.run.job,
                begun.companion,
                begun.state,
                stopping=lambda: run_key in self._called_off,
            )
            await self._commit(begun, outcome)
        except (AgentDestroyed, OutOfScope, Stopped) as error:
            await self._end(begun.run, WakeStatus.CANCELLED, error)
        except Exception as error:  # noqa: BLE001 - every wake that was begun comes to an end
            if not isinstance(error, SilasError):
                _log.exception("the run %s of %s failed", run_key, agent_id)
            await self._fail(begun.run, error)
        finally:
            self._running.pop(agent_id, None)
            self._called_off.discard(run_key)
        return await self._store.require(WakeRun, run_key)

    async def _commit(self, begun: _Begun, outcome: RunOutcome) -> None:
        if not outcome.status.is_terminal:
            raise CompanionError("A run must come to an end. Report this defect.")

        def write(tx: Transaction) -> None:
            self._require_border(tx, begun.companion)
            if outcome.status is not WakeStatus.CANCELLED:
                self._require_not_cancelled(tx, begun.run)
            self._writer.commit_in(tx, begun.run, outcome)

        await self._store.transaction(write, durability=Durability.TRUST)

    def _require_border(self, tx: Transaction, before: Companion) -> None:
        """Who lost a category has forgotten it; what a run still knows of it is not kept either."""
        now = self._store.get_in(tx, Companion, before.id)
        kept = set(now.allowed_category_ids) if now is not None else set()
        if now is not None and not kept.issuperset(before.allowed_category_ids):
            raise OutOfScope("A category was taken from the companion while it ran.")

    def _require_not_cancelled(self, tx: Transaction, run: WakeRun) -> None:
        if self._store.require_in(tx, WakeRun, run.run_key).status is WakeStatus.CANCELLED:
            raise Stopped(CALLED_OFF)

    async def _fail(self, run: WakeRun, error: Exception) -> None:
        def write(tx: Transaction) -> None:
            self._end_in(tx, run, WakeStatus.FAILED_TERMINAL, error)
            companion = self._store.get_in(tx, Companion, run.agent_id)
            if companion is None or companion.is_destroyed:
                return
            state = self._store.require_in(tx, AgentState, companion.current_state_id)
            changes = {
                "consecutive_failure_count": state.consecutive_failure_count + 1,
                "last_wake_at": run.started_at,
            }
            self._store.put_in(tx, state.model_copy(update=changes))

        await self._store.transaction(write)

    async def _end(self, run: WakeRun, status: WakeStatus, error: Exception) -> None:
        await self._store.transaction(lambda tx: self._end_in(tx, run, status, error))

    def _end_in(
        self, tx: Transaction, run: WakeRun, status: WakeStatus, error: Exception
    ) -> WakeRun:
        code, message = "internal_error", f"{type(error).__name__}: {error}"
        if isinstance(error, SilasError):
            code, message = tool_code(error), error.message
        return self._log.end_in(tx, run.run_key, status, error_code=code, error_message=message)
