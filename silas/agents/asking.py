"""What all the agents of the stream share: their tools, their limits, and how a turn is asked."""

from collections.abc import Callable
from typing import TypeVar

from silas.agents.framing import frame_result
from silas.agents.metering import CallLimits, Meter
from silas.agents.structured import StructuredAgent, run_structured_agent
from silas.agents.toolsets import ToolMode, tool_chain
from silas.agents.watched import WatchedTools
from silas.gates.guards.echoes import ForeignTexts
from silas.kernel import TaintLevel
from silas.stream.models import AgentResponse, AgentTurn, Answered
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
    clean: Callable[[T, ForeignTexts], T],
    on_text: TextListener | None = None,
) -> Answered[T]:
    """The answer of an agent that may look things up; what it saw taints it.

    `clean` gives the answer without what a text from outside ordered to be said.
    """
    meter = Meter(agent.player, limits)
    owner = turn.request if turn.taint is TaintLevel.OWNER else ""
    watched = WatchedTools(tools, meter, turn.taint, ForeignTexts(owner))
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
    answered = await run_structured_agent(
        agent,
        prompt,
        meter=meter,
        taint=lambda: watched.joined,
        toolset=toolset,
        on_text=on_text,
    )
    cleaned = clean(answered.output, watched.foreign)
    if cleaned is answered.output:
        return answered
    return answered.model_copy(update={"output": cleaned})


def clean_response(response: AgentResponse, foreign: ForeignTexts) -> AgentResponse:
    """The answer without what a text from outside ordered to be said."""
    message = foreign.without_echoes(response.message)
    if message == response.message:
        return response
    return response.model_copy(update={"message": message})
