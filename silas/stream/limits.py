"""How much may happen in a minute, by name: a conversation, a sender, an address.

What a call may use is counted beside the context that it is shown (`beside_context`).

The limited agents ask a model no more than so often in a minute for one conversation. Whoever is
over the limit gets a plain answer that says so, from no model.
"""

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from silas.kernel import Clock
from silas.stream.models import (
    AgentResponse,
    AgentTurn,
    Answered,
    InteractionRegister,
    RouteDecision,
)
from silas.stream.ports import (
    Finding,
    PlanningAgent,
    ReadingAgent,
    Research,
    RoutingAgent,
    TextListener,
)
from silas.work.models import InteractionMode
from silas.work.ports import ToolCaller

_MINUTE = 60.0
_MOST_NAMES = 10_000


@dataclass
class RateLimit:
    """A window of a minute that slides."""

    clock: Clock
    per_minute: int
    _seen: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    def take(self, name: str) -> bool:
        """Whether one more is allowed now; what is refused does not count."""
        if self.wait(name) > 0:
            return False
        self._seen[name].append(self.clock.monotonic())
        return True

    def wait(self, name: str) -> float:
        """In how many seconds one more is allowed; 0 means now."""
        now = self.clock.monotonic()
        if len(self._seen) > _MOST_NAMES:
            self._forget(now)
        seen = self._seen[name]
        while seen and now - seen[0] >= _MINUTE:
            seen.popleft()
        if len(seen) < self.per_minute:
            return 0.0
        return seen[0] + _MINUTE - now if seen else _MINUTE

    def _forget(self, now: float) -> None:
        """Whoever is quiet is forgotten; nobody becomes free by sending under many names."""
        for name in [name for name, seen in self._seen.items() if _is_over(seen, now)]:
            del self._seen[name]


def _is_over(seen: deque[float], now: float) -> bool:
    return not seen or now - seen[-1] >= _MINUTE


_BYTES_PER_TOKEN = 3.5
_READINGS = 2
"""An answer, and its one repair: each reads the whole context."""


def beside_context(tokens: int, context: str) -> int:
    """The limit of a call that may use so many tokens beside the context that it is shown.

    The context has a budget of its own. If it counted against the call's, a long conversation would
    leave nothing for the answer.
    """
    return tokens + _READINGS * math.ceil(len(context.encode()) / _BYTES_PER_TOKEN)


LIMITED = "model_calls_limited"
_TOLD = "That is more than I may ask my model in a minute. Say it again in {} seconds."


@dataclass(frozen=True)
class LimitedProxy:
    """`RoutingAgent`."""

    agent: RoutingAgent
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
    """`PlanningAgent`."""

    agent: PlanningAgent
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
    """`ReadingAgent`."""

    agent: ReadingAgent
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
