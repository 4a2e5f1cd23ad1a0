"""`silas models test`: one real question, then the same once in each structured mode.

What works is remembered, so that agents ask in a mode that the model understands. A mode counts as
working if the answer has the right form and the right content at the first try.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field
from pydantic_ai import Agent
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.usage import RunUsage, UsageLimits

from silas.agents.models.choices import OutputMode
from silas.agents.models.errors import ModelAnswerUnreadable
from silas.agents.models.factory import RoleModel
from silas.agents.models.modes import KnownModes, ModeMemory, as_output
from silas.agents.models.providers import is_local
from silas.agents.models.resilience import translated
from silas.kernel import Clock
from silas.kernel.errors import LlmError
from silas.kernel.models import Data

_QUESTION = "Add 3 and 4. Answer with the word `sum` and the number."
_EXPECTED = 7
# Room for a model that thinks first, and an end for a small one that talks on, at a few words a
# second.
_TOKENS, _LOCAL_TOKENS = 1000, 200


class ProbeAnswer(BaseModel):
    """The result of an addition."""

    word: str = Field(description="Always `sum`.")
    number: int = Field(description="The result of the addition.")


class ProbeReport(Data):
    """What one model did."""

    model: str
    ok: bool
    latency_ms: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cost_known: bool = True
    modes: Mapping[OutputMode, str | None] = Field(default_factory=dict)
    """What went wrong in each mode; None where it worked."""
    best_mode: OutputMode | None = None
    local: bool = False
    """Whether it runs on this machine."""
    error: Mapping[str, Any] | None = None
    exit_code: int = 0


def failed_probe(name: str, error: LlmError) -> ProbeReport:
    """The report on a model that did not answer."""
    return ProbeReport(model=name, ok=False, error=error.explain(), exit_code=error.exit_code)


async def probe_model(
    role_model: RoleModel, *, memory: ModeMemory, clock: Clock, quick: bool = False
) -> ProbeReport:
    """Ask one model; failures are part of the report.

    `quick` tries only the mode that is in use, and remembers nothing about the others.
    """
    usage, started = RunUsage(), clock.monotonic()
    try:
        await _ask(role_model, str, usage)
    except LlmError as error:
        return failed_probe(role_model.name, error)
    latency = clock.monotonic() - started
    tried = [role_model.output_mode] if quick else list(OutputMode)
    modes = {mode: await _try_mode(role_model, mode, usage) for mode in tried}
    working = _in_order(role_model.output_mode, [m for m in tried if modes[m] is None])
    if role_model.choice is not None and working and not quick:
        known = KnownModes(working=working, tested_at=clock.now())
        memory.remember(role_model.choice, known)
    cost = role_model.cost(usage)
    return ProbeReport(
        model=role_model.name,
        ok=bool(working),
        latency_ms=round(latency * 1000),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=cost.usd,
        cost_known=cost.known,
        modes=modes,
        best_mode=working[0] if working else None,
        local=role_model.choice is not None and is_local(role_model.choice),
        exit_code=0 if working else ModelAnswerUnreadable.exit_code,
    )


async def _try_mode(role_model: RoleModel, mode: OutputMode, usage: RunUsage) -> str | None:
    """Why the model cannot be used in this mode; None if it can."""
    try:
        answer = await _ask(role_model, as_output(mode, ProbeAnswer), usage)
    except LlmError as error:
        return error.message
    right = isinstance(answer, ProbeAnswer) and answer.number == _EXPECTED
    return None if right else "The answer has the right form, but it is wrong."


async def _ask(role_model: RoleModel, output_type: Any, usage: RunUsage) -> Any:
    local = role_model.choice is not None and is_local(role_model.choice)
    limits = ModelSettings(max_tokens=_LOCAL_TOKENS if local else _TOKENS, temperature=0.0)
    agent = Agent(role_model.model, output_type=output_type, retries=0)
    with translated(role_model.name):
        result = await agent.run(
            _QUESTION,
            model_settings=merge_model_settings(role_model.settings, limits),
            usage=usage,
            usage_limits=UsageLimits(request_limit=None),
        )
    return result.output


def _in_order(preferred: OutputMode, working: list[OutputMode]) -> tuple[OutputMode, ...]:
    """The one that is in use stays in use if it works."""
    return tuple(sorted(working, key=lambda mode: mode is not preferred))
