"""The agent of a companion's model, wired."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from silas.agents.companion import CompanionAgent
from silas.agents.models.choices import RoleChoice
from silas.agents.models.factory import Models
from silas.agents.models.modes import ModeMemory
from silas.agents.models.roles import Role
from silas.app.ground import Ground
from silas.app.model_choices import key_reader, model_choices


@asynccontextmanager
async def open_companion_agent(
    ground: Ground, role: Role, *, environ: Mapping[str, str]
) -> AsyncIterator[CompanionAgent]:
    """An agent with the model of this role, without its fallback; connections end with it."""
    chosen = model_choices(ground.settings, key_reader(ground.vault.get, environ))[role]
    alone = RoleChoice(role=role, model=chosen.model, patience=chosen.patience)
    memory = ModeMemory(ground.paths.model_modes)
    async with Models({role: alone}, environ=environ, clock=ground.clock, memory=memory) as models:
        yield CompanionAgent(models.for_role(role), clock=ground.clock)
