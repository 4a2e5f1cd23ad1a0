"""What models have used, by day, role and model.

1. Each answer of a model is noted, also one that was of no use or was cut off. Noting keeps it in
   memory and costs a turn nothing.
2. What was noted is written in the transaction that ends a message on the bus: the turn's, the
   planner's, the worker's (`carried_by`). What nobody carries, such as companions' questions, is
   written once a minute, at the end, and before anybody reads (`flush`). What was noted last dies
   with a process that is killed: this is a record, no limit relies on it.
3. A row has an id: written twice, it counts once.
4. A day is the owner's. A price that nobody knows is no number, and is never shown as nothing.
5. The offline brain is no model, and is not noted.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from pydantic import Field

from silas.kernel import Clock, IdFactory
from silas.kernel.models import Data
from silas.queue import Handled, Handler, Lease
from silas.storage import Database, Row, Transaction

_LEAST_SHOWN_USD = 0.0001
_CENTS_ENOUGH_USD = 0.1
MAX_DAYS = 400
"""Older rows are removed."""
USUAL_DAYS = 14
COMPANION = "companion"
TEST = "test"
ROLE_WORDS = {
    "proxy": "Answering",
    "planner": "Planning",
    "executor": "Doing the work",
    "scorer": "Choosing what stays in view",
    "gate": "Checking",
    COMPANION: "Companions",
    TEST: "Trying a model",
}
"""What each role does, for people."""

_OFFLINE = "Silas answers without a model: nothing is used, and nothing costs anything."
_NOTHING = "No model was asked in this time."
_FREE = "Nothing was charged: these models run on your machine."
_UNPRICED = "The price of {count} is not known; dollars are of the rest."
_ALL_UNPRICED = "What this cost is not known: there is no price list for these models."
_INSERT = """
INSERT INTO model_usage (id, day, role, model, input_tokens, output_tokens, cost_usd)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING
"""
_BY_DAY = """
SELECT day, role, model, COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cost_usd),
    COUNT(*) - COUNT(cost_usd)
FROM model_usage WHERE day >= ? GROUP BY day, role, model ORDER BY day, role, model
"""
_PRUNE = "DELETE FROM model_usage WHERE day < ?"


class ModelUse(Data):
    """What one answer of a model used."""

    role: str
    model: str
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    cost_usd: float | None = Field(ge=0, allow_inf_nan=False)
    """None: nobody knows the price."""


UseListener = Callable[[ModelUse], None]


class UsageLine(Data):
    """What one model used in one role."""

    role: str
    does: str
    """What the role does, in words."""
    model: str
    answers: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    """Of the answers whose price is known."""
    unpriced: int
    """How many answers have a price that nobody knows."""
    cost: str
    """In words: `$1.20`, `unknown`, or `$1.20 and more`."""

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.input_tokens + self.output_tokens


class UsageDay(Data):
    """One day of the owner's, also one without any use."""

    date: date
    tokens: int
    cost_usd: float
    unpriced: int
    cost: str
    lines: tuple[UsageLine, ...]


class UsageReport(Data):
    """The last days, and their sum by role and model, the largest first."""

    days: tuple[UsageDay, ...]
    lines: tuple[UsageLine, ...]

    @property
    def tokens(self) -> int:
        """All of them."""
        return sum(each.tokens for each in self.lines)


Rows = tuple[tuple[str, str, ModelUse], ...]


