"""Who is let in when more comes than can be worked off.

1. In each conversation a limited number of turns waits, and altogether as well.
2. As many places as one conversation has are kept for the owner: everybody else is refused first.
3. Each conversation, and each sender in whatever conversation, may say so much in a minute.
4. Whoever is refused is told when to come again. Nothing of the message is kept.
5. Decisions about cards, and stopping work, do not come this way. They are never refused.

`Intake` writes a message down before anybody is told that it was taken. At the end `Busy` lets what
has begun finish, and gives back what begins now.
"""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from silas.kernel import Clock, IdFactory, TaintLevel
from silas.kernel.ids import conversation_scope, person_of
from silas.queue import Handled, Handler, Lease
from silas.queue.models import Agent, MessageKind, QueueMessage, QueueName, Urgency, UserMessage
from silas.queue.store import QueueStore
from silas.storage import Transaction
from silas.stream.errors import BusyRetry, NotTaken
from silas.stream.limits import RateLimit

_SECONDS_PER_WAITING = 0.25
_SOONEST, _LATEST = 1, 60


@dataclass
class Admission:
    """The door of the conversation."""

    queue: QueueStore
    per_scope: RateLimit
    per_sender: RateLimit
    owner_id: str
    most_per_scope: int
    most_total: int
    _coming: Counter[str] = field(default_factory=Counter)
    """Let in, and not yet on the bus."""

    @contextlib.asynccontextmanager
    async def admitted(self, said: UserMessage) -> AsyncIterator[None]:
        """A place for this message while it is being put on the bus; raises `BusyRetry`."""
        scope = conversation_scope(said.connection_id, said.conversation)
        self._coming[scope] += 1
        try:
            await self._require_place(scope)  # 1, 2
            self._require_pace(scope, said)  # 3
            yield
        finally:
            self._coming[scope] -= 1
            if not self._coming[scope]:
                del self._coming[scope]

    async def _require_place(self, scope: str) -> None:
        here, everywhere = await self.queue.waiting(QueueName.PROXY, scope)
        here += self._coming[scope]
        everywhere += self._coming.total()
        if here > self.most_per_scope:
            raise _busy(here)
        if everywhere > self._most_for(scope):
            raise _busy(everywhere)

    def _most_for(self, scope: str) -> int:
        """Rule 2. The owner's own conversations always have their places."""
        if person_of(scope) == self.owner_id:
            return self.most_total + self.most_per_scope
        return max(1, self.most_total - self.most_per_scope)

    def _require_pace(self, scope: str, said: UserMessage) -> None:
        sender = f"{said.channel}/{said.sender_id}"
        wait = max(self.per_scope.wait(scope), self.per_sender.wait(sender))
        if wait > 0:
            raise busy_for(wait)
        self.per_scope.take(scope)
        self.per_sender.take(sender)


def _busy(waiting: int) -> BusyRetry:
    return busy_for(waiting * _SECONDS_PER_WAITING)


def busy_for(seconds: float) -> BusyRetry:
    """What whoever comes too often is told (rule 4)."""
    whole = min(max(math.ceil(seconds), _SOONEST), _LATEST)
    when = "a second" if whole == 1 else f"{whole} seconds"
    told = f"Silas has more to do than it can take at once. Send it again in {when}."
    return BusyRetry(told, retry_after_seconds=whole)


class Intake:
    """Takes messages from channels. Once `accept` returns, the message will be answered."""

    def __init__(
        self, queue: QueueStore, *, clock: Clock, ids: IdFactory, admission: Admission
    ) -> None:
        self._admission = admission
        self._queue = queue
        self._clock = clock
        self._ids = ids
        self._open = True

    def close(self) -> None:
        """Take nothing more."""
        self._open = False

    async def accept(
        self,
        text: str,
        said: UserMessage,
        *,
        message_id: str | None = None,
        record: Callable[[Transaction, QueueMessage], object] | None = None,
    ) -> QueueMessage:
        """Take a message in; with the channel's own id for it, a repetition is the same message.

        Each connection is a scope of its own, and so is each conversation of the owner's; nobody
        else has several. Who is speaking is found out in the turn: until then
        the message counts as a stranger's. Raises `NotTaken`, or `BusyRetry` with the time to wait.
        `record` writes something about it in the transaction that accepts it.
        """
        if not self._open:
            raise NotTaken
        if said.conversation is not None and said.connection_id != self._admission.owner_id:
            raise NotTaken("Only the owner has several conversations. Say it in this one.")
        name = message_id or self._ids.new("msg")
        message = QueueMessage(
            message_id=name,
            trace_id=f"trace_{name}",
            content=text,
            sender=Agent.USER,
            message_kind=MessageKind.USER_MESSAGE,
            scope_id=conversation_scope(said.connection_id, said.conversation),
            taint=TaintLevel.EXTERNAL,
            created_at=self._clock.now(),
            payload=said,
            urgency=self._urgency(said),
        )
        async with self._admission.admitted(said):
            writes = () if record is None else (lambda tx: record(tx, message),)
            await self._queue.enqueue(message, writes=writes)
        return message

    def _urgency(self, said: UserMessage) -> Urgency:
        """The owner does not wait behind strangers."""
        owner = said.connection_id == self._admission.owner_id
        return Urgency.NEEDS_ATTENTION if owner else Urgency.INFORMATIONAL


@dataclass
class Busy:
    """Counts the handlers at work. When it drains, those that begin wait to be given back."""

    _count: int = 0
    _draining: bool = False
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def watching(self, handler: Handler) -> Handler:
        """The handler, counted."""

        async def counted(lease: Lease) -> Handled:
            if self._draining:
                await asyncio.Event().wait()
            self._count += 1
            try:
                return await handler(lease)
            finally:
                self._count -= 1
                if not self._count:
                    self._idle.set()

        return counted

    async def drain(self, seconds: float) -> None:
        """Begin nothing more, and wait until nobody works."""
        self._draining = True
        if self._count:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
