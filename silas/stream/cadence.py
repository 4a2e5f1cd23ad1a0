"""How fast the owner decides, and how much waits: cues that block nothing and delay nothing."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from silas.kernel import Clock
from silas.stream.decision_log import RISKY, Decided, decisions

FATIGUE = "approval_fatigue"
_WINDOW = timedelta(hours=24)
_LOOKED_AT = 10
"""So many of the last risky decisions."""
_FEWEST = 5
_TOO_FAST_SECONDS = 1.0
_CROWD = 5
_ENTRIES = 2000
_AGAIN = timedelta(hours=1)


class Log(Protocol):
    """The audit log."""

    async def tail(
        self, count: int, *, event: str = "*", since: datetime | None = None
    ) -> list[Any]:
        """The last entries, oldest first."""
        ...

    async def log(self, event: str, /, **data: Any) -> str:
        """Write an entry."""
        ...


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


@dataclass(frozen=True)
class CadenceWatch:
    """Looks at the log after each decision."""

    log: Log
    clock: Clock

    async def now(self) -> Cadence:
        """The cadence of the last day."""
        since = self.clock.now() - _WINDOW
        return cadence_of(
            list(decisions(await self.log.tail(_ENTRIES, event="card_*", since=since)))
        )

    async def note(self) -> Cadence:
        """The same; if it is too fast, that is written down, once in an hour."""
        cadence = await self.now()
        if cadence.hasty:
            since = self.clock.now() - _AGAIN
            if not await self.log.tail(1, event=FATIGUE, since=since):
                await self.log.log(
                    FATIGUE, median_seconds=cadence.median_seconds, samples=cadence.samples
                )
        return cadence
