"""Giving messages out: what is due comes back first, and what cannot be read is given up."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import NamedTuple

from silas.kernel import Clock, IdFactory
from silas.queue import table
from silas.queue.failures import Funeral, bury, recall_due
from silas.queue.leases import Lease
from silas.queue.letters import LetterOpener
from silas.queue.models import QueueName
from silas.storage import Transaction


class Want(NamedTuple):
    """Who wants how many messages of a queue, and for how long."""

    queue: QueueName
    consumer: str
    seconds: float
    limit: int


class Given(NamedTuple):
    """What somebody got, and in which queues something can be leased since."""

    leases: list[Lease]
    woken: AbstractSet[str]


NOTHING: AbstractSet[str] = frozenset()


class Lender:
    """Leases messages inside somebody's transaction."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: IdFactory,
        holder: str,
        opener: LetterOpener,
        funeral: Funeral,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._holder = holder
        self._opener = opener
        self._funeral = funeral

    def lend(self, tx: Transaction, wants: Sequence[Want]) -> list[Given]:
        """Serve all of them, one after the other."""
        now = self._clock.now()
        woken = recall_due(tx, now=now, funeral=self._funeral)
        lease_id = self._ids.new("lease")
        return [
            self._take(
                tx,
                want,
                table.Terms(
                    lease_id,
                    want.consumer,
                    self._holder,
                    now,
                    now + timedelta(seconds=want.seconds),
                ),
                set() if place else woken,
            )
            for place, want in enumerate(wants)
        ]

    def _take(self, tx: Transaction, want: Want, terms: table.Terms, woken: table.Woken) -> Given:
        leases: list[Lease] = []
        while len(leases) < want.limit:
            rows = table.take(tx, want.queue, terms, limit=want.limit - len(leases))
            for row in rows:
                try:
                    leases.append(self._open(row, want.queue, terms))
                except (ValueError, TypeError) as error:
                    woken |= self._bury_damaged(tx, row.message_id, error, terms.now)
            if not rows:
                break
        return Given(leases, woken)

    def _open(self, row: table.TakenRow, queue: QueueName, terms: table.Terms) -> Lease:
        _, message_id, body, ready_at, attempts, processed = row
        message = self._opener.open(message_id, queue, body)
        waited = (terms.now - datetime.fromisoformat(ready_at)).total_seconds()
        waited = max(waited, 0.0)
        return Lease(message, queue, terms.lease_id, attempts, terms.until, waited, bool(processed))

    def _bury_damaged(
        self, tx: Transaction, message_id: str, error: Exception, now: datetime
    ) -> table.Woken:
        row = table.find(tx, message_id)
        if row is None:
            return set()
        reason = f"The stored message is damaged and cannot be read: {error}."
        return bury(tx, row, reason=reason, now=now, funeral=self._funeral)
