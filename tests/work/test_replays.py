"""Whoever can write the database puts old rows back: an approval is carried out once."""

import pytest

from silas.storage import SqliteDatabase
from silas.testing.work import FakeWorker, LaterApprover, PausingWorker
from silas.work import Plan, WorkItem, WorkItemResult, WorkItemStatus
from silas.work.authorisation import decide_waiting
from silas.work.executors import ExecutorRegistry, Tool
from tests.stream.database_writer import OldRows
from tests.work.paused_runner import SEND, Sender
from tests.work.shop import YES, Shop, calls, shell, task
from tests.work.test_toolcalls import SendArguments


async def stored(shop: Shop, name: str = "t1") -> WorkItem:
    item = await shop.bench.items.get(name)
    assert item is not None
    return item


async def again(shop: Shop, name: str = "t1") -> WorkItemResult:
    return await shop.execute(await stored(shop, name))


def with_sender(shop: Shop) -> Sender:
    sender = Sender()
    send = Tool("send", SendArguments, sender, contained=False, changes_state=True)
    registry = ExecutorRegistry([*shop.bench.registry.tools.values(), send])
    shop.having(registry=registry, approver=LaterApprover())
    return sender


async def test_an_approval_put_back_as_unused_opens_no_door(
    shop: Shop, database: SqliteDatabase
) -> None:
    worker = FakeWorker(calls(shell("true")))
    shop.having(agent=worker)
    (item,) = await shop.approve_plan(Plan(task()))
    approved = await OldRows.of(database)
    assert (await shop.execute(item)).status is WorkItemStatus.DONE
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
    await decide_waiting(shop.bench, run.calls[0], YES)
    return await OldRows.of(database)
