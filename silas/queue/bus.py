"""Waking consumers: inside the process at once, across processes by a short poll."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator

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


class Bus:
    """Tells the consumers of this process that something has come. It loses nothing: it is only
    a hint, and the store has the truth.
    """

    def __init__(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._poll_seconds = poll_seconds
        self._wakers: defaultdict[QueueName, list[Waker]] = defaultdict(list)

    @contextlib.contextmanager
    def waker(self, queue: QueueName) -> Iterator[Waker]:
        """Something to wait on, for as long as the block lasts."""
        waker = Waker(self._poll_seconds)
        self._wakers[queue].append(waker)
        try:
            yield waker
        finally:
            self._wakers[queue].remove(waker)

    def notify(self, queues: Iterable[QueueName]) -> None:
        """Something in these queues can be leased. To be called after the commit."""
        for queue in queues:
            for waker in self._wakers[queue]:
                waker.wake()

    def notify_of(self, messages: Iterable[QueueMessage]) -> None:
        """These messages were committed."""
        self.notify({route(message) for message in messages})

    def notify_later(self, queue: QueueName, seconds: float) -> None:
        """Something in this queue can be leased after this time."""
        asyncio.get_running_loop().call_later(seconds, self.notify, (queue,))
