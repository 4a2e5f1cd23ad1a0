"""What a question to a model may use is set aside first; what nobody can tell counts in full."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from silas.companions.errors import BudgetExceeded
from silas.companions.messages import WakeRun
from silas.companions.models import (
    BudgetLimits,
    BudgetReservation,
    BudgetUsage,
    BudgetWindow,
    Companion,
    StopScope,
)
from silas.companions.ports import CompanionProposal, CompanionRequest, ModelUsage
from silas.companions.projection import ProjectionPolicies
from silas.kernel import LlmError
from silas.testing.companions import CompanionDevice, FakeGateway, opened_device, restarted

DAY = BudgetLimits(tokens=1000, cost_micro_usd=1_000_000, runtime_ms=600_000, tool_calls=50)
HALF = (500, 500_000)
ANSWER = CompanionProposal(usage=ModelUsage(tokens=70, cost_usd=0.01, seconds=9.0))


class Thinker:
    """`CompanionModel` that thinks until a test lets it answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.requests: list[CompanionRequest] = []
        self.fails: Exception | None = None

    async def propose(self, request: CompanionRequest) -> CompanionProposal:
        self.requests.append(request)
        self.asked.set()
        await self.go.wait()
        if self.fails is not None:
            raise self.fails
        return ANSWER


@pytest.fixture
def model() -> Thinker:
    return Thinker()


@pytest.fixture
async def device(tmp_path: Path, model: Thinker) -> AsyncIterator[CompanionDevice]:
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        yield device


@pytest.fixture
async def agent(device: CompanionDevice) -> str:
    made = await device.service.new("planner", category_ids=[device.categories["gym"]])
    await device.service.configure(made.id, budget=DAY)
    return made.id


async def asking(device: CompanionDevice, agent: str, model: Thinker) -> "asyncio.Task[list[str]]":
    """A run whose question is on its way."""
    await device.service.wake(agent)
    working = asyncio.create_task(device.work())
    await model.asked.wait()
    return working


async def used(device: CompanionDevice, agent: str) -> tuple[int, int]:
    windows = await device.store.find(BudgetWindow, {"agent_id": agent})
    total = sum((each.total for each in windows), BudgetUsage())
    return total.tokens, total.cost_micro_usd


async def test_an_answer_is_counted_instead_of_what_was_set_aside(
    device: CompanionDevice, agent: str, model: Thinker
) -> None:
    working = await asking(device, agent, model)
    (reserved,) = await device.store.find(BudgetReservation)
    assert (reserved.usage.tokens, reserved.usage.cost_micro_usd) == HALF
    assert model.requests[0].allowance.tokens == HALF[0]
    device.clock.advance(seconds=2)
    model.go.set()
    await working
    assert await used(device, agent) == (70, 10_000)
    assert await device.store.find(BudgetReservation) == []
    (window,) = await device.store.find(BudgetWindow, {"agent_id": agent})
    assert window.total.runtime_ms == 2000, "by the clock here, not by what the model says"


@pytest.mark.parametrize(
    "stop",
    [
        lambda device, agent: device.service.cancel(agent),
        lambda device, agent: device.service.pause(agent),
        lambda device, agent: device.service.stop(),
    ],
    ids=["cancel", "pause", "stop"],
)
async def test_a_question_that_is_called_off_is_charged_what_was_set_aside(
    device: CompanionDevice,
    agent: str,
    model: Thinker,
    stop: Callable[[CompanionDevice, str], Awaitable[Any]],
) -> None:
    working = await asking(device, agent, model)
    await stop(device, agent)
    async with asyncio.timeout(120):
        await working
    assert await used(device, agent) == HALF
    assert await device.store.find(BudgetReservation) == []


