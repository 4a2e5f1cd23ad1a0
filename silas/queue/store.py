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
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from silas.kernel import Clock, IdFactory, format_timestamp
from silas.queue import table
from silas.queue.batching import StepBatcher
from silas.queue.bus import Bus, Taker
from silas.queue.errors import LeaseLost
from silas.queue.leases import Lease
from silas.queue.letters import DamagedLetter, Letter, LetterOpener, read_letter, seal
from silas.queue.models import QueueMessage, QueueName
from silas.queue.retries import RetryPolicy
from silas.queue.routing import ORDERED
from silas.storage import Database, Durability, Transaction

__all__ = ["AfterDeath", "Lease", "QueueStore", "Write", "no_messages"]

T = TypeVar("T")
Write = Callable[[Transaction], object]
AfterDeath = Callable[[QueueMessage, str], Sequence[QueueMessage]]
"""What is to be sent when a message is given up, and why it was; its only effect is its result."""

_PROCESSED = "SELECT 1 FROM processed_messages WHERE message_id = ? AND consumer = ?"
_WORK = """
SELECT EXISTS (SELECT 1 FROM queue_messages WHERE queue = ? AND state = 'ready')
    OR EXISTS (SELECT 1 FROM queue_messages WHERE due_at <= ?)
"""
_DEPTH = "SELECT queue, COUNT(*) FROM queue_messages GROUP BY queue"
_PRUNE = """
DELETE FROM processed_messages WHERE processed_at < ?
    AND NOT EXISTS (
        SELECT 1 FROM queue_messages WHERE queue_messages.message_id = processed_messages.message_id
    )
"""


@dataclass(slots=True)
class _Demand:
    """What several callers want from the same queue at the same moment: one statement gives all."""

    limits: list[int] = field(default_factory=list)
    met: "asyncio.Future[tuple[list[Lease], table.Woken]]" = field(init=False)


_Given = Sequence[tuple[list[Lease], table.Woken]]


@dataclass(frozen=True, slots=True)
class _Handover:
    """Where something is sent, and who has promised to take how much."""

    queues: frozenset[QueueName]
    promises: list[tuple[Taker, int]]
    done: str
    """The message that is done with this, if one is; `own` is its consumer."""
    own: Taker | None


