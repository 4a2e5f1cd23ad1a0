"""Small changes that are committed together, so that many callers pay for one transaction.

Those of the same kind become one lot, which is worked off with a few statements for all. What takes
less than a millisecond is committed where it is, on the event loop, if nobody else is writing: the
way to a thread and back would take longer.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

from silas.kernel import QueueError
from silas.storage import Database, Transaction

I = TypeVar("I")  # noqa: E741 - an item of a lot
R = TypeVar("R")
Work = Callable[[Transaction, Sequence[I]], Sequence[R | QueueError]]
"""Does the work of a lot and returns what came of each; an error there has changed nothing."""
After = Callable[[Any], None]

_AT_ONCE = 128


_Waiting = tuple[Any, "asyncio.Future[Any]", After | None]
"""An item, who waits for it, and whom to tell as well."""


class _Lot(NamedTuple):
    work: Work[Any, Any]
    waiting: list[_Waiting]

    def drop_cancelled(self) -> None:
        """Leave out those who have given up before it begins; they are told so."""
        gone = [each for each in self.waiting if each[1].cancelled()]
        if gone:
            self.waiting[:] = [each for each in self.waiting if not each[1].cancelled()]
            _Lot(self.work, gone).give_up()

    def run(self, tx: Transaction) -> Sequence[Any]:
        return self.work(tx, [item for item, _, _ in self.waiting])

    def settle(self, results: Sequence[Any]) -> None:
        for (_, done, after), result in zip(self.waiting, results, strict=True):
            failed = isinstance(result, Exception)
            if after is not None:
                after(None if failed else result)
            if done.done():
                continue
            if failed:
                done.set_exception(result)
            else:
                done.set_result(result)
        self.waiting.clear()

    def give_up(self) -> None:
        """Whoever has heard nothing hears that nothing comes."""
        for _, done, after in self.waiting:
            done.cancel()
            if after is not None:
                after(None)


class LotBatcher:
    """Commits what came while the batch before was being written.

    A failure that is not a `QueueError` takes the batch back, and then everything is done singly.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lots: dict[Hashable, _Lot] = {}
        self._busy = False
        self._task: asyncio.Task[None] | None = None

    def run(
        self, work: Work[I, R], item: I, *, kind: Hashable, after: After | None = None
    ) -> "asyncio.Future[R]":
        """To be awaited: it is done when the item is committed, or raises why it was not.

        Items of the same kind must have the same work. `after` is called with the result, or with
        None if there is none; also if the caller has given up in the meantime.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[R] = loop.create_future()
        lot = self._lots.get(kind)
        if lot is None:
            lot = self._lots[kind] = _Lot(work, [])
        lot.waiting.append((item, done, after))
        if not self._busy:
            # Not at once: whoever else runs in this round of the loop may come along.
            self._busy = True
            loop.call_soon(self._start)
        return done

    def _start(self) -> None:
        lots = self._take_waiting()
        if sum(len(lot.waiting) for lot in lots) <= _AT_ONCE and self._do_here(lots):
            self._busy = False
        else:
            # A task of its own: a caller that is cancelled must not take the others with it.
            self._task = asyncio.get_running_loop().create_task(self._write(lots))

    def _do_here(self, lots: list[_Lot]) -> bool:
        results = self._database.transaction_here(lambda tx: _run_all(tx, lots)) if lots else []
        if results is None:
            return False
        _settle_all(lots, results)
        return True

    async def _write(self, lots: list[_Lot]) -> None:
        try:
            while lots:
                await self._write_one(lots)
                lots = self._take_waiting()
        finally:
            # Reached with something left only if the event loop is shutting down.
            for lot in (*lots, *self._take_waiting()):
                lot.give_up()
            self._busy, self._task = False, None

    async def _write_one(self, lots: list[_Lot]) -> None:
        try:
            results = await self._database.transaction(lambda tx: _run_all(tx, lots))
        except Exception as error:  # noqa: BLE001 - it is raised again in those who wait
            lots[:] = [_Lot(lot.work, [each]) for lot in lots for each in lot.waiting]
            if len(lots) == 1:
                lots[0].settle([error])
                return
            for each in tuple(lots):
                await self._write_one([each])
        else:
            _settle_all(lots, results)

    def _take_waiting(self) -> list[_Lot]:
        lots, self._lots = self._lots, {}
        for lot in lots.values():
            lot.drop_cancelled()
        return [lot for lot in lots.values() if lot.waiting]


def _run_all(tx: Transaction, lots: list[_Lot]) -> list[Sequence[Any]]:
    return [lot.run(tx) for lot in lots]


def _settle_all(lots: list[_Lot], results: list[Sequence[Any]]) -> None:
    for lot, outcome in zip(lots, results, strict=True):
        lot.settle(outcome)
