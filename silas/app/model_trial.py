"""One real round trip per role, and what it tells about each model and each fallback."""

from collections.abc import Iterator, Mapping, Sequence

from silas.agents.models.choices import ModelChoice, RoleChoice
from silas.agents.models.factory import Models
from silas.agents.models.modes import ModeMemory
from silas.agents.models.probe import ProbeReport, failed_probe, probe_model
from silas.agents.models.roles import Role
from silas.app.ground import Ground
from silas.app.model_choices import key_reader, model_choices
from silas.kernel.errors import LlmError
from silas.kernel.models import Data


class TriedRole(Data):
    """How the model of one role did; no report means that the offline brain plays it."""

    role: Role
    is_fallback: bool = False
    report: ProbeReport | None = None


async def try_roles(
    ground: Ground, roles: Sequence[Role], *, environ: Mapping[str, str], quick: bool = False
) -> list[TriedRole]:
    """Ask the models of these roles; one that plays several roles is asked once."""
    choices = model_choices(ground.settings, key_reader(ground.vault.get, environ))
    seen: dict[ModelChoice, ProbeReport] = {}
    tried = []
    for choice, is_fallback in _each(choices[role] for role in roles):
        if choice.model is None:
            tried.append(TriedRole(role=choice.role))
            continue
        if choice.model not in seen:
            seen[choice.model] = await try_choice(ground, choice, environ, quick=quick)
        report = seen[choice.model]
        tried.append(TriedRole(role=choice.role, is_fallback=is_fallback, report=report))
    return tried


def _each(choices: Iterator[RoleChoice]) -> Iterator[tuple[RoleChoice, bool]]:
    """Models and fallbacks apart: a fallback that steps in would hide that the model fails."""
    for choice in choices:
        yield choice.model_copy(update={"fallback": None}), False
        if choice.model is not None and choice.fallback is not None:
            yield choice.model_copy(update={"model": choice.fallback, "fallback": None}), True


async def try_choice(
    ground: Ground, choice: RoleChoice, environ: Mapping[str, str], *, quick: bool
) -> ProbeReport:
    """Ask one model; what fails is part of the report."""
    memory = ModeMemory(ground.paths.model_modes)
    models = Models({choice.role: choice}, environ=environ, clock=ground.clock)
    try:
        async with models:
            role_model = models.for_role(choice.role)
            return await probe_model(role_model, memory=memory, clock=ground.clock, quick=quick)
    except LlmError as error:
        return failed_probe(choice.model.name if choice.model else choice.role.value, error)
