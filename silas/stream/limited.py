"""Agents that ask a model no more than so often in a minute for one conversation.

Whoever is over the limit gets a plain answer that says so, from no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from silas.stream.limits import RateLimit
from silas.stream.models import (
    AgentResponse,
    AgentTurn,
    Answered,
    InteractionRegister,
    RouteDecision,
)
from silas.stream.ports import (
    Finding,
    PlannerAgent,
    ProxyAgent,
    Research,
    ResearchAgent,
    TextListener,
)
from silas.work.models import InteractionMode
from silas.work.ports import ToolCaller

LIMITED = "model_calls_limited"
_TOLD = "That is more than I may ask my model in a minute. Say it again in {} seconds."


@dataclass(frozen=True)
class LimitedProxy:
    """`ProxyAgent`."""

    agent: ProxyAgent
    limit: RateLimit
    default_profile: str

    async def route(
        self, turn: AgentTurn, tools: ToolCaller, *, on_text: TextListener | None = None
    ) -> Answered[RouteDecision]:
        """The agent's decision, or one that says to come again."""
        if self.limit.take(turn.scope_id):
            return await self.agent.route(turn, tools, on_text=on_text)
        decision = RouteDecision(
            route="direct",
            reason=LIMITED,
            response=AgentResponse(message=_told(self.limit, turn)),
            interaction_register=InteractionRegister.STATUS,
            interaction_mode=InteractionMode.CONFIRM_ONLY_WHEN_REQUIRED,
            context_profile=self.default_profile,
        )
        return Answered[RouteDecision](output=decision, taint=turn.taint, fallback=LIMITED)


@dataclass(frozen=True)
class LimitedPlanner:
    """`PlannerAgent`."""

    agent: PlannerAgent
    limit: RateLimit

    async def plan(
        self, turn: AgentTurn, tools: ToolCaller, *, findings: Sequence[Finding] = (), final: bool
    ) -> Answered[AgentResponse]:
        """The agent's plan, or an answer that says to come again."""
        if self.limit.take(turn.scope_id):
            return await self.agent.plan(turn, tools, findings=findings, final=final)
        response = AgentResponse(message=_told(self.limit, turn))
        return Answered[AgentResponse](output=response, taint=turn.taint, fallback=LIMITED)

    async def advise(self, turn: AgentTurn) -> Answered[str]:
        """The agent's advice, or none."""
        if self.limit.take(turn.scope_id):
            return await self.agent.advise(turn)
        return Answered[str](output="", taint=turn.taint, fallback=LIMITED)


@dataclass(frozen=True)
class LimitedResearcher:
    """`ResearchAgent`."""

    agent: ResearchAgent
    limit: RateLimit

    async def research(
        self, turn: AgentTurn, tools: ToolCaller, *, return_format: str
    ) -> Answered[Research]:
        """What the agent found, or that nobody looked."""
        if self.limit.take(turn.scope_id):
            return await self.agent.research(turn, tools, return_format=return_format)
        found = Research(text=_told(self.limit, turn), ok=False, sources=[])
        return Answered[Research](output=found, taint=turn.taint, fallback=LIMITED)


def _told(limit: RateLimit, turn: AgentTurn) -> str:
    return _TOLD.format(max(1, round(limit.wait(turn.scope_id))))
