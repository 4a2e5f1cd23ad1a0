"""How fast the owner decides, and how much waits: cues that block nothing and delay nothing."""

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from silas.audit.models import AuditEntry, AuditTrail
from silas.kernel import Clock, format_timestamp
from silas.review.decision_log import RISKY, Decided, decisions

FATIGUE = "approval_fatigue"
_WINDOW = timedelta(hours=24)
_LOOKED_AT = 10
"""So many of the last risky decisions."""
_FEWEST = 5
_TOO_FAST_SECONDS = 1.0
_CROWD = 5
_ENTRIES = 2000
_FIRST_LOOK = 5000
_AGAIN = timedelta(hours=1)


@dataclass(frozen=True)
class Cadence:
    """How the owner's decisions are going."""

    median_seconds: float | None
    samples: int

    @property
    def hasty(self) -> bool:
        """Whether they are made faster than anybody reads."""
        return self.median_seconds is not None and self.median_seconds < _TOO_FAST_SECONDS


def cadence_of(made: Sequence[Decided]) -> Cadence:
    """The cadence of the last decisions of at least medium risk."""
    risky = [each.seconds for each in made if each.risk in RISKY][-_LOOKED_AT:]
    if len(risky) < _FEWEST:
        return Cadence(None, len(risky))
    return Cadence(statistics.median(risky), len(risky))


def is_crowded(risks: Sequence[str]) -> bool:
    """Whether more decisions of at least medium risk wait than one looks at with care."""
    return sum(risk in RISKY for risk in risks) > _CROWD


@dataclass
class CadenceWatch:
    """Looks at the log after each decision; what it has read of the last day, it remembers."""

    log: AuditTrail
    clock: Clock
    _cards: list[AuditEntry] = field(default_factory=list, init=False, repr=False)
    _read_to: int = field(default=0, init=False, repr=False)
    _noted_at: datetime | None = field(default=None, init=False, repr=False)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    async def now(self) -> Cadence:
        """The cadence of the last day; the first look goes back only so many entries."""
        async with self._reading:
            head, since = await self._head(), self.clock.now() - _WINDOW
            after = max(self._read_to, head - _FIRST_LOOK)
            if head > after:
                new = await self.log.tail(_ENTRIES, event="card_*", since=since, after=after)
                # What was written while it was read is read again the next time.
                self._cards += [entry for entry in new if entry.seq <= head]
                self._read_to = head
            oldest = format_timestamp(since)
            self._cards = [entry for entry in self._cards if entry.at >= oldest][-_ENTRIES:]
        return cadence_of(list(decisions(self._cards)))

    async def note(self) -> Cadence:
        """The same; if it is too fast, that is written down, once in an hour."""
        cadence = await self.now()
        if cadence.hasty:
            async with self._reading:
                if not await self._noted_lately():
                    await self.log.log(
                        FATIGUE, median_seconds=cadence.median_seconds, samples=cadence.samples
                    )
                    self._noted_at = self.clock.now()
        return cadence

    async def _noted_lately(self) -> bool:
        """Whether it was written down within the hour, here or before a restart."""
        since = self.clock.now() - _AGAIN
        if self._noted_at is not None:
            return self._noted_at >= since
        after = max(0, await self._head() - _FIRST_LOOK)
        return bool(await self.log.tail(1, event=FATIGUE, since=since, after=after))

    async def _head(self) -> int:
        """The number of the newest entry."""
        newest = await self.log.tail(1)
        return newest[0].seq if newest else 0
