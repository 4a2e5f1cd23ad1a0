"""The consumer of wakes: one run at a time for each companion, and an end for every wake.

1. A wake that has ended is not run again.
2. Under the companion's lock it is marked as begun, and skipped if there is a reason. The strictest
   comes first: who is destroyed does nothing; a stop switch for everything, or for this companion,
   stops it; whom the owner has paused rests; whoever sleeps, or only speaks when spoken to, is
   woken by the owner alone; so is who has failed several times in a row, for a while that doubles
   with every failure.
3. It runs. What it leaves behind and its end are committed together, or nothing is.
4. If it fails, that is its end: what it has done is known by its operations, and the next cause is
   a new wake. If the process dies, it is begun again, but not for ever.
5. One that the owner cancels is at its end from then on, also if the process dies. What it still
   does is not kept, except how it ended.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from silas.companions.errors import CALLED_OFF, AgentDestroyed, OutOfScope, Stopped, tool_code
from silas.companions.gateway import stops_in
from silas.companions.ids import digest, report_head_id
from silas.companions.log import MessageLog, draw_link_in, higher_pointer, pointer_to
from silas.companions.messages import (
    FORGOTTEN,
    AgentMessage,
    AgentReport,
    AgentReportHead,
    RunOutcome,
    WakeJob,
    WakeRun,
)
from silas.companions.models import (
    AgentInteractionMode,
    AgentLifecycle,
    AgentLinkRelation,
    AgentRunStatus,
    AgentRuntimeState,
    AgentState,
    AgentTimer,
    Companion,
    TimerKind,
    WakeReason,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.companions.wake.dispatch import WakeRunLog
from silas.kernel import CompanionError, SilasError, format_timestamp
from silas.queue import Handled, Lease
from silas.queue.models import CompanionWake
from silas.storage import Durability, Reader, Transaction

_MOST_HOSTS = 64
_PATIENCE = 3
_FIRST_REST = timedelta(minutes=1)
_LONGEST_REST = timedelta(days=1)
BY_THE_OWNER = (WakeReason.USER_INITIATED, WakeReason.MANUAL)
_MOST_STARTS = 3
_log = logging.getLogger(__name__)
RunCompanion = Callable[[WakeJob, Companion, AgentState, Callable[[], bool]], Awaitable[RunOutcome]]
"""Carries out one wake; the last argument says whether the owner has called it off meanwhile.

