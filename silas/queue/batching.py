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
    after: "Callable[[Any], None] | None" = None

    def settle(self, result: Any) -> None:
        failed = isinstance(result, Exception)
        if self.after is not None:
            self.after(None if failed else result)
        if self.done.done():
            return
        if failed:
            self.done.set_exception(result)
        else:
            self.done.set_result(result)


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

    def run(
        self, step: Step[T], *, after: Callable[[T | None], None] | None = None
    ) -> "asyncio.Future[T]":
        """To be awaited: it is done when the step is committed, or raises why it was not.

        `after` is called with the result, or with None if there is none; also if the caller has
        given up in the meantime.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_Waiting(step, done, after))
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
                await self._serve_one([each for each in batch if _is_wanted(each)])
        finally:
            # Reached with something left only if the event loop is shutting down.
            self._task = None
            for each in batch + self._waiting:
                if not each.done.done():
                    each.done.cancel()
                    _is_wanted(each)
            self._waiting = []

    async def _serve_one(self, batch: list[_Waiting]) -> None:
        try:
            # Nobody is left if all have given up; then there is nothing to commit.
            results = (
                await self._database.transaction(lambda tx: _run_all(tx, batch)) if batch else []
            )
        except Exception as error:  # noqa: BLE001 - it is raised again in those who wait
            if len(batch) > 1:
                for each in batch:
                    await self._serve_one([each])
            else:
                batch[0].settle(error)
            return
        for each, result in zip(batch, results, strict=True):
            each.settle(result)


def _run_all(tx: Transaction, batch: list[_Waiting]) -> list[Any]:
    results: list[Any] = []
    for each in batch:
        try:
            results.append(each.step(tx))
        except QueueError as error:
            results.append(error)
    return results


def _is_wanted(each: _Waiting) -> bool:
    """Whether somebody still waits for it before it has begun; if not, it is told so."""
    if not each.done.cancelled():
        return True
    if each.after is not None:
        each.after(None)
    return False
