"""Somebody is at it already: nobody else begins, nor says what has become of it."""

import pytest

from silas.work import WorkItemConflict, WorkItemStatus
from tests.work.shop import Shop, task


async def test_what_is_being_worked_on_is_not_blocked_by_an_approval_that_has_run_out(
    shop: Shop,
) -> None:
    """The machine slept in the middle of it, and the message that asked for it came again."""
    item = await shop.approve(await shop.bench.items.save(task()))
    await shop.bench.attempts.start(item.id, runner="somebody")
    shop.clock.advance(hours=1)
    with pytest.raises(WorkItemConflict, match="being worked on"):
        await shop.execute(item)
    found = await shop.bench.items.get(item.id)
    assert found is not None
    assert found.status is WorkItemStatus.RUNNING


async def test_what_has_one_attempt_and_is_at_it_is_not_called_ended(shop: Shop) -> None:
    only_one = task(budget={"max_attempts": 1})
    item = await shop.approve(await shop.bench.items.save(only_one))
    await shop.bench.attempts.start(item.id, runner="somebody")
    with pytest.raises(WorkItemConflict, match="being worked on"):
        await shop.execute(item)
