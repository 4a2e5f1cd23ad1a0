"""The agents, made: a model or the offline brain for each role, behind the ports of the stream.

This module brings the library of the models along, so `silas.app.agents` imports it when an agent
is wanted, and nothing else does.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from silas.agents.assessors import ContextScorer, ItemReader, LlmGate
from silas.agents.brain.grammar import is_exact
from silas.agents.brain.model import brain_model
from silas.agents.brain.plans import Places
from silas.agents.companion import CompanionAgent, HearAnswer
from silas.agents.executor import ExecutorAgent
from silas.agents.models.choices import ModelChoice, Role, RoleChoice
from silas.agents.models.errors import ModelNotUsable
from silas.agents.models.factory import Brain, Models, api_key_for
from silas.agents.models.modes import ModeMemory
from silas.agents.models.probe import ProbeReport, failed_probe, probe_model
from silas.agents.models.token_counts import AnthropicTokens, LlamaCppTokens, counting_client
from silas.agents.planner import PlannerAgent, ResearchAgent
from silas.agents.proxy import ProxyAgent
from silas.app.agents import Agents, key_reader, model_choices, model_name
from silas.app.core import Core
from silas.context.models import ExactTokens
from silas.kernel.errors import LlmError
from silas.kernel.models import Data
from silas.settings.models import Settings
from silas.stream.limits import LimitedPlanner, LimitedProxy, LimitedResearcher, RateLimit
from silas.stream.ports import ExactAgents
from silas.stream.usage import COMPANION, TEST
from silas.work.script import ScriptWorker


class TriedRole(Data):
    """How the model of one role did; no report means that the offline brain plays it."""

    role: Role
    is_fallback: bool = False
    report: ProbeReport | None = None


@dataclass(frozen=True)
class AgentFactory:
    """Makes the agents of one data directory. The vault is opened only if a key is in it."""

    core: Core
    environ: Mapping[str, str]

    @contextlib.asynccontextmanager
    async def open(self, *, home: Path) -> AsyncIterator[Agents]:
        """The agents; connections to models are closed at the end.

        Without a model, the offline brain is proxy and planner, its plans are executed as they are
        written, and nobody researches or judges: whoever would ask has a rule for that.
        """
        async with self._models(home) as models, self.open_token_counts() as tokens:
            agents = _agents(self.core, models)
            yield replace(agents, tokens=tokens, exact=self._exact(home))

    def without_model(self, *, home: Path) -> Agents:
        """The offline brain in its roles; there is no connection to close."""
        return _agents(self.core, self._models(home))

    @contextlib.asynccontextmanager
    async def open_companion(
        self, role: Role, *, heard: HearAnswer | None = None
    ) -> AsyncIterator[CompanionAgent]:
        """A companion's agent with the model of this role, without its fallback."""
        chosen = self._choices()[role]
        alone = RoleChoice(role=role, model=chosen.model, patience=chosen.patience)
        models = Models(
            {role: alone},
            environ=self.environ,
            clock=self.core.clock,
            memory=self._modes(),
            on_use=self.core.usage.noting_as(COMPANION),
        )
        async with models:
            yield CompanionAgent(models.for_role(role), clock=self.core.clock, heard=heard)

    @contextlib.asynccontextmanager
    async def open_token_counts(self) -> AsyncIterator[ExactTokens | None]:
        """The server of the proxy's model if it counts tokens; None if they are estimated."""
        kind = self.core.settings.context.token_counter
        if kind == "estimate":
            yield None
            return
        choice = self._choices()[Role.PROXY].model
        async with counting_client() as client:
            if kind == "anthropic" and choice is not None and choice.provider == "anthropic":
                yield AnthropicTokens(client, choice, key=api_key_for(choice, self.environ))
            elif kind == "llamacpp" and choice is not None and choice.base_url:
                yield LlamaCppTokens(client, choice)
            else:
                raise ModelNotUsable(
                    f"context.token_counter is `{kind}`, which the model of models.proxy is not. "
                    "Set it to `estimate`."
                )

    async def try_roles(self, roles: Sequence[Role], *, quick: bool = False) -> list[TriedRole]:
        """Ask the models of these roles; one that plays several roles is asked once."""
        choices = self._choices()
        seen: dict[ModelChoice, ProbeReport] = {}
        tried = []
        for choice, is_fallback in _models_and_fallbacks(choices[role] for role in roles):
            if choice.model is None:
                tried.append(TriedRole(role=choice.role))
                continue
            if choice.model not in seen:
                seen[choice.model] = await self.try_choice(choice, quick=quick)
            report = seen[choice.model]
            tried.append(TriedRole(role=choice.role, is_fallback=is_fallback, report=report))
        await self.core.usage.flush()
        return tried

    async def try_choice(self, choice: RoleChoice, *, quick: bool) -> ProbeReport:
        """One real round trip to a model; what fails is part of the report."""
        clock = self.core.clock
        models = Models(
            {choice.role: choice},
            environ=self.environ,
            clock=clock,
            on_use=self.core.usage.noting_as(TEST),
        )
        try:
            async with models:
                model = models.for_role(choice.role)
                return await probe_model(model, memory=self._modes(), clock=clock, quick=quick)
        except LlmError as error:
            return failed_probe(choice.model.name if choice.model else choice.role.value, error)

    def _exact(self, home: Path) -> ExactAgents | None:
        """The offline brain for what it understands to the letter, beside a model."""
        settings = self.core.settings
        if not any(model_name(settings, role) for role in (Role.PROXY, Role.PLANNER)):
            return None
        brain = Models({}, environ=self.environ, clock=self.core.clock, brain=self._brain(home))
        return ExactAgents(
            understands=is_exact,
            proxy=_proxy(self.core, brain),
            planner=_planner(self.core, brain),
        )

    def _brain(self, home: Path) -> Brain:
        settings = self.core.settings
        places = Places(home=home, workspace=settings.planner.workspace_dir)
        profile = settings.context.default_profile
        return lambda role: brain_model(role, places=places, profile=profile)

    def _models(self, home: Path) -> Models:
        return Models(
            self._choices(),
            environ=self.environ,
            clock=self.core.clock,
            memory=self._modes(),
            brain=self._brain(home),
            on_use=self.core.usage.note,
        )

    def _choices(self) -> dict[Role, RoleChoice]:
        return model_choices(self.core.settings, key_reader(self.core.vault.get, self.environ))

    def _modes(self) -> ModeMemory:
        """What was found out about the models."""
        return ModeMemory(self.core.paths.model_modes)


