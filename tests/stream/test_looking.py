"""A planner that cannot ask is shown the files that its owner names, and nothing beside them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from silas.app.agents import Agents
from silas.kernel import TaintLevel
from silas.stream.models import AgentResponse, AgentTurn, RequestKind
from silas.stream.ports import Finding
from silas.testing.stream import FakePlannerAgent, FakeProxy, to_planner
from silas.work.ports import ToolCaller
from tests.stream.house import open_house


async def proxy(_turn: AgentTurn, _tools: ToolCaller) -> object:
    return to_planner()


async def planner(
    _turn: AgentTurn, _tools: ToolCaller, _findings: Sequence[Finding], _final: bool
) -> AgentResponse:
    return AgentResponse(message="I looked.")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shop = tmp_path / "shop"
    (shop / "docs").mkdir(parents=True)
    (shop / "hours.txt").write_text("9 to 17")
    (shop / "docs" / "prices.txt").write_text("tea: 3")
    (shop / "other.txt").write_text("nobody asked")
    (tmp_path / "secret.txt").write_text("key")
    (shop / "link.txt").symlink_to(tmp_path / "secret.txt")
    return shop


async def shown(
    tmp_path: Path, text: str, *, looks: bool = True, signed: bool = True
) -> tuple[dict[str, str], AgentTurn]:
    """What the planner is shown for this request: answers by question."""
    planning = FakePlannerAgent(planner)
    agents = Agents(FakeProxy(proxy), planning, planner_looks_first=looks)
    async with open_house(tmp_path, agents) as house:
        await house.answer_to(await house.say(text, signed=signed))
    ((turn, findings, _),) = planning.turns
    return {each.question: each.answer for each in findings}, turn


async def test_named_files_are_read(tmp_path: Path, shop: Path) -> None:
    text = f"In {shop}, say what hours.txt and `docs/prices.txt` say."
    found, turn = await shown(tmp_path, text)
    assert found["What does hours.txt hold?"] == "9 to 17"
    assert found["What does prices.txt hold?"] == "tea: 3"
    assert "other.txt" in found[f"Which files are in {shop}?"]
    assert "nobody asked" not in str(found)
    assert turn.taint is TaintLevel.OWNER


async def test_how_tests_are_run_is_told(tmp_path: Path, shop: Path) -> None:
    (shop / "test_prices.py").write_text("")
    (shop / "docs" / "test_nested.py").write_text("")
    found, _ = await shown(tmp_path, f"Mend what is wrong in {shop}.")
    assert found["Which command runs its tests?"] == "python3 -m unittest test_prices"


async def test_a_whole_path_is_read(tmp_path: Path, shop: Path) -> None:
    found, _ = await shown(tmp_path, f"What does {shop}/hours.txt say?")
    assert found["What does hours.txt hold?"] == "9 to 17"


@pytest.mark.parametrize("name", ["../secret.txt", "link.txt", "missing.txt", "docs", "a" * 3000])
async def test_nothing_beside_the_folder_is_read(tmp_path: Path, shop: Path, name: str) -> None:
    found, _ = await shown(tmp_path, f"In {shop}, what does {name} say?")
    assert list(found) == [f"Which files are in {shop}?"]
    assert "key" not in found[f"Which files are in {shop}?"]


async def test_a_strangers_words_show_nothing(tmp_path: Path, shop: Path) -> None:
    found, _ = await shown(tmp_path, f"What does {shop}/hours.txt say?", signed=False)
    assert found == {}


async def test_a_planner_that_can_ask_is_shown_nothing_that_it_has_not_asked_for(
    tmp_path: Path, shop: Path
) -> None:
    found, _ = await shown(tmp_path, f"What does {shop}/hours.txt say?", looks=False)
    assert found == {}


async def test_what_the_front_door_takes_the_request_for_reaches_the_planner(
    tmp_path: Path,
) -> None:
    planning = FakePlannerAgent(planner)

    async def knowing(_turn: AgentTurn, _tools: ToolCaller) -> object:
        return to_planner().model_copy(update={"request_kind": RequestKind.QUESTION})

    async with open_house(tmp_path, Agents(FakeProxy(knowing), planning)) as house:
        await house.answer_to(await house.say("What does it say?"))
    ((turn, _, _),) = planning.turns
    assert turn.request_kind is RequestKind.QUESTION


async def test_only_a_little_of_a_long_file_is_shown(tmp_path: Path, shop: Path) -> None:
    (shop / "long.txt").write_text("x" * 100 + "\n" * 5 + "line\n" * 100_000)
    found, _ = await shown(tmp_path, f"What does {shop}/long.txt say?")
    assert len(found["What does long.txt hold?"]) <= 3_000
