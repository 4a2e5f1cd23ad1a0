"""Committing what a run leaves behind: all of it and the end of its wake, or nothing."""

from datetime import datetime
from typing import Any

from silas.companions.ids import digest, report_head_id
from silas.companions.links import LinkBook
from silas.companions.log import MessageLog, pointer_to
from silas.companions.merging import higher_pointer, prune_stale_hosts
from silas.companions.models import (
    AgentLinkRelation,
    AgentMessage,
    AgentReport,
    AgentReportHead,
    AgentState,
    AgentTimer,
    RunOutcome,
    TimerKind,
    WakeRun,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.companions.wake.runlog import WakeRunLog
from silas.kernel import format_timestamp
from silas.storage import Transaction

_MOST_HOSTS = 64


class OutcomeWriter:
    """Writes the outcome of a run in one transaction. Raises `AgentDestroyed`, and writes nothing,
    if its companion was destroyed meanwhile.
    """

    def __init__(self, store: CompanionStore) -> None:
        self._store = store
        self._log = MessageLog(store)
        self._links = LinkBook(store)
        self._runs = WakeRunLog(store)

    def commit_in(self, tx: Transaction, run: WakeRun, outcome: RunOutcome) -> AgentState:
        """The state as it is stored now."""
        store = self._store
        store.require_alive_in(tx, run.agent_id)
        messages = self._log.append_in(tx, outcome.drafts)
        if outcome.report is not None:
            self._show_report(tx, outcome.report)
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
        lets a companion sleep.
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
            sleeps = [each for each in (stored.sleep_until, made.sleep_until) if each is not None]
            changes["sleep_until"] = max(sleeps, default=None)
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
        self._links.draw_in(
            tx,
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
