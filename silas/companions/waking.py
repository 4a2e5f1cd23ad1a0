"""Waking as a whole: its parts put together, and running for as long as a block lasts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from silas.companions.compaction.compactor import Compactor
from silas.companions.compaction.jobs import CompactionPolicy
from silas.companions.compaction.ports import Summariser
from silas.companions.errors import AgentDestroyed
from silas.companions.lifecycle import Lifecycle
from silas.companions.models import AgentState, Companion, InteractiveSession, WakeReason, WakeRun
from silas.companions.sessions import Sessions
from silas.companions.store import CompanionStore
from silas.companions.telling import CompanionNews
from silas.companions.wake.alarms import Alarms
from silas.companions.wake.dispatch import WakeDispatch
from silas.companions.wake.index import TokenIndex
from silas.companions.wake.orchestrator import WakeOrchestrator
from silas.companions.wake.ports import CompanionRuns, OwnersZone
from silas.companions.wake.worker import WakeWorker
from silas.journal.store import Journal
from silas.queue import Consumer, QueueName, QueueStore

_AT_ONCE = 4
"""How many companions may run at the same time."""


@dataclass(frozen=True)
class Waking:
    """Everything between a cause and the end of a run."""

    store: CompanionStore
    sessions: Sessions
    dispatch: WakeDispatch
    index: TokenIndex
    worker: WakeWorker
    alarms: Alarms
    orchestrator: WakeOrchestrator
    lifecycle: Lifecycle
    compactor: Compactor
    news: CompanionNews
    consumer: Consumer

    async def refresh(self) -> None:
        """Take up what another process has written: subscriptions, timers, changes."""
        await self.index.load(self.store.database)
        self.alarms.poke()
        await self.orchestrator.catch_up()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Finish what a crash left, catch up, and go on until the end of the block."""
        await self.dispatch.recover()
        await self.orchestrator.start()
        tasks = [
            asyncio.create_task(self.consumer.run(), name="companions"),
            asyncio.create_task(self.orchestrator.run(), name="companions' catching up"),
            asyncio.create_task(self.alarms.run(), name="companions' timers"),
            asyncio.create_task(self.compactor.run(), name="companions' compaction"),
        ]
        try:
            yield
        finally:
            self.orchestrator.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def make_waking(
    store: CompanionStore,
    journal: Journal,
    *,
    queue: QueueStore,
    runs: CompanionRuns,
    zone: OwnersZone,
    summariser: Summariser | None = None,
    compaction: CompactionPolicy | None = None,
) -> Waking:
    """The parts of waking, wired."""
    news = CompanionNews(store.ids, host_id=store.host_id)
    compactor = Compactor(store, summariser=summariser, policy=compaction)
    dispatch, index, sessions = WakeDispatch(store, queue), TokenIndex(), Sessions(store)

    async def session_ended(session: InteractiveSession) -> None:
        await compactor.consider(session.agent_id, session.thread_id, ended=True)

    alarms = Alarms(store, dispatch, sessions=sessions, zone=zone, closed=session_ended)

    async def run_ended(run: WakeRun) -> None:
        # It may have set its own alarm.
        alarms.poke()
        await _follow_up(store, news, compactor, run)

    worker = WakeWorker(store, runs, ended=run_ended)
    return Waking(
        store=store,
        sessions=sessions,
        dispatch=dispatch,
        index=index,
        worker=worker,
        alarms=alarms,
        orchestrator=WakeOrchestrator(store, journal, dispatch=dispatch, index=index),
        lifecycle=Lifecycle(
            store,
            dispatch=dispatch,
            index=index,
            sessions=sessions,
            zone=zone,
            poke_alarms=alarms.poke,
            call_off=worker.call_off,
            fence=journal.fence.move,
            told=news.agent_changed,
        ),
        compactor=compactor,
        news=news,
        consumer=Consumer(
            name="companion",
            queue=QueueName.COMPANION,
            handler=worker,
            store=queue,
            concurrency=_AT_ONCE,
        ),
    )


async def _follow_up(
    store: CompanionStore, news: CompanionNews, compactor: Compactor, run: WakeRun
) -> None:
    """After a run: those who listen hear of it, and its thread may be due for a summary."""
    companion = await store.get(Companion, run.agent_id)
    if companion is None or companion.is_destroyed:
        return
    state = await store.get(AgentState, companion.current_state_id)
    if state is not None:
        news.state_changed(state)
    ended = run.job.reason is not WakeReason.USER_INITIATED
    with contextlib.suppress(AgentDestroyed):
        await compactor.consider(run.agent_id, run.job.thread_id, ended=ended)