def no_messages(_message: QueueMessage, _reason: str) -> Sequence[QueueMessage]:
    """Nothing follows from a dead letter."""
    return ()


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
        self._after_death = after_death
        self._funeral = table.Funeral(policy or RetryPolicy(), self._letters_after)
        self._opener = LetterOpener()
        self._demands: dict[tuple[QueueName, str, float], _Demand] = {}
        self._batch = StepBatcher(database, on_start=self._demands.clear)

    async def enqueue(self, message: QueueMessage) -> bool:
        """Accept a message; False if its id is known already. `NoRoute` or `MessageRefused`."""
        letter = seal(message)
        now = format_timestamp(self._clock.now())
        self._opener.remember(letter)
        handover = self._handover([letter])

        def step(tx: Transaction) -> tuple[bool, _Given]:
            fresh = table.insert(tx, letter, now=now)
            return fresh, self._give(tx, handover) if fresh else ()

        fresh: bool = (await self._batch.run(step, after=partial(self._settle, handover)))[0]
        return fresh

    def enqueue_in(self, tx: Transaction, message: QueueMessage) -> bool:
        """The same in the caller's transaction. After its commit: `store.bus.notify_of([…])`."""
        letter = seal(message)
        self._opener.remember(letter)
        return table.insert(tx, letter, now=format_timestamp(self._clock.now()))

    async def lease(
        self, queue: QueueName, *, consumer: str, seconds: float = 60.0
    ) -> Lease | None:
        """The next message of a queue for this consumer, or None if there is nothing to do now."""
        return next(iter(await self.lease_many(queue, consumer=consumer, seconds=seconds)), None)

    async def lease_many(
        self, queue: QueueName, *, consumer: str, seconds: float = 60.0, limit: int = 1
    ) -> list[Lease]:
        """The next messages of a queue, at most this many."""
        key = (queue, consumer, seconds)
        demand = self._demands.get(key)
        if demand is None:
            self._demands[key] = demand = _Demand()
            demand.met = self._batch.run(partial(self._take, *key, demand))
        place = len(demand.limits)
        demand.limits.append(limit)
        # Shared: whoever gives up must not take the others' leases with it.
        leases, woken = await asyncio.shield(demand.met)
        if place == 0:
            self._notify(woken)
        begin = sum(demand.limits[:place])
        return leases[begin : begin + limit]

    async def heartbeat(self, lease: Lease, *, seconds: float = 60.0) -> Lease:
        """Hold the lease longer; raises `LeaseLost`."""
        until = self._clock.now() + timedelta(seconds=seconds)

        def renew(tx: Transaction) -> None:
            ends = format_timestamp(until)
            if not table.renew(tx, lease.message.message_id, lease.lease_id, until=ends):
                raise _lost(lease)

        await self._batch.run(renew)
        return replace(lease, expires_at=until)

    async def ack(self, lease: Lease) -> None:
        """The message needs nothing more; raises `LeaseLost`."""

        def remove(tx: Transaction) -> None:
            if table.remove_leased(tx, lease.message.message_id, lease.lease_id) is None:
                raise _lost(lease)

        await self._batch.run(remove)
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
        handover = self._handover(letters, lease.message.message_id, taker)

        def everything(tx: Transaction) -> tuple[bool, _Given]:
            # First, so that a lost lease costs nothing and is not mistaken for another failure.
            self._finish(tx, lease, consumer, letters)
            for write in writes:
                write(tx)
            return True, self._give(tx, handover)

        settle = partial(self._settle, handover)
        if writes or durability is not Durability.ORDINARY:
            await self._alone(everything, durability, after=settle)
        else:
            await self._batch.run(everything, after=settle)
        # The next message of the scope may have come to its turn, for any hand that is free.
        if taker is None or (lease.queue in ORDERED and self.bus.idle_taker(lease.queue)):
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
        self._finish(tx, lease, consumer, [seal(message) for message in messages])

    async def nack(self, lease: Lease, *, reason: str, delay: float | None = None) -> None:
        """It failed: to be tried again, or given up after too many failures; or `LeaseLost`."""
        await self._end(
            lease,
            lambda tx, row: table.fail(
                tx, row, reason=reason, now=self._clock.now(), delay=delay, funeral=self._funeral
            ),
        )

    async def release(self, lease: Lease) -> None:
        """Give it back untouched, at once and without counting the attempt; or `LeaseLost`."""

        def put_back(tx: Transaction, row: table.QueuedRow) -> table.Woken:
            table.release(tx, row, counted=False)
            return {row.queue}

        await self._end(lease, put_back)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """Give the message up, with a sentence why; or `LeaseLost`."""
        await self._end(
            lease,
            lambda tx, row: table.bury(
                tx, row, reason=reason, now=self._clock.now(), funeral=self._funeral
            ),
        )

    async def has_processed(self, consumer: str, message_id: str) -> bool:
        """Whether this consumer has done with this message before."""
        return await self._database.fetch_one(_PROCESSED, (message_id, consumer)) is not None

    async def mark_processed(self, consumer: str, message_id: str) -> None:
        """Remember that this consumer has done with this message."""
        await self._batch.run(lambda tx: self.mark_processed_in(tx, consumer, message_id))

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

    async def recover(self, *, alive: Callable[[str], bool]) -> int:
        """At the start: queue again what processes held that are not alive; returns how many.

        `alive` is asked for every holder; a lease without a named holder counts as nobody's.
        """
        count, woken = await self._database.transaction(lambda tx: self._recover(tx, alive))
        self._notify(woken)
        return count

    async def prune_processed(self, *, before: datetime) -> int:
        """Forget marks that are older; from then on, those ids would be accepted again."""
        return await self._database.execute(_PRUNE, (format_timestamp(before),))

    def _handover(
        self, letters: Sequence[Letter], done: str = "", own: Taker | None = None
    ) -> "_Handover":
        """Who could take what is being sent; and, when it is done, the next message."""
        wanted = Counter(letter.queue for letter in letters)
        promises: list[tuple[Taker, int]] = []
        if own is not None:
            own.promise_next()
        for queue, count in wanted.items():
            taker = self.bus.idle_taker(queue)
            if taker is not None:
                hands = min(count, taker.free)
                taker.promise(hands)
                promises.append((taker, hands))
        return _Handover(frozenset(wanted), promises, done, own)

    def _give(self, tx: Transaction, handover: "_Handover") -> "_Given":
        """Lease for those who wait, in the transaction that sends."""
        takers = [*handover.promises, *([(handover.own, 1)] if handover.own else [])]
        return [
            self._take(taker.queue, taker.consumer, taker.seconds, _Demand([hands]), tx)
            for taker, hands in takers
        ]

    def _settle(self, handover: "_Handover", result: tuple[bool, "_Given"] | None) -> None:
        """After the commit, or after none: everybody gets what was leased for them."""
        given = list(result[1]) if result is not None else []
        if handover.own is not None:
            leases = given.pop() if given else None
            handover.own.settle_next(handover.done, leases[0] if leases else None)
            self._notify(leases[1] if leases else set())
        for place, (taker, hands) in enumerate(handover.promises):
            taker.settle(hands, given[place][0] if given else ())
            self._notify(given[place][1] if given else set())
        if result is not None and result[0]:
            served = {taker.queue for taker, _ in handover.promises}
            self.bus.notify(handover.queues - served)

    async def _alone(
        self,
        body: Callable[[Transaction], T],
        durability: Durability,
        *,
        after: Callable[[T | None], None],
    ) -> None:
        """A transaction of its own; `after` is called also if the caller gives up meanwhile."""
        writing = asyncio.ensure_future(self._database.transaction(body, durability=durability))

        def ended(done: "asyncio.Future[T]") -> None:
            failed = done.cancelled() or done.exception() is not None
            after(None if failed else done.result())

        writing.add_done_callback(ended)
        await asyncio.shield(writing)

    def _take(
        self, queue: QueueName, consumer: str, seconds: float, demand: "_Demand", tx: Transaction
    ) -> tuple[list[Lease], table.Woken]:
        now, limit = self._clock.now(), sum(demand.limits)
        woken = table.recall_due(tx, now=now, funeral=self._funeral)
        terms = table.Terms(self._ids.new("lease"), consumer, self._holder, now, seconds)
        leases: list[Lease] = []
        while rows := table.take(tx, queue, terms, limit=limit - len(leases)):
            for row in rows:
                try:
                    leases.append(self._open(row, queue, terms))
                except (ValueError, TypeError) as error:
                    woken |= self._bury_damaged(tx, row.message_id, error, now)
        return leases, woken

    def _open(self, row: table.TakenRow, queue: QueueName, terms: table.Terms) -> Lease:
        message = self._opener.open(row.message_id, queue, row.body)
        waited = (terms.now - datetime.fromisoformat(row.ready_at)).total_seconds()
        return Lease(message, queue, terms.lease_id, row.attempts, terms.until, max(waited, 0.0))

    def _bury_damaged(
        self, tx: Transaction, message_id: str, error: Exception, now: datetime
    ) -> table.Woken:
        row = table.find(tx, message_id)
        if row is None:
            return set()
        reason = f"The stored message is damaged and cannot be read: {error}."
        return table.bury(tx, row, reason=reason, now=now, funeral=self._funeral)

    def _finish(
        self, tx: Transaction, lease: Lease, consumer: str, letters: Sequence[Letter]
    ) -> None:
        message_id, now = lease.message.message_id, self._clock.now()
        removed = table.remove_leased(tx, message_id, lease.lease_id)
        if removed is None:
            raise _lost(lease)
        waited = lease.waited_seconds
        table.mark_done(
            tx, consumer, message_id, removed, queue=lease.queue, waited=waited, now=now
        )
        for letter in letters:
            self._opener.remember(letter)
            table.insert(tx, letter, now=format_timestamp(now))

    async def _end(
        self, lease: Lease, end: Callable[[Transaction, table.QueuedRow], table.Woken]
    ) -> None:
        def step(tx: Transaction) -> tuple[table.Woken, str | None]:
            row = table.find(tx, lease.message.message_id, lease.lease_id)
            if row is None:
                raise _lost(lease)
            woken = end(tx, row)
            after = table.find(tx, row.message_id)
            return woken, after.ready_at if after and after.state == "delayed" else None

        woken, again_at = await self._batch.run(step)
        self._notify(woken)
        if again_at is not None:
            wait = datetime.fromisoformat(again_at) - self._clock.now()
            self.bus.notify_later(lease.queue, max(wait.total_seconds(), 0))

    def _recover(self, tx: Transaction, alive: Callable[[str], bool]) -> tuple[int, table.Woken]:
        now = self._clock.now()
        woken: table.Woken = set()
        gone = [row for row in table.leased(tx) if not (row.holder and alive(row.holder))]
        for row in gone:
            if row.attempts >= self._funeral.policy.max_attempts:
                reason = f"It was begun {row.attempts} times, and each time the process ended."
                woken |= table.bury(tx, row, reason=reason, now=now, funeral=self._funeral)
            else:
                table.release(tx, row, counted=True)
                woken.add(row.queue)
        table.promote_all(tx)
        return len(gone), woken

    def _letters_after(self, row: table.QueuedRow, reason: str) -> Sequence[Letter]:
        try:
            message = read_letter(row.message_id, row.queue, row.body)
        except DamagedLetter:
            return ()
        return [seal(each) for each in self._after_death(message, reason)]

    def _notify(self, woken: table.Woken) -> None:
        self.bus.notify(QueueName(queue) for queue in woken if queue in set(QueueName))


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"Somebody else has the message {lease.message.message_id} now. "
        "What was done with it here was taken back.",
        message_id=lease.message.message_id,
    )