It writes nothing of the outcome itself: the worker commits it."""
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
        self, store: CompanionStore, run: RunCompanion, *, ended: Ended | None = None
    ) -> None:
        """`ended` is called after every wake that has come to its end."""
        self._store = store
        self._run = run
        self._log = WakeRunLog(store)
        self._writer = OutcomeWriter(store)
        self._ended = ended
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._running: dict[str, AgentRuntimeState] = {}
        self._called_off: set[str] = set()
        self._listeners: list[Callable[[WakeRun], None]] = []

    def listen(self, begun: Callable[[WakeRun], None]) -> Callable[[], None]:
        """Call this whenever a run has begun and is on the disk; returns what ends that."""
        self._listeners.append(begun)
        return lambda: self._listeners.remove(begun)

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
            notice = self._ended(ended)
            if notice is not None:
                await notice
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
        for listener in tuple(self._listeners):
            listener(begun.run)
        try:
            outcome = await self._run(
                begun.run.job,
                begun.companion,
                begun.state,
                lambda: run_key in self._called_off,
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
        return await self._store.get(WakeRun, run_key) or begun.run

    async def _commit(self, begun: _Begun, outcome: RunOutcome) -> None:
        if not outcome.status.is_terminal:
            raise CompanionError("A run must come to an end. Report this defect.")

        def write(tx: Transaction) -> None:
            known = self._store.get_in(tx, WakeRun, begun.run.run_key)
            if known is None or known.skip_reason == FORGOTTEN:
                return
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
        if self._store.get_in(tx, WakeRun, run.run_key) is None:
            return run  # it was forgotten, with its companion
        return self._log.end_in(tx, run.run_key, status, error_code=code, error_message=message)


@dataclass(frozen=True)
class Skip:
    """Why a wake is not carried out."""

    status: WakeStatus
    reason: str


def reason_to_skip(
    store: CompanionStore,
    reader: Reader,
    companion: Companion,
    state: AgentState,
    *,
    reason: WakeReason,
    now: datetime,
) -> Skip | None:
    """The first of the rules that applies, or None."""
    alone = reason not in BY_THE_OWNER
    sleeps = state.sleep_until is not None and state.sleep_until > now
    rules = (
        (companion.is_destroyed, WakeStatus.SKIPPED_DESTROYED, "agent_destroyed"),
        (stops_in(store, reader, companion.id) is not None, WakeStatus.SKIPPED_STOPPED, "stopped"),
        (companion.paused_at is not None, WakeStatus.SKIPPED_PAUSED, "paused"),
        (
            alone and companion.lifecycle is AgentLifecycle.DORMANT,
            WakeStatus.SKIPPED_SLEEPING,
            "dormant",
        ),
        (
            alone and companion.mode is AgentInteractionMode.INTERACTIVE,
            WakeStatus.SKIPPED_SLEEPING,
            "interactive_only",
        ),
        (alone and sleeps, WakeStatus.SKIPPED_SLEEPING, "sleeping"),
        (alone and rests(state, now), WakeStatus.SKIPPED_SLEEPING, "backoff"),
    )
    return next((Skip(status, why) for applies, status, why in rules if applies), None)


def rests(state: AgentState, now: datetime) -> bool:
    """Whether a companion rests after failures."""
    until = rest_until(state.consecutive_failure_count, state.last_wake_at, now)
    return until is not None and until > now


def rest_until(failures: int, last_wake_at: datetime | None, now: datetime) -> datetime | None:
    """Until when a companion that has failed so often does not try by itself."""
    # A last wake in the future is that of a clock that was wrong; it says nothing about now.
    if failures < _PATIENCE or last_wake_at is None or last_wake_at > now:
        return None
    rest: timedelta = _FIRST_REST * (1 << min(failures - _PATIENCE, 16))
    return last_wake_at + min(_LONGEST_REST, rest)


class OutcomeWriter:
    """Writes the outcome of a run in one transaction. Raises `AgentDestroyed`, and writes nothing,
    if its companion was destroyed meanwhile.
    """

    def __init__(self, store: CompanionStore) -> None:
        self._store = store
        self._log = MessageLog(store)
        self._runs = WakeRunLog(store)

    def commit_in(self, tx: Transaction, run: WakeRun, outcome: RunOutcome) -> AgentState:
        """The state as it is stored now."""
        store = self._store
        store.require_alive_in(tx, run.agent_id)
        messages = self._log.append_in(tx, outcome.drafts)
        for report in (outcome.report, *outcome.more_reports):
            if report is not None:
                self._show_report(tx, report)
        for source in outcome.source_refs:
            store.put_in(tx, source)
        state = store.put_in(tx, self._state(tx, run, outcome, messages))
        store.put_in(tx, outcome.trace)
        for write in outcome.writes:
            write(tx)
        if outcome.next_wake_at is not None:
            self._set_alarm(tx, run.agent_id, outcome.next_wake_at)
        self._runs.end_in(
            tx,
            run.run_key,
            outcome.status,
            error_code=outcome.error_code,
            error_message=outcome.trace.error_message,
        )
        return state

    def _state(
        self,
        tx: Transaction,
        run: WakeRun,
        outcome: RunOutcome,
        messages: tuple[AgentMessage, ...],
    ) -> AgentState:
        """What the run made of the state, on top of what happened to it meanwhile.

        Beside the run, only compaction moves the pointer to the newest summary, and only the owner
        lets a companion sleep, or wakes it up.
        """
        stored = self._store.require_in(tx, AgentState, outcome.state.id)
        made = outcome.state
        changes: dict[str, Any] = {
            "revision": stored.revision,
            "updated_at": self._store.clock.now(),
            "last_wake_at": run.started_at,
            "latest_summary": higher_pointer(stored.latest_summary, made.latest_summary),
            "next_wake_at": outcome.next_wake_at or made.next_wake_at,
        }
        if stored.revision != made.revision:
            # Whom the owner has woken up meanwhile sleeps only if this very run has asked for it.
            changes["sleep_until"] = outcome.sleep_until or stored.sleep_until
        if messages:
            head = pointer_to(messages[-1])
            changes["recent_head"] = higher_pointer(stored.recent_head, head)
        completed = outcome.status is WakeStatus.COMPLETED
        if completed:
            changes["consecutive_failure_count"] = 0
            changes["processed_counter_by_host"] = self._processed(made, run)
        elif outcome.status is WakeStatus.FAILED_TERMINAL:
            changes["consecutive_failure_count"] = stored.consecutive_failure_count + 1
        return made.model_copy(update=changes)

    def _processed(self, state: AgentState, run: WakeRun) -> dict[str, int]:
        host, counters = self._store.host_id, dict(state.processed_counter_by_host)
        counters[host] = max(counters.get(host, 0), run.job.source_cursor or 0)
        return prune_stale_hosts(counters, active=(host,), limit=_MOST_HOSTS)

    def _show_report(self, tx: Transaction, report: AgentReport) -> None:
        self._store.put_in(tx, report)
        head = self._store.put_in(
            tx,
            AgentReportHead(
                id=report_head_id(report.agent_id, report.scope),
                agent_id=report.agent_id,
                scope=report.scope,
                report_id=report.id,
                updated_at=self._store.clock.now(),
            ),
        )
        draw_link_in(
            tx,
            self._store,
            AgentLinkRelation.REPORT_HEAD,
            agent_id=report.agent_id,
            from_id=report.agent_id,
            to_id=head.id,
            now=report.created_at,
        )

    def _set_alarm(self, tx: Transaction, agent_id: str, moment: datetime) -> None:
        """A companion's own alarm is a timer like the others; it has one."""
        now = self._store.clock.now()
        self._store.put_in(
            tx,
            AgentTimer(
                id=digest("alarm", agent_id),
                agent_id=agent_id,
                kind=TimerKind.ONCE,
                expression=format_timestamp(moment),
                next_run_at=moment,
                created_at=now,
                updated_at=now,
            ),
        )


def prune_stale_hosts(
    counters: Mapping[str, int], *, active: Iterable[str], limit: int
) -> dict[str, int]:
    """The counters of the hosts that still write; of the others only the highest, up to `limit`.

    A host that was dropped and comes back is told its changes once more at worst: their run keys
    say that they were handled.
    """
    kept = {host: counters[host] for host in active if host in counters}
    others = sorted(
        (host for host in counters if host not in kept), key=lambda h: (-counters[h], h)
    )
    kept |= {host: counters[host] for host in others[: max(0, limit - len(kept))]}
    return dict(sorted(kept.items()))
