"""`/api/usage/*`: what models have used, by day, and what is left of the limits that are enforced.

1. A meter stands for a limit at which something is refused or ends; nothing else has one.
2. Work has its budget (`silas.work.models.Budget`), a request that is being planned the limits of
   `planner`, a companion its daily budget, a link for visitors its day.
3. What was not touched is left out: a budget of which nothing is used tells nobody anything. So is
   money where no price is known: an unknown price is never shown as nothing.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from silas.companions.budgets import MICRO, BudgetState
from silas.companions.service import CompanionService
from silas.companions.views import CompanionView
from silas.kernel import visible
from silas.kernel.models import Data
from silas.stream.research import ResearchLimits, ResearchState, ResearchStore
from silas.stream.usage import MAX_DAYS, USUAL_DAYS, UsageLedger, UsageReport, in_dollars, note_on
from silas.stream.visitors import VisitorLink, VisitorStore, VisitorUsage
from silas.web.access import page
from silas.web.command_routes import Routes, command_routes
from silas.web.commands import ApiCommand, PageAccess
from silas.work.models import WorkItem, WorkItemStatus, WorkItemType
from silas.work.project import with_tasks
from silas.work.store import WorkItemStore

Days = Annotated[int, Field(ge=1, le=MAX_DAYS)]
_MOST_GROUPS = 12
_LONGEST_NAME = 80
_UNDER_WAY = (
    WorkItemStatus.RUNNING,
    WorkItemStatus.HEALTHY,
    WorkItemStatus.BLOCKED,
    WorkItemStatus.PAUSED,
    WorkItemStatus.STUCK,
)
_ANEW_TASK = "Holds for this work as a whole. A new plan has a budget of its own."
_ANEW_GOAL = "Holds over all its cycles; attempts start anew when all is well again."
_ANEW_REQUEST = "Holds for this request; the next one starts anew."
_ANEW_COMPANION = "Starts anew at midnight."
_ANEW_LINK = "Starts anew at midnight UTC."


class BudgetMeter(Data):
    """How much of one limit is used."""

    measure: str
    used: float
    allowed: float
    words: str
    """`12,000 of 200,000 tokens`"""

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.used >= self.allowed


class BudgetGroup(Data):
    """The limits of one thing, and when they start anew."""

    name: str
    kind: str
    anew: str
    meters: tuple[BudgetMeter, ...]


class UsageShown(Data):
    """What the page and `silas usage` show."""

    note: str
    """One line that says what to make of it."""
    has_model: bool
    """Whether any role has a model now."""
    report: UsageReport
    budgets: tuple[BudgetGroup, ...]
    left_out: int
    """How many budgets there are besides."""


@dataclass(frozen=True)
class UsageView:
    """Reads what was used, and compares it with the limits."""

    ledger: UsageLedger
    items: WorkItemStore
    companions: CompanionService
    visitors: VisitorStore
    planning: ResearchStore
    limits: ResearchLimits
    has_model: bool

    async def show(self, days: Days = USUAL_DAYS) -> UsageShown:
        """What models have used in the last days, and what is left of the limits."""
        report = await self.ledger.report(days=days)
        budgets = await self._budgets()
        return UsageShown(
            note=note_on(report, has_model=self.has_model),
            has_model=self.has_model,
            report=report,
            budgets=tuple(budgets[:_MOST_GROUPS]),
            left_out=max(0, len(budgets) - _MOST_GROUPS),
        )

    async def _budgets(self) -> list[BudgetGroup]:
        found = [_of_request(each, self.limits) for each in await self.planning.under_way()]
        found += [_of_work(each) for each in await self._under_way()]
        found += [_of_companion(each) for each in await self.companions.list()]
        for link in await self.visitors.links():
            if link.is_good(self.ledger.clock.now()):
                found.append(_of_link(link, await self.visitors.used_today(link.link_id)))
        return [each for each in found if each.meters]

    async def _under_way(self) -> list[WorkItem]:
        """Work that may go on, the newest first; tasks of a project count for their project."""
        listed = [await self.items.list_by_status(status) for status in _UNDER_WAY]
        whole = [item for items in listed for item in items if item.parent is None]
        whole.sort(key=lambda item: (item.created_at, item.id), reverse=True)
        return [
            await with_tasks(self.items, each) if each.type is WorkItemType.PROJECT else each
            for each in whole
        ]


def usage_routes(view: UsageView) -> Routes:
    """The same for the page, which reads, and for the terminal."""
    routes = command_routes("/api/usage", _COMMANDS, lambda: view)

    @routes.get("/{days}")
    @page(PageAccess.SESSION)
    async def usage(days: Days) -> UsageShown:
        return await view.show(days)

    return routes


_COMMANDS = (ApiCommand(UsageView.show),)


def _of_request(state: ResearchState, limits: ResearchLimits) -> BudgetGroup:
    used = state.usage
    return BudgetGroup(
        name=_short(f"Planning: {state.request.content}"),
        kind="request",
        anew=_ANEW_REQUEST,
        meters=_touched(
            _counted("Tokens", used.tokens, limits.max_tokens, "tokens"),
            _dollars(used.cost_usd, limits.max_cost_usd),
        ),
    )


def _of_work(item: WorkItem) -> BudgetGroup:
    used, budget = item.budget_used, item.budget
    attempts = None
    if item.type is not WorkItemType.PROJECT:
        attempts = _counted("Attempts", used.attempts, budget.max_attempts, "attempts")
    return BudgetGroup(
        name=_short(item.title),
        kind=item.type.value,
        anew=_ANEW_GOAL if item.type is WorkItemType.GOAL else _ANEW_TASK,
        meters=_touched(
            attempts,
            _counted("Tokens", used.tokens, budget.max_tokens, "tokens"),
            _dollars(used.cost_usd, budget.max_cost_usd),
            _timed(used.wall_time_seconds, budget.max_wall_time_seconds),
            _counted("Advice", used.planner_calls, budget.max_planner_calls, "times asked"),
        ),
    )


def _of_companion(companion: CompanionView) -> BudgetGroup:
    state: BudgetState = companion.budget
    used, limits = state.used, state.limits
    tokens, micro = limits["tokens"], limits["cost_micro_usd"]
    time, calls = limits["runtime_ms"], limits["tool_calls"]
    return BudgetGroup(
        name=_short(companion.display_name),
        kind="companion",
        anew=_ANEW_COMPANION,
        meters=_touched(
            _counted("Tokens", used.tokens, tokens, "tokens"),
            _dollars(used.cost_micro_usd / MICRO, None if micro is None else micro / MICRO),
            _timed(used.runtime_ms / 1000, None if time is None else time / 1000),
            _counted("Uses of tools", used.tool_calls, calls, "uses of tools"),
        ),
    )


def _of_link(link: VisitorLink, used: VisitorUsage) -> BudgetGroup:
    limits = link.limits
    return BudgetGroup(
        name=_short(f"Visitors: {link.name}"),
        kind="visitors",
        anew=_ANEW_LINK,
        meters=_touched(
            _counted("Messages", used.messages, limits.messages_per_day, "messages"),
            _counted("Tokens", used.tokens, limits.tokens_per_day, "tokens"),
        ),
    )


def _touched(*meters: BudgetMeter | None) -> tuple[BudgetMeter, ...]:
    """Those that have a limit, and of which something is used (rule 3)."""
    return tuple(each for each in meters if each is not None and each.used > 0)


def _counted(measure: str, used: float, allowed: float | None, unit: str) -> BudgetMeter | None:
    if allowed is None:
        return None
    words = f"{used:,} of {allowed:,} {unit}"
    return BudgetMeter(measure=measure, used=used, allowed=allowed, words=words)


def _dollars(used: float, allowed: float | None) -> BudgetMeter | None:
    if allowed is None:
        return None
    words = f"{in_dollars(used)} of {in_dollars(allowed)}"
    return BudgetMeter(measure="Dollars", used=used, allowed=allowed, words=words)


def _timed(used: float, allowed: float | None) -> BudgetMeter | None:
    if allowed is None:
        return None
    words = f"{_lasting(used)} of {_lasting(allowed)}"
    return BudgetMeter(measure="Time", used=used, allowed=allowed, words=words)


def _lasting(seconds: float) -> str:
    minutes, rest = divmod(max(1, round(seconds)), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def _short(name: str) -> str:
    text = visible(name, keep_newlines=False)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
