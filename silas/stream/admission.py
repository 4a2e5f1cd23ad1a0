"""Who is let in when more comes than can be worked off.

1. In each conversation a limited number of turns waits, and altogether as well.
2. As many places as one conversation has are kept for the owner: everybody else is refused first.
3. Each conversation, and each sender in whatever conversation, may say so much in a minute.
4. Whoever is refused is told when to come again. Nothing of the message is kept.
5. Decisions about cards, and stopping work, do not come this way. They are never refused.
"""

import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from silas.queue.models import QueueName, UserMessage
from silas.stream.errors import BusyRetry
from silas.stream.limits import RateLimit

_SECONDS_PER_WAITING = 0.25
_SOONEST, _LATEST = 1, 60


class Waiting(Protocol):
    """The bus, as far as it says how much waits."""

    async def waiting(self, queue: QueueName, scope_id: str) -> tuple[int, int]:
        """How many messages of this scope, and how many altogether."""
        ...


@dataclass
class Admission:
    """The door of the conversation."""

    queue: Waiting
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
        scope = said.connection_id
        self._coming[scope] += 1
        try:
            await self._require_place(scope)  # 1, 2
            self._require_pace(said)  # 3
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
        """Rule 2. The owner's own conversation always has its places."""
        if scope == self.owner_id:
            return self.most_total + self.most_per_scope
        return max(1, self.most_total - self.most_per_scope)

    def _require_pace(self, said: UserMessage) -> None:
        sender = f"{said.channel}/{said.sender_id}"
        wait = max(self.per_scope.wait(said.connection_id), self.per_sender.wait(sender))
        if wait > 0:
            raise busy_for(wait)
        self.per_scope.take(said.connection_id)
        self.per_sender.take(sender)


def _busy(waiting: int) -> BusyRetry:
    return busy_for(waiting * _SECONDS_PER_WAITING)


def busy_for(seconds: float) -> BusyRetry:
    """What whoever comes too often is told (rule 4)."""
    whole = min(max(math.ceil(seconds), _SOONEST), _LATEST)
    when = "a second" if whole == 1 else f"{whole} seconds"
    told = f"Silas has more to do than it can take at once. Send it again in {when}."
    return BusyRetry(told, retry_after_seconds=whole)
