"""A companion's timers: made, changed as the owner wishes, taken away; all of it or nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.models import AgentTimer, TimerKind
from silas.companions.schedules import TimerWish, intent, weekly
from silas.companions.store import CompanionStore
from silas.companions.timers import check_timer, next_run, scheduled
from silas.companions.wake.ports import OwnersZone
from silas.companions.words import spoken_timer
from silas.storage import Transaction

_MOST = 20
"""Nobody reads a longer list of times."""


@dataclass(frozen=True)
class TimerDraft:
    """When a companion is to be woken."""

    kind: TimerKind
    expression: str
    time_zone: str | None = None


class TimerBook:
    """Writes timers; `poke_alarms` is called after each change, so that the nearest one rings."""

    def __init__(
        self, store: CompanionStore, *, zone: OwnersZone, poke_alarms: Callable[[], None]
    ) -> None:
        self._store = store
        self._zone = zone
        self._poke = poke_alarms

    @property
    def zone(self) -> str:
        """Where the owner is."""
        return self._zone.time_zone()

    async def of(self, agent_id: str) -> list[AgentTimer]:
        """The timers of a companion that ring or can be switched on again, the oldest first."""
        found = await self._store.find(AgentTimer, {"agent_id": agent_id})
        known = [shown for each in found if (shown := self._shown(each)) is not None]
        return sorted(known, key=lambda each: (each.created_at, each.id))

    def draft(self, agent_id: str, draft: TimerDraft) -> AgentTimer:
        """A timer that is not written yet; raises `CompanionInvalid`."""
        now = self._store.clock.now()
        timer = AgentTimer(
            id=self._store.ids.new("timer"),
            agent_id=agent_id,
            kind=draft.kind,
            expression=draft.expression,
            time_zone=draft.time_zone,
            created_at=now,
            updated_at=now,
        )
        return self._scheduled(timer)

    async def add(self, agent_id: str, draft: TimerDraft) -> AgentTimer:
        """Wake a companion at one time more; raises `CompanionInvalid`."""
        timer = await self._store.put(self.draft(agent_id, draft))
        self._poke()
        return timer

    async def remove(self, timer_id: str) -> None:
        """Wake a companion at one time less."""
        await self._store.delete(AgentTimer, timer_id)
        self._poke()

    async def change(self, agent_id: str, wishes: Sequence[TimerWish]) -> None:
        """Make the timers as the owner wishes; one wish that cannot be, and nothing is changed."""
        named = [each.id for each in wishes if each.id is not None]
        if len(set(named)) < len(named):
            raise CompanionInvalid("One timer was named twice. Nothing was changed.")

        def write(tx: Transaction) -> None:
            made = [self._fulfil_in(tx, agent_id, wish) for wish in wishes]
            self._require_sense_in(tx, agent_id, {each.id for each in made if each is not None})

        await self._store.transaction(write)
        self._poke()

    def _fulfil_in(self, tx: Transaction, agent_id: str, wish: TimerWish) -> AgentTimer | None:
        """The timer, if it is another one now."""
        if wish.id is None:
            fresh = self.draft(agent_id, TimerDraft(*intent(wish, None)))
            return self._store.put_in(tx, self._changed(fresh, wish))
        known = self._store.get_in(tx, AgentTimer, wish.id)
        if known is None or known.agent_id != agent_id:
            raise CompanionUnknown("This timer is not there any more. Nothing was changed.")
        if wish.remove:
            self._store.delete_in(tx, AgentTimer, known.id)
            return None
        changed = self._changed(known, wish)
        return self._store.put_in(tx, changed) if changed != known else None

    def _changed(self, known: AgentTimer, wish: TimerWish) -> AgentTimer:
        """The timer as wanted. What rings anew rings from now on: nothing is made up for."""
        kind, expression = intent(wish, known)
        active = known.active if wish.active is None else wish.active
        if (kind, expression, active) == (known.kind, known.expression, known.active):
            return known
        now = self._store.clock.now()
        changes = {"kind": kind, "expression": expression, "active": active, "next_run_at": None}
        timer = self._scheduled(known.model_copy(update={**changes, "updated_at": now}))
        if active and timer.next_run_at is None:
            raise CompanionInvalid("This moment has passed. Nothing was changed.")
        return timer if active else timer.model_copy(update={"next_run_at": None})

    def _scheduled(self, timer: AgentTimer) -> AgentTimer:
        check_timer(timer)
        return scheduled(timer, self._store.clock.now(), owners_zone=self.zone)

    def _shown(self, timer: AgentTimer) -> AgentTimer | None:
        """As it rings: what makes no sense is silent; a single moment that has passed is over."""
        try:
            check_timer(timer)
        except CompanionInvalid:
            return timer.model_copy(update={"active": False})
        now = self._store.clock.now()
        over = not timer.active and next_run(timer, now, owners_zone=self.zone) is None
        return None if over else timer

    def _require_sense_in(self, tx: Transaction, agent_id: str, changed: set[str]) -> None:
        """What was changed must not be too much, or the same as another one."""
        found = self._store.find_in(tx, AgentTimer, {"agent_id": agent_id})
        rings = [each for each in found if each.kind is not TimerKind.ONCE]
        if changed and len(rings) > _MOST:
            raise CompanionInvalid(f"A companion has at most {_MOST} timers. Nothing was changed.")
        for timer in (each for each in rings if each.id in changed and each.active):
            alike = [each for each in rings if each.active and _same(each, timer)]
            if len(alike) > 1:
                raise CompanionInvalid(
                    f"It wakes {spoken_timer(timer)} already. Nothing was changed."
                )


def _same(one: AgentTimer, other: AgentTimer) -> bool:
    return _meaning(one) == _meaning(other)


def _meaning(timer: AgentTimer) -> tuple[object, str | None]:
    return weekly(timer) or (timer.kind, timer.expression), timer.time_zone
