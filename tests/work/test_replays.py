"""Whoever can write the database puts old rows back: an approval is carried out once."""

from pathlib import Path

import pytest

from silas.storage import SqliteDatabase
from silas.testing.work import SENDS, FakeWorker, LaterApprover, PausingWorker, decide_with_vault
from silas.tools.declaration import Tool, ToolRegistry
from silas.work import Plan, WorkItem, WorkItemResult, WorkItemStatus
from silas.work.errors import WorkItemConflict
from silas.work.ports import Briefing, ToolCaller
from silas.work.spawning import spawn_task
from tests.stream.database_writer import OldRows
from tests.work.paused_runner import SEND, Sender
from tests.work.shop import YES, Shop, calls, check, script, shell, task
from tests.work.test_goal import approved as goal_approved
from tests.work.test_goal import cycle, goal
from tests.work.test_toolcalls import SendArguments


@pytest.fixture
def worker(shop: Shop) -> FakeWorker:
    worker = FakeWorker(calls(shell("true")))
    shop.having(agent=worker)
    return worker


async def just_approved(
    shop: Shop, database: SqliteDatabase, item: WorkItem | None = None
) -> tuple[WorkItem, OldRows]:
    """A task that the owner has approved, and the rows as they then are."""
    (approved,) = await shop.approve_plan(Plan(item or task()))
    return approved, await OldRows.of(database)


async def stored(shop: Shop, name: str = "t1") -> WorkItem:
    item = await shop.bench.items.get(name)
    assert item is not None
    return item


async def again(shop: Shop, name: str = "t1") -> WorkItemResult:
    return await shop.execute(await stored(shop, name))


def with_sender(shop: Shop) -> Sender:
    sender = Sender()
    send = Tool("send", SendArguments, sender, contained=False, effect=SENDS)
    registry = ToolRegistry([*shop.bench.registry.tools.values(), send])
    shop.having(registry=registry, approver=LaterApprover())
    return sender


async def test_an_approval_put_back_as_unused_opens_no_door(
    shop: Shop, database: SqliteDatabase, worker: FakeWorker
) -> None:
    item, approved = await just_approved(shop, database)
    assert (await shop.execute(item)).status is WorkItemStatus.UNCHECKED
    await approved.put_back(database)
    result = await again(shop)
    assert result.status is WorkItemStatus.BLOCKED
    assert "carried out" in (result.last_error or "")
    assert len(worker.briefings) == 1


@pytest.mark.parametrize("then", ["done", "waits again"])
async def test_a_run_that_waited_goes_on_once(
    shop: Shop, database: SqliteDatabase, then: str
) -> None:
    """The attempt's files are there as long as it waits again, and only then."""
    sender = with_sender(shop)
    more = [] if then == "done" else [("send", {"to": "b"})]
    await shop.run(task(), PausingWorker(SEND, *more))
    decided = await approve_next(shop, database)
    await again(shop)
    assert sender.sent == ["a"]
    await decided.put_back(database)
    result = await again(shop)
    assert sender.sent == ["a"]
    assert result.status is WorkItemStatus.BLOCKED


async def approve_next(shop: Shop, database: SqliteDatabase) -> OldRows:
    """The owner lets the call that waits be made; the rows as they then are."""
    assert shop.bench.paused is not None
    (run,) = await shop.bench.paused.waiting()
    await decide_with_vault(shop.bench, [run.calls[0]], YES)
    return await OldRows.of(database)


async def test_what_the_owner_cancelled_does_not_go_on(
    shop: Shop, database: SqliteDatabase, worker: FakeWorker
) -> None:
    item, approved = await just_approved(shop, database)
    await shop.bench.control.cancel(item.id)
    await approved.put_back(database)
    result = await again(shop)
    assert "taken this approval back" in (result.last_error or "")
    assert worker.briefings == []


