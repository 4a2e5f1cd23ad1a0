"""The models of all roles, made once, each with time-outs, retries, a breaker and a fallback.

From the inside out: the library's model; `MeteredModel`, which tells what was used;
`ResilientModel` with the breaker of that model; the library's `FallbackModel`, which also enforces
the deadline; `TranslatedModel`, which lets only our own errors out. Two roles that use the same
model at the same address share one breaker.

`make_model` makes the innermost one: the right provider, with its key and its address.
"""

import asyncio
import inspect
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pydantic_ai
from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage, RunUsage

from silas.agents.models.choices import ModelChoice, OutputMode, Patience, Role, RoleChoice
from silas.agents.models.errors import ModelNotUsable, ModelPackageMissing
from silas.agents.models.metered import MeteredModel
from silas.agents.models.modes import (
    FREE,
    Cost,
    ModeMemory,
    as_output,
    cost_of,
    is_guided,
    mode_for,
    sees_images,
    shared_mode,
    use_reported_cost,
)
from silas.agents.models.providers import (
    ProviderFacts,
    facts_of,
    key_from_environment,
    provider_problem,
)
from silas.agents.models.resilience import CircuitBreaker, Jitter, ResilientModel, Sleep, translated
from silas.kernel import Clock
from silas.kernel.redaction import Redactor
from silas.stream.usage import UseListener

pydantic_ai.BANNER_ENABLED = False  # the terminal belongs to Silas; a library has no word in it
_NO_KEY = "no-key"
"""Servers without keys still want a header; and the client must not look for a key by itself."""
_LONGEST_SENTENCE = 300
_KEY_PARAMETERS = ("api_key", "token")
_ADDRESS_PARAMETERS = ("base_url", "api_base", "azure_endpoint")


def make_model(choice: ModelChoice, environ: Mapping[str, str]) -> Model:
    """The library's model for this choice; raises an error that says what is missing."""
    if problem := provider_problem(choice.name):
        raise ModelNotUsable(f"`{choice.name}` {problem}.")
    try:
        return infer_model(_name_for(choice), lambda _: _make_provider(choice, environ))
    except ImportError:
        extra = _facts(choice).extra
        raise ModelPackageMissing(
            f"`{choice.provider}` needs a package that is not installed. "
            f'Run `pip install "pydantic-ai-slim[{extra}]"`.'
        ) from None
    except UserError as error:
        key = api_key_for(choice, environ)
        if key is None and _facts(choice).key_variables:
            raise ModelNotUsable(_no_key(choice)) from None
        said = Redactor([key] if key else []).text(str(error))[:_LONGEST_SENTENCE]
        raise ModelNotUsable(f"`{choice.name}` cannot be used as it is: {said}") from None


def _facts(choice: ModelChoice) -> ProviderFacts:
    return facts_of(choice.provider) or ProviderFacts()


def _name_for(choice: ModelChoice) -> str:
    """Other servers speak chat completions; OpenAI's newer protocol is OpenAI's own."""
    if choice.base_url is not None and choice.provider == "openai":
        return f"openai-chat:{choice.model}"
    return choice.name


def _make_provider(choice: ModelChoice, environ: Mapping[str, str]) -> Provider[Any]:
    if choice.provider.startswith("gateway/"):
        return infer_provider(choice.provider)
    provider_class = infer_provider_class(choice.provider)
    takes = inspect.signature(provider_class.__init__).parameters
    arguments: dict[str, Any] = {}
    parameter = next((name for name in _KEY_PARAMETERS if name in takes), None)
    if parameter and (key := api_key_for(choice, environ)) is not None:
        arguments[parameter] = key
    address = choice.base_url or _facts(choice).default_url
    named = next((name for name in _ADDRESS_PARAMETERS if name in takes), None)
    if address is None:
        return provider_class(**arguments) if arguments else infer_provider(choice.provider)
    if named:
        return provider_class(**arguments, **{named: address})
    return _at(provider_class(**arguments), choice, address)


def _at(provider: Provider[Any], choice: ModelChoice, address: str) -> Provider[Any]:
    """A provider with one fixed address, sent to another one that speaks the same protocol."""
    if not hasattr(provider.client, "base_url"):
        raise ModelNotUsable(f"`{choice.provider}` has one address only; remove its base_url.")
    provider.client.base_url = address
    return provider


def api_key_for(choice: ModelChoice, environ: Mapping[str, str]) -> str | None:
    """The key that goes with the requests; None leaves it to the provider's own ways.

    A key from the environment is meant for the provider itself: it never goes to another address
    over plain http, nor to a server on this machine.
    """
    if choice.api_key is not None:
        return choice.api_key.get_secret_value()
    key = key_from_environment(choice.provider, environ)
    if key is not None and (choice.base_url or "https://").startswith("https://"):
        return key
    elsewhere = choice.base_url is not None or _facts(choice).default_url is not None
    return _NO_KEY if elsewhere else None


def _no_key(choice: ModelChoice) -> str:
    return (
        f"There is no key for `{choice.provider}`. Run `silas secrets set {choice.provider}` and "
        f"set models.api_keys.{choice.provider} to `secret:{choice.provider}`, "
        f"or set {_facts(choice).key_variables[0]}."
    )


Brain = Callable[[Role], Model]
"""Makes the offline brain of a role, for roles without a model."""

BRAIN_NAME = "offline brain"


