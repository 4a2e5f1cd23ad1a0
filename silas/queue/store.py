"""The durable store of the bus.

1. A message is accepted once: its id is the key, also after it was done or given up.
2. It is leased by one consumer at a time, for a limited time, the most urgent and oldest first.
   In an ordered queue, the messages of one scope come one after the other.
3. What is done, and the messages that follow from it, are committed together with its mark and the
   end of its lease, or not at all: `finish`.
4. What fails is tried again, later each time; what fails too often becomes a dead letter that says
   why. Nothing else ever disappears.

Every step is one transaction of the database's writer, which commits those that come together in
one group. After the commit, the consumers of this process are woken; those of other processes poll.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from silas.kernel import Clock, IdFactory, format_timestamp
from silas.queue import dead_letters, table
from silas.queue.dead_letters import (
    DeadLetterPolicy,
    OnDeadLetter,
    RetryPolicy,
    Woken,
    no_messages,
)
from silas.queue.models import QueueMessage, QueueName, route
from silas.queue.table import Envelope, Lease, Terms, envelope_of
from silas.storage import Database, Durability, Transaction

POLL_SECONDS = 0.5

Write = Callable[[Transaction], object]
Outlet = Callable[[Transaction, QueueMessage], bool]
"""Writes a message where its readers find it; False if it belongs into its queue after all."""

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


class Bus:
    """Tells the consumers of this process that something has come. It loses nothing: it is only
    a hint, and the store has the truth.
    """

    def __init__(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        self.poll_seconds = poll_seconds
        self._waiting: defaultdict[str, list[asyncio.Event]] = defaultdict(list)
        self._listeners: dict[str, Callable[[QueueMessage], None]] = {}

    def tell(self, queue: QueueName, listener: Callable[[QueueMessage], None]) -> None:
        """Let this be called with each message for a queue, instead of waking its consumers."""
        self._listeners[queue] = listener

    @contextlib.contextmanager
    def listening(self, queue: QueueName) -> Iterator[asyncio.Event]:
        """An event that is set whenever something may be leased, for as long as the block lasts."""
        event = asyncio.Event()
        self._waiting[queue].append(event)
        try:
            yield event
        finally:
            self._waiting[queue].remove(event)

    def notify(self, queues: Iterable[str]) -> None:
        """Something in these queues can be leased. To be called after the commit."""
        for queue in sorted(queues):  # many are sets: who comes first must not be up to chance
            for event in self._waiting.get(queue, ()):
                event.set()

    def notify_of(self, messages: Iterable[QueueMessage]) -> None:
        """These messages were committed."""
        queues = set()
        for message in messages:
            queue = route(message)
            if (listener := self._listeners.get(queue)) is not None:
                listener(message)
            else:
                queues.add(queue)
        self.notify(queues)


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
        on_dead_letter: OnDeadLetter = no_messages,
    ) -> None:
        """`holder` names this process: after a crash its leases can be told from others'."""
        self.bus = bus or Bus()
        self.database = database
        self._clock = clock
        self._ids = ids
        self._holder = holder
        self._policy = DeadLetterPolicy(policy or RetryPolicy(), on_dead_letter)
        self._outlets: dict[QueueName, Outlet] = {}

    def deliver_directly(
        self, queue: QueueName, outlet: Outlet, *, tell: Callable[[QueueMessage], None]
    ) -> None:
        """Write the messages of a queue where they are read, in the transaction that sends them.

        Nobody has to lease them then; `tell` is called after the commit. Other processes may still
        put some into the queue.
        """
        self._outlets[queue] = outlet
        self.bus.tell(queue, tell)

    async def enqueue(self, message: QueueMessage, *, writes: Sequence[Write] = ()) -> bool:
        """Accept a message; False if its id is known already. `NoRoute` or `MessageRefused`.

        `writes` are committed together with it.
        """
        envelope = envelope_of(message)

        def body(tx: Transaction) -> bool:
            is_new = self._put(tx, envelope)
            for write in writes:
                write(tx)
            return is_new

        is_new = await self.database.transaction(body, brief=True)
        self.bus.notify_of((message,))
        return is_new

    def enqueue_in(self, tx: Transaction, message: QueueMessage) -> bool:
        """The same in the caller's transaction. After its commit: `store.bus.notify_of([…])`."""
        return self._put(tx, envelope_of(message))

    async def lease(
        self, queue: QueueName, *, consumer: str, seconds: float = 60.0
    ) -> Lease | None:
        """The next message of a queue for this consumer, or None if there is nothing to do now."""
        leases = await self.lease_many(queue, consumer=consumer, seconds=seconds)
        return leases[0] if leases else None

    async def lease_many(
        self, queue: QueueName, *, consumer: str, seconds: float = 60.0, limit: int = 1
    ) -> list[Lease]:
        """The next messages of a queue, at most this many.

        What is due comes back first, and what cannot be read becomes a dead letter.
        """
        now, lease_id = self._clock.now(), self._ids.new("lease")
        terms = Terms(lease_id, consumer, self._holder, now, now + timedelta(seconds=seconds))

        def body(tx: Transaction) -> tuple[list[Lease], Woken]:
            woken = self._policy.recall_due(tx, now=now)
            leases: list[Lease] = []
            while len(leases) < limit:
                more, damaged = table.lease_next(tx, queue, terms, limit=limit - len(leases))
                leases += more
                for message_id, error in damaged.items():
                    woken |= self._give_up_damaged(tx, message_id, error)
                if not damaged:
                    break
            return leases, woken

        leases, woken = await self.database.transaction(body, brief=True)
        self.bus.notify(woken)
        return leases

    async def heartbeat(self, lease: Lease, *, seconds: float = 60.0) -> Lease:
        """Hold the lease longer; raises `LeaseLost`."""
        until = self._clock.now() + timedelta(seconds=seconds)
        await self.database.transaction(lambda tx: table.renew(tx, lease, until=until), brief=True)
        return lease._replace(expires_at=until)

    async def ack(self, lease: Lease) -> None:
        """The message needs nothing more; raises `LeaseLost`."""
        if await self.database.transaction(lambda tx: table.end_lease(tx, lease), brief=True):
            self.bus.notify((lease.queue,))

    async def finish(
        self,
        lease: Lease,
        *,
        consumer: str,
        messages: Sequence[QueueMessage] = (),
        writes: Sequence[Write] = (),
        durability: Durability = Durability.ORDINARY,
    ) -> None:
        """Commit effects, mark, end of lease and what follows, or nothing; or `LeaseLost`."""
        envelopes = [envelope_of(message) for message in messages]

        def body(tx: Transaction) -> bool:
            promoted = self._finish(tx, lease, consumer, envelopes)
            for write in writes:
                write(tx)
            return promoted

        if await self.database.transaction(body, durability=durability, brief=True):
            self.bus.notify((lease.queue,))
        self.bus.notify_of(messages)

    def finish_in(
        self,
        tx: Transaction,
        lease: Lease,
        *,
        consumer: str,
        messages: Sequence[QueueMessage] = (),
    ) -> None:
        """The same in the caller's transaction, together with the effects.

        Raises `LeaseLost` if somebody else has the message; the transaction must then not be
        committed. After its commit: `store.bus.notify_of(messages)`.
        """
        self._finish(tx, lease, consumer, [envelope_of(message) for message in messages])

    async def nack(self, lease: Lease, *, reason: str, delay: float | None = None) -> None:
        """It failed: to be tried again, or given up after too many failures; or `LeaseLost`."""
        now = self._clock.now()
        await self._end(
            lease,
            lambda tx, row: self._policy.fail(tx, row, reason=reason, now=now, delay=delay),
        )

    async def release(self, lease: Lease) -> None:
        """Give it back untouched, at once and without counting the attempt; or `LeaseLost`."""
        await self._end(lease, lambda tx, row: dead_letters.release(tx, row, counted=False))

    async def postpone(self, lease: Lease, *, until: datetime) -> None:
        """Give it back until then, without counting the attempt; or `LeaseLost`."""
        await self._end(lease, lambda tx, row: dead_letters.postpone(tx, row, until=until))

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """Give the message up, with a sentence why; or `LeaseLost`."""
        now = self._clock.now()
        await self._end(
            lease, lambda tx, row: self._policy.give_up(tx, row, reason=reason, now=now)
        )

    async def has_processed(self, consumer: str, message_id: str) -> bool:
        """Whether this consumer has done with this message before."""
        return await self.database.fetch_one(_PROCESSED, (message_id, consumer)) is not None

    async def mark_processed(self, consumer: str, message_id: str) -> None:
        """Remember that this consumer has done with this message; `finish` does it by itself."""
        now = self._clock.now()
        await self.database.transaction(
            lambda tx: table.mark(tx, consumer, message_id, now=now), brief=True
        )

    async def has_work(self, queue: QueueName) -> bool:
        """Whether a lease might give something; only reads, for polling."""
        now = format_timestamp(self._clock.now())
        row = await self.database.fetch_one(_WORK, (queue, now))
        return bool(row and row[0])

    async def depth(self) -> dict[QueueName, int]:
        """How many messages each queue holds, whatever their state."""
        counted: dict[str, int] = dict(await self.database.fetch_all(_DEPTH))
        return {queue: counted.get(queue.value, 0) for queue in QueueName}

    async def waiting(self, queue: QueueName, scope_id: str) -> tuple[int, int]:
        """How many messages of this scope an ordered queue holds, and how many altogether."""
        # `0` is what comes after `/`: all lanes of the queue, and no others.
        params = (f"{queue}/{scope_id}", f"{queue}/", f"{queue}0")
        row = await self.database.fetch_one(_WAITING, params)
        return (int(row[0]), int(row[1])) if row else (0, 0)

    async def recover(self, *, alive: Callable[[str], bool]) -> int:
        """At the start: queue again what processes held that are not alive; returns how many.

        `alive` is asked for every holder; a lease without a named holder counts as nobody's.
        """
        now = self._clock.now()
        count, woken = await self.database.transaction(
            lambda tx: self._policy.recover(tx, alive=alive, now=now)
        )
        self.bus.notify(woken)
        return count

    async def prune_processed(self, *, before: datetime) -> int:
        """Forget marks that are older; from then on, those ids would be accepted again."""
        return await self.database.execute(_PRUNE, (format_timestamp(before),))

    async def forget(self, queue: QueueName, fits: Callable[[str], bool]) -> int:
        """Erase the messages of a queue whose text is like that, given up or not; returns how many.

        One that somebody works on just now is gone when that is done.
        """

        def body(tx: Transaction) -> int:
            return table.forget(tx, queue, fits)

        return await self.database.transaction(body)

    def _finish(
        self, tx: Transaction, lease: Lease, consumer: str, envelopes: Sequence[Envelope]
    ) -> bool:
        """Whether the next message of the lane can be leased now."""
        # First, so that a lost lease costs nothing and is not mistaken for another failure.
        promoted = table.finish(tx, lease, consumer=consumer, now=self._clock.now())
        for envelope in envelopes:
            self._put(tx, envelope)
        return promoted

    def _put(self, tx: Transaction, envelope: Envelope) -> bool:
        """Write a message that is new where it belongs; False if its id is known already."""
        outlet, message = self._outlets.get(envelope.queue), envelope.message
        if outlet is not None:
            if table.is_known(tx, message.message_id):
                return False
            if outlet(tx, message):
                return True
        return table.insert(tx, envelope, now=format_timestamp(self._clock.now()))

    def _give_up_damaged(self, tx: Transaction, message_id: str, error: Exception) -> Woken:
        row = table.find(tx, message_id)
        if row is None:
            return set()
        reason = f"The stored message is damaged and cannot be read: {error}."
        return self._policy.give_up(tx, row, reason=reason, now=self._clock.now())

    async def _end(
        self, lease: Lease, end: Callable[[Transaction, table.QueuedRow], Woken]
    ) -> None:
        """End a lease in another way than as done, and wake whoever has something to do then."""

        def body(tx: Transaction) -> tuple[Woken, str | None]:
            row = table.held(tx, lease)
            woken = end(tx, row)
            after = table.find(tx, row.message_id)
            return woken, after.ready_at if after and after.state == "delayed" else None

        woken, again_at = await self.database.transaction(body, brief=True)
        self.bus.notify(woken)
        if again_at is not None:
            wait = (datetime.fromisoformat(again_at) - self._clock.now()).total_seconds()
            loop = asyncio.get_running_loop()
            loop.call_later(max(wait, 0), self.bus.notify, (lease.queue,))
