"""The whole real stack in front of a loopback server: `Models`, the library, its HTTP client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic_ai import Agent

from silas.agents.models.choices import ModelChoice, OutputMode, Patience, Role, RoleChoice
from silas.agents.models.factory import Models, RoleModel
from silas.stream.usage import ModelUse
from silas.testing.fakes import FakeClock
from silas.testing.model_server import ModelServer

KEY = "sk-or-v1-0123456789abcdef0123456789abcdef"
OPENAI, OPENROUTER = "openai:small", "openrouter:openai/gpt-4o"


class City(BaseModel):
    """A city."""

    name: str


@dataclass
class Stack:
    """A role's model, its clock, how long it would have slept, and what its answers used."""

    model: RoleModel
    clock: FakeClock
    slept: list[float] = field(default_factory=list)
    used: list[ModelUse] = field(default_factory=list)

    async def ask(self, prompt: str = "Which city?", *, structured: bool = False) -> Any:
        output: Any = self.model.as_output(City) if structured else str
        agent = Agent(self.model.model, output_type=output, model_settings=self.model.settings)
        return await agent.run(prompt)


def choice(server: ModelServer | str, name: str = OPENAI, **more: Any) -> ModelChoice:
    url = server if isinstance(server, str) else server.url
    return ModelChoice(name=name, base_url=url, api_key=SecretStr(KEY), **more)


@asynccontextmanager
async def stack(
    server: ModelServer | str,
    name: str = OPENAI,
    *,
    mode: OutputMode | None = None,
    fallback: ModelChoice | None = None,
    **patience: Any,
) -> AsyncIterator[Stack]:
    """The model of the planner, at this server."""
    chosen = RoleChoice(
        role=Role.PLANNER,
        model=choice(server, name, output_mode=mode),
        fallback=fallback,
        patience=Patience(**{"timeout_seconds": 120, **patience}),
    )
    clock, slept, used = FakeClock(), list[float](), list[ModelUse]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(seconds=seconds)

    models = Models(
        {Role.PLANNER: chosen},
        environ={},
        clock=clock,
        on_use=used.append,
        sleep=sleep,
        jitter=lambda: 1.0,
    )
    async with models:
        yield Stack(models.for_role(Role.PLANNER), clock, slept, used)
