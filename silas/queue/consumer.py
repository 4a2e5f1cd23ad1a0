"""Consumers: they keep the contract of the bus, so that handlers need not know it.

For every message that it leases, a consumer

1. asks whether it was processed before; if so, it ends the lease and does nothing else;
2. lets the handler work, and holds the lease for as long as that takes;
3. commits in one transaction: the handler's writes, the messages that follow, the mark that it was
   processed, and the end of the lease. If the lease was lost, nothing of it remains;
4. if the handler fails, gives the message back to be tried again, or gives it up with a sentence.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from silas.kernel import DatabaseError, SilasError
from silas.queue.bus import Bus, Taker
from silas.queue.errors import LeaseLost, MessageRefused, NoRoute, NotWorthRetrying
from silas.queue.leases import Lease
from silas.queue.models import QueueMessage, QueueName
from silas.queue.store import QueueStore, Write
from silas.storage import Durability

_log = logging.getLogger(__name__)

_HOPELESS = (NotWorthRetrying, NoRoute, MessageRefused)
_HEARTBEATS_PER_LEASE = 3
_CALM_DOWN_SECONDS = 0.5


@dataclass(frozen=True)
class Handled:
    """What is to be committed for a message that was handled."""

    messages: tuple[QueueMessage, ...] = ()
    writes: tuple[Write, ...] = ()
    """Their only effects are those on the transaction: they may be run again."""
    durability: Durability = Durability.ORDINARY
    after: tuple[Callable[[], Awaitable[None]], ...] = ()
    """What is to be known in memory once it is committed. A crash may leave it out."""


Handler = Callable[[Lease], Awaitable[Handled]]


@dataclass(eq=False)
class Consumer:
    """Handles the messages of one queue, several at a time if `concurrency` says so."""

    name: str
    queue: QueueName
    handler: Handler
    store: QueueStore
    bus: Bus | None = None
    """The store's own, unless another is given."""
    concurrency: int = 1
    lease_seconds: float = 60.0
    _working: dict[asyncio.Task[bool], Lease] = field(default_factory=dict, init=False, repr=False)
    _left_over: list[Lease] | None = field(default=None, init=False, repr=False)
    _look_again: bool = field(default=False, init=False, repr=False)
    _troubled: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self._wake: Callable[[], None] = lambda: None
        self._taker = Taker(
            self.queue,
            consumer=self.name,
            seconds=self.lease_seconds,
            hands=self.concurrency,
            deliver=self._begin,
        )

    async def run(self) -> None:
        """Go on until cancelled. What is not finished then is given back at once."""
        bus = self.bus or self.store.bus
        beat = asyncio.create_task(self._beat(), name=f"{self.name} heartbeat")
        try:
            with bus.waker(self.queue) as waker, bus.taking(self._taker):
                self._wake = waker.wake
                await self._lease_what_is_there()
                while True:
                    if await waker.wait() or await self._sees_work():
                        await self._lease_what_is_there()
        finally:
            beat.cancel()
            await self._give_everything_back()

    async def run_until_empty(self) -> None:
        """Handle what can be handled now, then return; for tools and tests."""
        while True:
            await self._lease_what_is_there()
            if not self._working:
                return
            await asyncio.wait(tuple(self._working), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)

    async def _lease_what_is_there(self) -> None:
        hands = self._taker.free
        if hands <= 0:
            self._look_again = True
            return
        self._taker.promise(hands)
        leasing = asyncio.ensure_future(self._lease(hands))
        # Also if this consumer is stopped meanwhile: what was leased must then be given back.
        leasing.add_done_callback(lambda done: self._taker.settle(hands, _leased(done)))
        if not await asyncio.shield(leasing) and self._troubled:
            await asyncio.sleep(_CALM_DOWN_SECONDS)

    async def _lease(self, hands: int) -> list[Lease]:
        try:
            leases = await self.store.lease_many(
                self.queue, consumer=self.name, seconds=self.lease_seconds, limit=hands
            )
        except DatabaseError as error:
            # A full disk or a locked file may be better in a moment; the messages are safe.
            _log.warning("%s: %s [%s]", self.name, error.message, error.code)
            self._wake()
            self._troubled = True
            return []
        self._troubled = False
        return leases

    def _begin(self, leases: Sequence[Lease]) -> None:
        if self._left_over is not None:
            self._left_over.extend(leases)
            return
        for lease in leases:
            task = asyncio.create_task(self._serve(lease), name=lease.message.message_id)
            self._working[task] = lease
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[bool]") -> None:
        self._taker.free_hand(self._working.pop(task).message.message_id)
        failed = task.cancelled() or task.exception() is not None
        if failed and not task.cancelled():
            _log.error("%s: a message was not ended properly", self.name, exc_info=task.exception())
        if self._look_again or failed or not task.result():
            self._look_again = False
            self._wake()

    async def _release(self, lease: Lease) -> None:
        # It may have been committed in the very moment when it was to stop.
        with contextlib.suppress(LeaseLost), _ending_as_the_store_can(self.name):
            await self.store.release(lease)

    async def _sees_work(self) -> bool:
        try:
            return await self.store.has_work(self.queue)
        except DatabaseError:
            return True

    async def _serve(self, lease: Lease) -> bool:
        """Handle a message; True if its commit has also looked for the next one."""
        message_id = lease.message.message_id
        if len(self._working) > 1:
            await self._stop_earlier(lease)
        try:
            if lease.processed:
                await self.store.ack(lease)
                return False
            handled = await self.handler(lease)
            await self._commit(lease, handled)
            await self._tell(handled)
        except LeaseLost as error:
            _log.warning("%s: %s [%s]", self.name, error.message, error.code)
        except _HOPELESS as error:
            await self._give_up(lease, error.message)
        except SilasError as error:
            _log.warning("%s: %s: %s [%s]", self.name, message_id, error.message, error.code)
            await self._try_again(lease, f"{error.message} [{error.code}]")
        except Exception as error:  # noqa: BLE001 - one bad handler must not stop the others
            _log.exception("%s: %s failed", self.name, message_id)
            await self._try_again(lease, f"{type(error).__name__}: {error}")
        else:
            return True
        return False

    async def _stop_earlier(self, lease: Lease) -> None:
        """End what is still being done about the same message under a lease that has run out.

        The clock may have jumped, or the machine slept. Two at once would do everything twice.
        """
        message_id, now = lease.message.message_id, asyncio.current_task()
        earlier = [
            task
            for task, held in self._working.items()
            if held.message.message_id == message_id and task is not now
        ]
        for task in earlier:
            task.cancel()
        if earlier:
            await asyncio.gather(*earlier, return_exceptions=True)

    async def _commit(self, lease: Lease, handled: Handled) -> None:
        await self.store.finish(
            lease,
            consumer=self.name,
            messages=handled.messages,
            writes=handled.writes,
            durability=handled.durability,
            taker=self._taker,
        )

    async def _tell(self, handled: Handled) -> None:
        """Whatever goes wrong here, the message is done."""
        for after in handled.after:
            try:
                await after()
            except Exception:  # noqa: BLE001 - it is done, and must not be tried again
                _log.exception("%s: what was committed is not known in memory", self.name)

    async def _try_again(self, lease: Lease, reason: str) -> None:
        with contextlib.suppress(LeaseLost), _ending_as_the_store_can(self.name):
            await self.store.nack(lease, reason=reason)

    async def _give_up(self, lease: Lease, reason: str) -> None:
        with contextlib.suppress(LeaseLost), _ending_as_the_store_can(self.name):
            await self.store.dead_letter(lease, reason=reason)

    async def _beat(self) -> None:
        """Hold the leases of everything that is being worked on."""
        while True:
            await asyncio.sleep(self.lease_seconds / _HEARTBEATS_PER_LEASE)
            for task, lease in tuple(self._working.items()):
                try:
                    await self.store.heartbeat(lease, seconds=self.lease_seconds)
                except LeaseLost:
                    # If it has ended by now, that is why. If not, its result could not be kept.
                    task.cancel()
                except DatabaseError as error:
                    _log.warning("%s: %s [%s]", self.name, error.message, error.code)

    async def _give_everything_back(self) -> None:
        unfinished, self._left_over = dict(self._working), []
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await self._taker.quiet()
        stopped = [lease for task, lease in unfinished.items() if task.cancelled()]
        for lease in [*stopped, *self._left_over]:
            await self._release(lease)
        self._left_over = None


def _leased(done: "asyncio.Future[list[Lease]]") -> list[Lease]:
    """What a lease gave; nothing if it failed, so that nobody waits for it at the end."""
    return [] if done.cancelled() or done.exception() else done.result()


@contextlib.contextmanager
def _ending_as_the_store_can(name: str) -> Iterator[None]:
    """If a lease cannot be ended, it runs out by itself and the message is given out again."""
    try:
        yield
    except DatabaseError as error:
        _log.warning("%s: %s [%s]", name, error.message, error.code)
