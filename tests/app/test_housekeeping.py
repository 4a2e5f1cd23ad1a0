"""Housekeeping: each job at its own pace, and no job ends another."""

import asyncio
from datetime import timedelta

import pytest

from silas.app.jobs import Housekeeping, PeriodicJob
from silas.kernel import DatabaseError
from silas.testing import FakeClock


class Sleeper:
    """Sleeps that end when the test says that time has passed."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._clock.monotonic() + seconds, done))
        await done

    async def pass_time(self, **duration: float) -> None:
        self._clock.advance(**duration)
        for due, done in [*self._waiting]:
            if due <= self._clock.monotonic() and not done.done():
                done.set_result(None)
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_each_job_runs_at_the_start_and_then_at_its_interval() -> None:
    clock, ran = FakeClock(), []
    sleeper = Sleeper(clock)

    def job(name: str, **every: float) -> PeriodicJob:
        async def run() -> None:
            ran.append(name)

        return PeriodicJob(name, timedelta(**every), run)

    jobs = [job("often", minutes=10), job("daily", days=1)]
    keeping = Housekeeping(jobs, clock=clock, sleep=sleeper.sleep)
    assert [each["ran_at"] for each in keeping.report()] == [None, None]
    task = asyncio.create_task(keeping.run())
    await settle()
    assert ran == ["often", "daily"]
    await sleeper.pass_time(minutes=9)
    assert ran == ["often", "daily"]
    await sleeper.pass_time(minutes=1)
    assert ran == ["often", "daily", "often"]
    await sleeper.pass_time(days=1)
    assert sorted(ran) == ["daily"] * 2 + ["often"] * 3
    assert keeping.report()[0] == {
        "name": "often",
        "every_seconds": 600.0,
        "ran_at": "2026-01-02T12:10:00.000000Z",
        "problem": None,
    }
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_job_that_fails_is_reported_and_tried_again() -> None:
    clock, attempts = FakeClock(), []
    sleeper = Sleeper(clock)

    async def ours() -> None:
        attempts.append("ours")
        if attempts.count("ours") == 1:
            raise DatabaseError("The disk is full.")

    async def other() -> None:
        attempts.append("other")
        raise LookupError("a defect")

    jobs = [PeriodicJob("ours", timedelta(1), ours), PeriodicJob("other", timedelta(1), other)]
    keeping = Housekeeping(jobs, clock=clock, sleep=sleeper.sleep)
    task = asyncio.create_task(keeping.run())
    await settle()
    problems = [each["problem"] for each in keeping.report()]
    assert problems == ["The disk is full.", "LookupError: a defect"]
    await sleeper.pass_time(days=1)
    assert attempts == ["ours", "other", "ours", "other"]
    assert keeping.report()[0]["problem"] is None
    task.cancel()
    await asyncio.wait([task])


async def test_without_jobs_there_is_nothing_to_do() -> None:
    keeping = Housekeeping([], clock=FakeClock())
    await keeping.run()
    assert keeping.report() == []


async def test_jobs_that_make_no_sense_are_refused() -> None:
    async def nothing() -> None:
        return None

    job = PeriodicJob("a", timedelta(1), nothing)
    with pytest.raises(ValueError, match="same name"):
        Housekeeping([job, job], clock=FakeClock())
    for every in (timedelta(), timedelta(-1)):
        with pytest.raises(ValueError, match="above zero"):
            Housekeeping([PeriodicJob("a", every, nothing)], clock=FakeClock())
