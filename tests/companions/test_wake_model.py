"""Lifecycle, wakes, timers, destruction, restarts, crashes, clocks: in any order, against a model.

The clock on the wall is set forward and back, days have 23 and 25 hours, and the owner travels.
"""

import asyncio
import itertools
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from silas.companions.gateway import StopSwitches
from silas.companions.lifecycle import NewCompanion, SubscriptionDraft
from silas.companions.messages import AgentMessage, WakeJob, WakeRun
from silas.companions.models import StopScope, TimerKind, WakeReason, WakeStatus
from silas.companions.store import CompanionStore
from silas.companions.timers import TimerDraft
from silas.journal.models import Category, Task
from silas.journal.notifications import semantic
from silas.journal.store import Journal
from silas.kernel import IdFactory
from silas.queue import Bus, QueueStore
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock
from silas.testing.fakes import with_schema
from tests.companions.making import House, set_dormant

SEVEN = time(7)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC")
STARTS = tuple(
    datetime(2026, month, day, 20, tzinfo=UTC) for month, day in ((1, 1), (3, 28), (10, 24))
)
"""On the evenings before the clocks change in Berlin, too."""
AGENTS = st.sampled_from(["a", "b", "c"])
Ending = tuple[str, WakeReason, WakeStatus]


@dataclass
class Modelled:
    """A companion as the plan describes it, in a few lines."""

    timer_at: datetime
    fired: set[datetime] = field(default_factory=set)
    paused: bool = False
    dormant: bool = False
    changes_wait: bool = False
    others_wait: list[WakeReason] = field(default_factory=list)

    def due(self, now: datetime, zone: str, *, odd: bool) -> None:
        """One wake, however many due times were missed, and each due time once.

        `odd`: the clock was set back, the owner is elsewhere, or Silas was started.
        """
        if self.timer_at > now:
            self.timer_at = next_seven(now, zone) if odd else self.timer_at
            return
        late = now - self.timer_at > timedelta(minutes=1)
        at = max(self.timer_at, last_seven(now, zone)) if late else self.timer_at
        if at not in self.fired:
            self.fired.add(at)
            self.others_wait.append(WakeReason.RECOVERY_CATCHUP if late else WakeReason.TIMER)
        self.timer_at = next_seven(now, zone)

    def endings(self, *, stopped: bool = False) -> list[tuple[WakeReason, WakeStatus]]:
        """How everything that waits ends if it is worked on now."""
        waiting = [*self.others_wait, *([WakeReason.SUBSCRIPTION] if self.changes_wait else [])]
        self.others_wait, self.changes_wait = [], False
        return [(reason, self._ending(reason, stopped)) for reason in waiting]

    def _ending(self, reason: WakeReason, stopped: bool) -> WakeStatus:
        if stopped:
            return WakeStatus.SKIPPED_STOPPED
        if self.paused:
            return WakeStatus.SKIPPED_PAUSED
        if self.dormant and reason is not WakeReason.USER_INITIATED:
            return WakeStatus.SKIPPED_SLEEPING
        return WakeStatus.COMPLETED


def sevens(now: datetime, zone: str) -> list[datetime]:
    """Seven o'clock on the wall there, on the days around now."""
    today, there = now.astimezone(ZoneInfo(zone)).date(), ZoneInfo(zone)
    days = (today + timedelta(days=each) for each in range(-2, 4))
    return [datetime.combine(day, SEVEN, there).astimezone(UTC) for day in days]


def next_seven(now: datetime, zone: str) -> datetime:
    return min(each for each in sevens(now, zone) if each > now)


def last_seven(now: datetime, zone: str) -> datetime:
    return max(each for each in sevens(now, zone) if each <= now)


class Companions(RuleBasedStateMachine):
    """The real thing beside the model."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clock = FakeClock()
        self.number = itertools.count()
        self.zone = ZONES[0]
        self.stopped = False
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
            databases[name] = SqliteDatabase.open(with_schema(folder / f"{name}.db", schema))
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
        self.house.zone.name = self.zone
        await self.house.orchestrator.start()
        await self.house.dispatch.recover()
        await self.house.alarms.tick()

    async def _tick(self, *, odd: bool) -> None:
        await self.house.alarms.tick()
        for each in self.alive.values():
            each.due(self.clock.now(), self.zone, odd=odd)

    @initialize(start=st.sampled_from(STARTS))
    def begin_with_two(self, start: datetime) -> None:
        self.clock.set(start)
        self.run(self._tick(odd=True))
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
            timers=(TimerDraft(TimerKind.DAILY, "07:00"),),
            companion_id=agent,
        )
        self.run(self.house.lifecycle.create(new))
        self.alive[agent] = Modelled(timer_at=next_seven(self.clock.now(), self.zone))

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

    @rule(minutes=st.integers(1, 600) | st.integers(600, 4000))
    def let_time_pass(self, minutes: int) -> None:
        self.clock.advance(minutes=minutes)
        self.run(self._tick(odd=False))

    @rule()
    def wait_for_the_next_timer(self) -> None:
        self.clock.set(min(each.timer_at for each in self.alive.values()))
        self.run(self._tick(odd=False))

    @rule(hours=st.integers(1, 60))
    def set_the_clock_back(self, hours: int) -> None:
        self.clock.advance(hours=-hours)
        self.run(self._tick(odd=True))

    @rule(zone=st.sampled_from(ZONES))
    def travel(self, zone: str) -> None:
        self.zone = self.house.zone.name = zone
        self.run(self._tick(odd=True))

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
            self.run(set_dormant(self.house.store, agent, dormant=modelled.dormant))
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
            for reason, status in each.endings(stopped=self.stopped):
                self.expected[agent, reason, status] += 1

    @rule(stopped=st.booleans())
    def stop_or_release_everything(self, stopped: bool) -> None:
        switches = StopSwitches(self.store, fence=self.journal.fence.move)
        self.run((switches.engage if stopped else switches.release)(StopScope.GLOBAL))
        self.stopped = stopped

    @rule(changes=st.integers(1, 3))
    def change_and_work(self, changes: int) -> None:
        for _ in range(changes):
            self.change_the_journal(mine=True)
        self.work()

    @rule()
    def restart(self) -> None:
        self.run(self._restart())

    async def _restart(self) -> None:
        await self._start()
        for each in self.alive.values():
            each.due(self.clock.now(), self.zone, odd=True)

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
            await self._restart()

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
