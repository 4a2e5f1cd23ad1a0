"""How one task ends another without losing its own end, and how nobody waits for one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from silas.kernel.errors import SilasError


class BackgroundWork:
    """Work that nobody waits for. An error of ours, such as a full disk, is told in the log of
    whoever began it, and is not left to the event loop's."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Callable[[], Awaitable[object]], failure: str) -> asyncio.Task[None]:
        """Begin it. `failure` says what is not so if it does not come to its end."""
        task = asyncio.get_running_loop().create_task(self._told(work, failure))
        self._tasks.add(task)  # the loop alone would let it be collected
        task.add_done_callback(self._tasks.discard)
        return task

    async def _told(self, work: Callable[[], Awaitable[object]], failure: str) -> None:
        try:
            await work()
        except SilasError as error:
            self._log.warning("%s: %s", failure, error.message)


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end; raises what it raised, but not that it was cancelled.

    Whoever is cancelled meanwhile waits for that end too, and is cancelled then. An `await task`
    whose `CancelledError` is suppressed would lose that: it cannot tell the two apart.
    """
    task.cancel()
    mine: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            mine = error
            task.cancel()  # who waits is in a hurry by now: a second word may end what it ends with
    failed = None if task.cancelled() else task.exception()
    if mine is not None:
        raise mine
    if failed is not None:
        raise failed
