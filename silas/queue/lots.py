"""Sending and finishing, many at once: a few statements for all of them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from silas.kernel import Clock, format_timestamp
from silas.queue import table
from silas.queue.errors import LeaseLost
from silas.queue.handover import Handover
from silas.queue.leases import Lease
from silas.queue.lending import NOTHING, Given, Lender, Want
from silas.queue.letters import Letter, LetterOpener
from silas.storage import Transaction

Write = Callable[[Transaction], object]


class Sending(NamedTuple):
    """A letter to be queued, and who takes it if it is new."""

    letter: Letter
    handover: Handover | None = None


class Finishing(NamedTuple):
    """Everything that is to be true when a message is done."""

    lease: Lease
    consumer: str
    letters: Sequence[Letter] = ()
    writes: Sequence[Write] = ()
    handover: Handover | None = None


class Outcome(NamedTuple):
    """What came of it: whether the letter was new, and what was leased to those who waited."""

    fresh: bool
    given: list[Given] | None = None


_KNOWN = Outcome(False)
_DONE = Outcome(True)


class LotWorker:
    """Does the work of a lot inside somebody's transaction."""

    def __init__(self, *, clock: Clock, opener: LetterOpener, lender: Lender) -> None:
        self._clock = clock
        self._opener = opener
        self._lender = lender

    def send(self, tx: Transaction, lot: Sequence[Sending]) -> list[Outcome]:
        """Queue each letter unless its id is known."""
        letters = [each.letter for each in lot]
        fresh = self._insert(tx, letters)
        return [
            self._give(tx, each.handover) if is_fresh else _KNOWN
            for is_fresh, each in zip(fresh, lot, strict=True)
        ]

    def finish(self, tx: Transaction, lot: Sequence[Finishing]) -> list[Outcome | LeaseLost]:
        """End each lease, mark its message and queue what follows; `LeaseLost` has done nothing."""
        now = self._clock.now()
        held = [(each.lease.message.message_id, each.lease.lease_id) for each in lot]
        # First, so that a lost lease costs nothing and is not mistaken for another failure.
        removed = table.remove_leased(tx, held)
        done = [(each, row) for each, row in zip(lot, removed, strict=True) if row is not None]
        table.mark_done(tx, [(each.lease, each.consumer, row) for each, row in done], now=now)
        following = [letter for each, _ in done for letter in each.letters]
        if following:
            self._insert(tx, following)
        for each, _ in done:
            for write in each.writes:
                write(tx)
        return [
            lost(each.lease) if row is None else self._give(tx, each.handover)
            for each, row in zip(lot, removed, strict=True)
        ]

    def lend(self, tx: Transaction, lot: Sequence[Want]) -> list[Given]:
        """Lease for callers who want the same: one statement gives to all of them."""
        first = lot[0]
        everything = first._replace(limit=sum(want.limit for want in lot))
        [(leases, woken)] = self._lender.lend(tx, [everything])
        shares, begin = [], 0
        for want in lot:
            shares.append(Given(leases[begin : begin + want.limit], woken))
            woken, begin = NOTHING, begin + want.limit
        return shares

    def _insert(self, tx: Transaction, letters: Sequence[Letter]) -> list[bool]:
        for letter in letters:
            self._opener.remember(letter)
        return table.insert(tx, letters, now=format_timestamp(self._clock.now()))

    def _give(self, tx: Transaction, handover: Handover | None) -> Outcome:
        return _DONE if handover is None else Outcome(True, handover.give(tx, self._lender))


def lost(lease: Lease) -> LeaseLost:
    """What whoever comes too late is told."""
    return LeaseLost(
        f"Somebody else has the message {lease.message.message_id} now. "
        "What was done with it here was taken back.",
        message_id=lease.message.message_id,
    )


def settling(handover: Handover | None) -> Callable[[Outcome | None], None] | None:
    """What is to be called with the outcome, or with None if nothing was committed."""
    return None if handover is None else partial(_settle, handover)


def _settle(handover: Handover, outcome: Outcome | None) -> None:
    handover.settle(outcome is not None and outcome.fresh, outcome.given if outcome else None)


def raise_if_lost(outcomes: Sequence[Outcome | LeaseLost]) -> Outcome:
    """The outcome of a lot of one."""
    [outcome] = outcomes
    if isinstance(outcome, LeaseLost):
        raise outcome
    return outcome
