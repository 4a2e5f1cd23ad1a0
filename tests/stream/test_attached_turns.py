"""What agents are told of the files of a message, and what that makes of their answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from silas.app.agents import Agents
from silas.kernel import TaintLevel
from silas.queue.models import QueueMessage
from silas.stream.attachments import AttachedFile
from silas.stream.models import AgentTurn, RouteDecision
from silas.stream.ports import Finding
from silas.testing.stream import (
    FakeContext,
    FakePlannerAgent,
    FakeProxy,
    direct,
    proposing,
    to_planner,
)
from silas.work.ports import ToolCaller
from tests.stream.house import House, open_house, writing

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


async def answer(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
    return direct("I have looked.")


async def plan_it(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
    return to_planner()


async def propose(
    turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], final: bool
) -> Any:
    return proposing(writing("hello.txt"))


async def sent(house: House, text: str, *files: AttachedFile, signed: bool = True) -> QueueMessage:
    named = [each.signed for each in files]
    said = house.spoken(text, connection="owner", signed=signed, files=named)
    return await house.stream.intake.accept(text, said)


@pytest.mark.parametrize("sees", [True, False])
async def test_a_model_is_told_of_files_and_given_images_if_it_sees(
    tmp_path: Path, *, sees: bool
) -> None:
    proxy, context = FakeProxy(answer), FakeContext()
    agents = Agents(proxy=proxy, proxy_sees_images=sees)
    async with open_house(tmp_path, agents, context=context) as house:
        text = await house.core.attachments.keep("a.txt", b"Dear Anna\n")
        image = await house.core.attachments.keep("cat.png", PNG)
        asked = await sent(house, "look", text, image)
        answered = await house.answer_to(asked)
    [turn] = proxy.turns
    assert [(each.name, each.lines) for each in turn.files] == [("a.txt", 1), ("cat.png", None)]
    assert [each.image for each in turn.files] == [None, PNG if sees else None]
    assert turn.taint is TaintLevel.EXTERNAL
    assert [each.partition(",")[0] for each in turn.taint_sources] == ["a.txt", "cat.png"]
    assert answered.taint is TaintLevel.EXTERNAL
    unseen = "This model cannot see images, so cat.png was not looked at."
    assert answered.content == ("I have looked." if sees else f"I have looked.\n\n{unseen}")
    entries = [each for each in context.entries["owner"].values() if "attachment:" in each.source]
    assert [each.taint for each in entries] == [TaintLevel.EXTERNAL] * 2
    assert "Dear Anna" in entries[0].text


async def test_a_plan_made_with_a_file_names_it_as_its_source(tmp_path: Path) -> None:
    planner = FakePlannerAgent(propose)
    agents = Agents(proxy=FakeProxy(plan_it), planner=planner)
    async with open_house(tmp_path, agents, context=FakeContext()) as house:
        text = await house.core.attachments.keep("brief.txt", b"Write hello.\n")
        image = await house.core.attachments.keep("cat.png", PNG)
        asked = await sent(house, "do what it says", text, image)
        card = await house.card()
        answered = await house.until(lambda: house.containing("cannot see images"))
    assert card.taint is TaintLevel.EXTERNAL
    assert any(each.startswith("brief.txt, attached at ") for each in card.sources)
    assert [each.name for each in planner.turns[0][0].files] == ["brief.txt", "cat.png"]
    assert answered[0].trace_id == asked.trace_id


async def test_a_file_that_nobody_signed_for_is_not_read(tmp_path: Path) -> None:
    proxy, context = FakeProxy(answer), FakeContext()
    async with open_house(tmp_path, Agents(proxy=proxy), context=context) as house:
        text = await house.core.attachments.keep("a.txt", b"Dear Anna\n")
        await house.answer_to(await sent(house, "look", text, signed=False))
    assert proxy.turns[0].files == ()
    assert not any("Dear Anna" in each.text for each in context.entries["owner"].values())


async def test_a_file_that_is_not_what_it_was_is_not_read(tmp_path: Path) -> None:
    proxy, context = FakeProxy(answer), FakeContext()
    async with open_house(tmp_path, Agents(proxy=proxy), context=context) as house:
        text = await house.core.attachments.keep("a.txt", b"Dear Anna\n")
        (house.core.paths.attachments / text.sha256).write_bytes(b"Dear Eve!\n")
        await house.answer_to(await sent(house, "look", text))
    assert proxy.turns[0].files == ()
    [entry] = [each for each in context.entries["owner"].values() if "attachment:" in each.source]
    assert "it is not kept any more" in entry.text
    assert "Dear" not in entry.text
