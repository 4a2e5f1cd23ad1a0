"""Small transactions that wait for the disk together, so that many callers pay for one hop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from silas.kernel import QueueError
from silas.storage import Database, Transaction

T = TypeVar("T")
Step = Callable[[Transaction], T]


@dataclass(slots=True)
class _Waiting:
    step: Step[Any]
    done: "asyncio.Future[Any]"


class StepBatcher:
    """Runs steps in shared transactions: those that came while the one before was being written.

    A step that raises `QueueError` must not have changed anything before: it has no savepoint of
    its own. Any other failure takes the batch back, and then each step is run by itself.
    """

    def __init__(self, database: Database, *, on_start: Callable[[], None]) -> None:
        """`on_start` is called when a batch takes nothing more."""
        self._database = database
        self._on_start = on_start
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    def run(self, step: Step[T]) -> "asyncio.Future[T]":
        """To be awaited: it is done when the step is committed, or raises why it was not."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_Waiting(step, done))
        if self._task is None:
            # A task of its own: a caller that is cancelled must not take the others with it.
            self._task = loop.create_task(self._serve())
        return done

    async def _serve(self) -> None:
        batch: list[_Waiting] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                self._on_start()
                await self._serve_one([each for each in batch if not each.done.cancelled()])
        finally:
            # Reached with something left only if the event loop is shutting down.
            self._task = None
            for each in batch + self._waiting:
                each.done.cancel()
            self._waiting = []

    async def _serve_one(self, batch: list[_Waiting]) -> None:
        try:
            results = await self._database.transaction(lambda tx: _run_all(tx, batch))
        except Exception as error:  # noqa: BLE001 - it is raised again in those who wait
            if len(batch) > 1:
                for each in batch:
                    await self._serve_one([each])
            else:
                _settle(batch[0].done, error)
            return
        for each, result in zip(batch, results, strict=True):
            _settle(each.done, result)


def _run_all(tx: Transaction, batch: list[_Waiting]) -> list[Any]:
    results: list[Any] = []
    for each in batch:
        try:
            results.append(each.step(tx))
        except QueueError as error:
            results.append(error)
    return results


def _settle(done: "asyncio.Future[Any]", result: Any) -> None:
    if done.done():
        return
    if isinstance(result, Exception):
        done.set_exception(result)
    else:
        done.set_result(result)
