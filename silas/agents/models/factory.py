"""The models of all roles, made once, each with time-outs, retries, a breaker and a fallback.

From the inside out: the library's model; `ResilientModel` with the breaker of that model; the
library's `FallbackModel`, which also enforces the deadline; `TranslatedModel`, which lets only our
own errors out. Two roles that use the same model at the same address share one breaker.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage, RunUsage

from silas.agents.models.choices import ModelChoice, Patience, RoleChoice
from silas.agents.models.errors import ModelNotUsable
from silas.agents.models.making import api_key_for, make_model
from silas.agents.models.modes import ModeMemory, as_output, mode_for, shared_mode
from silas.agents.models.prices import FREE, Cost, cost_of, use_reported_cost
from silas.agents.models.resilience import CircuitBreaker, Jitter, ResilientModel, Sleep
from silas.agents.models.roles import OutputMode, Role
from silas.agents.models.translation import translated
from silas.kernel import Clock
from silas.kernel.redaction import Redactor

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
        sleep: Sleep = asyncio.sleep,
        jitter: Jitter = random.random,
    ) -> None:
        self._choices = choices
        self._environ = environ
        self._clock = clock
        self._memory = memory or ModeMemory(None)
        self._brain = brain
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
            self._guard(model, each, choice.patience)
            for model, each in zip(made, chosen, strict=True)
        ]
        chain = FallbackModel(*guarded, fallback_on=(ModelAPIError, UnexpectedModelBehavior))
        keys = [key for each in chosen if (key := api_key_for(each, self._environ))]
        return RoleModel(
            role=choice.role,
            model=TranslatedModel(chain, name=choice.model.name, redactor=Redactor(keys)),
            settings=_settings(choice.patience),
            output_mode=shared_mode(modes[0], modes[-1]),
            name=choice.model.name,
            choice=choice.model,
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


def _settings(patience: Patience) -> ModelSettings:
    """Time-outs for one try and for the whole request; the client itself does not try again."""
    return ModelSettings(
        timeout=patience.timeout_seconds, request_timeout=patience.timeout_seconds, max_retries=0
    )
