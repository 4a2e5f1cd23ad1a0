"""How the loops come to an end: what has begun may finish, what begins now is given back."""

import asyncio
import contextlib
from dataclasses import dataclass, field

from silas.queue import Handled, Handler, Lease


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