async def test_a_goal_that_was_cancelled_is_over(
    shop: Shop, database: SqliteDatabase, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    made = await goal_approved(shop, goal())
    row = await database.fetch_one("SELECT approval_token FROM work_items")
    assert row is not None
    await shop.bench.control.cancel(made.id)
    await database.execute("UPDATE work_items SET status = 'pending', approval_token = ?", row)
    result = await again(shop, made.id)
    assert "taken this approval back" in (result.last_error or "")
    assert await shop.bench.items.list_by_parent(made.id) == []


@pytest.mark.parametrize("repair", [False, True])
async def test_rows_of_the_middle_of_the_work_are_not_the_beginning_of_more(
    shop: Shop, database: SqliteDatabase, tmp_path: Path, repair: bool
) -> None:
    """Everything is as it was while the worker was at it, and nobody is at it any more."""
    site = tmp_path / "site"
    site.mkdir()
    middle: list[OldRows] = []

    async def work(_briefing: Briefing, tools: ToolCaller) -> None:
        middle.append(await OldRows.of(database))
        await tools.call(*script("echo yes > up"))

    shop.having(agent=FakeWorker(work))
    if repair:
        await goal_approved(shop, goal())
        assert (await cycle(shop)).status is WorkItemStatus.HEALTHY
    else:
        assert (await shop.run(task())).status is WorkItemStatus.UNCHECKED
    (old,) = middle
    await old.put_back(database)
    await database.execute("DELETE FROM work_attempts")
    await database.execute(
        "UPDATE work_items SET status = 'pending', attempts = 0, budget_used = '{}'"
    )
    (site / "up").unlink(missing_ok=True)
    name = (await shop.bench.items.list_by_parent("g"))[0].id if repair else "t1"
    result = await again(shop, name)
    assert "carried out" in (result.last_error or "")
    assert len(middle) == 1


async def test_attempts_are_counted_by_the_log(
    shop: Shop, database: SqliteDatabase, worker: FakeWorker
) -> None:
    never = task(verify=[check("false")], budget={"max_attempts": 2})
    item, approved = await just_approved(shop, database, never)
    assert (await shop.execute(item)).status is WorkItemStatus.STUCK
    await approved.put_back(database)
    result = await again(shop)
    assert "as often as was approved" in (result.last_error or "")
    assert len(worker.briefings) == 2


async def test_a_call_is_not_approved_by_the_token_of_another(
    shop: Shop, database: SqliteDatabase
) -> None:
    """The same call is wanted twice: the yes to the first is no yes to the second."""
    sender = with_sender(shop)
    await shop.run(task(), PausingWorker(SEND, SEND))
    await approve_next(shop, database)
    first = await database.fetch_one("SELECT id, verdict, token FROM paused_calls")
    await again(shop)
    assert sender.sent == ["a"]
    assert first is not None
    await database.execute("DELETE FROM paused_calls WHERE id = ?", (first[0],))
    await database.execute("UPDATE paused_calls SET id = ?, verdict = ?, token = ?", tuple(first))
    result = await again(shop)
    assert sender.sent == ["a"]
    assert "not what was paused" in (result.last_error or "")


async def test_a_log_that_does_not_hold_lets_nothing_begin(
    shop: Shop, database: SqliteDatabase, worker: FakeWorker
) -> None:
    item, _ = await just_approved(shop, database)
    await database.execute("UPDATE audit_log SET body = replace(body, 'issued', 'ISSUED')")
    result = await shop.execute(item)
    assert result.status is WorkItemStatus.BLOCKED
    assert "audit" in (result.last_error or "").lower()
    assert worker.briefings == []


async def test_what_is_being_done_is_not_begun_beside_it(
    shop: Shop, database: SqliteDatabase
) -> None:
    """The rows say in the middle of the work that it has not begun."""
    begun: list[str] = []

    async def work(_briefing: Briefing, tools: ToolCaller) -> None:
        begun.append("x")
        await approved.put_back(database)
        with pytest.raises(WorkItemConflict):
            await again(shop)
        await tools.call(*shell("true"))

    shop.having(agent=FakeWorker(work))
    item, approved = await just_approved(shop, database)
    with pytest.raises(WorkItemConflict):
        await shop.execute(item)
    assert begun == ["x"]


async def test_a_task_that_somebody_adds_to_a_goal_is_not_authorised(
    shop: Shop, database: SqliteDatabase, tmp_path: Path
) -> None:
    """It is what the goal would make, and the rows say that it was authorised."""
    (tmp_path / "site").mkdir()
    made_from = await goal_approved(shop, goal())
    token = made_from.approval_token
    assert token is not None
    added = spawn_task(made_from, [], task_id="added")
    await shop.bench.items.save(added.model_copy(update={"approval_token": token}))
    use = (token.token_id, added.plan_hash, "nonce", "2026-01-01T00:00:00.000000Z")
    await database.execute("INSERT INTO approval_executions VALUES (?, ?, ?, ?)", use)
    await database.execute("UPDATE approval_tokens SET executions_used = executions_used + 1")
    forged = (token.token_id, added.plan_hash, "2026-01-01T00:00:00.000000Z", "k", "00")
    for seal in (None, forged):
        if seal is not None:
            await database.execute("INSERT INTO approval_use_seals VALUES (?, ?, ?, ?, ?)", seal)
        result = await again(shop, "added")
        assert "not used for this task" in (result.last_error or "")
