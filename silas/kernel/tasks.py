"""How one task ends another without losing its own end."""

import asyncio
from typing import Any


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
