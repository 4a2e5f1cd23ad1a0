"""After a failed attempt: whether there is another one, and what the planner advises for it."""

import asyncio
from dataclasses import replace

from silas.kernel import SilasError
from silas.work.attempt import Outcome
from silas.work.budget import BudgetUsed
from silas.work.models import WorkItem, WorkItemStatus
from silas.work.plan_rules import CONSULT_PLANNER
from silas.work.workbench import Workbench

_CONSULT_AFTER = 3
_GUIDANCE_SECONDS = 90
_NOT_EXHAUSTING = {"max_planner_calls"}


def exhausted(item: WorkItem) -> bool:
    """Step 1: reaching a limit means that the budget is used up."""
    return bool(set(item.budget_used.reached(item.budget)) - _NOT_EXHAUSTING) or (
        item.attempts >= item.budget.max_attempts
    )


async def after_failure(
    bench: Workbench, item: WorkItem, outcome: Outcome
) -> tuple[Outcome, WorkItemStatus]:
    """Whether there will be another attempt, with guidance if the plan wants it."""
    if item.attempts >= _CONSULT_AFTER and item.on_stuck == CONSULT_PLANNER:
        outcome = await _consult(bench, item, outcome)
    left = not exhausted(item.model_copy(update={"budget_used": outcome.used}))
    return outcome, WorkItemStatus.PENDING if left else WorkItemStatus.STUCK


async def _consult(bench: Workbench, item: WorkItem, outcome: Outcome) -> Outcome:
    used = outcome.used
    if bench.planner is None or used.planner_calls >= item.budget.max_planner_calls:
        return outcome
    failures = [result for result in outcome.results if not result.passed]
    try:
        async with asyncio.timeout(_GUIDANCE_SECONDS):
            guidance = await bench.planner.consult(item, failures, reason=outcome.error or "")
    except (TimeoutError, SilasError) as error:
        await bench.audit.log("planner_silent", work_item_id=item.id, reason=str(error))
        return replace(outcome, used=_charge_planner(used, 0, 0.0))
    charged = _charge_planner(used, guidance.tokens, guidance.cost_usd)
    return replace(outcome, used=charged, guidance=guidance.text)


def _charge_planner(used: BudgetUsed, tokens: int, cost: float) -> BudgetUsed:
    return used.model_copy(
        update={
            "planner_calls": used.planner_calls + 1,
            "tokens": used.tokens + tokens,
            "cost_usd": used.cost_usd + cost,
        }
    )
