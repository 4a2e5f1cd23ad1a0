"""When companions wake by the clock: seen, set and switched off by the owner."""

from collections.abc import Sequence

from silas.companions.lifecycle import Lifecycle
from silas.companions.models import AgentTimer, Companion
from silas.companions.schedules import TimerWish, weekly
from silas.companions.store import CompanionStore
from silas.companions.timers import zone_of
from silas.companions.views import TimerView
from silas.companions.words import spoken_timer
from silas.work.ports import AuditTrail


class Schedules:
    """The part of the owner's desk that has the clock on it."""

    _store: CompanionStore
    _lifecycle: Lifecycle
    _audit: AuditTrail

    async def timers(self, agent_id: str) -> tuple[TimerView, ...]:
        """The timers of a companion, the oldest first; raises `CompanionUnknown`."""
        await self._store.require(Companion, agent_id)
        book = self._lifecycle.timers
        return tuple(_view(each, book.zone) for each in await book.of(agent_id))

    async def set_timers(self, agent_id: str, timers: Sequence[TimerWish]) -> tuple[TimerView, ...]:
        """Add, change, switch and remove timers, all or none; raises `CompanionInvalid`.

        A timer that is not named stays as it is. What is changed rings from now on.
        """
        await self._store.require(Companion, agent_id)
        await self._lifecycle.timers.change(agent_id, timers)
        await self._audit.log("companion_configured", agent_id=agent_id, what="timers")
        return await self.timers(agent_id)


def _view(timer: AgentTimer, owners_zone: str) -> TimerView:
    when = weekly(timer)
    return TimerView(
        id=timer.id,
        words=spoken_timer(timer),
        kind=timer.kind,
        at=when.at if when else None,
        days=when.days if when else (),
        active=timer.active,
        next_run_at=timer.next_run_at if timer.active else None,
        time_zone=zone_of(timer, owners_zone).key,
    )
