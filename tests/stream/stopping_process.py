"""A process in which the owner stops an answer, and which is killed before that is answered."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from silas.app.agents import Agents
from silas.stream.models import AgentResponse, AgentTurn, RouteDecision
from silas.stream.ports import Finding
from silas.testing.stream import FakePlannerAgent, FakeProxy, to_planner
from silas.work.ports import ToolCaller
from tests.stream.house import open_house
from tests.work.chaos_runner import FolderVault

began = asyncio.Event()


async def go_on_for_ever() -> None:
    """So that the answer cannot be committed as stopped before the process is killed."""
    began.set()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def think(
    _turn: AgentTurn, _tools: ToolCaller, _findings: Sequence[Finding], _final: bool
) -> AgentResponse:
    await go_on_for_ever()
    raise AssertionError


async def route(turn: AgentTurn, _tools: ToolCaller) -> RouteDecision:
    if "plan" not in turn.request:
        await go_on_for_ever()
    return to_planner()


async def main(root: Path, text: str) -> None:
    agents = Agents(proxy=FakeProxy(route), planner=FakePlannerAgent(think))
    async with open_house(root, agents, vault=FolderVault(root / "vault")) as house:
        said = await house.say(text)
        await began.wait()
        assert await house.stream.turns.answers.stop(said.trace_id)
        print(said.message_id, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
