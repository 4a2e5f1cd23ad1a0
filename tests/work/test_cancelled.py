"""What the owner has cancelled stays cancelled, in whatever state it was when the word came."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from silas.approval import ApprovalScope
from silas.kernel import format_timestamp
from silas.testing.work import FakeWorker, LaterApprover
from silas.work import Plan, WorkItem, WorkItemStatus
from silas.work.errors import WorkItemConflict
from silas.work.executor import WorkItemExecutor
from silas.work.store import move_item
from tests.work.shop import YES, Shop, calls, check, shell, task
from tests.work.test_control import until
from tests.work.test_goal import approved, cycle, goal, stored

STATES = [
    WorkItemStatus.PENDING,
    WorkItemStatus.HEALTHY,
    WorkItemStatus.FAILED,
    WorkItemStatus.STUCK,
    WorkItemStatus.BLOCKED,
    WorkItemStatus.PAUSED,
]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    return path


async def put(shop: Shop, item: WorkItem, status: WorkItemStatus) -> WorkItem:
    """The item in this state, by the ways that its table allows."""
    control, items = shop.bench.control, shop.bench.items
    if status is WorkItemStatus.PENDING:
        return item
    if status is WorkItemStatus.PAUSED:
        await control.pause(item.id)
    else:
        running = await items.update_status(item.id, WorkItemStatus.RUNNING, item.budget_used)
        await items.update_status(item.id, status, running.budget_used)
    found = await items.get(item.id)
    assert found is not None
    return found


async def nothing_executes(shop: Shop, name: str) -> None:
    """Clock, repair and restart have their try; no attempt is made, and no status changes."""
    before = len(await shop.bench.attempts.list_of(name))
    for _ in range(3):
        item = await shop.bench.items.get(name)
        assert item is not None
        result = await shop.execute(item)
        assert result.status is WorkItemStatus.FAILED
        assert "cancelled" in result.summary
        await WorkItemExecutor(shop.bench).recover()
    after = await shop.bench.items.get(name)
    assert after is not None
    assert after.is_cancelled
    assert len(await shop.bench.attempts.list_of(name)) == before


@pytest.mark.parametrize("status", STATES)
async def test_a_cancelled_goal_stays_cancelled(
    shop: Shop, site: Path, status: WorkItemStatus
) -> None:
    item = await put(shop, await approved(shop, goal()), status)
    token = item.approval_token
    assert token is not None
    (changed,) = await shop.bench.control.cancel("g")
    assert changed.is_cancelled
    await nothing_executes(shop, "g")
    assert not (site / "up").exists(), "nothing was repaired"
    assert await shop.bench.items.list_by_parent("g") == []
    valid, _ = await shop.engine.check_goal(token, item)
    assert not valid, "the standing approval is withdrawn with it"


@pytest.mark.parametrize("status", [each for each in STATES if each is not WorkItemStatus.HEALTHY])
async def test_a_cancelled_task_stays_cancelled(shop: Shop, status: WorkItemStatus) -> None:
    worker = FakeWorker(calls(shell("touch", "made")))
    wanted = task(verify=[check("test -f made")])
    (item,) = await shop.having(agent=worker).approve_plan(Plan(wanted))
    await put(shop, item, status)
    await shop.bench.control.cancel(item.id)
    await nothing_executes(shop, item.id)
    assert worker.briefings == []


async def test_a_goal_is_cancelled_with_the_repair_that_runs(shop: Shop, site: Path) -> None:
    mark = f"4343.{os.getpid()}"
    sleeping = f"$failed_checks\n\n```run\nsleep {mark}\n```"
    await approved(shop, goal(failure_context=sleeping))
    running = asyncio.create_task(cycle(shop))
    await until(lambda: _sleeps(mark))
    await shop.bench.control.cancel("g")
    assert (await running).status is WorkItemStatus.FAILED
    assert not _sleeps(mark)
    (repair,) = await shop.bench.items.list_by_parent("g")
    await nothing_executes(shop, "g")
    await nothing_executes(shop, repair.id)


def _sleeps(mark: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


async def test_nothing_new_comes_below_what_was_cancelled(shop: Shop, site: Path) -> None:
    """The word may come just when the checks have failed, and a repair is about to be made."""
    await approved(shop, goal())
    await shop.bench.control.cancel("g")
    late = task(id="late", parent="g", spawned_by="g")
    with pytest.raises(WorkItemConflict):
        await shop.bench.items.save_below_running(late)


async def test_a_cancelled_goal_is_not_claimed_by_a_start_that_looked_before(
    shop: Shop, site: Path
) -> None:
    await approved(shop, goal())
    await shop.bench.control.cancel("g")
    with pytest.raises(WorkItemConflict):
        await shop.bench.attempts.start("g", runner="r", only_from=frozenset(WorkItemStatus))


async def test_who_resumes_it_approves_it_again(shop: Shop, site: Path) -> None:
    await approved(shop, goal())
    await shop.bench.control.cancel("g")
    await shop.bench.control.resume("g")
    assert (await cycle(shop)).status is WorkItemStatus.BLOCKED
    await shop.approve(await stored(shop), ApprovalScope.STANDING)
    assert (await cycle(shop)).status is WorkItemStatus.HEALTHY


async def test_a_row_that_is_put_back_brings_nothing_back(shop: Shop, site: Path) -> None:
    item = await approved(shop, goal())
    await shop.bench.control.cancel("g")
    now = format_timestamp(shop.clock.now())
    cancelled = await stored(shop)

    def put_back(tx: Any) -> None:
        status, token = WorkItemStatus.PENDING, item.approval_token
        move_item(tx, cancelled, status=status, now=now, approval_token=token)

    await shop.bench.control._database.transaction(put_back)
    assert (await cycle(shop)).status is WorkItemStatus.BLOCKED
    assert not (site / "up").exists()


class TestBudget:
    """The budget of a goal holds over its cycles."""

    async def test_attempts_add_up_while_it_is_not_healthy(self, shop: Shop, site: Path) -> None:
        useless = "$failed_checks\n```run\ntrue\n```"
        await approved(shop, goal(failure_context=useless, budget={"max_attempts": 2}))
        endings = [(await cycle(shop)).status for _ in range(6)]
        assert endings[0] is WorkItemStatus.FAILED
        assert set(endings[1:]) == {WorkItemStatus.STUCK}
        (repair,) = await shop.bench.items.list_by_parent("g")
        assert repair.attempts == 2

    async def test_a_repair_that_worked_lets_attempts_begin_anew(
        self, shop: Shop, site: Path
    ) -> None:
        await approved(shop, goal(budget={"max_attempts": 1}))
        for _ in range(3):
            assert (await cycle(shop)).status is WorkItemStatus.HEALTHY
            (site / "up").unlink()

    async def test_what_repairs_used_is_gone(self, shop: Shop, site: Path) -> None:
        """Tokens, money and time, also of repairs that worked."""
        worker = FakeWorker(calls(shell("cp", "/dev/null", "up")), tokens=40)
        shop.having(agent=worker)
        asks = "$failed_checks\nMake it empty."
        empty = [check("test -e up && test ! -s up", name="up")]
        changes = {"path": "site", "changes": {"change": ["up"]}}
        budget = {"max_tokens": 100, "max_attempts": 5}
        await approved(
            shop,
            goal(failure_context=asks, verify=empty, workspace=changes, budget=budget),
        )
        endings = []
        for _ in range(4):
            endings.append((await cycle(shop)).status)
            (site / "up").unlink(missing_ok=True)
        healthy, stuck = WorkItemStatus.HEALTHY, WorkItemStatus.STUCK
        assert endings == [healthy, healthy, healthy, stuck]
        assert (await stored(shop)).budget_used.tokens == 120


class TestUsedUp:
    """A standing approval that does not cover a repair: the owner is asked once, and it rests."""

    async def used_up(self, shop: Shop, site: Path) -> None:
        item = await approved(shop, goal())
        token = await shop.engine.issue_token(item, YES, ApprovalScope.STANDING, max_executions=1)
        await shop.bench.items.save(item.model_copy(update={"approval_token": token}))
        assert (await cycle(shop)).status is WorkItemStatus.HEALTHY
        (site / "up").unlink()

    async def test_nobody_is_said_to_have_declined(self, shop: Shop, site: Path) -> None:
        await self.used_up(shop, site)
        shop.having(approver=LaterApprover())
        result = await cycle(shop)
        assert result.status is WorkItemStatus.BLOCKED
        assert "waits for your decision" in (result.last_error or "")
        assert "plan_declined" not in shop.audit.events()

    async def test_further_cycles_make_no_further_tasks(self, shop: Shop, site: Path) -> None:
        await self.used_up(shop, site)
        shop.having(approver=LaterApprover())
        for _ in range(3):
            assert (await cycle(shop)).status is WorkItemStatus.BLOCKED
        _, waiting = await shop.bench.items.list_by_parent("g")
        assert waiting.status is WorkItemStatus.PENDING

    async def test_a_yes_to_the_waiting_task_repairs_it(self, shop: Shop, site: Path) -> None:
        await self.used_up(shop, site)
        shop.having(approver=LaterApprover())
        await cycle(shop)
        _, waiting = await shop.bench.items.list_by_parent("g")
        await shop.approve(waiting)
        result = await cycle(shop)
        assert (result.status, result.summary) == (
            WorkItemStatus.HEALTHY,
            f"Repaired by {waiting.id}.",
        )

    async def test_a_repair_that_is_not_needed_any_more_is_cancelled(
        self, shop: Shop, site: Path
    ) -> None:
        await self.used_up(shop, site)
        shop.having(approver=LaterApprover())
        await cycle(shop)
        (site / "up").write_text("yes\n")
        assert (await cycle(shop)).status is WorkItemStatus.HEALTHY
        _, waiting = await shop.bench.items.list_by_parent("g")
        assert waiting.is_cancelled