def _models_and_fallbacks(choices: Iterator[RoleChoice]) -> Iterator[tuple[RoleChoice, bool]]:
    """Models and fallbacks apart: a fallback that steps in would hide that the model fails."""
    for choice in choices:
        yield choice.model_copy(update={"fallback": None}), False
        if choice.model is not None and choice.fallback is not None:
            yield choice.model_copy(update={"model": choice.fallback, "fallback": None}), True


def _gate(settings: Settings, models: Models) -> LlmGate:
    asked = settings.gates.llm_defaults
    return LlmGate(
        models.for_role(Role.GATE), temperature=asked.temperature, max_tokens=asked.max_tokens
    )


def _proxy(core: Core, models: Models) -> ProxyAgent:
    context = core.settings.context
    return ProxyAgent(
        models.for_role(Role.PROXY),
        profiles=tuple(context.profiles),
        default_profile=context.default_profile,
    )


def _planner(core: Core, models: Models) -> PlannerAgent:
    settings = core.settings
    return PlannerAgent(
        models.for_role(Role.PLANNER),
        ids=core.ids,
        workspace=settings.planner.workspace_dir,
        asks_if_unclear=settings.interaction.require_confirmation_on_material_ambiguity,
        tools=core.tools.tools.values(),
    )


def _agents(core: Core, models: Models) -> Agents:
    settings = core.settings
    works = model_name(settings, Role.EXECUTOR) is not None
    judges = model_name(settings, Role.GATE) is not None
    scores = model_name(settings, Role.SCORER) is not None
    profile = settings.context.default_profile
    proxy, planner = _proxy(core, models), _planner(core, models)
    # What costs nothing is not counted: the offline brain answers as often as it is asked.
    limit = RateLimit(core.clock, settings.limits.llm_calls_per_minute_per_scope)
    thinks = model_name(settings, Role.PROXY) is not None
    plans = model_name(settings, Role.PLANNER) is not None
    return Agents(
        proxy=LimitedProxy(proxy, limit, profile) if thinks else proxy,
        planner=LimitedPlanner(planner, limit) if plans else planner,
        research=LimitedResearcher(ResearchAgent(models.for_role(Role.EXECUTOR)), limit)
        if works
        else None,
        executor=ExecutorAgent(models.for_role(Role.EXECUTOR)) if works else ScriptWorker(),
        gate=_gate(settings, models) if judges else None,
        scorer=ContextScorer(models.for_role(Role.SCORER)) if scores else None,
        reader=ItemReader(models.for_role(Role.PROXY)).read if thinks else None,
        # The brain understands one message at a time: what was read before taints nothing it says.
        proxy_hears_context=thinks,
        planner_hears_context=plans,
        proxy_sees_images=thinks and models.for_role(Role.PROXY).sees_images,
        planner_sees_images=plans and models.for_role(Role.PLANNER).sees_images,
        beside_context=(proxy.beside_context, planner.beside_context) if thinks or plans else None,
        planner_looks_first=models.for_role(Role.PLANNER).guided,
    )
