"""Only the owner's own words choose a folder; research reads it, and nothing beside it."""

from collections.abc import Sequence
from pathlib import Path

from silas.app.agents import Agents
from silas.queue.models import RequestFolders
from silas.stream.models import AgentResponse, AgentTurn
from silas.stream.ports import Finding, Research
from silas.testing.stream import FakePlannerAgent, FakeProxy, FakeResearcher, to_planner
from silas.work.plan import parse_plan
from silas.work.plan_markdown import plan_difference, plan_markdown
from silas.work.ports import ToolCaller
from tests.stream.house import open_house


async def proxy(_turn: AgentTurn, _tools: ToolCaller) -> object:
    return to_planner()


async def planner(
    _turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], _final: bool
) -> AgentResponse:
    if not findings:
        await tools.call("request_research", {"question": "What is there?"})
    return AgentResponse(message="I looked.")


async def test_a_strangers_words_choose_no_folder(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    planning = FakePlannerAgent(planner)
    seen: list[tuple[str, ...]] = []

    async def research(_turn: AgentTurn, tools: ToolCaller) -> Research:
        seen.append(tools.names)
        return Research(text="Nothing.", ok=False, sources=[])

    agents = Agents(FakeProxy(proxy), planning, FakeResearcher(research))
    async with open_house(tmp_path, agents) as house:
        for signed in (False, True):
            said = await house.say(f"Look into {tmp_path}/shop", signed=signed)
            await house.answer_to(said)
    strangers, _, owners, _ = [turn.folders for turn, _, _ in planning.turns]
    assert strangers == RequestFolders()
    assert owners.named == [str(tmp_path / "shop")]
    without, with_files = seen
    assert not {"read_file", "grep", "glob"} & set(without)
    assert {"read_file", "grep", "glob"} <= set(with_files)


async def test_research_reads_the_folder_and_nothing_beside_it(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "hours.txt").write_text("9 to 17")
    (tmp_path / "secret.txt").write_text("key")
    (shop / "link.txt").symlink_to(tmp_path / "secret.txt")
    found: dict[str, str] = {}

    async def research(_turn: AgentTurn, tools: ToolCaller) -> Research:
        for name in ("hours.txt", f"{shop}/hours.txt", f"{tmp_path}/secret.txt", "../secret.txt"):
            view = await tools.call("read_file", {"path": name})
            found[name] = str(view.return_value or view.error)
        linked = await tools.call("read_file", {"path": "link.txt"})
        assert not linked.success
        listed = await tools.call("glob", {"pattern": str(shop)})
        assert "hours.txt" in str(listed.return_value)
        return Research(text="9 to 17", ok=True, sources=["hours.txt"])

    agents = Agents(FakeProxy(proxy), FakePlannerAgent(planner), FakeResearcher(research))
    async with open_house(tmp_path, agents) as house:
        await house.answer_to(await house.say(f"When does {shop} open?"))
    inside = [text for name, text in found.items() if "hours" in name]
    outside = [text for name, text in found.items() if "secret" in name]
    assert all("9 to 17" in text for text in inside)
    assert not any("key" in text for text in outside)


def test_a_plan_as_text_is_the_plan() -> None:
    """What a planner is shown to change can be read again, and says the same."""
    text = (
        "---\nid: a\ntype: project\ntitle: A\nworkspace: {path: /tmp/x, changes: {add: [b.txt]}}\n"
        "tasks:\n  - {id: b, title: B, body: Do it., verify: [{name: n, run: cat b.txt, "
        "expect: {contains: x}}]}\n---\nWhy.\n"
    )
    plan = parse_plan(text)
    again = parse_plan(plan_markdown(plan.root, plan.tasks))
    assert [item.plan_bytes() for item in again.items] == [item.plan_bytes() for item in plan.items]
    changed = parse_plan(text.replace("Do it.", "Do it well."))
    difference = plan_difference(
        plan_markdown(plan.root, plan.tasks), plan_markdown(changed.root, changed.tasks)
    )
    assert "-  body: Do it.\n+  body: Do it well." in difference
    assert plan_difference(text, text) == ""
