"""Handing a message to a consumer with free hands, in the commit that sends it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from silas.queue.bus import Bus, Taker
from silas.queue.lending import Given, Lender, Want
from silas.queue.letters import Letter
from silas.queue.models import QueueName
from silas.storage import Transaction


@dataclass(frozen=True, slots=True)
class Handover:
    """Where something is sent, and who has promised to take how much."""

    bus: Bus
    queues: frozenset[QueueName]
    promises: list[tuple[Taker, int]]
    done: str
    """The message that is done with this, if one is; `own` is its consumer."""
    own: Taker | None

    def give(self, tx: Transaction, lender: Lender) -> list[Given]:
        """Lease for those who wait, in the transaction that sends."""
        takers = [*self.promises, *([(self.own, 1)] if self.own else [])]
        wants = [Want(each.queue, each.consumer, each.seconds, hands) for each, hands in takers]
        return lender.lend(tx, wants) if wants else []

    def settle(self, sent: bool, given: list[Given] | None) -> None:
        """After the commit, or after none: everybody gets what was leased for them."""
        left = list(given or ())
        if self.own is not None:
            mine = left.pop() if left else None
            self.own.settle_next(self.done, mine.leases if mine else None)
            self._notify(mine)
        for place, (taker, hands) in enumerate(self.promises):
            theirs = left[place] if left else None
            taker.settle(hands, theirs.leases if theirs else ())
            self._notify(theirs)
        if sent:
            served = {taker.queue for taker, _ in self.promises}
            self.bus.notify(self.queues - served)

    def _notify(self, given: Given | None) -> None:
        if given is not None and given.woken:
            notify(self.bus, given.woken)


def arrange(
    bus: Bus, letters: Sequence[Letter], *, done: str = "", own: Taker | None = None
) -> Handover | None:
    """Who could take what is being sent, and, when it is done, the next message; or nobody."""
    if own is None and not any(bus.is_heard(letter.queue) for letter in letters):
        return None
    wanted = Counter([letter.queue for letter in letters])
    promises: list[tuple[Taker, int]] = []
    if own is not None:
        own.promise_next()
    for queue, count in wanted.items():
        taker = bus.idle_taker(queue)
        if taker is not None:
            hands = min(count, taker.free)
            taker.promise(hands)
            promises.append((taker, hands))
    return Handover(bus, frozenset(wanted), promises, done, own)


def notify(bus: Bus, woken: Iterable[str]) -> None:
    """Tell of queues by the names in the table, which may have others than we know."""
    bus.notify(QueueName(queue) for queue in woken if queue in set(QueueName))