@dataclass(eq=False)
class UsageLedger:
    """The record of one data directory."""

    database: Database
    clock: Clock
    ids: IdFactory
    zone: ZoneInfo
    _noted: dict[str, tuple[str, str, ModelUse]] = field(default_factory=dict, init=False)

    def note(self, use: ModelUse) -> None:
        """Keep this until it is written (rule 1)."""
        use_id = self.ids.new("use")
        self._noted[use_id] = (use_id, self.today().isoformat(), use)

    def noting_as(self, role: str) -> UseListener:
        """Note what is used under the name of another role."""
        return lambda use: self.note(use.model_copy(update={"role": role}))

    def carried_by(self, handler: Handler) -> Handler:
        """The handler, whose commit also writes what was noted (rule 2)."""

        async def carrying(lease: Lease) -> Handled:
            handled = await handler(lease)
            rows = tuple(self._noted.values())
            if not rows:
                return handled
            return replace(
                handled,
                writes=(*handled.writes, lambda tx: _write(tx, rows)),
                after=(*handled.after, self._forgetting(rows)),
            )

        return carrying

    async def flush(self) -> None:
        """Write what nobody has carried."""
        rows = tuple(self._noted.values())
        if rows:
            await self.database.transaction(lambda tx: _write(tx, rows))
            await self._forgetting(rows)()

    async def report(self, *, days: int) -> UsageReport:
        """The last days, today included."""
        await self.flush()
        today = self.today()
        dates = [today - timedelta(days=ago) for ago in reversed(range(days))]
        found = await self.database.fetch_all(_BY_DAY, (dates[0].isoformat(),))
        return UsageReport(
            days=tuple(_day(each, found) for each in dates),
            lines=_summed(_line(row) for row in found),
        )

    async def prune(self) -> None:
        """Remove what is older than can be asked for."""
        oldest = self.today() - timedelta(days=MAX_DAYS)
        await self.database.execute(_PRUNE, (oldest.isoformat(),))

    def today(self) -> date:
        """The owner's day."""
        return self.clock.now().astimezone(self.zone).date()

    def _forgetting(self, rows: Rows) -> Callable[[], Awaitable[None]]:
        async def forget() -> None:
            for use_id, *_ in rows:
                self._noted.pop(use_id, None)

        return forget


def note_on(report: UsageReport, *, has_model: bool) -> str:
    """What to make of the figures, in one line; empty if they speak for themselves."""
    if not report.lines:
        return _NOTHING if has_model else _OFFLINE
    unpriced = sum(each.unpriced for each in report.lines)
    if unpriced == sum(each.answers for each in report.lines):
        return _ALL_UNPRICED
    if unpriced:
        return _UNPRICED.format(count="one answer" if unpriced == 1 else f"{unpriced:,} answers")
    return "" if any(each.cost_usd for each in report.lines) else _FREE


def _in_words(cost_usd: float, unpriced: int) -> str:
    """What is known of a cost; where nothing is, that."""
    if not unpriced:
        return in_dollars(cost_usd)
    return f"{in_dollars(cost_usd)} and more" if cost_usd else "unknown"


def in_dollars(amount: float) -> str:
    """`$1.20`; a little is said as so little, never as nothing."""
    if 0 < amount < _LEAST_SHOWN_USD:
        return f"less than ${_LEAST_SHOWN_USD}"
    return f"${amount:,.4f}" if 0 < amount < _CENTS_ENOUGH_USD else f"${amount:,.2f}"


def _write(tx: Transaction, rows: Rows) -> None:
    tx.execute_many(
        _INSERT,
        [
            (use_id, day, use.role, use.model, use.input_tokens, use.output_tokens, use.cost_usd)
            for use_id, day, use in rows
        ],
    )


def _day(day: date, found: Iterable[Row]) -> UsageDay:
    lines = tuple(_line(row) for row in found if row[0] == day.isoformat())
    cost, unpriced = sum(each.cost_usd for each in lines), sum(each.unpriced for each in lines)
    return UsageDay(
        date=day,
        tokens=sum(each.tokens for each in lines),
        cost_usd=cost,
        unpriced=unpriced,
        cost=_in_words(cost, unpriced),
        lines=lines,
    )


def _line(row: Row) -> UsageLine:
    _, role, model, answers, read, written, cost, unpriced = row
    return UsageLine(
        role=role,
        does=ROLE_WORDS.get(role, role),
        model=model,
        answers=answers,
        input_tokens=read,
        output_tokens=written,
        cost_usd=cost or 0.0,
        unpriced=unpriced,
        cost=_in_words(cost or 0.0, unpriced),
    )


def _summed(lines: Iterable[UsageLine]) -> tuple[UsageLine, ...]:
    """One line for each role and model."""
    sums: dict[tuple[str, str], UsageLine] = {}
    for each in lines:
        before = sums.get((each.role, each.model))
        sums[each.role, each.model] = each if before is None else _joined(before, each)
    return tuple(sorted(sums.values(), key=lambda each: (-each.tokens, each.role, each.model)))


def _joined(one: UsageLine, other: UsageLine) -> UsageLine:
    counted = ("answers", "input_tokens", "output_tokens", "cost_usd", "unpriced")
    total = {name: getattr(one, name) + getattr(other, name) for name in counted}
    words = _in_words(total["cost_usd"], total["unpriced"])
    return one.model_copy(update={**total, "cost": words})
