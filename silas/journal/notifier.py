"""Telling listeners about commits: in their order, each once, outside of the commit itself."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable

from silas.journal.notifications import NotificationBatch, coalesce
from silas.kernel import SilasError
from silas.storage import DatabaseNotOpened

Listener = Callable[[NotificationBatch], Awaitable[None] | None]
Unsubscribe = Callable[[], None]
Missed = Callable[[int], Awaitable[list[NotificationBatch]]]

_CALM_DOWN = 1.0
_log = logging.getLogger(__name__)


class Notifier:
    """Reads what was committed after the last that it told, and tells it.

    So a commit whose caller was cancelled, or that another process made, is told with the next.
    """

    def __init__(self, missed: Missed, *, cursor: int) -> None:
        self._missed = missed
        self._cursor = cursor
        self._listeners: dict[int, Listener] = {}
        self._number = 0
        self._wanted = False
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Tell this listener about every commit from now on."""
        self._number += 1
        number = self._number
        self._listeners[number] = listener

        def unsubscribe() -> None:
            self._listeners.pop(number, None)

        return unsubscribe

    def wake(self) -> None:
        """Something was committed."""
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell_all())

    async def settled(self) -> None:
        """Wait until everything that was committed has been told."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Tell nobody anything more; whoever listens catches up later."""
        if self._later is not None:
            self._later.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _tell_all(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                batches = await self._missed(self._cursor)
            except SilasError as error:
                # Nothing is lost: it is told a moment later, or caught up at the next start.
                _log.warning("listeners of the journal wait: %s", error.message)
                if not isinstance(error, DatabaseNotOpened):  # it was closed meanwhile
                    loop = asyncio.get_running_loop()
                    self._later = loop.call_later(_CALM_DOWN, self.wake)
                return
            for batch in coalesce(batches):
                for listener in list(self._listeners.values()):
                    await _tell(listener, batch)
            if batches:
                self._cursor = max(batch.source_cursor or 0 for batch in batches)


async def _tell(listener: Listener, batch: NotificationBatch) -> None:
    try:
        answer = listener(batch)
        if inspect.isawaitable(answer):
            await answer
    except Exception:  # noqa: BLE001 - what one does is no reason for another not to hear of it
        _log.exception("a listener of the journal failed at %s", batch.local_batch_id)
