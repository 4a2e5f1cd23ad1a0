"""Jobs that run again and again beside the server, and those of the core.

Free memory is given back as well: glibc keeps a heap for each thread and raises the size up to
which it takes pieces from there; after an hour of large and small texts the heaps are mostly holes.
Other systems are left as they are.
"""

import asyncio
import contextlib
import ctypes
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from silas.app.core import Core
from silas.audit import NothingToArchive
from silas.kernel import Clock, SilasError, format_timestamp
from silas.kernel.tasks import end_task
from silas.storage.files import make_private_directory

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


@contextlib.asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let it run beside the block, no longer than that."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await end_task(task)


TRIM_EVERY = timedelta(minutes=5)
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_LARGE = 512 * 1024
_HEAPS = 2


def keep_heaps_small() -> None:
    """To be called once, at the start of a process that stays."""
    libc = _glibc()
    if libc is not None:
        libc.mallopt(_ARENA_MAX, _HEAPS)
        libc.mallopt(_MMAP_THRESHOLD, _LARGE)  # what is larger is given back when it is freed


async def give_back() -> None:
    """Give back what is free now."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None


def core_jobs(core: Core) -> list[PeriodicJob]:
    """What the server does again and again for approvals and the audit log."""
    nonces = core.settings.nonce_store
    often = timedelta(minutes=nonces.prune_interval_minutes)

    async def prune_nonces() -> None:
        too_old = core.clock.now() - timedelta(minutes=nonces.ttl_minutes)
        await core.nonces.prune_expired(too_old)

    jobs = [
        PeriodicJob("prune nonces", often, prune_nonces),
        PeriodicJob("checkpoint the audit log", often, core.audit.checkpoint_if_due),
        PeriodicJob("give free memory back", TRIM_EVERY, give_back),
    ]
    days = core.settings.audit.retention_days
    if days is not None:
        retain = partial(archive_old_entries, core, keep=timedelta(days=days))
        jobs.append(PeriodicJob("archive the audit log", timedelta(days=1), retain))
    return jobs


async def archive_old_entries(core: Core, *, keep: timedelta) -> None:
    """Move entries that are older than this to a file in the data directory; nothing is lost."""
    before = core.clock.now() - keep
    folder = core.paths.archive
    make_private_directory(folder)
    with contextlib.suppress(NothingToArchive):
        await core.audit.archive(folder / f"audit-before-{before:%Y-%m-%d}.jsonl", before=before)
