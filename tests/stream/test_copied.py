"""What the owner has signed, copied to another connection before it was read."""

from pathlib import Path

from silas.app.agents import Agents
from silas.kernel import TaintLevel
from silas.stream.models import AgentTurn, RouteDecision
from silas.testing.stream import FakeProxy, direct
from silas.work.ports import ToolCaller
from tests.stream.house import House, open_house

TEXT = "What is the number of the safe?"


async def answering(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
    return direct("here")


async def taint_of(house: House, trace_id: str) -> TaintLevel | None:
    origin = await house.stream.turns.store.origin(trace_id)
    return origin.taint if origin else None


async def test_a_copy_is_not_the_owners_and_does_not_take_the_originals_place(
    tmp_path: Path,
) -> None:
    async with open_house(tmp_path, Agents(proxy=FakeProxy(answering))) as house:
        said = house.spoken(TEXT, connection="owner", signed=True)
        elsewhere = {"connection_id": "stranger", "sender_id": "owner"}
        copy = await house.stream.intake.accept(TEXT, said.model_copy(update=elsewhere))
        await house.answer_to(copy)
        original = await house.stream.intake.accept(TEXT, said)
        await house.answer_to(original)
        assert await taint_of(house, copy.trace_id) is TaintLevel.EXTERNAL
        assert await taint_of(house, original.trace_id) is TaintLevel.OWNER
