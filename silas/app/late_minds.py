"""Minds that need not be there when the house opens.

The library that agents are made with takes longer to load than everything else together. Without a
model nothing about them can be wrong in the settings, so they are made after the page answers, in
a thread; whoever asks before that waits. A model that is configured is there before anything else:
if it cannot be used, nothing is started.
"""

import asyncio
import contextlib
import importlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from silas.agents.models.roles import Role
from silas.app.ground import Ground
from silas.app.model_choices import model_name
from silas.app.turns import Minds
from silas.kernel import LlmError
from silas.stream.models import AgentResponse, AgentTurn, Answered, RouteDecision
from silas.stream.ports import Finding, PlannerAgent, ProxyAgent, TextListener
from silas.work.ports import ToolCaller
from silas.work.script_worker import ScriptWorker

_MINDS = "silas.app.minds"


@dataclass
class LateBrain:
    """The offline brain as proxy and as planner, made when it is first wanted."""

    ground: Ground
    environ: Mapping[str, str]
    home: Path
    _made: asyncio.Task[Minds] | None = field(default=None, init=False)

    async def route(
        self, turn: AgentTurn, tools: ToolCaller, *, on_text: TextListener | None = None
    ) -> Answered[RouteDecision]:
        """The decision for one turn."""
        proxy, _ = await self.ready()
        return await proxy.route(turn, tools, on_text=on_text)

    async def plan(
        self, turn: AgentTurn, tools: ToolCaller, *, findings: Sequence[Finding] = (), final: bool
    ) -> Answered[AgentResponse]:
        """A plan, or an answer."""
        _, planner = await self.ready()
        return await planner.plan(turn, tools, findings=findings, final=final)

    async def advise(self, turn: AgentTurn) -> Answered[str]:
        """Guidance for a worker that is stuck."""
        _, planner = await self.ready()
        return await planner.advise(turn)

    async def ready(self) -> tuple[ProxyAgent, PlannerAgent]:
        """Make it, unless somebody has; whoever stops waiting stops nobody else."""
        if self._made is None:
            self._made = asyncio.create_task(asyncio.to_thread(self._make))
        minds = await asyncio.shield(self._made)
        if minds.proxy is None or minds.planner is None:
            raise LlmError
        return minds.proxy, minds.planner

    async def close(self) -> None:
        """Wait for what is being made: half of a library is worse than a moment."""
        if self._made is not None:
            await asyncio.wait({self._made})

    def _make(self) -> Minds:
        made: Minds = importlib.import_module(_MINDS).minds_without_model(
            self.ground, environ=self.environ, home=self.home
        )
        return made


@contextlib.asynccontextmanager
async def open_minds(
    ground: Ground, *, environ: Mapping[str, str], home: Path
) -> AsyncIterator[Minds]:
    """The minds of this ground floor; `Minds.ready` waits for those that come later."""
    settings = ground.settings
    named, counted = (
        any(model_name(settings, role) for role in Role),
        settings.context.token_counter,
    )
    if named or counted != "estimate":
        minds = await asyncio.to_thread(importlib.import_module, _MINDS)
        async with minds.open_minds(ground, environ=environ, home=home) as opened:
            yield opened
        return
    brain = LateBrain(ground, environ, home)
    try:
        yield Minds(
            proxy=brain,
            planner=brain,
            executor=ScriptWorker(),
            proxy_hears_context=False,
            ready=brain.ready,
        )
    finally:
        await brain.close()
