"""A hundred conversations at once: nobody reads another's, and each keeps its order."""

import re
from pathlib import Path

from silas.app.agents import Agents
from silas.kernel import SystemClock, TaintLevel
from silas.stream.models import AgentTurn, RouteDecision
from silas.testing.stream import FakeContext, FakeMemory, FakeProxy, direct
from silas.work.ports import ToolCaller
from tests.stream.house import open_house, writing
from tests.stream.test_flows import always_plan, planning

SCOPES = 100
TURNS = 4


def secret(scope: str) -> str:
    return f"secret-of-{scope}."


async def test_a_hundred_scopes(tmp_path: Path) -> None:
    memory, context = FakeMemory(SystemClock()), FakeContext()
    scopes = [f"guest{number}" for number in range(SCOPES)]
    for scope in scopes:
        memory.add(f"password {secret(scope)}", scope_id=scope, taint=TaintLevel.AUTH)
    seen: dict[str, set[str]] = {}

    async def answer(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        found = await tools.call("memory_search", {"query": "password"})
        everything = f"{turn.context} {turn.request} {found.return_value}"
        seen.setdefault(turn.scope_id, set()).update(re.findall(r"secret-of-\w+\.", everything))
        said = turn.request.splitlines()[-1].strip()
        return direct(f"{said} done", memory_ops=[{"op": "store", "content": f"{said} noted"}])

    services = {"memory": memory, "context": context, "is_known": lambda _channel, _sender: True}
    async with open_house(tmp_path, Agents(proxy=FakeProxy(answer)), **services) as house:
        for number in range(TURNS):
            for scope in scopes:
                text = f"{scope} password turn {number}"
                await house.say(text, connection=scope, signed=False)
        await house.until(lambda: len(house.said) == SCOPES * TURNS)
        await house.idle()
        for scope in scopes:
            replies = [each.content for each in house.said if each.scope_id == scope]
            assert replies == [f"{scope} password turn {number} done" for number in range(TURNS)]
            assert seen[scope] == {secret(scope)}
            assert len(memory.items[scope]) == 1 + TURNS
            told = [entry.text for entry in context.entries[scope].values()]
            assert len(told) == 2 * TURNS
            assert all(scope in text for text in told)
            assert await house.stream.turns.store.turns(scope) == TURNS
        assert await house.dead() == []


async def test_a_visitor_has_no_tools_and_the_owner_has(tmp_path: Path) -> None:
    async def tell(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        return direct(f"{turn.access_level}: {', '.join(tools.names)}")

    memory = FakeMemory(SystemClock())
    async with open_house(tmp_path, Agents(proxy=FakeProxy(tell)), memory=memory) as house:
        guest = await house.say("Who am I?", connection="guest", signed=False)
        owner = await house.say("Who am I?")
        assert (await house.answer_to(guest)).content == "public: "
        assert (await house.answer_to(owner)).content.startswith("owner: memory_search, ")


async def test_a_visitor_cannot_link_to_the_owners_work(tmp_path: Path) -> None:
    """A plan of one scope that goes on from another's work is refused."""
    mine = writing("mine.txt", id="mine")
    theirs = writing("theirs.txt", id="theirs").replace(
        "type: task", "type: task\nfollow_up_of: mine"
    )
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(mine, theirs))
    async with open_house(tmp_path, agents) as house:
        await house.answer_to(await house.say("Do mine"))
        asked = await house.say("Go on with the owner's", connection="guest", signed=False)
        answered = await house.answer_to(asked)
        assert "do not exist: mine" in answered.content
        assert len(await house.reviews.waiting()) == 1
        assert await house.stream.turns.items.get("theirs") is None
