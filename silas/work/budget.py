"""What a work item may use up, and what it has used."""

from typing import Annotated, Self

from pydantic import Field

from silas.kernel.models import Data

_LARGEST = 2**53 - 1  # what canonical JSON can hold

Limit = Annotated[int, Field(gt=0, le=_LARGEST)]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Budget(Data):
    """The limits of one work item. Reaching a limit means that it is used up."""

    max_tokens: Limit = 200_000
    max_cost_usd: float = Field(default=2.00, gt=0, allow_inf_nan=False)
    max_wall_time_seconds: Limit = 1800
    max_attempts: Limit = 5
    max_planner_calls: Limit = 3


class BudgetUsed(Data):
    """What has been consumed so far; compared with the budget before every action."""

    tokens: Count = 0
    cost_usd: Amount = 0.0
    wall_time_seconds: Amount = 0.0
    attempts: Count = 0
    planner_calls: Count = 0
    executor_runs: Count = 0

    def exceeds(self, budget: Budget) -> bool:
        """Whether any limit has been reached: exactly at the limit counts as used up."""
        return bool(self.reached(budget))

    def reached(self, budget: Budget) -> tuple[str, ...]:
        """The names of the limits that have been reached, such as `max_tokens`."""
        used = {
            "max_tokens": self.tokens >= budget.max_tokens,
            "max_cost_usd": self.cost_usd >= budget.max_cost_usd,
            "max_wall_time_seconds": self.wall_time_seconds >= budget.max_wall_time_seconds,
            "max_attempts": self.attempts >= budget.max_attempts,
            "max_planner_calls": self.planner_calls >= budget.max_planner_calls,
        }
        return tuple(name for name, reached in used.items() if reached)

    def merge(self, child: Self) -> Self:
        """What this item and a child have consumed together, in every field."""
        total = {
            name: getattr(self, name) + getattr(child, name) for name in type(self).model_fields
        }
        return type(self)(**total)


def add_used(used: BudgetUsed, tokens: int, cost_usd: float) -> BudgetUsed:
    """What was used, and what a model used besides."""
    total = {"tokens": used.tokens + tokens, "cost_usd": used.cost_usd + cost_usd}
    return used.model_copy(update=total)
