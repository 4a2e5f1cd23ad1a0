"""The agents, wired without loading what they are made with.

1. `model_choices` says which model plays which role; keys are looked up where the settings say.
   `silas doctor` and `silas models list` only look.
2. The library that agents are made with takes longer to load than everything else together. Without
   a model nothing about them can be wrong in the settings, so they are made after the page answers,
   in a thread; whoever asks before that waits. A model that is configured is there before anything
   else: if it cannot be used, nothing is started.
3. `silas.app.model_agents` makes them. It is imported in the functions here that need it, and
   nowhere else.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from silas.agents.brain.grammar import is_exact
from silas.agents.companion_gateway import ModelGateway
from silas.agents.models.choices import ModelChoice, OutputMode, Patience, Role, RoleChoice
from silas.agents.models.errors import ModelNotUsable
from silas.agents.models.providers import (
    OPENAI_COMPATIBLE,
    facts_of,
    is_local,
    key_from_environment,
)
from silas.app.core import Core
from silas.context.models import ExactTokens, Scorer
from silas.gates.models import GateModel
from silas.kernel import LlmError
from silas.proactive.triage import Reader
from silas.settings.models import Settings
from silas.settings.services import ModelSettings, RoleModelSettings
from silas.stream.models import AgentResponse, AgentTurn, Answered, RouteDecision
from silas.stream.ports import (
    ExactAgents,
    Finding,
    PlanningAgent,
    ReadingAgent,
    RoutingAgent,
    TextListener,
)
from silas.work.ports import AttemptWorker, ToolCaller
from silas.work.script import ScriptWorker

if TYPE_CHECKING:
    from silas.agents.companion import CompanionAgent
    from silas.app.model_agents import AgentFactory

SecretReader = Callable[[str], bytes | None]
"""Reads a secret of the vault by its name; None if there is none."""
KeyReader = Callable[[str], SecretStr]
"""Turns a reference such as `secret:openrouter` into the key."""


@dataclass(frozen=True)
class Agents:
    """The agents. Whoever is absent says so when asked; nothing is done instead."""

    proxy: RoutingAgent | None = None
    planner: PlanningAgent | None = None
    research: ReadingAgent | None = None
    executor: AttemptWorker | None = None
    gate: GateModel | None = None
    scorer: Scorer | None = None
    reader: Reader | None = None
    """Guesses what the owner wants done with an item."""
    tokens: ExactTokens | None = None
    proxy_hears_context: bool = True
    """False: the proxy makes nothing of the conversation, and so is not told it."""
    planner_hears_context: bool = True
    """The same for the planner."""
    proxy_sees_images: bool = False
    """Whether the proxy's model can be given images."""
    planner_sees_images: bool = False
    """The same for the planner's."""
    exact: ExactAgents | None = None
    """Who answers what is said to the letter, before a model is asked."""
    planner_looks_first: bool = False
    """True: the planner cannot ask for research, and is shown the files that a request names. Only
    for a model on this machine: nothing is sent away that nobody has asked for."""
    beside_context: tuple[str, str] | None = None
    """What the models of proxy and planner are told besides tools and context; None: no model."""
    ready: Callable[[], Awaitable[object]] | None = None
    """Brings those into being that are made when they are first asked; None: all are there."""


def key_reader(read_secret: SecretReader, environ: Mapping[str, str]) -> KeyReader:
    """Read keys from the vault and from the environment; a missing one is an error that says so."""

    def read(reference: str) -> SecretStr:
        kind, _, name = reference.partition(":")
        if kind == "env":
            if not environ.get(name):
                raise ModelNotUsable(f"A key is said to be in {name}, which is not set. Set it.")
            return SecretStr(environ[name])
        value = read_secret(name)
        if value is None:
            raise ModelNotUsable(
                f"There is no secret `{name}` in the vault. Run `silas secrets set {name}`."
            )
        return SecretStr(value.decode("utf-8", "replace").strip())

    return read


def without_reading(reference: str) -> SecretStr:
    """Stand in for a key where it is not needed: the vault stays closed."""
    return SecretStr(reference)


def model_choices(settings: Settings, read_key: KeyReader) -> dict[Role, RoleChoice]:
    """Who plays each role, with keys."""
    return {role: _role_choice(settings, role, read_key) for role in Role}


def model_name(settings: Settings, role: Role) -> str | None:
    """The model that the settings name for a role."""
    models = settings.models
    named: str | None = getattr(models, role.value)
    if named is None and role is Role.GATE:
        return settings.gates.llm_defaults.model or models.scorer
    return named


def _role_choice(settings: Settings, role: Role, read_key: KeyReader) -> RoleChoice:
    models = settings.models
    details: RoleModelSettings = getattr(models.per_role, role.value)
    name, fallback = model_name(settings, role), details.fallback or models.fallback
    if name is None:
        return RoleChoice(role=role, patience=_patience(models, details))
    return RoleChoice(
        role=role,
        model=_choice(models, name, details=details, read_key=read_key),
        fallback=_choice(models, fallback, details=None, read_key=read_key) if fallback else None,
        patience=_patience(models, details),
    )


