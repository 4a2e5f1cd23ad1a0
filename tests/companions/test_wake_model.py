"""Lifecycle, wakes, timers, destruction, restarts, crashes: in any order, against a model."""

import asyncio
import itertools
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from silas.companions.lifecycle import NewCompanion, SubscriptionDraft, TimerDraft
from silas.companions.models import (
    AgentMessage,
    TimerKind,
    WakeJob,
    WakeReason,
    WakeRun,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.journal.models import Category, Task
from silas.journal.notifications import semantic
from silas.journal.store import Journal
from silas.kernel import IdFactory
from silas.queue import Bus, QueueStore
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock
from tests.companions.making import House

HOUR = timedelta(hours=1)
AGENTS = st.sampled_from(["a", "b", "c"])
Ending = tuple[str, WakeReason, WakeStatus]


@dataclass
class Modelled:
    """A companion as the plan describes it, in a few lines."""

    timer_at: datetime
    paused: bool = False
    dormant: bool = False
    changes_wait: bool = False
    others_wait: list[WakeReason] = field(default_factory=list)

    def due(self, now: datetime) -> None:
        """One wake, however many due times were missed."""
        if self.timer_at <= now:
            late = now - self.timer_at > timedelta(minutes=1)
            reason = WakeReason.RECOVERY_CATCHUP if late else WakeReason.TIMER
            self.others_wait.append(reason)
            self.timer_at = next_hour(now)

    def endings(self) -> list[tuple[WakeReason, WakeStatus]]:
        """How everything that waits ends if it is worked on now."""
        waiting = [*self.others_wait, *([WakeReason.SUBSCRIPTION] if self.changes_wait else [])]
        self.others_wait, self.changes_wait = [], False
        return [(reason, self._ending(reason)) for reason in waiting]

    def _ending(self, reason: WakeReason) -> WakeStatus:
        if self.paused:
            return WakeStatus.SKIPPED_PAUSED
        if self.dormant and reason is not WakeReason.USER_INITIATED:
            return WakeStatus.SKIPPED_SLEEPING
        return WakeStatus.COMPLETED


def next_hour(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0) + HOUR


class Companions(RuleBasedStateMachine):
    """The real thing beside the model."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clock = FakeClock()
        self.number = itertools.count()
        self.alive: dict[str, Modelled] = {}
        self.gone: set[str] = set()
        self.expected: Counter[Ending] = Counter()
        self.ran: list[str] = []
        self.run(self._open())

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    async def _open(self) -> None:
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        ids = IdFactory(self.clock)
        databases = {}
        for name, schema in (("agent", "agent"), ("journal", "journal"), ("silas", "runtime")):
            databases[name] = SqliteDatabase.open(folder / f"{name}.db")
            self.stack.push_async_callback(databases[name].close)
            await migrate(databases[name], load_migrations(schema), clock=self.clock)
        self.store = CompanionStore(databases["agent"], clock=self.clock, ids=ids, host_id="host-a")
        self.journal = await Journal.open(databases["journal"], clock=self.clock, ids=ids)
        bus = Bus(poll_seconds=0.01)
        self.queue = QueueStore(databases["silas"], clock=self.clock, ids=ids, bus=bus)
        await self._start()
        await self.house.change(lambda edit: edit.create(Category, id="gym", name="gym"))

    async def _start(self) -> None:
        self.house = House(self.store, self.journal, self.queue)
        self.house.zone.name = "UTC"
        await self.house.orchestrator.start()
        await self.house.dispatch.recover()
        await self.house.alarms.tick()

    @initialize()
    def begin_with_two(self) -> None:
        self.create("a")
        self.create("b")

    @rule(agent=st.just("c"))
    def create(self, agent: str) -> None:
        if agent in self.alive or agent in self.gone:
            return
        new = NewCompanion(
            kind="planner",
            display_name=agent,
            allowed_category_ids=("gym",),
            subscriptions=(SubscriptionDraft((semantic("TASK"),)),),
            timers=(TimerDraft(TimerKind.CRON, "0 * * * *"),),
            companion_id=agent,
        )
        self.run(self.house.lifecycle.create(new))
        self.alive[agent] = Modelled(timer_at=next_hour(self.clock.now()))

    @rule(mine=st.sampled_from([True, True, False]))
    def change_the_journal(self, mine: bool) -> None:
        category = "gym" if mine else None
        title = f"task {next(self.number)}"
        self.run(
            self.house.change(lambda edit: edit.create(Task, title=title, category_id=category))
        )
        if mine:
            for each in self.alive.values():
                each.changes_wait = True

    @rule(minutes=st.integers(1, 200))
    def let_time_pass(self, minutes: int) -> None:
        self.clock.advance(minutes=minutes)
        self.run(self.house.alarms.tick())
        for each in self.alive.values():
            each.due(self.clock.now())

    @rule(
        agent=AGENTS,
        what=st.sampled_from(["pause", "resume", "sleep", "wake up", "speak", "destroy"]),
    )
    def let_the_owner_act(self, agent: str, what: str) -> None:
        modelled, lifecycle = self.alive.get(agent), self.house.lifecycle
        if modelled is None:
            return
        if what in ("pause", "resume"):
            modelled.paused = what == "pause"
            self.run(lifecycle.pause(agent) if modelled.paused else lifecycle.resume(agent))
        elif what in ("sleep", "wake up"):
            modelled.dormant = what == "sleep"
            self.run(lifecycle.set_dormant(agent, dormant=modelled.dormant))
        elif what == "speak":
            self.run(lifecycle.say(agent, "hello"))
            modelled.others_wait.append(WakeReason.USER_INITIATED)
        elif len(self.alive) > 1:
            self.run(lifecycle.destroy(agent))
            for reason, _ in self.alive.pop(agent).endings():
                self.expected[agent, reason, WakeStatus.SKIPPED_DESTROYED] += 1
            self.gone.add(agent)

    @rule()
    def work(self) -> None:
        self.run(self.house.work())
        self._note_runs()
        for agent, each in self.alive.items():
            for reason, status in each.endings():
                self.expected[agent, reason, status] += 1

    @rule(changes=st.integers(1, 3))
    def change_and_work(self, changes: int) -> None:
        for _ in range(changes):
            self.change_the_journal(mine=True)
        self.work()

    @rule()
    def restart(self) -> None:
        self.run(self._start())

    @rule()
    def crash_in_the_middle_of_a_run(self) -> None:
        async def die(job: WakeJob) -> None:
            raise asyncio.CancelledError

        async def crash() -> None:
            self.house.runs.during = die
            waiting = await self.house.dispatch.log.unfinished()
            for run in waiting[:1]:
                try:
                    await self.house.worker.wake(run.job)
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    if task is not None:
                        task.uncancel()
            await self._start()

        self.run(crash())
        self.work()

    def _note_runs(self) -> None:
        self.ran += [job.run_key for job in self.house.runs.jobs]
        self.house.runs.jobs.clear()

    @invariant()
    def every_wake_that_was_worked_on_is_at_its_end(self) -> None:
        runs = self.run(self.store.find(WakeRun))
        own = [run for run in runs if run.absorbed_into is None]
        ended = Counter(
            (run.agent_id, run.job.reason, run.status) for run in own if run.status.is_terminal
        )
        assert ended == self.expected
        waiting = sum(len(each.others_wait) + each.changes_wait for each in self.alive.values())
        assert len(own) - ended.total() == waiting
        # Whoever went along is where its host is.
        status = {run.run_key: run.status for run in runs}
        assert all(run.status is status[run.absorbed_into] for run in runs if run.absorbed_into)

    @invariant()
    def nothing_ran_twice(self) -> None:
        assert len(self.ran) == len(set(self.ran))
        messages = self.run(self.store.find(AgentMessage))
        thoughts = [each.id for each in messages if each.kind == "thought"]
        completed = sum(
            count
            for (_, _, status), count in self.expected.items()
            if status is WakeStatus.COMPLETED
        )
        assert len(thoughts) == len(set(thoughts)) == completed

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()


Companions.TestCase.settings = settings(
    max_examples=12, stateful_step_count=18, deadline=None, derandomize=True
)
TestCompanions = Companions.TestCase
