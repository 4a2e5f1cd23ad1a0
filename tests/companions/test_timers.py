"""Timers: the clock on the wall, restarts, jumps of the clock, other zones; one wake each."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from silas.companions.errors import CompanionInvalid
from silas.companions.ids import timer_run_key
from silas.companions.lifecycle import NewCompanion
from silas.companions.messages import Diagnostic, WakeRun
from silas.companions.models import AgentTimer, TimerKind, WakeReason, WakeStatus
from silas.companions.store import CompanionStore
from silas.companions.timers import Alarms, TimerDraft, fire, next_run
from silas.journal.store import Journal
from silas.queue import QueueStore
from silas.testing import FakeClock
from tests.companions.making import House

DAILY = TimerDraft(TimerKind.DAILY, "07:00")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def house(store: CompanionStore, journal: Journal, queue: QueueStore) -> House:
    return House(store, journal, queue)


async def make(house: House, *timers: TimerDraft, agent_id: str = "coach") -> AgentTimer:
    await house.lifecycle.create(
        NewCompanion(
            kind="gym_coach",
            display_name="Coach",
            allowed_category_ids=("gym",),
            timers=timers or (DAILY,),
            companion_id=agent_id,
        )
    )
    return (await house.store.find(AgentTimer, {"agent_id": agent_id}))[0]


async def test_a_due_timer_wakes_once_and_goes_on_to_the_next_day(
    house: House, clock: FakeClock
) -> None:
    timer = await make(house)
    first = datetime(2026, 1, 2, 6, tzinfo=UTC)
    assert timer.next_run_at == first == await house.alarms.tick()
    clock.set(first)
    assert await house.alarms.tick() == first + timedelta(days=1)
    assert await house.alarms.tick() == first + timedelta(days=1)
    [run] = await house.work()
    assert run.status is WakeStatus.COMPLETED
    assert (run.job.reason, run.job.scheduled_at) == (WakeReason.TIMER, first)
    assert run.run_key == timer_run_key("coach", timer.id, first)


async def test_missed_timers_coalesce_to_one_catch_up_wake(house: House, clock: FakeClock) -> None:
    timer = await make(house)
    clock.advance(days=30)
    await house.alarms.tick()
    [run] = await house.work()
    last = datetime(2026, 1, 31, 6, tzinfo=UTC)
    assert (run.job.reason, run.job.cause) == (WakeReason.RECOVERY_CATCHUP, "timer")
    assert run.job.scheduled_at == last
    assert run.run_key == timer_run_key("coach", timer.id, last)
    after = await house.store.require(AgentTimer, timer.id)
    assert after.next_run_at == last + timedelta(days=1)


async def test_restart_recovery_for_timers(
    house: House, clock: FakeClock, queue: QueueStore
) -> None:
    await make(house)
    clock.set(datetime(2026, 1, 2, 6, tzinfo=UTC))
    await house.alarms.tick()
    [queued] = await house.store.find(WakeRun)
    again = House(house.store, house.journal, queue)
    await again.alarms.tick()
    await again.dispatch.recover()
    assert [run.run_key for run in await again.work()] == [queued.run_key] * 2
    assert len(again.runs.jobs) == 1


async def test_a_clock_that_is_set_back_does_not_wake_twice(house: House, clock: FakeClock) -> None:
    await make(house)
    due = datetime(2026, 1, 2, 6, tzinfo=UTC)
    clock.set(due)
    await house.alarms.tick()
    await house.work()
    clock.set(due - timedelta(hours=2))
    assert await house.alarms.tick() == due
    clock.set(due)
    await house.alarms.tick()
    await house.work()
    assert len(house.runs.jobs) == 1


async def test_a_clock_that_jumps_forward_is_made_up_for(house: House, clock: FakeClock) -> None:
    await make(house)
    await house.alarms.tick()
    clock.set(NOON + timedelta(days=400))
    await house.alarms.tick()
    [run] = await house.work()
    assert run.job.reason is WakeReason.RECOVERY_CATCHUP


async def test_another_time_zone_keeps_the_time_on_the_wall(house: House, clock: FakeClock) -> None:
    timer = await make(house)
    fixed = await house.lifecycle.timers.add(
        "coach", TimerDraft(TimerKind.DAILY, "07:00", time_zone="Europe/Berlin")
    )
    await house.alarms.tick()
    house.zone.name = "America/New_York"
    await house.alarms.tick()
    moved = await house.store.require(AgentTimer, timer.id)
    stayed = await house.store.require(AgentTimer, fixed.id)
    # Seven in New York is today still to come; seven in Berlin is tomorrow.
    assert moved.next_run_at == datetime(2026, 1, 2, 12, tzinfo=UTC)
    assert stayed.next_run_at == datetime(2026, 1, 2, 6, tzinfo=UTC)


async def test_summer_time_keeps_the_time_on_the_wall(house: House, clock: FakeClock) -> None:
    await make(house)
    clock.set(datetime(2026, 3, 28, 6, tzinfo=UTC))
    assert await house.alarms.tick() == datetime(2026, 3, 29, 5, tzinfo=UTC)


async def test_a_timer_for_once_ends_after_it(house: House, clock: FakeClock) -> None:
    once = TimerDraft(TimerKind.ONCE, "2026-01-01T13:00:00.000000Z")
    timer = await make(house, once)
    clock.advance(hours=1)
    assert await house.alarms.tick() is None
    assert len(await house.work()) == 1
    assert not (await house.store.require(AgentTimer, timer.id)).active


@pytest.mark.parametrize(
    "draft",
    [
        TimerDraft(TimerKind.DAILY, "7 o'clock"),
        TimerDraft(TimerKind.DAILY, "24:00"),
        TimerDraft(TimerKind.CRON, "every day"),
        TimerDraft(TimerKind.CRON, "0 0 31 2 *"),
        TimerDraft(TimerKind.ONCE, "tomorrow"),
        TimerDraft(TimerKind.DAILY, "07:00", time_zone="Europe/Atlantis"),
    ],
)
async def test_intents_that_cannot_be(house: House, draft: TimerDraft) -> None:
    with pytest.raises(CompanionInvalid):
        await make(house, draft)
    assert await house.store.find(AgentTimer) == []


async def test_paused_companions_miss_their_timer_and_it_goes_on(
    house: House, clock: FakeClock
) -> None:
    await make(house)
    await house.lifecycle.pause("coach")
    clock.set(datetime(2026, 1, 2, 6, tzinfo=UTC))
    await house.alarms.tick()
    assert [run.status for run in await house.work()] == [WakeStatus.SKIPPED_PAUSED]


async def test_removing_a_timer_and_destroying_leave_tombstones(
    house: House, clock: FakeClock
) -> None:
    timer = await make(house, DAILY, DAILY)
    await house.lifecycle.timers.remove(timer.id)
    await house.lifecycle.destroy("coach")
    assert await house.store.find(AgentTimer) == []
    assert len(await house.store.find(AgentTimer, with_deleted=True)) == 2
    clock.advance(days=2)
    assert await house.alarms.tick() is None
    assert await house.work() == []


async def test_many_due_at_once_are_each_woken_once(house: House, clock: FakeClock) -> None:
    for number in range(120):
        await make(house, agent_id=f"agent-{number:03}")
    clock.set(datetime(2026, 1, 2, 6, tzinfo=UTC))
    await house.alarms.tick()
    assert len({run.agent_id for run in await house.work()}) == 120


async def test_the_alarm_clock_sleeps_until_the_nearest_and_asks_nobody_meanwhile(
    house: House, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(house)
    asked = 0
    real = house.store.database.fetch_one

    async def counted(sql: str, params: tuple[str, ...] = ()) -> object:
        nonlocal asked
        asked += 1
        return await real(sql, params)

    slept: list[float] = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(seconds=seconds)
        if len(house.runs.jobs) or clock.now() > datetime(2026, 1, 2, 6, 1, tzinfo=UTC):
            enough.set()
        await asyncio.sleep(0)

    alarms = Alarms(
        house.store,
        house.dispatch,
        sessions=house.sessions,
        time_zone=house.zone.time_zone,
        sleep=sleep,
    )
    await alarms.tick()
    monkeypatch.setattr(house.store.database, "fetch_one", counted)
    task = asyncio.create_task(alarms.run())
    await enough.wait()
    task.cancel()
    monkeypatch.undo()
    # Eighteen hours of sleep, a look at the wall clock each minute; the database is asked when the
    # alarm begins and when it rings: twice two questions, and none in between.
    assert len(slept) >= 18 * 60
    assert asked <= 8
    assert [run.job.reason for run in await house.work()] == [WakeReason.TIMER]


async def test_a_timer_that_makes_no_sense_is_silenced_and_the_others_ring(
    house: House, clock: FakeClock
) -> None:
    """As it may come from another device, or from a newer Silas."""
    timer = await make(house, DAILY, DAILY)
    await house.store.put(timer.model_copy(update={"expression": "at dawn"}))
    clock.advance(days=1)
    await house.alarms.tick()
    assert len(await house.work()) == 1
    [diagnostic] = await house.store.find(Diagnostic, {"kind": "timer_silenced"})
    assert diagnostic.subject_id == timer.id
    again = House(house.store, house.journal, house.queue)
    assert await again.alarms.tick() is not None


def test_nothing_fires_before_its_time() -> None:
    timer = AgentTimer(
        id="t",
        agent_id="a",
        kind=TimerKind.CRON,
        expression="0 7 * * *",
        time_zone="Nowhere/At_All",
        next_run_at=NOON,
        created_at=NOON,
        updated_at=NOON,
    )
    assert fire(timer, NOON - timedelta(seconds=1), owners_zone="UTC") is None
    assert fire(timer.model_copy(update={"active": False}), NOON, owners_zone="UTC") is None
    # A zone that this machine does not know is the owner's.
    assert next_run(timer, NOON, owners_zone="UTC") == datetime(2026, 1, 2, 7, tzinfo=UTC)
