"""What time brings: questions without an answer, goals that are due, a house that closes."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from silas.app.agents import Agents
from silas.app.conversation import open_stream
from silas.app.server import running_server
from silas.kernel import SystemClock
from silas.queue.models import ExecutionStatus
from silas.scheduler import CronSchedule
from silas.stream.errors import NotTaken
from silas.stream.healing import Next, what_next
from silas.stream.interaction import Surface, surface_of_status
from silas.stream.models import AgentResponse, AgentTurn, RouteDecision
from silas.stream.ports import Finding, Research
from silas.testing import FakeClock
from silas.testing.stream import FakePlannerAgent, FakeProxy, FakeResearcher, direct, to_planner
from silas.work import WorkItem, WorkItemResult, WorkItemStatus
from silas.work.ports import ToolCaller
from tests.stream.house import House, open_house, standing_house
from tests.stream.test_flows import always_plan


def asking(*questions: str) -> FakePlannerAgent:
    async def think(
        turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], final: bool
    ) -> AgentResponse:
        if findings:
            told = ", ".join(f"{each.question} {each.answer}" for each in findings)
            return AgentResponse(message=f"final={final}: {told}")
        for question in questions:
            await tools.call("request_research", {"question": question})
        return AgentResponse(message="wait")

    return FakePlannerAgent(think)


async def settle(house: House) -> None:
    """Everything that can be done now is done."""
    for _ in range(10):
        for consumer in house.stream.consumers:
            if consumer.name != "executor":
                await consumer.run_until_empty()


async def test_questions_that_nobody_answers_expire(tmp_path: Path) -> None:
    clock = FakeClock()
    agents = Agents(proxy=FakeProxy(always_plan), planner=asking("one?", "two?"))
    async with standing_house(tmp_path, agents, clock=clock) as house:
        asked = await house.say("plan it")
        await settle(house)
        assert house.answers(asked) == []
        assert await house.stream.clockwork.end_overdue_research() == 0
        clock.advance(seconds=120)
        assert await house.stream.clockwork.end_overdue_research() == 2
        assert await house.stream.clockwork.end_overdue_research() == 0, "said once"
        await settle(house)
        (answered,) = house.answers(asked)
        assert answered.content.startswith("final=True: one? There was no answer in time.")
        # The executor comes back to life, much too late: it does not even begin to look.
        await next(c for c in house.stream.consumers if c.name == "executor").run_until_empty()
        await settle(house)
        assert house.answers(asked) == [answered]
        assert len(await house.audited("research_ignored")) == 2


async def test_a_crash_between_a_result_and_what_follows_is_made_good(tmp_path: Path) -> None:
    """The result is written down, then the planner dies: delivered again, it goes on."""
    planner = asking("one?")
    alive = False

    async def think(
        turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], final: bool
    ) -> AgentResponse:
        if findings and not alive:
            raise RuntimeError("the planner dies")
        answered = await planner.plan(turn, tools, findings=findings, final=final)
        return answered.output

    async def look(turn: AgentTurn, tools: ToolCaller) -> Research:
        return Research(text="found", ok=True, sources=[])

    clock = FakeClock()
    agents = Agents(FakeProxy(always_plan), FakePlannerAgent(think), FakeResearcher(look))
    async with standing_house(tmp_path, agents, clock=clock) as house:
        asked = await house.say("plan it")
        await settle(house)
        executor = next(c for c in house.stream.consumers if c.name == "executor")
        await executor.run_until_empty()
        await settle(house)
        assert house.answers(asked) == []
        alive = True
        clock.advance(seconds=5)
        await settle(house)
        (answered,) = house.answers(asked)
        assert answered.content == "final=False: one? found"


async def test_what_is_being_said_is_finished_and_nothing_new_is_taken(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        begun.set()
        await go_on.wait()
        return direct("done")

    async with open_house(tmp_path, Agents(proxy=FakeProxy(slowly))) as house:
        asked = await house.say("hello")
        await begun.wait()
        draining = asyncio.create_task(house.stream.drain(30))
        await asyncio.sleep(0)
        with pytest.raises(NotTaken):
            await house.say("one more")
        assert not draining.done()
        go_on.set()
        await draining
        row = "SELECT 1 FROM processed_messages WHERE message_id = ?"
        await house.row(row, (asked.message_id,))


async def test_what_cannot_finish_is_answered_after_the_restart(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def never(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        begun.set()
        await asyncio.Event().wait()
        return direct("never")

    async def now(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        return direct("at last")

    async with standing_house(tmp_path, Agents(proxy=FakeProxy(never))) as house:
        asked = await house.say("hello", signed=False)
        running = asyncio.create_task(house.stream.run())
        await begun.wait()
        await house.stream.drain(0.01)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert len(await house.on_the_bus()) == 1
    async with open_house(tmp_path, Agents(proxy=FakeProxy(now))) as house:
        assert (await house.answer_to(asked)).content == "at last"


async def test_the_server_runs_the_conversation(tmp_path: Path) -> None:
    async def answer(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        return direct("hello yourself")

    async with standing_house(tmp_path, Agents()) as house:
        core, opened = house.core, []

        @contextlib.asynccontextmanager
        async def conversation(_core: object) -> object:
            async with open_stream(core, Agents(proxy=FakeProxy(answer))) as stream:
                opened.append(stream)
                yield stream

        async with running_server(
            core.paths,
            clock=SystemClock(),
            command="test",
            core=contextlib.nullcontext(core),
            jobs_of=lambda _core: [],
            stopping=asyncio.Event(),
            conversation_of=conversation,  # type: ignore[arg-type]
        ):
            (stream,) = opened
            await stream.intake.accept("hi", house.spoken("hi", connection="owner", signed=True))
            query = "SELECT body FROM queue_messages WHERE queue = 'channel_queue'"
            assert "hello yourself" in (await house.row(query))[0]
        assert await house.audited("stream_stopped")


@pytest.mark.parametrize(
    ("kind", "status", "depth", "on_stuck", "following"),
    [
        ("task", "done", 0, "consult_planner", Next.NOTHING),
        ("task", "paused", 0, "consult_planner", Next.NOTHING),
        ("task", "failed", 0, "consult_planner", Next.NOTHING),
        ("task", "stuck", 0, "consult_planner", Next.REPLAN),
        ("task", "stuck", 1, "consult_planner", Next.REPLAN),
        ("task", "stuck", 2, "consult_planner", Next.ESCALATE),
        ("task", "stuck", 0, "report", Next.ESCALATE),
        ("task", "blocked", 0, "consult_planner", Next.ESCALATE),
        ("goal", "healthy", 0, "consult_planner", Next.NOTHING),
        ("goal", "failed", 0, "consult_planner", Next.REPORT),
        ("goal", "stuck", 0, "consult_planner", Next.REPLAN),
        ("goal", "blocked", 0, "consult_planner", Next.ESCALATE),
        ("project", "failed", 2, "consult_planner", Next.ESCALATE),
    ],
)
def test_the_levels_of_healing(
    kind: str, status: str, depth: int, on_stuck: str, following: Next
) -> None:
    item = WorkItem.model_validate({"id": "x", "type": kind, "title": "X", "on_stuck": on_stuck})
    item = item.model_copy(update={"status": WorkItemStatus.PENDING})
    result = WorkItemResult(work_item_id="x", status=WorkItemStatus(status), summary="")
    assert what_next(item, result, depth=depth, most=2) is following


@pytest.mark.parametrize(
    ("status", "asked_for", "is_last", "surface"),
    [
        ("running", True, False, Surface.ACTIVITY),
        ("verification_failed", True, True, Surface.ACTIVITY),
        ("done", True, False, Surface.STREAM),
        ("done", False, False, Surface.ACTIVITY),
        ("stuck", True, False, Surface.ACTIVITY),
        ("stuck", True, True, Surface.STREAM),
        ("blocked", False, True, Surface.STREAM),
        ("failed", False, False, Surface.ACTIVITY),
    ],
)
def test_where_a_status_is_shown(
    status: str, asked_for: bool, is_last: bool, surface: Surface
) -> None:
    found = surface_of_status(ExecutionStatus(status), asked_for=asked_for, is_last=is_last)
    assert found is surface


@pytest.mark.parametrize(
    ("cron", "due"),
    [
        ("* * * * *", True),
        ("0 12 * * *", True),
        ("1 12 * * *", False),
        ("0 12 1 1 *", True),
        ("0 12 2 1 *", False),
        ("0 12 * * thu", True),
        ("0 12 * * fri", False),
        ("0 12 2 * thu", True),
        ("0 12 2 * fri", False),
        ("0 12 * 2 *", False),
    ],
)
def test_when_a_schedule_is_due(cron: str, due: bool) -> None:
    assert CronSchedule.parse(cron).is_due(FakeClock().now()) is due
    assert not CronSchedule.parse(cron).is_due(FakeClock().now() + timedelta(hours=1)) or (
        cron == "* * * * *"
    )


async def test_a_planner_that_is_absent_is_missed_in_words(tmp_path: Path) -> None:
    async def route(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        return to_planner()

    async with open_house(tmp_path, Agents(proxy=FakeProxy(route))) as house:
        answered = await house.answer_to(await house.say("plan it"))
        assert "Nobody is here who could plan" in answered.content
    async with open_house(tmp_path, Agents()) as house:
        answered = await house.answer_to(await house.say("hello", signed=False))
        assert "Nobody is here who could answer" in answered.content
