"""Entries that wait for the disk together, so that many callers pay for one commit."""

import asyncio
from collections.abc import Awaitable, Callable

from silas.audit.drafts import Draft

Waiting = tuple[Draft, "asyncio.Future[None]"]


class DraftBatcher:
    """Hands drafts on in batches: those that came while the batch before was being written."""

    def __init__(self, write: Callable[[list[Draft]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: list[Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, draft: Draft) -> None:
        """Return when the draft has been written, or raise what prevented it."""
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((draft, written))
        if self._task is None:
            # A task of its own: a caller that is cancelled must not take the others with it.
            self._task = asyncio.create_task(self._serve())
        await written

    async def _serve(self) -> None:
        batch: list[Waiting] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._serve_one(batch)
        finally:
            # Reached with something left only if the event loop is shutting down.
            self._task = None
            for _, written in batch + self._waiting:
                written.cancel()
            self._waiting = []

    async def _serve_one(self, batch: list[Waiting]) -> None:
        error: Exception | None = None
        try:
            await self._write([draft for draft, _ in batch])
        except Exception as caught:  # noqa: BLE001 - it is raised again in those who wait
            error = caught
        for _, written in batch:
            if written.done():
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)
