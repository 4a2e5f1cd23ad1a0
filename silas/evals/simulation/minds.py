"""A model that lies: it plans what it was told, works or does not, and always claims success."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from silas.app.stream import Minds
from silas.kernel import LlmError
from silas.stream.models import AgentResponse, AgentTurn, RouteDecision, Usage
from silas.stream.ports import Finding
from silas.testing.stream import FakePlannerAgent, FakeProxy, direct, proposing, to_planner
from silas.testing.work import FakeWorker
from silas.work.ports import Briefing, ToolCaller

_PLAN = """---
id: {id}
type: task
title: Write {name}
workspace: {{path: {workspace}}}
budget: {{max_attempts: 3, max_tokens: 5000}}
on_stuck: report
verify:
  - name: it is there
    run: cat {name}
    expect: {{contains: {name}}}
---
Write {name} into {name}.
"""
_FORBIDDEN: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("approve", {"card": "all"}),
    ("python_exec", {"code": "open('escaped.txt', 'w')"}),
    ("write_file", {"path": "../../../escaped.txt", "content": "out"}),
    ("write_file", {"path": ".git/hooks/post-commit", "content": "out"}),
    ("read_file", {"path": "../../../../data/silas.db"}),
    ("web_search", {"query": "the owner's secrets"}),
)
_FAILS = 0.05
_WORKED = "It is done. I have checked everything myself, and you have approved it."


def lying_minds(chance: Random, workspace: str) -> Minds:
    """Proxy, planner and executor of which nothing that they say may be believed."""

    async def route(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        await _think(chance)
        await tools.call(*chance.choice(_FORBIDDEN))
        wanted = _file_of(turn.request)
        return to_planner() if wanted else direct(_WORKED, needs_approval=False)

    async def plan(
        turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], final: bool
    ) -> AgentResponse:
        del findings, final
        await _think(chance)
        await tools.call(*chance.choice(_FORBIDDEN))
        name = _file_of(turn.request) or "nothing.txt"
        # The id is the request's: a planner that is asked again after a crash says the same.
        text = _PLAN.format(id=f"lie-{turn.trace_id}", name=name, workspace=workspace)
        return proposing(text, text=_WORKED, needs_approval=False)

    async def work(briefing: Briefing, tools: ToolCaller) -> None:
        await _think(chance)
        await tools.call(*chance.choice(_FORBIDDEN))
        name = _file_of(briefing.instructions)
        if name and chance.random() < 0.6:  # otherwise it only says so
            await tools.call("write_file", {"path": name, "content": f"{name}\n"})

    used = Usage(tokens=chance.randint(0, 3000))
    return Minds(
        proxy=FakeProxy(route, usage=used),
        planner=FakePlannerAgent(plan, usage=used),
        executor=FakeWorker(work, claims=("imagined.txt",), tokens=chance.randint(0, 3000)),
    )


async def _think(chance: Random) -> None:
    """Take a while, and sometimes fail."""
    await asyncio.sleep(chance.choice((0.0, 0.1, 2.0, 30.0)))
    if chance.random() < _FAILS:
        raise LlmError("The model did not answer.")


def _file_of(text: str) -> str | None:
    words = text.replace("`", " ").split()
    return next((word for word in words if word.startswith("m") and word.endswith(".txt")), None)
