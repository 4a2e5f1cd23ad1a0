"""What waking needs from others: somebody who runs a companion, and the owner's time zone."""

from collections.abc import Callable
from typing import Protocol

from silas.companions.models import AgentState, Companion, RunOutcome, WakeJob


class CompanionRuns(Protocol):
    """Carries out one wake. It writes nothing of the outcome itself: the worker commits it."""

    async def run(
        self,
        job: WakeJob,
        companion: Companion,
        state: AgentState,
        *,
        stopping: Callable[[], bool],
    ) -> RunOutcome:
        """What came of it; `stopping` says whether the owner has called it off meanwhile."""
        ...


class OwnersZone(Protocol):
    """Where the owner is."""

    def time_zone(self) -> str:
        """The IANA name of the zone that the owner's clocks show now."""
        ...