def _choice(
    models: ModelSettings, name: str, *, details: RoleModelSettings | None, read_key: KeyReader
) -> ModelChoice:
    """A role's own address and key belong to its model alone: a fallback never gets them."""
    provider = name.partition(":")[0]
    base_url = models.base_url if provider in OPENAI_COMPATIBLE else None
    reference = models.api_keys.get(provider)
    mode = models.output_mode
    if details is not None:
        base_url = details.base_url or base_url
        reference = details.api_key or reference
        mode = details.output_mode or mode
    return ModelChoice(
        name=name,
        base_url=base_url,
        api_key=read_key(reference) if reference else None,
        output_mode=None if mode == "auto" else OutputMode(mode),
    )


def _patience(models: ModelSettings, details: RoleModelSettings) -> Patience:
    retries = details.max_retries
    return Patience(
        timeout_seconds=details.timeout_seconds or models.timeout_seconds,
        max_retries=models.max_retries if retries is None else retries,
        breaker_failures=models.breaker_failures,
        breaker_seconds=models.breaker_seconds,
    )


def providers_elsewhere(settings: Settings) -> tuple[str, ...]:
    """Who is told what a conversation holds, besides this machine: each provider, by its name.

    One that is reached at another address than its own is named with that address.
    """
    choices = model_choices(settings, without_reading).values()
    named = [each for choice in choices for each in (choice.model, choice.fallback) if each]
    return tuple(sorted({_provider(each) for each in named if not is_local(each)}))


def _provider(choice: ModelChoice) -> str:
    if choice.base_url is None:
        return choice.provider
    return f"{choice.provider} at {urlsplit(choice.base_url).netloc.rpartition('@')[2]}"


def lacks_key(choice: ModelChoice, environ: Mapping[str, str]) -> bool:
    """Whether requests would be refused for want of a key, as far as can be told from here."""
    facts = facts_of(choice.provider)
    if facts is None or facts.keyless or choice.api_key is not None or choice.base_url:
        return False
    return key_from_environment(choice.provider, environ) is None


@dataclass
class LateBrain:
    """The offline brain as proxy and as planner, made when it is first wanted."""

    core: Core
    environ: Mapping[str, str]
    home: Path
    _made: asyncio.Task[Agents] | None = field(default=None, init=False)

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

    async def ready(self) -> tuple[RoutingAgent, PlanningAgent]:
        """Make it, unless somebody has; whoever stops waiting stops nobody else."""
        if self._made is None:
            self._made = asyncio.create_task(asyncio.to_thread(self._make))
        agents = await asyncio.shield(self._made)
        if agents.proxy is None or agents.planner is None:
            raise LlmError
        return agents.proxy, agents.planner

    async def close(self) -> None:
        """Wait for what is being made: half of a library is worse than a moment."""
        if self._made is not None:
            await asyncio.wait({self._made})

    def _make(self) -> Agents:
        return agent_factory(self.core, environ=self.environ).without_model(home=self.home)


@contextlib.asynccontextmanager
async def open_agents(
    core: Core, *, environ: Mapping[str, str], home: Path
) -> AsyncIterator[Agents]:
    """The agents of this data directory; `Agents.ready` waits for those that come later."""
    settings = core.settings
    named, counted = (
        any(model_name(settings, role) for role in Role),
        settings.context.token_counter,
    )
    if named or counted != "estimate":
        factory = await asyncio.to_thread(agent_factory, core, environ=environ)
        async with factory.open(home=home) as agents:
            yield agents
        return
    brain = LateBrain(core, environ, home)
    try:
        yield Agents(
            proxy=brain,
            planner=brain,
            executor=ScriptWorker(),
            proxy_hears_context=False,
            planner_hears_context=False,
            exact=ExactAgents(understands=is_exact, proxy=brain, planner=brain),
            ready=brain.ready,
        )
    finally:
        await brain.close()


@contextlib.asynccontextmanager
async def open_worker(
    core: Core, *, environ: Mapping[str, str], home: Path
) -> AsyncIterator[AttemptWorker | None]:
    """The executor that a running Silas would have; None if plans must say what is to be run."""
    if model_name(core.settings, Role.EXECUTOR) is None:
        yield None
        return
    try:
        async with agent_factory(core, environ=environ).open(home=home) as agents:
            yield agents.executor
    finally:
        await core.usage.flush()


def companion_choices(settings: Settings, read_key: KeyReader) -> dict[str, RoleChoice]:
    """The models that companions may be given, by name.

    If two roles have the same model at two addresses, the first role's is meant.
    """
    choices = model_choices(settings, read_key)
    named = {role: model_name(settings, role) for role in reversed(Role)}
    return {name: choices[role] for role, name in named.items() if name is not None}


def companion_gateway(
    core: Core,
    *,
    environ: Mapping[str, str],
    heard: Callable[[str, str, str], None] | None = None,
) -> ModelGateway:
    """The way to the models of companions; `heard` hears answers grow that somebody waits for."""

    @contextlib.asynccontextmanager
    async def open_agent(choice: RoleChoice) -> AsyncIterator["CompanionAgent"]:
        factory = await asyncio.to_thread(agent_factory, core, environ=environ)
        async with factory.open_companion(choice.role, heard=heard) as agent:
            yield agent

    return ModelGateway(companion_choices(core.settings, without_reading), open_agent)


def agent_factory(core: Core, *, environ: Mapping[str, str]) -> "AgentFactory":
    """What makes agents; loads their library, which takes seconds, when it is first called."""
    from silas.app.model_agents import AgentFactory  # noqa: PLC0415 - rule 3

    return AgentFactory(core, environ)
