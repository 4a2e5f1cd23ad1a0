"""Waking as the application runs it: the real bus, the real consumer, the real clock of timers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from silas.app.companions import CompanionServices
from silas.companions.lifecycle import (
    AGENT_CHANGED,
    AGENT_STATE_CHANGED,
    NewCompanion,
    SubscriptionDraft,
)
from silas.companions.messages import AgentMessage, RunOutcome, WakeJob, WakeRun
from silas.companions.models import (
    AgentState,
    AgentTimer,
    Companion,
    TimerKind,
    WakeReason,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.companions.timers import TimerDraft
from silas.journal.models import Category, Task
from silas.journal.notifications import NotificationBatch, entity, semantic
from silas.journal.store import Journal
from silas.queue import QueueStore
from silas.testing import FakeClock
from tests.companions.making import RecordingRuns, waking_only

COACH = NewCompanion(
    kind="gym_coach",
    display_name="Coach",
    allowed_category_ids=("gym",),
    subscriptions=(SubscriptionDraft((semantic("TASK"),)),),
    companion_id="coach",
)


class SelfAlarmed(RecordingRuns):
    """Wants to be woken again in an hour, the first time."""

    async def run(
        self, job: WakeJob, companion: Companion, state: AgentState, stopping: Callable[[], bool]
    ) -> RunOutcome:
        outcome = await super().run(job, companion, state, stopping)
        if len(self.jobs) > 1:
            return outcome
        moment = self.store.clock.now() + timedelta(hours=1)
        return RunOutcome(
            status=outcome.status,
            state=outcome.state,
            trace=outcome.trace,
            drafts=outcome.drafts,
            next_wake_at=moment,
        )


@pytest.fixture
async def waking(
    store: CompanionStore, journal: Journal, queue: QueueStore
) -> AsyncIterator[CompanionServices]:
    waking = waking_only(store, journal, queue, SelfAlarmed(store).run)
    async with waking.running():
        yield waking


async def ended(waking: CompanionServices, count: int) -> list[WakeRun]:
    """Wait until this many wakes have come to their end."""
    async with asyncio.timeout(120):
        while True:
            runs = await waking.store.find(WakeRun)
            over = [run for run in runs if run.status.is_terminal]
            if len(over) >= count:
                return over
            await asyncio.sleep(0.01)


async def summarised(waking: CompanionServices) -> list[AgentMessage]:
    async with asyncio.timeout(120):
        while not (  # noqa: ASYNC110 - the compactor works on it
            found := await waking.store.find(AgentMessage, {"summary_depth": 1})
        ):
            await asyncio.sleep(0.01)
    return found


async def test_create_wake_run_append_summarize(
    waking: CompanionServices, journal: Journal, clock: FakeClock
) -> None:
    news: list[NotificationBatch] = []
    stop = waking.notifications.listen(news.append)
    await journal.change(lambda e: e.create(Category, id="gym", name="gym"), actor="owner")
    companion = await waking.lifecycle.create(COACH)
    await journal.change(lambda e: e.create(Task, title="Squats", category_id="gym"), actor="owner")
    [run] = await ended(waking, 1)
    assert (run.status, run.job.reason) == (WakeStatus.COMPLETED, WakeReason.SUBSCRIPTION)
    [summary] = await summarised(waking)
    assert summary.thread_id == run.job.thread_id
    told = [{token.token_value for token in batch.typed_tokens} for batch in news]
    assert {AGENT_CHANGED, "coach"} <= told[0]
    assert {AGENT_STATE_CHANGED, "coach", companion.current_state_id} <= told[-1]
    assert entity("coach") in news[-1].typed_tokens
    stop()
    # The alarm that it has set for itself is a timer that rings once.
    [alarm] = await waking.store.find(AgentTimer)
    assert alarm.next_run_at == clock.now() + timedelta(hours=1)
    state = await waking.store.require(AgentState, companion.current_state_id)
    assert state.next_wake_at == alarm.next_run_at
    clock.advance(hours=1)
    waking.alarms.poke()
    runs = await ended(waking, 2)
    assert {each.job.reason for each in runs} == {WakeReason.SUBSCRIPTION, WakeReason.TIMER}


async def test_a_listener_that_fails_does_not_end_a_run(
    waking: CompanionServices, journal: Journal
) -> None:
    def broken(_batch: NotificationBatch) -> None:
        raise RuntimeError("no")

    waking.notifications.listen(broken)
    await waking.lifecycle.create(COACH)
    await waking.lifecycle.wake("coach")
    [run] = await ended(waking, 1)
    assert run.status is WakeStatus.COMPLETED


async def test_everything_stops_with_the_block(
    store: CompanionStore, journal: Journal, queue: QueueStore
) -> None:
    waking = waking_only(store, journal, queue, RecordingRuns(store).run)
    before = len(asyncio.all_tasks())
    async with waking.running():
        await waking.lifecycle.create(
            NewCompanion(
                kind="planner",
                display_name="P",
                allowed_category_ids=(),
                timers=(TimerDraft(TimerKind.DAILY, "07:00"),),
            )
        )
        assert len(asyncio.all_tasks()) > before
    assert len(asyncio.all_tasks()) <= before
