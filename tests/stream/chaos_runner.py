"""A process that runs conversations in children which can be killed."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from silas.app.agents import Agents
from silas.queue import Handled, Lease
from silas.queue.models import AgentReply
from silas.storage import Transaction
from silas.stream.models import AgentResponse, AgentTurn, RouteDecision
from silas.stream.ports import Finding, Research
from silas.testing.stream import (
    FakePlannerAgent,
    FakeProxy,
    FakeResearcher,
    direct,
    proposing,
    to_planner,
)
from silas.work.ports import ToolCaller
from tests.chaos import serve_runner
from tests.stream.house import House, plan, standing_house
from tests.work.chaos_runner import FolderVault

PATIENCE = 300
"""Seconds after which a child that does not come to an end is ended; that is a failure."""
DELIVERED = """
CREATE TABLE IF NOT EXISTS test_delivered (
    message_id TEXT PRIMARY KEY, in_reply_to TEXT, trace_id TEXT NOT NULL, taint TEXT NOT NULL,
    scope_id TEXT NOT NULL, content TEXT NOT NULL, at INTEGER NOT NULL
)
"""
_INSERT = """
INSERT INTO test_delivered
SELECT ?, ?, ?, ?, ?, ?, coalesce(max(at), 0) + 1 FROM test_delivered
"""


def scripted(root: Path) -> Agents:
    """`ask X` is answered, `do X` is looked up, planned and done in the directory `site-X`."""

    async def route(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        # What is not the owner's comes announced and indented.
        verb, _, what = turn.request.splitlines()[-1].strip().partition(" ")
        return to_planner() if verb == "do" else direct(f"answer {what}")

    async def think(
        turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], final: bool
    ) -> AgentResponse:
        what = turn.request.partition(" ")[2]
        if not findings:
            for each in ("where", "how"):
                await tools.call("request_research", {"question": f"{each} {what}?"})
            return AgentResponse(message="Looking.")
        more = (
            f"workspace: {{path: {root / f'site-{what}'}, changes: {{add: [log]}}}}\n"
            "budget: {max_attempts: 1000}\n"
            f"verify:\n  - name: once\n    run: cat log\n    expect: {{equals: '{what}'}}"
        )
        body = f"```run\n/bin/sh -c 'sleep 0.02; printf {what} >> log; sleep 0.02'\n```"
        return proposing(plan(body, id=f"item-{what}", title=f"Item {what}", more=more))

    async def look(turn: AgentTurn, tools: ToolCaller) -> Research:
        await asyncio.sleep(0.01)
        return Research(text=f"found {turn.request}", ok=True, sources=[])

    return Agents(
        proxy=FakeProxy(route), planner=FakePlannerAgent(think), research=FakeResearcher(look)
    )


@contextlib.asynccontextmanager
async def chaos_house(root: Path) -> AsyncIterator[House]:
    vault = FolderVault(root / "vault")
    async with standing_house(root, scripted(root), vault=vault) as house:
        await house.database.transaction(lambda tx: tx.execute(DELIVERED))
        house.stream.consumers[-1].handler = deliver
        yield house


async def deliver(lease: Lease) -> Handled:
    """A channel whose delivery and its mark are one."""
    message = lease.message
    assert isinstance(message.payload, AgentReply)
    row = (
        message.message_id,
        message.payload.in_reply_to,
        message.trace_id,
        message.taint.value,
        message.scope_id,
        message.content,
    )

    def keep(tx: Transaction) -> None:
        tx.execute(_INSERT, row)

    return Handled(writes=(keep,))


async def converse(root: Path) -> None:
    """Go on until nothing is left to do: the owner approves whatever comes."""
    async with chaos_house(root) as house:
        await house.stream.recover()
        running = asyncio.create_task(house.stream.run())
        quiet = 0
        while quiet < 3:
            for card in await house.reviews.waiting():
                await house.reviews.decide(card)
            busy = await house.on_the_bus() or await house.reviews.waiting()
            quiet = 0 if busy else quiet + 1
            await asyncio.sleep(0.01)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def run(root: Path) -> int:
    signal.alarm(PATIENCE)
    asyncio.run(converse(root))
    return 0


if __name__ == "__main__":
    serve_runner(run)
