"""Sentences of the conversation, each in the state in which it would be false."""

from pathlib import Path

from silas.app.agents import Agents
from silas.queue.errors import NotWorthRetrying
from silas.storage.errors import DiskFull
from silas.stream.activity import _SENTENCES
from silas.stream.models import AgentTurn, RouteDecision
from silas.testing.stream import FakeProxy
from silas.work.ports import ToolCaller
from tests.sentences.collect import texts
from tests.stream.house import FAILING, open_house, plan
from tests.stream.test_flows import always_plan, planning


async def test_what_is_given_up_at_once_is_not_said_to_have_been_tried_often(
    tmp_path: Path,
) -> None:
    async def hopeless(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        raise NotWorthRetrying("This cannot be read.")

    async with open_house(tmp_path, Agents(proxy=FakeProxy(hopeless))) as house:
        await house.say("Hello")
        (told,) = await house.until(lambda: house.containing("I could not finish this"))
        assert "several times" not in told.content
        assert "This cannot be read." in told.content


async def test_who_found_no_other_way_announces_no_plan(tmp_path: Path) -> None:
    more = f"{FAILING}\nbudget: {{max_attempts: 1}}"
    same = plan("```run\n/bin/true\n```", more=more)
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(same))
    async with open_house(tmp_path, agents) as house:
        await house.say("Do it")
        await house.reviews.decide(await house.card())
        (told,) = await house.until(lambda: house.containing("I found no other way"))
        assert "Here is a plan." not in told.content


def test_on_a_full_disk_nobody_is_told_to_repeat_what_may_have_been_decided() -> None:
    """An approval that is on the disk is followed once there is space: a second one is too much."""
    said = str(DiskFull())
    assert "again" not in said
    assert "Nothing was lost" not in said


def test_activity_speaks_only_of_what_the_log_can_have() -> None:
    """A sentence about an event that nobody writes down would never be true."""
    written = {text for name, text in texts("**/*.py") if name != "stream/activity.py"}
    assert [event for event in _SENTENCES if event not in written] == []
