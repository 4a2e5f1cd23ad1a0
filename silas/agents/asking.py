"""What all the agents of the stream share: their tools, their limits, and how a turn is asked."""

from typing import TypeVar

from silas.agents.framing import frame_result
from silas.agents.metering import CallLimits, Meter
from silas.agents.structured import StructuredAgent, run_structured_agent
from silas.agents.toolsets import ToolMode, tool_chain
from silas.agents.watched import WatchedTools
from silas.stream.models import AgentTurn, Answered
from silas.stream.ports import TextListener
from silas.work.ports import ToolCaller

T = TypeVar("T")

# How long one request may take is the owner's setting; this ends a call that goes on for ever.
_SECONDS = 900.0


def turn_limits(turn: AgentTurn, *, answer_tokens: int) -> CallLimits:
    """The limits of a call: the turn's, and the role's."""
    return CallLimits(
        tokens=turn.max_tokens,
        cost_usd=turn.max_cost_usd,
        seconds=_SECONDS,
        answer_tokens=min(answer_tokens, turn.max_tokens),
    )


async def ask_without_tools(
    agent: StructuredAgent[T], prompt: str, *, turn: AgentTurn, limits: CallLimits
) -> Answered[T]:
    """The answer of an agent that can only speak."""
    meter = Meter(agent.player, limits)
    return await run_structured_agent(agent, prompt, meter=meter, taint=lambda: turn.taint)


async def ask_with_tools(
    agent: StructuredAgent[T],
    prompt: str,
    *,
    turn: AgentTurn,
    limits: CallLimits,
    tools: ToolCaller,
    allowed: frozenset[str],
    mode: ToolMode,
    on_text: TextListener | None = None,
) -> Answered[T]:
    """The answer of an agent that may look things up; what it saw taints it."""
    meter = Meter(agent.player, limits)
    watched = WatchedTools(tools, meter, turn.taint)
    offered = allowed.intersection(tools.names)
    toolset = (
        tool_chain(
            watched,
            role=agent.player.role.value,
            allowed=offered,
            mode=mode,
            show=frame_result,
        )
        if offered
        else None
    )
    return await run_structured_agent(
        agent,
        prompt,
        meter=meter,
        taint=lambda: watched.joined,
        toolset=toolset,
        on_text=on_text,
    )