@dataclass(frozen=True)
class RoleModel:
    """Who plays a role, and how to ask."""

    role: Role
    model: Model
    settings: ModelSettings
    output_mode: OutputMode
    name: str
    choice: ModelChoice | None = None
    """None: the offline brain."""
    guided: bool = False
    """Asked for little at a time, in short forms: a small model on this machine (`modes.py`)."""
    sees_images: bool = False
    """Whether it, and whoever steps in for it, can be given images (`modes.py`)."""

    def price(self, usage: RequestUsage | RunUsage) -> float:
        """What this usage cost in dollars; 0 if the price is not known, see `cost`."""
        return self.cost(usage).usd

    def cost(self, usage: RequestUsage | RunUsage) -> Cost:
        """What this usage cost, and whether that is known."""
        return FREE if self.choice is None else cost_of(self.choice, usage)

    def as_output(self, output_type: type[Any]) -> Any:
        """What to give an `Agent` as `output_type`, so that this model can answer in that form."""
        return as_output(self.output_mode, output_type)


class TranslatedModel(WrapperModel):
    """A model that raises our errors instead of the library's, and counts what was charged."""

    def __init__(self, wrapped: Model, *, name: str, redactor: Redactor) -> None:
        super().__init__(wrapped)
        self._shown_name = name
        self._redactor = redactor

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        with translated(self._shown_name, redactor=self._redactor):
            return use_reported_cost(
                await self.wrapped.request(messages, model_settings, model_request_parameters)
            )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        with translated(self._shown_name, redactor=self._redactor):
            async with self.wrapped.request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                yield stream


class Models:
    """The models of all roles. Enter it to keep connections open, and to close them at the end."""

    def __init__(
        self,
        choices: Mapping[Role, RoleChoice],
        *,
        environ: Mapping[str, str],
        clock: Clock,
        memory: ModeMemory | None = None,
        brain: Brain | None = None,
        on_use: UseListener | None = None,
        sleep: Sleep = asyncio.sleep,
        jitter: Jitter = random.random,
    ) -> None:
        """`on_use` is told what each answer used; the offline brain uses nothing."""
        self._choices = choices
        self._environ = environ
        self._clock = clock
        self._memory = memory or ModeMemory(None)
        self._brain = brain
        self._on_use = on_use
        self._sleep = sleep
        self._jitter = jitter
        self._breakers: dict[tuple[str, str | None], CircuitBreaker] = {}
        self._made: dict[Role, RoleModel] = {}
        self._open = AsyncExitStack()

    def for_role(self, role: Role) -> RoleModel:
        """Who plays this role; raises `LlmError` with what is missing."""
        if role not in self._made:
            self._made[role] = self._make(self._choices.get(role, RoleChoice(role=role)))
        return self._made[role]

    async def __aenter__(self) -> Self:
        for role, choice in self._choices.items():
            if choice.model is not None:
                await self._open.enter_async_context(self.for_role(role).model)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    def _make(self, choice: RoleChoice) -> RoleModel:
        if choice.model is None:
            return self._make_brain(choice.role)
        chosen = [each for each in (choice.model, choice.fallback) if each is not None]
        made = [make_model(each, self._environ) for each in chosen]
        modes = [mode_for(*pair, self._memory) for pair in zip(chosen, made, strict=True)]
        guarded = [
            self._guard(self._metered(model, each, choice.role), each, choice.patience)
            for model, each in zip(made, chosen, strict=True)
        ]
        chain = FallbackModel(*guarded, fallback_on=(ModelAPIError, UnexpectedModelBehavior))
        keys = [key for each in chosen if (key := api_key_for(each, self._environ))]
        mode = shared_mode(modes[0], modes[-1])
        guided = all(is_guided(each, mode, self._memory) for each in chosen)
        return RoleModel(
            role=choice.role,
            model=TranslatedModel(chain, name=choice.model.name, redactor=Redactor(keys)),
            settings=_settings(choice.patience, guided=guided),
            output_mode=mode,
            name=choice.model.name,
            choice=choice.model,
            guided=guided,
            sees_images=all(map(sees_images, chosen, made)),
        )

    def _make_brain(self, role: Role) -> RoleModel:
        if self._brain is None:
            raise ModelNotUsable(
                f"No model is configured for the role `{role}`. Set models.{role}, "
                "or run `silas models detect` to look for one on this machine."
            )
        return RoleModel(
            role=role,
            model=self._brain(role),
            settings=ModelSettings(),
            output_mode=OutputMode.TOOL,
            name=BRAIN_NAME,
        )

    def _metered(self, model: Model, choice: ModelChoice, role: Role) -> Model:
        if self._on_use is None:
            return model
        return MeteredModel(model, choice, role=role, told=self._on_use)

    def _guard(self, model: Model, choice: ModelChoice, patience: Patience) -> ResilientModel:
        key = (choice.name, choice.base_url)
        if key not in self._breakers:
            self._breakers[key] = CircuitBreaker(
                failures=patience.breaker_failures,
                rest_seconds=patience.breaker_seconds,
                clock=self._clock,
            )
        return ResilientModel(
            model,
            patience=patience,
            breaker=self._breakers[key],
            sleep=self._sleep,
            jitter=self._jitter,
        )


def _settings(patience: Patience, *, guided: bool) -> ModelSettings:
    """Time-outs for one try and for the whole request; the client itself does not try again."""
    settings = ModelSettings(
        timeout=patience.timeout_seconds, request_timeout=patience.timeout_seconds, max_retries=0
    )
    # What servers choose by themselves is made for stories; a small model then misspells paths.
    return {**settings, "temperature": 0.0} if guided else settings
