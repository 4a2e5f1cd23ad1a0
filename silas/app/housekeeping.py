"""Jobs that run again and again beside the server: pruning, checkpoints, retention."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from silas.kernel import Clock, SilasError, format_timestamp

Sleep = Callable[[float], Awaitable[None]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PeriodicJob:
    """Something to do at the start and then at an interval."""

    name: str
    every: timedelta
    run: Callable[[], Awaitable[object]]


class Housekeeping:
    """Runs each job at its own pace. A job that fails is tried again at its next turn."""

    def __init__(
        self, jobs: Sequence[PeriodicJob], *, clock: Clock, sleep: Sleep = asyncio.sleep
    ) -> None:
        if len({job.name for job in jobs}) != len(jobs):
            raise ValueError("two jobs have the same name")
        if any(job.every <= timedelta() for job in jobs):
            raise ValueError("a job needs an interval above zero")
        self._jobs = tuple(jobs)
        self._clock = clock
        self._sleep = sleep
        self._last: dict[str, dict[str, Any]] = {}

    async def run(self) -> None:
        """Go on until cancelled."""
        async with asyncio.TaskGroup() as group:
            for job in self._jobs:
                group.create_task(self._repeat(job), name=job.name)

    def report(self) -> list[dict[str, Any]]:
        """Each job, when it last ran, and what went wrong then if anything did."""
        never = {"ran_at": None, "problem": None}
        return [
            {"name": job.name, "every_seconds": job.every.total_seconds()}
            | self._last.get(job.name, never)
            for job in self._jobs
        ]

    async def _repeat(self, job: PeriodicJob) -> None:
        while True:
            problem = await self._run_once(job)
            self._last[job.name] = {
                "ran_at": format_timestamp(self._clock.now()),
                "problem": problem,
            }
            await self._sleep(job.every.total_seconds())

    async def _run_once(self, job: PeriodicJob) -> str | None:
        try:
            await job.run()
        except SilasError as error:
            _log.warning("%s: %s [%s]", job.name, error.message, error.code)
            return error.message
        except Exception as error:  # noqa: BLE001 - one job must not end the others
            _log.exception("%s failed", job.name)
            return f"{type(error).__name__}: {error}"
        return None
