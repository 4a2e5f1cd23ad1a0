"""The scorer: useful when it is right, harmless when it is slow, wrong or broken."""

import asyncio
from collections.abc import Sequence

import pytest

from silas.context.manager import ContextManager
from silas.context.models import ContextGroup, ContextZone, TokenBudget
from silas.kernel import LlmError
from silas.testing import FakeClock
from silas.testing.fakes import FakeScorer
from tests.context.making import NOW, item, manager, small_budget

BUDGET: TokenBudget = small_budget(eviction_threshold_pct=0.3, scorer_threshold_pct=0.5)
MOST = int(BUDGET.total * BUDGET.eviction_threshold_pct)


async def never(seconds: float) -> None:
    del seconds
    await asyncio.Event().wait()


async def at_once(seconds: float) -> None:
    assert seconds == 2.0


def filled(scorer: FakeScorer | None, **more: object) -> ContextManager:
    context = manager(BUDGET, scorer=scorer, **({"sleep": never} | more))
    fill(context)
    return context


def fill(context: ContextManager) -> None:
    for number in range(20):
        context.add("ann", item(f"m{number}", "word " * 10, turn_number=number))
    context.add("ann", item("pin", "word " * 10, turn_number=3, pinned=True))
    context.add("ann", item("mem", "word " * 10, ContextZone.MEMORY))


def by_rules() -> list[str]:
    context = filled(None)
    return asyncio.run(context.enforce_budget("ann", 20, "goal"))


def used(context: ContextManager) -> int:
    return sum(context.token_usage("ann").values())


async def test_what_it_names_leaves_first_and_no_more_than_has_to() -> None:
    async def newest(groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        ordered = sorted(groups, key=lambda group: -group.turn_number)
        return [group.group_id for group in ordered]

    scorer = FakeScorer(newest)
    context = filled(scorer)
    gone = await context.enforce_budget("ann", 20, "find the report")
    groups, goal = scorer.asked[0]
    assert goal == "find the report"
    assert "m19" in gone
    assert "pin" not in gone
    assert MOST - 20 < used(context) <= MOST
    assert all("m19" not in group.group_id for group in groups), "ids tell nothing"


async def test_it_is_not_asked_while_there_is_room() -> None:
    async def all_of_it(groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        return [group.group_id for group in groups]

    scorer = FakeScorer(all_of_it)
    context = manager(BUDGET, scorer=scorer)
    context.add("ann", item("m", "word " * 30))
    assert await context.enforce_budget("ann", 1, None) == []
    assert scorer.asked == []


async def test_ids_that_it_makes_up_mean_nothing() -> None:
    async def invents(groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        return ["pin", "m3", "g999", "", *[groups[0].group_id] * 3]

    context = filled(FakeScorer(invents))
    gone = await context.enforce_budget("ann", 20, None)
    assert "pin" not in gone
    assert len(gone) == len(set(gone))
    assert used(context) <= MOST


@pytest.mark.parametrize("error", [LlmError(), RuntimeError("broken"), ValueError()])
async def test_one_that_raises_leaves_it_to_the_rules(error: Exception) -> None:
    async def fails(groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        raise error

    expected = await asyncio.to_thread(by_rules)
    assert await filled(FakeScorer(fails)).enforce_budget("ann", 20, "goal") == expected


async def test_nonsense_leaves_it_to_the_rules() -> None:
    async def nonsense(groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        return 7  # type: ignore[return-value]

    expected = await asyncio.to_thread(by_rules)
    assert await filled(FakeScorer(nonsense)).enforce_budget("ann", 20, "goal") == expected


async def test_one_that_is_slow_is_not_waited_for_even_if_it_will_not_end() -> None:
    cancelled, release = asyncio.Event(), asyncio.Event()

    async def stubborn(groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            await release.wait()
        raise LlmError

    expected = await asyncio.to_thread(by_rules)
    context = filled(FakeScorer(stubborn), sleep=at_once)
    assert await context.enforce_budget("ann", 20, "goal") == expected
    await cancelled.wait()
    release.set()
    await asyncio.sleep(0)


async def test_after_three_failures_it_rests_for_five_minutes() -> None:
    answers: list[Exception | None] = [LlmError()] * 3 + [None]

    async def recovers(groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return [group.group_id for group in groups]

    clock, scorer = FakeClock(NOW), FakeScorer(recovers)
    context = filled(scorer, clock=clock)
    for number in range(5):
        fill(context)
        await context.enforce_budget("ann", 20 + number, None)
        assert used(context) <= MOST
    assert len(scorer.asked) == 3
    clock.advance(seconds=299)
    fill(context)
    await context.enforce_budget("ann", 30, None)
    assert len(scorer.asked) == 3
    clock.advance(seconds=1)
    fill(context)
    await context.enforce_budget("ann", 31, None)
    assert len(scorer.asked) == 4


async def test_what_was_pinned_while_it_thought_stays() -> None:
    context: list[ContextManager] = []

    async def meanwhile(groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        context[0].add("ann", item("m19", "word " * 10, turn_number=19, pinned=True))
        context[0].drop("ann", "m18")
        return [group.group_id for group in reversed(groups)]

    context.append(filled(FakeScorer(meanwhile)))
    gone = await context[0].enforce_budget("ann", 20, None)
    assert not {"m18", "m19"} & set(gone)


async def test_with_the_shipped_budget_it_is_asked_once_all_zones_are_full() -> None:
    async def first(groups: Sequence[ContextGroup], _goal: str | None) -> list[str]:
        return [groups[0].group_id]

    scorer, budget = FakeScorer(first), TokenBudget()
    context = ContextManager(budget, clock=FakeClock(), scorer=scorer)
    text = "a word and another one, again and again. " * 100
    for number in range(400):
        for zone in (ContextZone.CHRONICLE, ContextZone.MEMORY, ContextZone.WORKSPACE):
            context.add("ann", item(f"{zone}{number}", text, zone=zone, turn_number=number))
        await context.enforce_budget("ann", number, "goal")
    assert scorer.asked, "nothing ever asks it"
    assert used(context) <= budget.total * budget.eviction_threshold_pct
