"""What the stream needs from others. A port that is absent means no: see each one."""

from collections.abc import Callable, Sequence
from typing import Protocol

from silas.kernel.models import Data
from silas.stream.models import AgentResponse, AgentTurn, Answered, RouteDecision
from silas.work.ports import ToolCaller

TextListener = Callable[[str], None]
"""Hears the answer grow; each call brings the text that is new."""


class ProxyAgent(Protocol):
    """The front door: answers, or says that a plan is needed."""

    async def route(
        self, turn: AgentTurn, tools: ToolCaller, *, on_text: TextListener | None = None
    ) -> Answered[RouteDecision]:
        """The decision for one turn; a model that fails gives the deterministic fallback."""
        ...


class Finding(Data):
    """One piece of research, as the planner sees it."""

    question: str
    answer: str
    ok: bool
    sources: list[str]


class PlannerAgent(Protocol):
    """Writes plans. It asks for research through the tool `request_research`."""

    async def plan(
        self, turn: AgentTurn, tools: ToolCaller, *, findings: Sequence[Finding] = (), final: bool
    ) -> Answered[AgentResponse]:
        """A plan, or an answer; with `final`, no more research is offered."""
        ...

    async def advise(self, turn: AgentTurn) -> Answered[str]:
        """Guidance for a worker that is stuck."""
        ...


class Research(Data):
    """What a research run gave."""

    text: str
    ok: bool
    sources: list[str]


class ResearchAgent(Protocol):
    """The executor in research mode: it reads, and can change nothing."""

    async def research(
        self, turn: AgentTurn, tools: ToolCaller, *, return_format: str
    ) -> Answered[Research]:
        """The answer to one question."""
        ...