async def test_a_question_that_a_crash_cut_off_stays_charged(
    device: CompanionDevice, agent: str, model: Thinker
) -> None:
    """Neither the answer nor the end of the question was ever written down."""
    companion = await device.store.require(Companion, agent)
    await device.store.transaction(lambda tx: device.executor.budgets.reserve_in(tx, companion))
    device.clock.advance(minutes=1)
    fresh = await restarted(device)
    try:
        assert await used(fresh, agent) == HALF
        (window,) = await fresh.store.find(BudgetWindow, {"agent_id": agent})
        assert window.total.runtime_ms == 60_000, "no longer than it can have been asked"
        await fresh.service.recover()
        assert await used(fresh, agent) == HALF, "once"
    finally:
        await fresh.close()


async def test_a_question_that_fails_is_charged_what_was_set_aside(
    device: CompanionDevice, agent: str, model: Thinker
) -> None:
    model.fails = LlmError("It broke off in the middle.")
    model.go.set()
    await device.service.wake(agent)
    await device.work()
    assert await used(device, agent) == HALF


async def test_questions_at_once_never_get_more_than_is_left(
    device: CompanionDevice, agent: str
) -> None:
    companion = await device.store.require(Companion, agent)
    budgets = device.executor.budgets
    for _ in range(2):
        await device.store.transaction(lambda tx: budgets.reserve_in(tx, companion))
    with pytest.raises(BudgetExceeded):
        await device.store.transaction(lambda tx: budgets.reserve_in(tx, companion))
    assert (await device.call(agent, "list_tasks_in_scope")).success, "a tool needs none of it"


async def test_a_question_counts_on_the_day_on_which_it_was_asked(
    device: CompanionDevice, agent: str, model: Thinker
) -> None:
    device.clock.set(datetime(2026, 1, 1, 22, 59, tzinfo=UTC))  # Berlin's day ends at 23:00
    working = await asking(device, agent, model)
    device.clock.advance(minutes=2)
    model.go.set()
    await working
    by_day = {
        str(each.window_start_local_date): each.total.tokens
        for each in await device.store.find(BudgetWindow, {"agent_id": agent})
    }
    assert by_day["2026-01-01"] == 70
    assert by_day.get("2026-01-02", 0) == 0


async def test_what_was_settled_is_settled(device: CompanionDevice, agent: str) -> None:
    companion, budgets = await device.store.require(Companion, agent), device.executor.budgets
    reserved = await device.store.transaction(lambda tx: budgets.reserve_in(tx, companion))
    for _ in range(2):
        await budgets.settle(reserved, BudgetUsage(tokens=7))
    assert await used(device, agent) == (7, 0)


async def test_who_is_destroyed_while_it_asks_leaves_nothing_set_aside(
    device: CompanionDevice, agent: str, model: Thinker
) -> None:
    working = await asking(device, agent, model)
    await device.service.destroy(agent)
    async with asyncio.timeout(120):
        await working
    assert await device.store.find(BudgetReservation) == []


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        (lambda device, agent: device.service.stop(), "stopped"),
        (lambda device, agent: device.service.stop(StopScope.TOOL_CLASS, "model"), "stopped"),
        (lambda device, agent: device.lifecycle.pause(agent), "agent_paused"),
        (lambda device, agent: device.lifecycle.destroy(agent), "agent_destroyed"),
    ],
    ids=["global stop", "no models", "pause", "destroy"],
)
async def test_a_stop_between_the_checks_and_the_question_asks_nobody(
    device: CompanionDevice,
    agent: str,
    model: Thinker,
    monkeypatch: pytest.MonkeyPatch,
    stop: Callable[[CompanionDevice, str], Awaitable[Any]],
    code: str,
) -> None:
    """The last check and setting the budget aside are one transaction."""
    allowed, times = ProjectionPolicies.allowed, []

    async def overtaken(*args: Any) -> frozenset[str]:
        times.append(args)
        if len(times) == 2:  # the first time is at the beginning of the run
            await stop(device, agent)
        return await allowed(*args)

    monkeypatch.setattr(ProjectionPolicies, "allowed", overtaken)
    woken = await device.service.wake(agent)
    await device.work()
    ended = await device.store.require(WakeRun, woken.run_key)
    assert ended.error_code == code
    assert model.requests == []
    assert await device.store.find(BudgetReservation) == []
