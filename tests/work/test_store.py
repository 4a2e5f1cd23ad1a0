"""Work items in the database: they come back whole, and nobody overwrites anybody."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from silas.approval import ApprovalToken
from silas.kernel import WorkError
from silas.storage import SqliteDatabase, Transaction, load_migrations, migrate
from silas.testing import FakeClock
from silas.work import (
    BudgetUsed,
    IllegalTransition,
    VerificationResult,
    WorkItem,
    WorkItemConflict,
    WorkItemStatus,
    WorkItemStore,
    WorkItemUnknown,
    parse_plan,
)
from silas.work.store import load_item, move_item

S = WorkItemStatus
PLANS = Path(__file__).parents[2] / "plans"
TOKEN = ApprovalToken.model_validate(
    {
        "token_id": "tok_1",
        "plan_hash": "0" * 64,
        "work_item_id": "a",
        "scope": "standing",
        "verdict": "approved",
        "signature": b"\x00\xff" * 32,
        "issued_at": datetime(2026, 1, 1, tzinfo=UTC),
        "expires_at": datetime(2026, 1, 2, tzinfo=UTC),
        "nonce": "tok_1.n",
        "approval_strength": "tap",
        "executions_used": 2,
        "execution_nonces": ["x", "y"],
    }
)


def task(item_id: str = "a", **fields: Any) -> WorkItem:
    return WorkItem.model_validate({"id": item_id, "type": "task", "title": "T", **fields})


@pytest.fixture
def store(database: SqliteDatabase, clock: FakeClock) -> WorkItemStore:
    return WorkItemStore(database, clock)


async def test_an_item_comes_back_whole(store: WorkItemStore, clock: FakeClock) -> None:
    plan = parse_plan((PLANS / "support-chatbot.md").read_text())
    item = plan.root.model_copy(
        update={
            "approval_token": TOKEN,
            "needs_approval": False,
            "budget_used": BudgetUsed(tokens=5, cost_usd=0.1),
            "verification_results": [VerificationResult(name="c", passed=False, reason="no")],
        }
    )
    saved = await store.save(item)
    loaded = await store.get(item.id)
    assert loaded == saved
    assert loaded is not None
    assert loaded == item.model_copy(update={"created_at": clock.now(), "version": 1})
    assert loaded.plan_bytes() == item.plan_bytes()
    assert loaded.approval_token == TOKEN


async def test_the_stored_plan_is_the_bytes_that_are_hashed(
    store: WorkItemStore, database: SqliteDatabase
) -> None:
    item = await store.save(task(body="größe"))
    row = await database.fetch_one("SELECT plan, approval_token FROM work_items")
    assert row == (item.plan_bytes().decode(), None)


async def test_an_unknown_item_is_none_or_an_error(store: WorkItemStore) -> None:
    assert await store.get("nobody") is None
    with pytest.raises(WorkItemUnknown, match="nobody"):
        await store.update_status("nobody", S.RUNNING, BudgetUsed())
    with pytest.raises(WorkItemUnknown, match="any more"):
        await store.save(task(version=3))


async def test_items_are_found_by_status_parent_and_origin(
    store: WorkItemStore, clock: FakeClock
) -> None:
    for name, fields in (
        ("b", {"parent": "p"}),
        ("a", {"parent": "p", "follow_up_of": "z"}),
        ("c", {"status": "blocked"}),
    ):
        await store.save(task(name, **fields))
        clock.advance(seconds=1)
    assert [item.id for item in await store.list_by_status(S.PENDING)] == ["b", "a"]
    assert [item.id for item in await store.list_by_status(S.DONE)] == []
    assert [item.id for item in await store.list_by_parent("p")] == ["b", "a"]
    assert [item.id for item in await store.list_follow_ups("z")] == ["a"]
    assert await store.known(["a", "b", "x"]) == {"a", "b"}


async def test_an_id_is_taken_once(store: WorkItemStore) -> None:
    await store.save(task())
    with pytest.raises(WorkItemConflict, match="already"):
        await store.save(task(title="Another"))


async def test_a_stale_copy_is_refused(store: WorkItemStore) -> None:
    first = await store.save(task())
    second = await store.save(first.model_copy(update={"needs_approval": False}))
    assert second.version == first.version + 1
    with pytest.raises(WorkItemConflict, match="meantime"):
        await store.save(first.model_copy(update={"title": "Stale"}))
    assert await store.get("a") == second


async def test_the_birthday_of_an_item_does_not_change(store: WorkItemStore) -> None:
    item = await store.save(task())
    other = item.model_copy(update={"created_at": datetime(2020, 1, 1, tzinfo=UTC)})
    saved = await store.save(other)
    assert saved.created_at == item.created_at
    assert await store.get("a") == saved


async def test_of_many_writers_of_one_version_exactly_one_wins(store: WorkItemStore) -> None:
    item = await store.save(task())
    attempts = [
        store.save(item.model_copy(update={"title": f"Title {number}"})) for number in range(20)
    ]
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    won = [outcome for outcome in outcomes if isinstance(outcome, WorkItem)]
    assert len(won) == 1
    assert all(isinstance(each, WorkItem | WorkItemConflict) for each in outcomes)
    assert await store.get("a") == won[0]


async def test_a_row_that_changes_under_a_transaction_is_not_overwritten(
    store: WorkItemStore, database: SqliteDatabase
) -> None:
    """Where several processes share a database, another one may come in between."""
    await store.save(task())

    def collide(tx: Transaction) -> None:
        seen = load_item(tx, "a")
        tx.execute("UPDATE work_items SET version = version + 1 WHERE id = ?", ("a",))
        move_item(tx, seen, status=S.RUNNING, now="2026-01-01T00:00:00.000000Z")

    with pytest.raises(WorkItemConflict, match="meantime"):
        await database.transaction(collide)
    after = await store.get("a")
    assert after is not None
    assert (after.status, after.version) == (S.PENDING, 1)


async def test_status_and_budget_change_together(store: WorkItemStore, clock: FakeClock) -> None:
    await store.save(task())
    used = BudgetUsed(tokens=9)
    running = await store.update_status("a", S.RUNNING, used)
    assert (running.status, running.budget_used, running.version) == (S.RUNNING, used, 2)
    with pytest.raises(IllegalTransition):
        await store.update_status("a", S.HEALTHY, BudgetUsed(tokens=10))
    after = await store.get("a")
    assert after is not None
    assert after.budget_used == used


async def test_the_row_decides_about_a_transition_not_the_copy(store: WorkItemStore) -> None:
    await store.save(task())
    await store.update_status("a", S.RUNNING, BudgetUsed())
    done = await store.update_status("a", S.DONE, BudgetUsed())
    with pytest.raises(IllegalTransition, match="is done and cannot become running"):
        await store.update_status("a", S.RUNNING, BudgetUsed())
    with pytest.raises(IllegalTransition):
        await store.save(done.model_copy(update={"status": S.PENDING}))
    fresh = await store.save(task("b"))
    with pytest.raises(IllegalTransition, match="is pending and cannot become done"):
        await store.save(fresh.model_copy(update={"status": S.DONE}))


async def test_a_change_can_insist_on_the_status_that_it_saw(store: WorkItemStore) -> None:
    await store.save(task())
    await store.update_status("a", S.PAUSED, BudgetUsed())
    with pytest.raises(WorkItemConflict, match="is paused, not pending"):
        await store.update_status("a", S.RUNNING, BudgetUsed(), expected=S.PENDING)


async def test_of_many_claims_exactly_one_wins(store: WorkItemStore) -> None:
    await store.save(task())
    claims = [
        store.update_status("a", S.RUNNING, BudgetUsed(), expected=S.PENDING) for _ in range(20)
    ]
    outcomes = await asyncio.gather(*claims, return_exceptions=True)
    assert sum(isinstance(outcome, WorkItem) for outcome in outcomes) == 1


@pytest.mark.parametrize("status", [S.RUNNING, S.DONE])
async def test_what_runs_or_has_run_keeps_its_plan(
    store: WorkItemStore, status: WorkItemStatus
) -> None:
    item = await store.save(task())
    item = await store.update_status("a", S.RUNNING, BudgetUsed())
    if status is S.DONE:
        item = await store.update_status("a", S.DONE, BudgetUsed())
    with pytest.raises(WorkItemConflict, match="plan cannot change"):
        await store.save(item.model_copy(update={"body": "Something else"}))
    state = item.model_copy(update={"approval_token": TOKEN})
    assert (await store.save(state)).approval_token == TOKEN


async def test_a_plan_that_waits_can_be_revised_but_keeps_its_type(store: WorkItemStore) -> None:
    item = await store.save(task())
    item = await store.save(item.model_copy(update={"body": "Better"}))
    assert item.body == "Better"
    with pytest.raises(WorkItemConflict, match="plan cannot change"):
        await store.save(WorkItem.model_validate({**item.model_dump(), "type": "goal"}))


async def test_a_project_is_stored_whole_or_not_at_all(store: WorkItemStore) -> None:
    plan = parse_plan((PLANS / "deployment.md").read_text())
    saved = await store.save_plan(plan)
    assert [item.id for item in saved] == [item.id for item in plan.items]
    children = await store.list_by_parent(plan.root.id)
    assert {item.id for item in children} == set(plan.root.tasks)

    again = parse_plan(
        (PLANS / "deployment.md").read_text().replace("id: deploy-2-4-0\n", "id: other\n")
    )
    with pytest.raises(WorkItemConflict, match="already"):
        await store.save_plan(again)
    assert await store.get("other") is None


async def test_a_plan_may_not_refer_to_nothing(store: WorkItemStore) -> None:
    text = "---\nid: b\ntype: task\ntitle: T\nfollow_up_of: a\ndepends_on: [c]\n---\nGo on."
    with pytest.raises(WorkItemUnknown, match="a, c"):
        await store.save_plan(parse_plan(text))
    await store.save(task("a"))
    await store.save(task("c"))
    assert (await store.save_plan(parse_plan(text)))[0].follow_up_of == "a"


async def test_a_row_that_makes_no_sense_is_an_error_of_ours(
    store: WorkItemStore, database: SqliteDatabase
) -> None:
    await store.save(task())
    broken = json.dumps({"id": "a", "type": "task", "title": "T", "colour": "red"})
    await database.execute("UPDATE work_items SET plan = ? WHERE id = ?", (broken, "a"))
    with pytest.raises(WorkError, match="cannot be read"):
        await store.get("a")


async def test_items_survive_the_process(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "other.db"
    for attempt in (1, 2):
        database = SqliteDatabase.open(path)
        await migrate(database, load_migrations("runtime"), clock=clock)
        store = WorkItemStore(database, clock)
        if attempt == 1:
            await store.save(task())
        else:
            assert await store.get("a") is not None
        await database.close()
