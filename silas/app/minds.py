"""The minds, wired: a model or the offline brain for each role, behind the ports of the stream."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

from silas.agents.brain.model import brain_model
from silas.agents.brain.plans import Places
from silas.agents.executor import ExecutorAgent
from silas.agents.llm_gate import LlmGate
from silas.agents.models.factory import Models
from silas.agents.models.roles import Role
from silas.agents.planner import PlannerAgent
from silas.agents.proxy import ProxyAgent
from silas.agents.research import ResearchAgent
from silas.agents.scorer import ContextScorer
from silas.app.ground import Ground
from silas.app.model_choices import model_name
from silas.app.models import open_models
from silas.app.stream import Minds
from silas.app.token_counts import open_token_counts
from silas.stream.limited import LimitedPlanner, LimitedProxy, LimitedResearcher
from silas.stream.limits import RateLimit
from silas.work.script_worker import ScriptWorker


@contextlib.asynccontextmanager
async def open_minds(
    ground: Ground, *, environ: Mapping[str, str], home: Path
) -> AsyncIterator[Minds]:
    """The minds of this ground floor; connections to models are closed at the end.

    Without a model, the offline brain is proxy and planner, its plans are executed as they are
    written, and nobody researches or judges: whoever would ask has a rule for that.
    """
    models = _models(ground, environ, home)
    async with models, open_token_counts(ground, environ=environ) as tokens:
        yield replace(_minds(ground, models), tokens=tokens)


def minds_without_model(ground: Ground, *, environ: Mapping[str, str], home: Path) -> Minds:
    """The offline brain in its roles; there is no connection to close."""
    return _minds(ground, _models(ground, environ, home))


def _models(ground: Ground, environ: Mapping[str, str], home: Path) -> Models:
    settings = ground.settings
    places = Places(home=home, workspace=settings.planner.workspace_dir)
    profile = settings.context.default_profile
    return open_models(
        ground,
        environ=environ,
        brain=lambda role: brain_model(role, places=places, profile=profile),
    )


def _minds(ground: Ground, models: Models) -> Minds:
    settings = ground.settings
    works = model_name(settings, Role.EXECUTOR) is not None
    judges = model_name(settings, Role.GATE) is not None
    scores = model_name(settings, Role.SCORER) is not None
    profile = settings.context.default_profile
    proxy = ProxyAgent(
        models.for_role(Role.PROXY),
        profiles=tuple(settings.context.profiles),
        default_profile=profile,
    )
    planner = PlannerAgent(models.for_role(Role.PLANNER), ids=ground.ids)
    # What costs nothing is not counted: the offline brain answers as often as it is asked.
    limit = RateLimit(ground.clock, settings.limits.llm_calls_per_minute_per_scope)
    thinks = model_name(settings, Role.PROXY) is not None
    plans = model_name(settings, Role.PLANNER) is not None
    return Minds(
        proxy=LimitedProxy(proxy, limit, profile) if thinks else proxy,
        planner=LimitedPlanner(planner, limit) if plans else planner,
        research=LimitedResearcher(ResearchAgent(models.for_role(Role.EXECUTOR)), limit)
        if works
        else None,
        executor=ExecutorAgent(models.for_role(Role.EXECUTOR)) if works else ScriptWorker(),
        gate=LlmGate(models.for_role(Role.GATE)) if judges else None,
        scorer=ContextScorer(models.for_role(Role.SCORER)) if scores else None,
        # The brain understands one message at a time: what was read before taints nothing it says.
        proxy_hears_context=thinks,
    )
