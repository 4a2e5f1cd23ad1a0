"""A cycle of a goal: checks, the spawned task, and one use of the standing approval for each."""

from pathlib import Path
from typing import Any

import pytest

from silas.approval import ApprovalScope, ApprovalVerdict
from silas.testing.work import FakeApprover
from silas.work import BudgetUsed, WorkItem, WorkItemResult, WorkItemStatus
from silas.work.binding import bind
from silas.work.spawning import spawn_task
from tests.work.shop import OFF_LIMITS, Shop, check

HEALTHY, FAILED, BLOCKED = WorkItemStatus.HEALTHY, WorkItemStatus.FAILED, WorkItemStatus.BLOCKED
REPAIR = "Repair it.\n\n$failed_checks\n\n```file path=up\nyes\n```"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    return path


def goal(**more: Any) -> WorkItem:
    fields = {
        "id": "g",
        "type": "goal",
        "title": "Keep it up",
        "schedule": "*/5 * * * *",
        "verify": [check("cat up", name="up", equals="yes\n")],
        "on_failure": "spawn_task",
        "failure_context": REPAIR,
        "budget": {"max_attempts": 1},
        "workspace": {"path": "site", "changes": {"change": ["up"]}},
    }
    return WorkItem.model_validate({**fields, **more})


async def approved(shop: Shop, item: WorkItem) -> WorkItem:
    bound = await bind(item, base=shop.root, off_limits=OFF_LIMITS)
    return await shop.approve(await shop.bench.items.save(bound), ApprovalScope.STANDING)


async def cycle(shop: Shop) -> WorkItemResult:
    item = await shop.bench.items.get("g")
    assert item is not None
    return await shop.execute(item)


async def test_a_healthy_goal_spawns_nothing(shop: Shop, site: Path) -> None:
    (site / "up").write_text("yes\n")
    await approved(shop, goal())
    assert (await cycle(shop)).status is HEALTHY
    assert (await cycle(shop)).status is HEALTHY
    assert await shop.bench.items.list_by_parent("g") == []
    assert "approval_used" not in shop.audit.events()


async def test_a_failed_check_is_repaired_under_the_standing_approval(
    shop: Shop, site: Path
) -> None:
    await approved(shop, goal())
    assert (await cycle(shop)).status is HEALTHY
    assert (site / "up").read_text() == "yes\n"
    (site / "up").unlink()
    assert (await cycle(shop)).status is HEALTHY
    first, second = await shop.bench.items.list_by_parent("g")
    assert first.id != second.id
    assert (first.status, first.needs_approval) == (WorkItemStatus.DONE, False)
    assert "- up: equals: not as expected" in first.body
    uses = [data for name, data in shop.audit.entries if name == "approval_used"]
    assert len({use["content_hash"] for use in uses}) == 2
    spawned = [data for name, data in shop.audit.entries if name == "goal_task_spawned"]
    assert [each["spawned_task_hash"] for each in spawned] == [use["content_hash"] for use in uses]


async def test_what_a_repair_used_that_is_not_needed_any_more_was_used(
    shop: Shop, site: Path
) -> None:
    """A crash stopped it, and the checks pass meanwhile: the goal has no new budget by that."""
    item = await approved(shop, goal())
    used = BudgetUsed(tokens=500, cost_usd=0.5, attempts=1)
    repair = spawn_task(item, [], task_id="task_1").model_copy(update={"budget_used": used})
    await shop.bench.items.save(repair)
    (site / "up").write_text("yes\n")
    assert (await cycle(shop)).status is HEALTHY
    now = await stored(shop)
    assert (now.budget_used.tokens, now.budget_used.cost_usd) == (500, 0.5)
    assert now.budget_used.attempts == 0
    (ended,) = await shop.bench.items.list_by_parent("g")
    assert ended.is_cancelled


async def test_without_an_approval_not_even_the_checks_run(shop: Shop, site: Path) -> None:
    await shop.bench.items.save(await bind(goal(), base=shop.root, off_limits=OFF_LIMITS))
    assert (await cycle(shop)).status is BLOCKED
    assert "goal_checked" not in shop.audit.events()


async def test_an_ordinary_approval_is_no_standing_one(shop: Shop, site: Path) -> None:
    bound = await bind(goal(), base=shop.root, off_limits=OFF_LIMITS)
    await shop.approve(await shop.bench.items.save(bound))
    assert (await cycle(shop)).status is BLOCKED


async def test_a_goal_that_only_reports(shop: Shop, site: Path) -> None:
    await approved(shop, goal(on_failure="report"))
    result = await cycle(shop)
    assert (result.status, result.last_error) == (FAILED, "These checks did not pass: up.")
    assert await shop.bench.items.list_by_parent("g") == []


@pytest.mark.parametrize(
    ("approver", "status"),
    [
        (None, BLOCKED),
        (FakeApprover(ApprovalVerdict.DECLINED), BLOCKED),
        (FakeApprover(), HEALTHY),
    ],
)
async def test_when_the_standing_approval_is_used_up_the_owner_is_asked(
    shop: Shop, site: Path, approver: FakeApprover | None, status: WorkItemStatus
) -> None:
    from tests.work.shop import YES

    bound = await shop.bench.items.save(await bind(goal(), base=shop.root, off_limits=OFF_LIMITS))
    token = await shop.engine.issue_token(bound, YES, ApprovalScope.STANDING, max_executions=1)
    await shop.bench.items.save(bound.model_copy(update={"approval_token": token}))
    assert (await cycle(shop)).status is HEALTHY
    (site / "up").unlink()
    assert (await shop.having(approver=approver).execute(await stored(shop))).status is status
    assert shop.reasons("standing_approval_refused") == ["The token has been used up"]
    last = (await shop.bench.items.list_by_parent("g"))[-1]
    assert last.needs_approval is True
    assert last.status is (WorkItemStatus.DONE if status is HEALTHY else BLOCKED)


async def stored(shop: Shop) -> WorkItem:
    item = await shop.bench.items.get("g")
    assert item is not None
    return item


async def test_a_changed_goal_does_nothing(shop: Shop, site: Path) -> None:
    item = await approved(shop, goal())
    assert item.approval_token is not None
    other = item.model_copy(update={"failure_context": "$failed_checks\n```run\nrm -rf .\n```"})
    await shop.bench.items.save(other)
    assert (await cycle(shop)).last_error == "The plan is not the one that was approved"


async def test_a_repair_that_does_not_repair(shop: Shop, site: Path) -> None:
    await approved(shop, goal(failure_context="$failed_checks\n```run\ntrue\n```"))
    result = await cycle(shop)
    assert result.status is FAILED
    assert "is stuck" in (result.last_error or "")


async def test_a_goal_of_the_stream_is_not_executed(shop: Shop) -> None:
    item = WorkItem(id="g", type="goal", title="G", schedule="always_on")  # type: ignore[arg-type]
    await approved(shop, item)
    assert "configures the conversation" in ((await cycle(shop)).last_error or "")


async def test_where_nobody_proposes_a_goal_for_items_says_so(shop: Shop, site: Path) -> None:
    policy = {"source": {"tool": "list"}, "actions": {"archive": {"tool": "archive"}}}
    plain = {"verify": [], "on_failure": "report", "failure_context": None, "workspace": None}
    await approved(shop, goal(batch=policy, **plain))
    result = await cycle(shop)
    assert result.status is FAILED
    assert "it takes the running Silas" in (result.last_error or "")
