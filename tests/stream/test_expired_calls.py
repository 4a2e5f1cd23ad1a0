"""A call that nobody decided within its day: the owner is told what expired, and what now."""

from pathlib import Path

from silas.app.agents import Agents
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.queue.models import AgentReply
from silas.stream.activity import sentence_of
from silas.testing import FakeClock
from silas.testing.stream import FakeProxy
from silas.testing.work import decide_with_vault
from silas.work.models import WorkItemStatus
from silas.work.report import report_of
from tests.stream.house import House, plan, standing_house
from tests.stream.test_flows import always_plan, planning

ASKS = "gates:\n  - {name: ask, on: on_tool_call, type: approval_always}\n"
PLAN = plan("```run\ntrue\n```", more=f"{ASKS}domain: test")


async def settle(house: House) -> None:
    """Everything that can be done now is done."""
    for _ in range(10):
        for consumer in house.stream.consumers:
            await consumer.run_until_empty()


async def waiting(house: House) -> None:
    """The plan is approved and begun, and its call waits."""
    await house.say("Do it")
    await settle(house)
    await house.reviews.decide(await house.card())
    await settle(house)
    assert house.containing("It goes on when you have decided")


def agents() -> Agents:
    return Agents(proxy=FakeProxy(always_plan), planner=planning(PLAN))


async def test_the_owner_is_told_once_what_expired_and_what_now(tmp_path: Path) -> None:
    clock = FakeClock()
    async with standing_house(tmp_path, agents(), clock=clock) as house:
        await waiting(house)
        context = house.stream.work.context
        clock.advance(hours=23)
        assert await house.stream.expired.look() == 0
        assert (await report_of(context, "hello")).waits
        clock.advance(hours=1)
        assert await house.stream.expired.look() == 1
        assert await house.stream.expired.look() == 0, "told once"
        await settle(house)
        (told,) = house.containing("nobody decided in time about a call of shell_exec")
        assert "The call was not made. The work rests." in told.content
        assert "`silas work resume hello` takes it up again without it" in told.content
        assert isinstance(told.payload, AgentReply)
        assert (told.payload.connection_id, told.payload.surface) == ("owner", "stream")
        item = await house.stream.turns.items.get("hello")
        assert item is not None
        assert item.status is WorkItemStatus.BLOCKED
        report = await report_of(context, "hello")
        assert (report.waits, report.expired) == (False, True)
        assert len(await house.audited("paused_call_expired")) == 1
        assert await house.audited("paused_call_decided") == []
        said = filter(None, map(sentence_of, await house.core.audit.tail(100)))
        assert any("shell_exec was not done" in each for each in said)


async def test_a_call_that_was_decided_does_not_expire(tmp_path: Path) -> None:
    clock = FakeClock()
    async with standing_house(tmp_path, agents(), clock=clock) as house:
        await waiting(house)
        paused = house.stream.work.context.paused
        assert paused is not None
        (run,) = await paused.waiting()
        no = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
        await decide_with_vault(house.stream.work.context, run.calls, no)
        clock.advance(days=2)
        assert await house.stream.expired.look() == 0
        assert await house.audited("paused_call_expired") == []


async def test_what_was_cancelled_does_not_expire(tmp_path: Path) -> None:
    clock = FakeClock()
    async with standing_house(tmp_path, agents(), clock=clock) as house:
        await waiting(house)
        await house.stream.work.context.control.cancel("hello")
        clock.advance(days=2)
        assert await house.stream.expired.look() == 0


async def test_work_that_no_conversation_asked_for_is_told_to_the_owner(tmp_path: Path) -> None:
    clock = FakeClock()
    async with standing_house(tmp_path, agents(), clock=clock) as house:
        await waiting(house)
        await house.database.execute("DELETE FROM conversation_work")
        clock.advance(days=1)
        assert await house.stream.expired.look() == 1
        await settle(house)
        (told,) = house.containing("nobody decided in time")
        assert isinstance(told.payload, AgentReply)
        assert told.payload.connection_id == "owner"
