"""The owner takes an approval back: nothing more is done under it, and running work ends."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from silas.approval.errors import TokenUnknown
from silas.kernel import AuditError
from silas.storage import SqliteDatabase
from silas.work import Plan, WorkItem, WorkItemStatus
from silas.work.authorisation import Revoked, revoke_approvals
from tests.work.shop import Shop, check, task
from tests.work.test_control import marked, sleeper, started, until
from tests.work.test_goal import approved, cycle, goal

TAKEN_BACK = "The owner has taken this approval back"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    return path


async def revoke(shop: Shop, name: str) -> Revoked:
    bench = shop.bench
    return await revoke_approvals(bench.approvals, bench.items, bench.control, name)


async def stored(shop: Shop, name: str) -> WorkItem:
    item = await shop.bench.items.get(name)
    assert item is not None
    return item


async def rows_of(database: SqliteDatabase) -> Callable[[], Awaitable[None]]:
    """What puts the rows back as they are now: the item with its token, which is not void."""
    row = await database.fetch_one("SELECT status, approval_token FROM work_items")
    assert row is not None

    async def put_back() -> None:
        await database.execute("UPDATE approval_tokens SET voided_at = NULL, void_reason = NULL")
        await database.execute("UPDATE work_items SET status = ?, approval_token = ?", row)

    return put_back


@pytest.mark.parametrize("by", ["item", "token"])
async def test_what_waits_is_not_begun(shop: Shop, by: str) -> None:
    (item,) = await shop.approve_plan(Plan(task("```run\ntouch a\n```")))
    token = item.approval_token
    assert token is not None
    taken = await revoke(shop, item.id if by == "item" else token.token_id)
    assert [each.token_id for each in taken.tokens] == [token.token_id]
    assert [each.id for each in taken.stopped] == [item.id]
    assert (await stored(shop, item.id)).status is WorkItemStatus.FAILED
    valid, reason = await shop.engine.check(token, item)
    assert (valid, reason) == (False, f"The token is void: {TAKEN_BACK}")
    assert "approval_withdrawn" in shop.audit.events()


async def test_it_stays_so_whatever_the_rows_say(shop: Shop, database: SqliteDatabase) -> None:
    """Whoever puts the rows back is refused by the log."""
    (item,) = await shop.approve_plan(Plan(task("```run\ntouch a\n```")))
    put_back = await rows_of(database)
    await revoke(shop, item.id)
    await put_back()
    result = await shop.execute(await stored(shop, item.id))
    assert result.status is WorkItemStatus.BLOCKED
    assert result.last_error == TAKEN_BACK


async def test_running_work_ends(shop: Shop) -> None:
    item, running = await started(shop, sleeper())
    taken = await revoke(shop, item.id)
    result = await asyncio.wait_for(running, 60)
    assert [each.id for each in taken.stopped] == [item.id]
    assert result.status is WorkItemStatus.FAILED
    await until(lambda: not marked())


async def test_a_standing_approval_starts_nothing_any_more(
    shop: Shop, site: Path, database: SqliteDatabase
) -> None:
    item = await approved(shop, goal())
    token = item.approval_token
    assert token is not None
    put_back = await rows_of(database)
    await revoke(shop, token.token_id)
    assert (await stored(shop, "g")).status is WorkItemStatus.FAILED
    await put_back()  # the vault remembers
    assert (await cycle(shop)).last_error == TAKEN_BACK
    assert await shop.bench.items.list_by_parent("g") == []
    assert not (site / "up").exists()


async def test_a_task_of_a_goal_has_no_approval_of_its_own(shop: Shop, site: Path) -> None:
    await approved(shop, goal())
    await cycle(shop)
    (spawned,) = await shop.bench.items.list_by_parent("g")
    with pytest.raises(TokenUnknown, match="approval of the goal g"):
        await revoke(shop, spawned.id)


async def test_what_was_done_stays_done(shop: Shop) -> None:
    (item,) = await shop.approve_plan(
        Plan(task("```run\ntouch a\n```", verify=[check("test -f a")]))
    )
    assert (await shop.execute(item)).status is WorkItemStatus.DONE
    taken = await revoke(shop, item.id)
    assert taken.stopped == []
    assert (await stored(shop, item.id)).status is WorkItemStatus.DONE


async def test_nobody_knows_it(shop: Shop) -> None:
    with pytest.raises(TokenUnknown):
        await revoke(shop, "tok_nothing")
    assert "approval_withdrawn" not in shop.audit.events()


async def test_with_the_approval_goes_its_work_also_if_nothing_comes_after(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed right after the first write: nobody finds the approval gone and its work waiting."""
    (item,) = await shop.approve_plan(Plan(task("```run\ntouch a\n```")))

    async def killed(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(shop.engine, "vouch", killed)
    monkeypatch.setattr(shop.audit, "write_checkpoint", killed)
    with pytest.raises(asyncio.CancelledError):
        await revoke(shop, item.id)
    now = await stored(shop, item.id)
    assert now.status is WorkItemStatus.FAILED
    assert now.approval_token is None


async def test_running_work_ends_also_if_the_log_cannot_be_vouched_for(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, running = await started(shop, sleeper())

    async def fails(*_: object) -> None:
        raise AuditError("The disk is full.")

    monkeypatch.setattr(shop.audit, "write_checkpoint", fails)
    taken = await revoke(shop, item.id)
    result = await asyncio.wait_for(running, 60)
    assert [each.id for each in taken.stopped] == [item.id]
    assert result.status is WorkItemStatus.FAILED
    await until(lambda: not marked())
    assert "audit_checkpoint_failed" in shop.audit.events()
