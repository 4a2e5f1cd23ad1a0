"""What all the agents of the stream share: their tools, their limits, and how a turn is asked.

`WatchedTools` looks at the budget before each call of a tool, and notes what was seen. When a model
gives no usable answer, the fallback is always the same, and plainly said:

1. `proxy`: a direct answer that says so, register `status`, mode `confirm_only_when_required`, and
   the default profile.
2. `planner`: an answer that says so, without a plan.
3. `executor`: nothing. The attempt fails with `executor_structured_output_invalid`.
4. `research`: not found, and why.
5. `scorer` and `gate`: an `LlmError`. Who asked has a way without a model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from silas.agents.metering import CallLimits, Meter
from silas.agents.prompting import frame_result, user_content
from silas.agents.structured import StructuredAgent, run_structured_agent
from silas.agents.toolsets import ToolMode, tool_chain
from silas.gates.guards.jailbreak import ForeignTexts
from silas.kernel import TaintLevel, join_taint
from silas.stream.models import (
    AgentResponse,
    AgentTurn,
    Answered,
    InteractionRegister,
    RouteDecision,
)
from silas.stream.ports import Research, TextListener
from silas.tools.declaration import ToolOffer
from silas.tools.execution import ModelView
from silas.work.models import InteractionMode
from silas.work.ports import ToolCaller


@dataclass
class WatchedTools:
    """`ToolCaller` that remembers the taint of everything that came through it."""

    tools: ToolCaller
    meter: Meter
    taint: TaintLevel
    foreign: ForeignTexts = field(default_factory=ForeignTexts)
    """What came from outside: an answer does not repeat what was ordered there."""
    _seen: set[TaintLevel] = field(default_factory=set)

    @property
    def names(self) -> tuple[str, ...]:
        return self.tools.names

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        return self.tools.offers

    @property
    def reviewer(self) -> None:
        """Agents that only look things up: no call of theirs waits for the owner."""

    @property
    def joined(self) -> TaintLevel:
        """The taint of what is made from all that was seen."""
        return join_taint(self.taint, *self._seen)

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        # Between two requests of an agent there is always a call, so no budget is overrun unseen.
        self.meter.check()
        view = await self.tools.call(tool, args)
        self._seen.add(view.taint)
        if view.taint is TaintLevel.EXTERNAL:
            self.foreign.saw(view.return_value)
        return view


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

    `clean` gives the answer without what a text from outside ordered to be said. Once such a text
    was read, the answer is not heard while it grows.
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

    def hear(text: str) -> None:
        if on_text is not None and not watched.foreign.gives_orders:
            on_text(text)

    answered = await run_structured_agent(
        agent,
        user_content(prompt, turn),
        meter=meter,
        taint=lambda: watched.joined,
        toolset=toolset,
        on_text=hear if on_text is not None else None,
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


def proxy_fallback(sentence: str, *, profile: str) -> RouteDecision:
    """A direct answer with an error that the user can do something about."""
    return RouteDecision(
        route="direct",
        reason="the model gave no usable answer",
        response=AgentResponse(message=f"I have no answer for you. {sentence}"),
        interaction_register=InteractionRegister.STATUS,
        interaction_mode=InteractionMode.CONFIRM_ONLY_WHEN_REQUIRED,
        context_profile=profile,
    )


def planner_fallback(sentence: str) -> AgentResponse:
    """An answer that reports the failure, without a plan."""
    return AgentResponse(message=f"I could not write a plan for this. {sentence}")


def advice_fallback(sentence: str) -> str:
    """No advice."""
    return f"The planner has no advice. {sentence}"


def research_fallback(sentence: str) -> Research:
    """Nothing was found."""
    return Research(text=f"Not found. {sentence}", ok=False, sources=[])
