"""Budgets: what a companion may use in one local day.

1. A day is the owner's, by the clock on the wall: also one of 23 or 25 hours.
2. What was used is on disk at once, so that a restart gives nothing back. Each host counts its own
   part, and the sum over all of them counts.
3. At a hard limit everything that would use more is refused (`budget_exceeded`). From the soft
   share on the owner is told.
"""

from collections.abc import Callable
from datetime import date
from zoneinfo import ZoneInfo

from silas.companions.errors import BudgetExceeded
from silas.companions.ids import budget_window_id
from silas.companions.models import BudgetUsage, BudgetWindow, Companion
from silas.companions.ports import CallAllowance
from silas.companions.store import CompanionStore
from silas.kernel.models import Data
from silas.storage import Reader, Transaction

MICRO = 1_000_000
_MEASURES = ("tokens", "cost_micro_usd", "runtime_ms", "tool_calls")
_WITHOUT_LIMIT = {"tokens": 200_000, "cost_micro_usd": MICRO, "runtime_ms": 600_000}


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

    async def states(self, companions: list[Companion]) -> dict[str, BudgetState]:
        """The same for many, by companion."""
        where: dict[str, object] = {"window_start_local_date": self.today()}
        if len(companions) == 1:
            where["agent_id"] = companions[0].id
        windows = {each.agent_id: each for each in await self._store.find(BudgetWindow, where)}
        today = self.today()
        return {each.id: _state(each, today, windows.get(each.id)) for each in companions}

    async def require(self, companion: Companion, **wanted: int) -> BudgetState:
        """Raise `BudgetExceeded` if nothing is left, or if this much more would be too much."""
        state = await self.state(companion)
        more = {
            name
            for name, amount in wanted.items()
            if (limit := state.limits[name]) is not None
            and getattr(state.used, name) + amount > limit
        }
        spent = sorted(more | set(state.over_hard))
        if spent:
            raise BudgetExceeded(
                f"{companion.display_name} has used up its budget for today: {', '.join(spent)}.",
                measures=spent,
            )
        return state

    async def allowance(self, companion: Companion) -> CallAllowance:
        """What one question to a model may use; raises `BudgetExceeded` if nothing is left."""
        state = await self.require(companion)
        left = {
            name: default
            if (limit := state.limits[name]) is None
            else limit - getattr(state.used, name)
            for name, default in _WITHOUT_LIMIT.items()
        }
        return CallAllowance(
            tokens=left["tokens"],
            cost_usd=left["cost_micro_usd"] / MICRO,
            seconds=left["runtime_ms"] / 1000,
        )

    async def charge(self, agent_id: str, usage: BudgetUsage) -> None:
        """Count what was used, on disk before anything else is done."""
        await self._store.transaction(lambda tx: self.charge_in(tx, agent_id, usage))

    def charge_in(self, tx: Transaction, agent_id: str, usage: BudgetUsage) -> None:
        """The same inside a transaction."""
        window = self._window_in(tx, agent_id)
        mine = window.usage_by_host.get(self._store.host_id, BudgetUsage()) + usage
        counted = {**window.usage_by_host, self._store.host_id: mine}
        now = self._store.clock.now()
        self._store.put_in(
            tx, window.model_copy(update={"usage_by_host": counted, "updated_at": now})
        )

    def today(self) -> date:
        """The owner's day (rule 1)."""
        return self._store.clock.now().astimezone(ZoneInfo(self._time_zone())).date()

    def _window_in(self, reader: Reader, agent_id: str) -> BudgetWindow:
        key = budget_window_id(agent_id, self.today())
        return self._store.get_in(reader, BudgetWindow, key) or BudgetWindow(
            id=key,
            agent_id=agent_id,
            window_start_local_date=self.today(),
            time_zone=self._time_zone(),
            updated_at=self._store.clock.now(),
        )


def _state(companion: Companion, today: date, window: BudgetWindow | None) -> BudgetState:
    used = window.total if window is not None else BudgetUsage()
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
