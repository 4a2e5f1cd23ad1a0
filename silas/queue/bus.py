"""Waking consumers: inside the process at once, across processes by a short poll."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from silas.queue.leases import Lease
from silas.queue.models import QueueMessage, QueueName
from silas.queue.routing import route

POLL_SECONDS = 0.5


class Waker:
    """What one consumer waits on."""

    def __init__(self, poll_seconds: float) -> None:
        self._poll_seconds = poll_seconds
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Let the consumer look again."""
        self._event.set()

    async def wait(self) -> bool:
        """Wait until there may be something to do; False if only the time for a poll has come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._poll_seconds):
                await self._event.wait()
        woken = self._event.is_set()
        self._event.clear()
        return woken


class Taker:
    """A consumer with free hands: whoever sends it something can lease that for it at once.

    So a message goes from one consumer to the next with one commit instead of two.
    """

    def __init__(
        self,
        queue: QueueName,
        *,
        consumer: str,
        seconds: float,
        hands: int,
        deliver: Callable[[Sequence[Lease]], None],
    ) -> None:
        self.queue = queue
        self.consumer = consumer
        self.seconds = seconds
        self.free = hands
        self._deliver = deliver
        self._promised = 0
        self._freed: set[str] = set()
        self._quiet = asyncio.Event()

    def promise(self, hands: int) -> None:
        """Keep these hands free for what is being leased."""
        self.free -= hands
        self._promised += hands

    def promise_next(self) -> None:
        """The hand that is busy now will be free for what is being leased."""
        self._promised += 1

    def settle_next(self, message_id: str, leases: Sequence[Lease] | None) -> None:
        """What has come of that; None if the hand stays busy, because nothing was committed."""
        if leases is not None:
            self._freed.add(message_id)
            self.free += 1
        self._promised -= 1
        self.settle(0, leases or ())

    def free_hand(self, message_id: str) -> None:
        """The work on this message has ended; its commit may have freed the hand before."""
        if message_id in self._freed:
            self._freed.remove(message_id)
        else:
            self.free += 1

    def settle(self, hands: int, leases: Sequence[Lease]) -> None:
        """What has come of a promise."""
        self._promised -= hands
        self.free += hands - len(leases)
        if leases:
            self._deliver(leases)
        if self._promised == 0:
            self._quiet.set()

    async def quiet(self) -> None:
        """Wait until every promise is settled."""
        while self._promised:
            self._quiet.clear()
            await self._quiet.wait()


class Bus:
    """Tells the consumers of this process that something has come. It loses nothing: it is only
    a hint, and the store has the truth.
    """

    def __init__(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._poll_seconds = poll_seconds
        self._wakers: defaultdict[QueueName, list[Waker]] = defaultdict(list)
        self._takers: defaultdict[QueueName, list[Taker]] = defaultdict(list)

    @contextlib.contextmanager
    def waker(self, queue: QueueName) -> Iterator[Waker]:
        """Something to wait on, for as long as the block lasts."""
        waker = Waker(self._poll_seconds)
        self._wakers[queue].append(waker)
        try:
            yield waker
        finally:
            self._wakers[queue].remove(waker)

    @contextlib.contextmanager
    def taking(self, taker: Taker) -> Iterator[None]:
        """Let this consumer be given what comes, for as long as the block lasts."""
        self._takers[taker.queue].append(taker)
        try:
            yield
        finally:
            self._takers[taker.queue].remove(taker)

    def is_heard(self, queue: QueueName) -> bool:
        """Whether anybody here waits for something in this queue."""
        return bool(self._wakers.get(queue) or self._takers.get(queue))

    def idle_taker(self, queue: QueueName) -> Taker | None:
        """A consumer of this queue with a free hand, if there is one here."""
        return next((taker for taker in self._takers[queue] if taker.free > 0), None)

    def notify(self, queues: Iterable[QueueName]) -> None:
        """Something in these queues can be leased. To be called after the commit."""
        for queue in sorted(queues):  # many are sets: who comes first must not be up to chance
            for waker in self._wakers[queue]:
                waker.wake()

    def notify_of(self, messages: Iterable[QueueMessage]) -> None:
        """These messages were committed."""
        self.notify({route(message) for message in messages})

    def notify_later(self, queue: QueueName, seconds: float) -> None:
        """Something in this queue can be leased after this time."""
        asyncio.get_running_loop().call_later(seconds, self.notify, (queue,))
