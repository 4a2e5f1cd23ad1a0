"""The durable store of the bus.

1. A message is accepted once: its id is the key, also after it was done or given up.
2. It is leased by one consumer at a time, for a limited time, the most urgent and oldest first.
   In an ordered queue, the messages of one scope come one after the other.
3. What is done, and the messages that follow from it, are committed together with its mark and the
   end of its lease, or not at all: `finish_in`.
4. What fails is tried again, later each time; what fails too often becomes a dead letter that says
   why. Nothing else ever disappears.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from silas.kernel import Clock, IdFactory, QueueError, format_timestamp
from silas.queue import failures, table
from silas.queue.batching import LotBatcher
from silas.queue.bus import Bus, Taker
from silas.queue.failures import AfterDeath, Funeral, no_messages
from silas.queue.handover import arrange, notify
from silas.queue.leases import Lease
from silas.queue.lending import Lender, Want
from silas.queue.letters import LetterOpener, seal
from silas.queue.lots import (
    Finishing,
    LotWorker,
    Outcome,
    Sending,
    Write,
    lost,
    raise_if_lost,
    settling,
)
from silas.queue.models import QueueMessage, QueueName
from silas.queue.retries import RetryPolicy
from silas.queue.routing import ORDERED
from silas.storage import Database, Durability, Transaction

__all__ = ["AfterDeath", "Lease", "QueueStore", "Write", "no_messages"]

T = TypeVar("T")

_PROCESSED = "SELECT 1 FROM processed_messages WHERE message_id = ? AND consumer = ?"
_WORK = """
SELECT EXISTS (SELECT 1 FROM queue_messages WHERE queue = ? AND state = 'ready')
    OR EXISTS (SELECT 1 FROM queue_messages WHERE due_at <= ?)
"""
_WAITING = """
SELECT count(*) FILTER (WHERE lane = ?), count(*) FROM queue_messages
WHERE lane IS NOT NULL AND lane >= ? AND lane < ?
"""
_DEPTH = "SELECT queue, COUNT(*) FROM queue_messages GROUP BY queue"
_PRUNE = """
DELETE FROM processed_messages WHERE processed_at < ?
    AND NOT EXISTS (
        SELECT 1 FROM queue_messages WHERE queue_messages.message_id = processed_messages.message_id
    )
