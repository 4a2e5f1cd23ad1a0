"""One task ends another, and its own end is not lost over it."""

import asyncio
import logging

import pytest

from silas.app.jobs import in_background
from silas.kernel import SilasError
from silas.kernel.tasks import BackgroundWork, end_task


async def test_a_task_is_ended_and_its_cancellation_is_not_raised() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    await end_task(task)
    assert task.cancelled()
    await end_task(task)


async def test_what_the_task_raised_is_raised() -> None:
    async def fails() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("at its end")

    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="at its end"):
        await end_task(task)


async def test_who_is_cancelled_while_something_ends_is_cancelled_after_that_end() -> None:
    ending, may_end, went_on = asyncio.Event(), asyncio.Event(), False

    async def takes_its_time() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue

    async def life() -> None:
        nonlocal went_on
        async with in_background(takes_its_time()):
            await asyncio.sleep(0)
        went_on = True

    task = asyncio.create_task(life())
    await ending.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done(), "what is being ended is waited for"
    may_end.set()
    await asyncio.wait({task})
    assert task.cancelled()
    assert not went_on


class DiskIsFull(SilasError):
    """The disk is full."""

    code = "E_TEST_DISK_FULL"


async def test_what_nobody_waits_for_is_told_in_the_log_if_it_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def writes() -> None:
        raise DiskIsFull

    task = BackgroundWork(logging.getLogger("silas.test")).start(writes, "A word was not kept")
    await task
    [said] = caplog.records
    assert (said.name, said.getMessage()) == (
        "silas.test",
        "A word was not kept: The disk is full.",
    )


async def test_a_mistake_of_ours_in_the_background_is_not_hidden() -> None:
    async def stumbles() -> None:
        raise ZeroDivisionError

    task = BackgroundWork(logging.getLogger("silas.test")).start(stumbles, "Nothing")
    with pytest.raises(ZeroDivisionError):
        await task


async def test_what_is_ended_before_it_has_begun_leaves_nothing() -> None:
    begun = []
    task = BackgroundWork(logging.getLogger("silas.test")).start(
        lambda: asyncio.sleep(0, begun.append(1)), "Nothing"
    )
    await end_task(task)
    assert begun == []
