"""Entries that wait for the disk together, so that many callers pay for one commit."""

import asyncio
from collections.abc import Awaitable, Callable

from silas.audit.chain import Position
from silas.audit.drafts import Draft

Waiting = tuple[Draft, "asyncio.Future[Position | None]"]


class DraftBatcher:
    """Hands drafts on in batches: those that came while the batch before was being written."""

    def __init__(self, write: Callable[[list[Draft]], Awaitable[Position]]) -> None:
        self._write = write
        self._waiting: list[Waiting] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, draft: Draft) -> "asyncio.Future[Position | None]":
        """To be awaited: it is done when the draft has been written, or raises why it was not.

        One of those who wait for a batch, the last, is told where the log now ends.
        """
        loop = asyncio.get_running_loop()
        written: asyncio.Future[Position | None] = loop.create_future()
        self._waiting.append((draft, written))
        if self._task is None:
            # A task of its own: a caller that is cancelled must not take the others with it.
            self._task = loop.create_task(self._serve())
        return written

    async def _serve(self) -> None:
        batch: list[Waiting] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._serve_one(batch)
                # Those who have just been told often come back at once: one turn of the loop later
                # they are in the next batch, and do not wait for one of their own.
                await asyncio.sleep(0)
        finally:
            # Reached with something left only if the event loop is shutting down.
            self._task = None
            for _, written in batch + self._waiting:
                written.cancel()
            self._waiting = []

    async def _serve_one(self, batch: list[Waiting]) -> None:
        error: Exception | None = None
        head: Position | None = None
        try:
            head = await self._write([draft for draft, _ in batch])
        except Exception as caught:  # noqa: BLE001 - it is raised again in those who wait
            error = caught
        for _, written in reversed(batch):
            if written.done():
                continue
            if error is not None:
                written.set_exception(error)
            else:
                written.set_result(head)
                head = None
