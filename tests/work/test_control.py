"""Cancel, pause and resume: in the same process and from another one."""

import asyncio
import os
from pathlib import Path

import pytest

from silas.kernel import SystemClock
from silas.storage import SqliteDatabase
from silas.testing.work import FakeWorker
from silas.work import (
    AttemptOutcome,
    AttemptStore,
    IllegalTransition,
    Plan,
    WorkItem,
    WorkItemStatus,
    WorkItemStore,
)
from silas.work.control import StoppedByOwner, WorkControl
from silas.work.ports import Briefing, ToolCaller
from tests.work.shop import Shop, calls, check, script, shell, task
from tests.work.test_project import project, step

# Its processes are known by how long they sleep, also where tests run side by side.
MARK = f"4242.{os.getpid()}"


def marked() -> list[str]:
    """The processes with our mark in their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if MARK.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


async def until(condition) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - processes tell nobody that they are there
            await asyncio.sleep(0.01)


async def started(shop: Shop, item: WorkItem) -> tuple[WorkItem, asyncio.Task]:
    (approved,) = await shop.approve_plan(Plan(item))
    running = asyncio.create_task(shop.execute(approved))
    await until(marked)
    return approved, running


def sleeper(**more) -> WorkItem:
    return task(f"```run\nsleep {MARK}\n```", verify=[check("test -f woken")], **more)


def elsewhere(shop: Shop, path: Path) -> tuple[SqliteDatabase, WorkControl]:
    """The control of another process: other connections, no shared event."""
    database = SqliteDatabase.open(path)
    items = WorkItemStore(database, shop.clock)
    attempts = AttemptStore(database, shop.clock, shop.audit)
    control = WorkControl(
        database,
        items,
        attempts,
        audit=shop.audit,
        clock=SystemClock(),
        approvals=shop.engine,
    )
    return database, control


@pytest.mark.parametrize("other_process", [False, True])
@pytest.mark.parametrize(
    ("word", "status"), [("pause", WorkItemStatus.PAUSED), ("cancel", WorkItemStatus.FAILED)]
)
async def test_a_running_task_is_stopped_with_all_its_processes(
    shop: Shop, tmp_path: Path, word: str, status: WorkItemStatus, other_process: bool
) -> None:
    item, running = await started(shop, sleeper())
    database, other = elsewhere(shop, tmp_path / "silas.db")
    control = other if other_process else shop.bench.control
    await getattr(control, word)(item.id)
    result = await running
    assert marked() == []
    assert result.status is status
    stored = await shop.bench.items.get(item.id)
    assert stored is not None
    assert stored.status is status
    (attempt,) = await shop.bench.attempts.list_of(item.id)
    assert attempt.outcome is AttemptOutcome.STOPPED
    assert await other.wait_until_idle(item.id, seconds=1)
    await database.close()


def test_what_was_cancelled_is_not_told_as_failed() -> None:
    assert StoppedByOwner(WorkItemStatus.FAILED).verb == "cancelled"
    assert StoppedByOwner(WorkItemStatus.PAUSED).verb == "paused"


async def test_a_paused_task_goes_on_with_a_fresh_attempt(shop: Shop) -> None:
    item, running = await started(shop, sleeper())
    await shop.bench.control.pause(item.id)
    await running
    worker = FakeWorker(calls(shell("touch", "woken")))
    shop.having(agent=worker)
    paused = await shop.bench.items.get(item.id)
    assert paused is not None
    assert (await shop.execute(paused)).status is WorkItemStatus.PAUSED
    assert worker.briefings == []
    resumed = await shop.bench.control.resume(item.id)
    assert (await shop.execute(resumed)).status is WorkItemStatus.DONE
    assert worker.briefings[0].attempt == 2


async def test_a_project_is_stopped_with_everything_below_it(shop: Shop) -> None:
    woken = [check("test -f woken")]
    slow = [step(name, f"```run\nsleep {MARK}\n```", verify=woken) for name in "ab"]
    plan = project(*slow, step("c", depends_on=["a"], verify=woken))
    root, *_ = await shop.approve_plan(plan)
    running = asyncio.create_task(shop.execute(root))
    await until(lambda: len(marked()) >= 2)
    stopped = await shop.bench.control.pause("p")
    result = await running
    assert marked() == []
    assert result.status is WorkItemStatus.PAUSED
    assert {item.id for item in stopped} == {"p", "a", "b", "c"}
    assert await shop.bench.attempts.list_open() == []
    shop.having(agent=FakeWorker(calls(shell("touch", "woken"))))
    resumed = await shop.bench.control.resume("p")
    assert (await shop.execute(resumed)).status is WorkItemStatus.DONE


async def test_stopping_silas_itself_leaves_the_task_waiting(shop: Shop) -> None:
    item, running = await started(shop, sleeper())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert marked() == []
    stored = await shop.bench.items.get(item.id)
    assert stored is not None
    assert stored.status is WorkItemStatus.PENDING
    assert await shop.bench.attempts.list_open() == []


async def test_a_worker_that_ignores_the_stop_is_stopped(shop: Shop) -> None:
    async def stubborn(_briefing: Briefing, tools: ToolCaller) -> None:
        while True:
            await tools.call(*shell("sleep", MARK))

    shop.having(agent=FakeWorker(stubborn))
    item, running = await started(shop, task(verify=[check("true")]))
    await shop.bench.control.cancel(item.id)
    assert (await running).status is WorkItemStatus.FAILED
    assert marked() == []


async def test_two_runners_never_run_one_task_at_once(shop: Shop) -> None:
    worker = FakeWorker(calls(script("sleep 0.2; touch made")))
    wanted = task(verify=[check("test -f made")])
    (item,) = await shop.having(agent=worker).approve_plan(Plan(wanted))
    results = await asyncio.gather(*(shop.execute(item) for _ in range(4)), return_exceptions=True)
    assert len(worker.briefings) == 1
    assert [r for r in results if getattr(r, "status", None) is WorkItemStatus.DONE]


async def test_what_has_ended_cannot_be_resumed(shop: Shop) -> None:
    await shop.run(task("```run\ntrue\n```"))
    with pytest.raises(IllegalTransition):
        await shop.bench.control.resume("t1")
    assert await shop.bench.control.cancel("t1") == []
