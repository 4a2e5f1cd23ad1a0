"""The line *turn floor*: what asking a model costs before the model itself, beside the library."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, NativeOutput
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import FunctionToolset

from silas.agents.models.factory import RoleModel
from silas.agents.models.roles import OutputMode, Role
from silas.agents.proxy import ProxyAgent
from silas.evals.bench.measure import Line, medians, milliseconds
from silas.kernel import TaintLevel
from silas.stream.models import AgentTurn, RouteDecision
from silas.work.execution_models import ModelView
from silas.work.ports import ToolOffer

_CALLS = 40
_TOOL = "memory_search"
_ANSWER = json.dumps(
    {
        "reason": "a greeting",
        "route": "direct",
        "interaction_register": "status",
        "interaction_mode": "default_and_offer",
        "context_profile": "conversation",
        "continuation_of": None,
        "response": {"message": "Good morning."},
    }
)
_TURN = AgentTurn(
    scope_id="owner",
    trace_id="trace",
    request="Good morning!",
    taint=TaintLevel.OWNER,
    max_tokens=100_000,
    max_cost_usd=1.0,
)
_COMPARED = (
    ("proxy, no tools", "proxy", "direct", "direct.model_request", 6.0),
    ("proxy, no tools", "proxy", "agent", "Agent.run, structured", 0.25),
    ("proxy, tools on offer", "offered", "agent", "Agent.run, structured", 0.4),
    ("proxy, one tool call", "proxy_tool", "agent_tool", "Agent.run + a tool", 1.25),
)


class _Tools:
    """`ToolCaller` with one tool that finds nothing."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.offers = tuple(
            ToolOffer(
                name=name,
                description="Looks something up.",
                parameters={"type": "object", "properties": {"query": {"type": "string"}}},
                contained=True,
                changes_state=False,
            )
            for name in names
        )

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        return ModelView(
            success=True, return_value="nothing", content=[], error=None, taint=TaintLevel.OWNER
        )


async def answers(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """A model that costs nothing and says good morning."""
    return ModelResponse(parts=[TextPart(_ANSWER)])


async def _looks_first(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart(_TOOL, {"query": "x"})])
    return ModelResponse(parts=[TextPart(_ANSWER)])


async def memory_search(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


async def measure(_folder: Path) -> list[Line]:
    """Our proxy beside the library's agent: no tools, tools on offer, and one tool call."""
    says, looks = FunctionModel(answers), FunctionModel(_looks_first)
    plain = library_agent(says)
    tooled = library_agent(looks, FunctionToolset([memory_search]))
    ours, ours_looking = proxy_of(says), proxy_of(looks)
    request = [ModelRequest.user_text_prompt("Good morning!")]
    none, one = _Tools(), _Tools(_TOOL)
    got = await medians(
        {
            "direct": lambda: _timed(lambda: model_request(says, request)),
            "agent": lambda: _timed(lambda: plain.run("Good morning!")),
            "proxy": lambda: _timed(lambda: ours.route(_TURN, none)),
            "offered": lambda: _timed(lambda: ours.route(_TURN, one)),
            "agent_tool": lambda: _timed(lambda: tooled.run("Good morning!")),
            "proxy_tool": lambda: _timed(lambda: ours_looking.route(_TURN, one)),
        }
    )
    return [
        Line(
            "turn floor",
            what,
            milliseconds(got[mine]),
            f"{named} {milliseconds(got[other])}",
            got[mine] / got[other],
            goal,
            at_least=False,
        )
        for what, mine, other, named, goal in _COMPARED
    ]


def library_agent(model: FunctionModel, *toolsets: FunctionToolset[None]) -> Agent[None, Any]:
    """The library's own agent for the same decision."""
    return Agent(
        model,
        output_type=NativeOutput(RouteDecision),
        instructions="Decide who answers.",
        toolsets=[*toolsets],
    )


def proxy_of(model: FunctionModel) -> ProxyAgent:
    """Our proxy with this model."""
    player = RoleModel(
        role=Role.PROXY,
        model=model,
        settings=ModelSettings(),
        output_mode=OutputMode.NATIVE,
        name="function",
    )
    return ProxyAgent(player, profiles=("conversation",), default_profile="conversation")


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    for _ in range(_CALLS):
        await call()
    return (time.perf_counter() - begun) / _CALLS
