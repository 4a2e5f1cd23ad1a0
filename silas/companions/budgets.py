"""Budgets: what a companion may use in one local day.

1. A day is the owner's, by the clock on the wall: also one of 23 or 25 hours.
2. What was used is on disk at once, so that a restart gives nothing back. Each host counts its own
   part, and the sum over all of them counts.
3. At a hard limit everything that would use more is refused (`budget_exceeded`). From the soft
   share on the owner is told.
4. What a question to a model may use is set aside before it is asked: half of a day's budget at
   most, and no more than is left. When it is answered, what it has used is counted instead. When
   nobody knows what it has used, because it was called off or the process died, everything that was
   set aside counts; of the time, what has passed.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from silas.companions.errors import AgentDestroyed, BudgetExceeded
from silas.companions.ids import budget_window_id
from silas.companions.models import (
    BudgetLimits,
    BudgetReservation,
    BudgetUsage,
    BudgetWindow,
    Companion,
)
from silas.companions.ports import CallAllowance
from silas.companions.store import CompanionStore, among
from silas.kernel.models import Data
from silas.storage import Reader, Transaction

MICRO = 1_000_000
_MEASURES = ("tokens", "cost_micro_usd", "runtime_ms", "tool_calls")
_WITHOUT_LIMIT = {"tokens": 400_000, "cost_micro_usd": 2 * MICRO, "runtime_ms": 1_200_000}
_WINDOWS = "SELECT body FROM agent_budget_windows WHERE window_start_local_date = ?{these}"
_SETTLED = "DELETE FROM agent_budget_reservations WHERE id = ?"


class BudgetState(Data):
    """What is left of today."""

    local_date: date
    used: BudgetUsage
    limits: dict[str, int | None]
    over_soft: tuple[str, ...] = ()
    """Of which the owner should be warned."""
    over_hard: tuple[str, ...] = ()
    """What is used up."""


class Budgets:
    """The budget windows of this device's companions."""

    def __init__(self, store: CompanionStore, *, time_zone: Callable[[], str]) -> None:
        self._store = store
        self._time_zone = time_zone

    async def state(self, companion: Companion) -> BudgetState:
        """How much of today's budget is used."""
        key = budget_window_id(companion.id, self.today())
        window = await self._store.get(BudgetWindow, key)
        return _state(companion, self.today(), window)

    async def states(
        self, companions: Sequence[Companion], *, everybody: bool = False
    ) -> dict[str, BudgetState]:
        """The same for many, by companion; for `everybody` in one look at today's windows."""
        today = self.today()
        keys = None if everybody else [budget_window_id(each.id, today) for each in companions]
        sql, params = among(_WINDOWS, "id", keys)
        rows = await self._store.database.fetch_all(sql, (today.isoformat(), *params))
        windows = [BudgetWindow.model_validate_json(body) for (body,) in rows]
        used = {each.agent_id: each for each in windows}
        # Most have used nothing of the same budget: they are told the same.
        unused: dict[BudgetLimits, BudgetState] = {}
        found = {}
        for each in companions:
            if each.id in used:
                found[each.id] = _state(each, today, used[each.id])
            else:
                limits = each.config.budget
                found[each.id] = unused.get(limits) or unused.setdefault(
                    limits, _state(each, today, None)
                )
        return found

    async def require(self, companion: Companion, **wanted: int) -> BudgetState:
        """Raise `BudgetExceeded` if nothing is left, or if this much more would be too much."""
        state = await self.state(companion)
        _require(companion, state, wanted)
        return state

    def reserve_in(self, tx: Transaction, companion: Companion) -> BudgetReservation:
        """Set aside what one question to a model may use (rule 4); raises `BudgetExceeded`."""
        today = self.today()
        window = self._store.get_in(tx, BudgetWindow, budget_window_id(companion.id, today))
        mine = {"agent_id": companion.id, "window_start_local_date": today}
        others = [each.usage for each in self._store.find_in(tx, BudgetReservation, mine)]
        state = _state(companion, today, window, set_aside=others)
        _require(companion, state, {})
        return self._store.put_in(
            tx,
            BudgetReservation(
                id=self._store.ids.new("reservation"),
                agent_id=companion.id,
                window_start_local_date=today,
                time_zone=self._time_zone(),
                usage=_for_one_question(state),
                created_at=self._store.clock.now(),
            ),
        )

    async def settle(self, reserved: BudgetReservation, used: BudgetUsage) -> None:
        """Count what a question has used instead of what was set aside for it, once."""
        await self._store.transaction(lambda tx: self._settle_in(tx, reserved, used))

    async def settle_dead(self) -> int:
        """At the start: the process that had set this aside is gone, and all of it counts."""
        left = await self._store.find(BudgetReservation)
        for each in left:
            passed = max(timedelta(), self._store.clock.now() - each.created_at)
            longest = min(each.usage.runtime_ms, passed // timedelta(milliseconds=1))
            await self.settle(each, each.usage.model_copy(update={"runtime_ms": longest}))
        return len(left)

    async def charge(self, agent_id: str, usage: BudgetUsage) -> None:
        """Count what was used, on disk before anything else is done."""
        await self._store.transaction(lambda tx: self.charge_in(tx, agent_id, usage))

    def charge_in(self, tx: Transaction, agent_id: str, usage: BudgetUsage) -> None:
        """The same inside a transaction."""
        self._count_in(tx, self._window_in(tx, agent_id, self.today(), self._time_zone()), usage)

    def today(self) -> date:
        """The owner's day (rule 1)."""
        return self._store.clock.now().astimezone(ZoneInfo(self._time_zone())).date()

    def _settle_in(self, tx: Transaction, reserved: BudgetReservation, used: BudgetUsage) -> None:
        if not tx.execute(_SETTLED, (reserved.id,)):
            return
        # The day on which it was asked, also if it was answered after midnight.
        day = reserved.window_start_local_date
        window = self._window_in(tx, reserved.agent_id, day, reserved.time_zone)
        with contextlib.suppress(AgentDestroyed):
            self._count_in(tx, window, used)

    def _count_in(self, tx: Transaction, window: BudgetWindow, usage: BudgetUsage) -> None:
        mine = window.usage_by_host.get(self._store.host_id, BudgetUsage()) + usage
        counted = {**window.usage_by_host, self._store.host_id: mine}
        now = self._store.clock.now()
        self._store.put_in(
            tx, window.model_copy(update={"usage_by_host": counted, "updated_at": now})
        )

    def _window_in(self, reader: Reader, agent_id: str, day: date, time_zone: str) -> BudgetWindow:
        key = budget_window_id(agent_id, day)
        return self._store.get_in(reader, BudgetWindow, key) or BudgetWindow(
            id=key,
            agent_id=agent_id,
            window_start_local_date=day,
            time_zone=time_zone,
            updated_at=self._store.clock.now(),
        )


def allowance_of(reserved: BudgetReservation) -> CallAllowance:
    """What was set aside, as a model's limit."""
    return CallAllowance(
        tokens=reserved.usage.tokens,
        cost_usd=reserved.usage.cost_micro_usd / MICRO,
        seconds=reserved.usage.runtime_ms / 1000,
    )


def _require(companion: Companion, state: BudgetState, wanted: Mapping[str, int]) -> None:
    more = {
        name
        for name, amount in wanted.items()
        if (limit := state.limits[name]) is not None and getattr(state.used, name) + amount > limit
    }
    spent = sorted(more | set(state.over_hard))
    if spent:
        raise BudgetExceeded(
            f"{companion.display_name} has used up its budget for today: {', '.join(spent)}.",
            measures=spent,
        )


def _for_one_question(state: BudgetState) -> BudgetUsage:
    """No more than is left, and half of a day's at most."""
    amounts = {}
    for name, usual in _WITHOUT_LIMIT.items():
        limit = state.limits[name]
        most = usual if limit is None else limit
        left = usual if limit is None else limit - getattr(state.used, name)
        amounts[name] = min(left, -(-most // 2))
    return BudgetUsage(**amounts)


def _state(
    companion: Companion,
    today: date,
    window: BudgetWindow | None,
    *,
    set_aside: Iterable[BudgetUsage] = (),
) -> BudgetState:
    used = sum(set_aside, window.total if window is not None else BudgetUsage())
    budget = companion.config.budget
    limits: dict[str, int | None] = {name: getattr(budget, name) for name in _MEASURES}
    known = {name: limit for name, limit in limits.items() if limit is not None}
    return BudgetState(
        local_date=today,
        used=used,
        limits=limits,
        over_soft=tuple(
            name
            for name, limit in known.items()
            if getattr(used, name) >= limit * budget.soft_share
        ),
        over_hard=tuple(name for name, limit in known.items() if getattr(used, name) >= limit),
    )
