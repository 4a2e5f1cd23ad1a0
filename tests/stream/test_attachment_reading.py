"""Long attached texts: every part of them can be used, by whoever answers, plans and researches."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.app.agents import Agents
from silas.kernel import TaintLevel
from silas.queue.models import QueueMessage
from silas.stream.attachment_reading import PART_CHARS, PartedText, shown_of
from silas.stream.attachments import AttachedFile, FileKind, ReadFile
from silas.stream.models import AgentResponse, AgentTurn, RouteDecision
from silas.stream.ports import Finding, Research
from silas.testing.stream import (
    FakeContext,
    FakePlannerAgent,
    FakeProxy,
    FakeResearcher,
    direct,
    to_planner,
)
from silas.tools.execution import ModelView
from silas.work.ports import ToolCaller
from tests.stream.house import House, open_house
from tests.stream.reading_home import Reading, open_reading

NEEDLE = "The budget for the roof is 48,200 euro."
LINES = [f"Line {number} of a long report about nothing much.\n" for number in range(1, 1600)]
REPORT = "".join([*LINES[:1400], f"{NEEDLE}\n", *LINES[1400:]])
PARTS = len(PartedText(REPORT).parts)


def file(text: str, name: str = "report.txt") -> ReadFile:
    content = text.encode()
    kept = AttachedFile(sha256="0" * 64, name=name, kind=FileKind.TEXT, size=len(content))
    return ReadFile(kept, content)


async def sent(house: House, text: str, *, signed: bool = True) -> QueueMessage:
    kept = await house.core.attachments.keep("report.txt", REPORT.encode())
    said = house.spoken(text, connection="owner", signed=signed, files=[kept.signed])
    return await house.stream.intake.accept(text, said)


@given(st.text(alphabet="ab\n é", max_size=200), st.integers(1, 400))
def test_the_parts_of_a_text_are_the_text(piece: str, times: int) -> None:
    parted = PartedText(piece * times)
    assert "".join(map(parted.of, parted.parts)) == parted.text
    assert all(0 < part.end - part.start <= PART_CHARS for part in parted.parts)
    for before, part in zip(parted.parts, parted.parts[1:], strict=False):
        whole = parted.text[part.start - 1] == "\n"
        assert whole or "\n" not in parted.of(before), "only a line that fills a part is cut"
        assert part.first_line == parted.text.count("\n", 0, part.start) + 1


def test_the_part_that_the_request_is_about_is_shown_and_the_others_are_outlined() -> None:
    shown = shown_of(file(REPORT), "What is the budget for the roof?")
    assert NEEDLE in shown
    assert shown.startswith("[Part 1 of ")
    assert "`read_attachment` reads one" in shown
    assert "part 3, from line" in shown
    other = shown_of(file(REPORT), "Summarise it.")
    assert NEEDLE not in other
    assert "[Part 2 of " in other


def test_a_huge_text_has_a_short_outline() -> None:
    shown = shown_of(file("word " * 2_000_000), "look")
    assert len(shown) < 3 * PART_CHARS


async def read_all(tools: ToolCaller) -> list[ModelView]:
    return [
        await tools.call("read_attachment", {"name": "report.txt", "part": number})
        for number in range(1, PARTS + 1)
    ]


async def test_whoever_answers_reads_every_part_and_is_tainted_by_it(tmp_path: Path) -> None:
    views: list[ModelView] = []

    async def answer(_turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        views.extend(await read_all(tools))
        return direct("I have looked.")

    agents = Agents(proxy=FakeProxy(answer))
    async with open_house(tmp_path, agents, context=FakeContext()) as house:
        answered = await house.answer_to(await sent(house, "Read all of it."))
    texts = [view.return_value.partition(":\n")[2] for view in views]
    assert "".join(texts) == REPORT
    assert {view.taint for view in views} == {TaintLevel.EXTERNAL}
    assert views[0].sources[0].startswith("report.txt, attached at ")
    assert answered.taint is TaintLevel.EXTERNAL
    assert answered.content == "I have looked.", "all of it was read, so nothing is to be said"


async def test_an_answer_says_how_much_was_read(tmp_path: Path) -> None:
    async def answer(_turn: AgentTurn, _tools: ToolCaller) -> RouteDecision:
        return direct("I have looked.")

    agents = Agents(proxy=FakeProxy(answer))
    async with open_house(tmp_path, agents, context=FakeContext()) as house:
        answered = await house.answer_to(await sent(house, "Summarise it."))
    first, second = PartedText(REPORT).parts[:2]
    assert first.end + second.end - second.start == second.end
    told = f"I read {second.end:,} of the {len(REPORT):,} characters of report.txt."
    assert answered.content == f"I have looked.\n\n{told}"


@pytest.mark.parametrize(
    ("tool", "args", "told"),
    [
        ("find_in_attachment", {"text": "BUDGET for the roof"}, NEEDLE),
        ("find_in_attachment", {"text": "pineapple"}, "“pineapple” is nowhere in report.txt."),
        ("read_attachment", {"part": 99}, f"report.txt has {PARTS} parts."),
        ("read_attachment", {"part": 1, "name": "x"}, "There are: report.txt."),
        ("read_attachment", {"part": 0}, "do not fit read_attachment"),
    ],
)
async def test_what_the_tools_say(
    tmp_path: Path, tool: str, args: dict[str, Any], told: str
) -> None:
    views: list[ModelView] = []

    async def answer(_turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        views.append(await tools.call(tool, {"name": "report.txt", **args}))
        return direct("I have looked.")

    agents = Agents(proxy=FakeProxy(answer))
    async with open_house(tmp_path, agents, context=FakeContext()) as house:
        await house.answer_to(await sent(house, "look"))
    assert told in (views[0].return_value or views[0].error or "")


async def test_nobody_reads_in_what_the_owner_did_not_sign(tmp_path: Path) -> None:
    proxy = FakeProxy(offered := Offered())
    async with open_house(tmp_path, Agents(proxy=proxy), context=FakeContext()) as house:
        await house.answer_to(await sent(house, "look", signed=False))
    assert offered.names.isdisjoint({"read_attachment", "find_in_attachment"})


class Offered:
    """A proxy that looks at the tools that it has."""

    names: frozenset[str] = frozenset()

    async def __call__(self, _turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        self.names = frozenset(tools.names)
        return direct("ok")


async def test_planner_and_research_read_on_too(tmp_path: Path) -> None:
    views: list[ModelView] = []

    async def route(_turn: AgentTurn, _tools: ToolCaller) -> RouteDecision:
        return to_planner()

    async def think(
        _turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], _final: bool
    ) -> AgentResponse:
        if not findings:
            views.extend(await read_all(tools))
            await tools.call("request_research", {"question": "What does the roof cost?"})
            return AgentResponse(message="Looking.")
        return AgentResponse(message=f"No plan: {findings[0].answer}")

    async def look(turn: AgentTurn, tools: ToolCaller) -> Research:
        assert [each.name for each in turn.files] == ["report.txt"]
        wanted = {"name": "report.txt", "text": "48,200"}
        view = await tools.call("find_in_attachment", wanted)
        return Research(text=view.return_value, ok=True, sources=[])

    agents = Agents(
        proxy=FakeProxy(route), planner=FakePlannerAgent(think), research=FakeResearcher(look)
    )
    async with open_house(tmp_path, agents, context=FakeContext()) as house:
        await sent(house, "Plan what it says.")
        [answered] = await house.until(lambda: house.containing("No plan"))
    assert NEEDLE in answered.content
    assert NEEDLE in "".join(view.return_value for view in views)
    assert answered.taint is TaintLevel.EXTERNAL
    assert f"of the {len(REPORT):,} characters of report.txt." in answered.content


async def test_a_later_message_reads_on_in_the_same_conversation_only(tmp_path: Path) -> None:
    reading = Reading([("read_attachment", {"name": "report.txt", "part": PARTS})])
    async with open_reading(tmp_path, reading.agents) as home:
        kept = await home.core.attachments.keep("report.txt", REPORT.encode())
        await home.ask("Keep this for later.", files=[kept.signed])
        told = await home.ask("How does it end?")
        assert LINES[-1].strip() in told
        view = reading.views[-1]
        assert view.taint is TaintLevel.EXTERNAL
        assert view.sources[0].startswith("report.txt, attached at ")
        told = await home.ask("And here?", conversation="conv_another1")
        assert "There is no tool 'read_attachment'" in told
