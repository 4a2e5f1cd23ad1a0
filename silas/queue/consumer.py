"""Consumers: they keep the contract of the bus, so that handlers need not know it.

For every message that it leases, a consumer

1. asks whether it was processed before; if so, it ends the lease and does nothing else;
2. lets the handler work, and holds the lease for as long as that takes;
3. commits in one transaction: the handler's writes, the messages that follow, the mark that it was
   processed, and the end of the lease. If the lease was lost, nothing of it remains;
4. if the handler fails, gives the message back to be tried again, or gives it up with a sentence;
   if it says that the time has not come (`NotYet`), gives it back until then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from silas.kernel import DatabaseError, SilasError
from silas.queue.errors import LeaseLost, MessageRefused, NoRoute, NotWorthRetrying, NotYet
from silas.queue.models import QueueMessage, QueueName
from silas.queue.store import Bus, QueueStore, Write
from silas.queue.table import Lease
from silas.storage import Durability

_log = logging.getLogger(__name__)

_HOPELESS = (NotWorthRetrying, NoRoute, MessageRefused)
_HEARTBEATS_PER_LEASE = 3
_PAUSE_AFTER_ERROR_SECONDS = 0.5


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
    _working: dict[asyncio.Task[None], Lease] = field(default_factory=dict, init=False, repr=False)
    _leasing: "asyncio.Future[list[Lease]] | None" = field(default=None, init=False, repr=False)
    _woken: asyncio.Event = field(default_factory=asyncio.Event, init=False, repr=False)
    """Something has come, or a slot has become free."""

    async def run(self) -> None:
        """Go on until cancelled. What is not finished then is given back at once."""
        bus = self.bus or self.store.bus
        beat = asyncio.create_task(self._beat(), name=f"{self.name} heartbeat")
        try:
            with bus.listening(self.queue) as self._woken:
                await self._fill_slots()
                while True:
                    if await self._wait(bus.poll_seconds) or await self._sees_work():
                        await self._fill_slots()
        finally:
            beat.cancel()
            await self._give_everything_back()

    async def run_until_empty(self) -> None:
        """Handle what can be handled now, then return; for tools and tests."""
        while True:
            await self._fill_slots()
            if not self._working:
                return
            await asyncio.wait(tuple(self._working), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)

    async def _wait(self, poll_seconds: float) -> bool:
        """Wait until there may be something to do; False if only the time for a poll has come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(poll_seconds):
                await self._woken.wait()
        woken = self._woken.is_set()
        self._woken.clear()
        return woken

    async def _fill_slots(self) -> None:
        """Lease as many messages as there are free slots, and begin to work on them."""
        free = self.concurrency - len(self._working)
        if free <= 0:
            return  # the end of any work wakes this consumer again
        self._leasing = asyncio.ensure_future(
            self.store.lease_many(
                self.queue, consumer=self.name, seconds=self.lease_seconds, limit=free
            )
        )
        try:
            # If this consumer is stopped meanwhile, what was leased has to be given back.
            leases = await asyncio.shield(self._leasing)
        except DatabaseError as error:
            # A full disk or a locked file may be better in a moment; the messages are safe.
            _log.warning("%s: %s [%s]", self.name, error.message, error.code)
            self._woken.set()
            await asyncio.sleep(_PAUSE_AFTER_ERROR_SECONDS)
            return
        self._leasing = None
        for lease in leases:
            task = asyncio.create_task(self._serve(lease), name=lease.message.message_id)
            self._working[task] = lease
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._working[task]
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s: a message was not ended properly", self.name, exc_info=task.exception())
        if len(self._working) + 1 >= self.concurrency:  # what came meanwhile had to wait
            self._woken.set()

    async def _sees_work(self) -> bool:
        try:
            return await self.store.has_work(self.queue)
        except DatabaseError:
            return True

    async def _serve(self, lease: Lease) -> None:
        message_id = lease.message.message_id
        if len(self._working) > 1:
            await self._stop_earlier(lease)
        try:
            if lease.processed:
                await self.store.ack(lease)
                return
            handled = await self.handler(lease)
            await self.store.finish(
                lease,
                consumer=self.name,
                messages=handled.messages,
                writes=handled.writes,
                durability=handled.durability,
            )
            await self._tell(handled)
        except NotYet as later:
            with self._ending():
                await self.store.postpone(lease, until=later.until)
        except LeaseLost as error:
            _log.warning("%s: %s [%s]", self.name, error.message, error.code)
        except _HOPELESS as error:
            with self._ending():
                await self.store.dead_letter(lease, reason=error.message)
        except SilasError as error:
            _log.warning("%s: %s: %s [%s]", self.name, message_id, error.message, error.code)
            with self._ending():
                await self.store.nack(lease, reason=f"{error.message} [{error.code}]")
        except Exception as error:  # noqa: BLE001 - one bad handler must not stop the others
            _log.exception("%s: %s failed", self.name, message_id)
            with self._ending():
                await self.store.nack(lease, reason=f"{type(error).__name__}: {error}")

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

    async def _tell(self, handled: Handled) -> None:
        """Whatever goes wrong here, the message is done."""
        for after in handled.after:
            try:
                await after()
            except Exception:  # noqa: BLE001 - it is done, and must not be tried again
                _log.exception("%s: what was committed is not known in memory", self.name)

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
        unfinished = dict(self._working)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        leases = [lease for task, lease in unfinished.items() if task.cancelled()]
        if self._leasing is not None:
            [leased] = await asyncio.gather(self._leasing, return_exceptions=True)
            leases += leased if isinstance(leased, list) else []
            self._leasing = None
        for lease in leases:
            with self._ending():
                await self.store.release(lease)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """A lease that cannot be ended runs out by itself; one that is lost was ended before."""
        try:
            yield
        except LeaseLost:
            pass
        except DatabaseError as error:
            _log.warning("%s: %s [%s]", self.name, error.message, error.code)