"""


class QueueStore:
    """The queues of one database, shared by all processes that open it."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        ids: IdFactory,
        bus: Bus | None = None,
        holder: str = "",
        policy: RetryPolicy | None = None,
        after_death: AfterDeath = no_messages,
    ) -> None:
        """`holder` names this process: after a crash its leases can be told from others'."""
        self.bus = bus or Bus()
        self._database = database
        self._clock = clock
        self._ids = ids
        self._holder = holder
        self._funeral = Funeral(policy or RetryPolicy(), after_death)
        opener = LetterOpener()
        lender = Lender(clock=clock, ids=ids, holder=holder, opener=opener, funeral=self._funeral)
        self._lots = LotWorker(clock=clock, opener=opener, lender=lender)
        self._batch = LotBatcher(database)

    async def enqueue(self, message: QueueMessage) -> bool:
        """Accept a message; False if its id is known already. `NoRoute` or `MessageRefused`."""
        letter = seal(message)
        handover = arrange(self.bus, (letter,)) if self.bus.is_heard(letter.queue) else None
        outcome = await self._batch.run(
            self._lots.send, Sending(letter, handover), kind="send", after=settling(handover)
        )
        if handover is None:
            self.bus.notify((letter.queue,))
        return outcome.fresh

    def enqueue_in(self, tx: Transaction, message: QueueMessage) -> bool:
        """The same in the caller's transaction. After its commit: `store.bus.notify_of([…])`."""
        [outcome] = self._lots.send(tx, [Sending(seal(message))])
        return outcome.fresh

    async def lease(
        self, queue: QueueName, *, consumer: str, seconds: float = 60.0
    ) -> Lease | None:
        """The next message of a queue for this consumer, or None if there is nothing to do now."""
        leases = await self._lease(Want(queue, consumer, seconds, 1))
        return leases[0] if leases else None

    async def lease_many(
        self, queue: QueueName, *, consumer: str, seconds: float = 60.0, limit: int = 1
    ) -> list[Lease]:
        """The next messages of a queue, at most this many."""
        return await self._lease(Want(queue, consumer, seconds, limit))

    async def heartbeat(self, lease: Lease, *, seconds: float = 60.0) -> Lease:
        """Hold the lease longer; raises `LeaseLost`."""
        until = self._clock.now() + timedelta(seconds=seconds)

        def renew(tx: Transaction) -> None:
            ends = format_timestamp(until)
            if not table.renew(tx, lease.message.message_id, lease.lease_id, until=ends):
                raise lost(lease)

        await self._single(renew)
        return lease._replace(expires_at=until)

    async def ack(self, lease: Lease) -> None:
        """The message needs nothing more; raises `LeaseLost`."""

        def remove(tx: Transaction) -> None:
            if table.remove_leased(tx, [(lease.message.message_id, lease.lease_id)]) == [None]:
                raise lost(lease)

        await self._single(remove)
        self.bus.notify((lease.queue,))

    async def finish(
        self,
        lease: Lease,
        *,
        consumer: str,
        messages: Sequence[QueueMessage] = (),
        writes: Sequence[Write] = (),
        durability: Durability = Durability.ORDINARY,
        taker: Taker | None = None,
    ) -> None:
        """Commit effects, mark, end of lease and what follows, or nothing; or `LeaseLost`.

        `taker` is the consumer itself, which has a hand free for its next message then.
        """
        letters = [seal(message) for message in messages]
        done = lease.message.message_id
        handover = arrange(self.bus, letters, done=done, own=taker) if letters or taker else None
        everything = Finishing(lease, consumer, letters, writes, handover)
        settle = settling(handover)
        if writes or durability is not Durability.ORDINARY:
            outcome = await self._alone(everything, durability, after=settle)
        else:
            outcome = await self._batch.run(
                self._lots.finish, everything, kind="finish", after=settle
            )
        if letters and handover is None:
            self.bus.notify({letter.queue for letter in letters})
        if taker is None or (
            _may_be_more(outcome, lease.queue) and self.bus.idle_taker(lease.queue)
        ):
            self.bus.notify((lease.queue,))

    def finish_in(
        self,
        tx: Transaction,
        lease: Lease,
        *,
        consumer: str,
        messages: Sequence[QueueMessage] = (),
    ) -> None:
        """Mark the message as processed, end its lease and queue what follows from it.

        In the caller's transaction, together with the effects. Raises `LeaseLost` if somebody else
        has the message; the transaction must then not be committed. After its commit:
        `store.bus.notify_of(messages)`.
        """
        letters = [seal(message) for message in messages]
        raise_if_lost(self._lots.finish(tx, [Finishing(lease, consumer, letters)]))

    async def nack(self, lease: Lease, *, reason: str, delay: float | None = None) -> None:
        """It failed: to be tried again, or given up after too many failures; or `LeaseLost`."""
        await self._end(
            lease,
            lambda tx, row: failures.fail(
                tx, row, reason=reason, now=self._clock.now(), delay=delay, funeral=self._funeral
            ),
        )

    async def release(self, lease: Lease) -> None:
        """Give it back untouched, at once and without counting the attempt; or `LeaseLost`."""

        def put_back(tx: Transaction, row: table.QueuedRow) -> table.Woken:
            failures.release(tx, row, counted=False)
            return {row.queue}

        await self._end(lease, put_back)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """Give the message up, with a sentence why; or `LeaseLost`."""
        await self._end(
            lease,
            lambda tx, row: failures.bury(
                tx, row, reason=reason, now=self._clock.now(), funeral=self._funeral
            ),
        )

    async def has_processed(self, consumer: str, message_id: str) -> bool:
        """Whether this consumer has done with this message before."""
        return await self._database.fetch_one(_PROCESSED, (message_id, consumer)) is not None

    async def mark_processed(self, consumer: str, message_id: str) -> None:
        """Remember that this consumer has done with this message."""
        await self._single(lambda tx: self.mark_processed_in(tx, consumer, message_id))

    def mark_processed_in(self, tx: Transaction, consumer: str, message_id: str) -> None:
        """The same in the caller's transaction."""
        table.mark(tx, consumer, message_id, now=format_timestamp(self._clock.now()))

    async def has_work(self, queue: QueueName) -> bool:
        """Whether a lease might give something; only reads, for polling."""
        now = format_timestamp(self._clock.now())
        row = await self._database.fetch_one(_WORK, (queue, now))
        return bool(row and row[0])

    async def depth(self) -> dict[QueueName, int]:
        """How many messages each queue holds, whatever their state."""
        counted: dict[str, int] = dict(await self._database.fetch_all(_DEPTH))
        return {queue: counted.get(queue.value, 0) for queue in QueueName}

    async def waiting(self, queue: QueueName, scope_id: str) -> tuple[int, int]:
        """How many messages of this scope an ordered queue holds, and how many altogether."""
        # `0` is what comes after `/`: all lanes of the queue, and no others.
        params = (f"{queue}/{scope_id}", f"{queue}/", f"{queue}0")
        row = await self._database.fetch_one(_WAITING, params)
        return (int(row[0]), int(row[1])) if row else (0, 0)

    async def recover(self, *, alive: Callable[[str], bool]) -> int:
        """At the start: queue again what processes held that are not alive; returns how many.

        `alive` is asked for every holder; a lease without a named holder counts as nobody's.
        """
        count, woken = await self._database.transaction(
            lambda tx: failures.recover(
                tx, alive=alive, now=self._clock.now(), funeral=self._funeral
            )
        )
        notify(self.bus, woken)
        return count

    async def prune_processed(self, *, before: datetime) -> int:
        """Forget marks that are older; from then on, those ids would be accepted again."""
        return await self._database.execute(_PRUNE, (format_timestamp(before),))

    async def _lease(self, want: Want) -> list[Lease]:
        leases, woken = await self._batch.run(self._lots.lend, want, kind=want[:3])
        if woken:
            notify(self.bus, woken)
        return leases

    async def _single(self, change: Callable[[Transaction], T]) -> T:
        """One change in a shared transaction; if it raises a `QueueError`, it has done nothing."""

        def work(tx: Transaction, _lot: Sequence[None]) -> list[T | QueueError]:
            try:
                return [change(tx)]
            except QueueError as error:
                return [error]

        return await self._batch.run(work, None, kind=work)

    async def _alone(
        self,
        item: Finishing,
        durability: Durability,
        *,
        after: Callable[[Outcome | None], None] | None,
    ) -> Outcome:
        """A transaction of its own; `after` is called also if the caller gives up meanwhile."""

        def body(tx: Transaction) -> Outcome:
            return raise_if_lost(self._lots.finish(tx, [item]))

        if durability is Durability.ORDINARY:
            outcome = self._database.transaction_here(body)
            if outcome is not None:
                if after is not None:
                    after(outcome)
                return outcome
        writing = asyncio.ensure_future(self._database.transaction(body, durability=durability))

        def ended(done: "asyncio.Future[Outcome]") -> None:
            failed = done.cancelled() or done.exception() is not None
            if after is not None:
                after(None if failed else done.result())

        writing.add_done_callback(ended)
        return await asyncio.shield(writing)

    async def _end(
        self, lease: Lease, end: Callable[[Transaction, table.QueuedRow], table.Woken]
    ) -> None:
        def step(tx: Transaction) -> tuple[table.Woken, str | None]:
            row = table.find(tx, lease.message.message_id, lease.lease_id)
            if row is None:
                raise lost(lease)
            woken = end(tx, row)
            after = table.find(tx, row.message_id)
            return woken, after.ready_at if after and after.state == "delayed" else None

        woken, again_at = await self._single(step)
        notify(self.bus, woken)
        if again_at is not None:
            wait = datetime.fromisoformat(again_at) - self._clock.now()
            self.bus.notify_later(lease.queue, max(wait.total_seconds(), 0))


def _may_be_more(outcome: Outcome, queue: QueueName) -> bool:
    """Whether something is left that any hand could take, after the one that got free was served.

    The next message of the scope has come to its turn. If there was nothing for the hand that got
    free, that was none, and nothing else is there either.
    """
    return queue in ORDERED and bool(outcome.given and outcome.given[-1].leases)
