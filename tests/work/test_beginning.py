"""Before a command starts: everything is written once, and the log is examined once."""

from typing import Any

import pytest

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.audit import log
from silas.storage import SqliteDatabase
from silas.testing.work import FakeWorker
from silas.work import Plan, WorkItem, WorkItemStatus
from silas.work.authorisation import authorise, plan_question
from silas.work.binding import bind_plan
from silas.work.errors import WorkItemConflict
from silas.work.ports import Briefing, ToolCaller
from tests.work.shop import OFF_LIMITS, Shop, calls, shell, task

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)


async def stored(shop: Shop, item: WorkItem) -> WorkItem:
    bound = await bind_plan(Plan(item), base=shop.root, off_limits=OFF_LIMITS)
    (saved,) = await shop.bench.items.save_plan(bound)
    return saved


async def say_yes(shop: Shop, item: WorkItem) -> WorkItem:
    question = await plan_question(shop.bench, [item])
    word = shop.bench.decisions.owners_word(question, YES)
    (approved,) = await authorise(shop.bench, [item], question, word)
    return approved


async def count(database: SqliteDatabase, table: str) -> int:
    row = await database.fetch_one(f"SELECT count(*) FROM {table}")
    assert row is not None
    return int(row[0])


async def test_a_yes_is_issued_used_and_attached_at_once(
    shop: Shop, database: SqliteDatabase
) -> None:
    approved = await say_yes(shop, await stored(shop, task()))
    token = approved.approval_token
    assert token is not None
    assert await shop.engine.check(token, approved) == (True, "Valid")
    assert shop.audit.events().count("approval_used") == 1
    assert await count(database, "audit_checkpoints") == 0, "nothing has begun yet"


async def test_one_examination_and_one_checkpoint_before_the_command(
    shop: Shop, database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.audit.write_checkpoint()
    made: list[str] = []
    examine = log.examine_chain

    def counted(*args: Any, **options: Any) -> Any:
        made.append("examined")
        return examine(*args, **options)

    monkeypatch.setattr(log, "examine_chain", counted)
    before = await count(database, "audit_checkpoints")
    seen: list[tuple[int, int]] = []

    async def look(briefing: Briefing, tools: ToolCaller) -> Any:
        seen.append((len(made), await count(database, "audit_checkpoints") - before))
        return await calls(shell("true"))(briefing, tools)

    shop.clock.advance(seconds=1)
    approved = await say_yes(shop, await stored(shop, task()))
    shop.having(agent=FakeWorker(look))
    result = await shop.execute(approved)
    assert result.status is WorkItemStatus.UNCHECKED
    assert seen == [(1, 1)]
    row = await database.fetch_one("SELECT seq FROM audit_log WHERE body LIKE '%approval_begun%'")
    vouched = await database.fetch_one("SELECT min(seq) FROM audit_checkpoints WHERE seq >= ?", row)
    assert row == vouched, "the checkpoint before the command vouches for its beginning"


async def test_a_plan_that_was_changed_meanwhile_is_not_approved(
    shop: Shop, database: SqliteDatabase
) -> None:
    item = await stored(shop, task())
    question = await plan_question(shop.bench, [item])
    word = shop.bench.decisions.owners_word(question, YES)
    await database.execute("UPDATE work_items SET plan = replace(plan, 'Do it.', 'Do that.')")
    with pytest.raises(WorkItemConflict, match="was changed meanwhile"):
        await authorise(shop.bench, [item], question, word)
    assert await count(database, "approval_tokens") == 0
    assert await count(database, "decisions") == 0


async def test_what_the_owner_has_paused_stays_paused(shop: Shop) -> None:
    item = await stored(shop, task())
    await shop.bench.control.pause(item.id)
    question = await plan_question(shop.bench, [item])
    word = shop.bench.decisions.owners_word(question, YES)
    approved = await authorise(shop.bench, [item], question, word)
    assert approved[0].status is WorkItemStatus.PAUSED


def test_another_plan_has_other_bytes() -> None:
    """The bytes are made once for each item, and anew for each changed plan."""
    item = task()
    first = item.plan_bytes()
    assert item.plan_bytes() is first
    assert item.model_copy(update={"attempts": 3}).plan_bytes() is first
    changed = item.model_copy(update={"body": "Do that."})
    assert changed.plan_bytes() != first
    assert changed.model_copy(update={"body": item.body}).plan_bytes() == first
    assert item.plan_bytes() is first
    assert item == task()
    assert "_plan_bytes" not in item.model_dump()
