"""The way to a companion's model, wired.

A companion's model is one that the owner has configured for some role; its address and its key are
the settings'. There is no fallback to another model: who is asked is the owner's choice.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack

from silas.agents.companion import CompanionAgent
from silas.agents.models.choices import RoleChoice
from silas.agents.models.factory import Models
from silas.agents.models.modes import ModeMemory
from silas.app.companion_destinations import Destinations
from silas.app.ground import Ground
from silas.app.model_choices import key_reader, model_choices
from silas.companions.ports import CompanionRequest, Destination
from silas.companions.proposals import CompanionProposal


class ModelGateway(Destinations):
    """`silas.companions.ports.ProviderGateway` to the models of the settings."""

    def __init__(self, ground: Ground, *, environ: Mapping[str, str]) -> None:
        super().__init__(ground)
        self._environ = environ
        self._agents: dict[str, CompanionAgent] = {}
        self._open = AsyncExitStack()

    async def propose(
        self, destination: Destination, request: CompanionRequest
    ) -> CompanionProposal:
        """Ask the model there."""
        if destination.local:
            return await super().propose(destination, request)
        return await (await self._agent(destination.model_id)).propose(request)

    async def close(self) -> None:
        """Close the connections to models."""
        await self._open.aclose()

    async def _agent(self, model_id: str) -> CompanionAgent:
        if model_id not in self._agents:
            ground, role = self._ground, self._roles()[model_id]
            reader = key_reader(ground.vault.get, self._environ)
            chosen = model_choices(ground.settings, reader)[role]
            alone = RoleChoice(role=role, model=chosen.model, patience=chosen.patience)
            models = Models(
                {role: alone},
                environ=self._environ,
                clock=ground.clock,
                memory=ModeMemory(ground.paths.model_modes),
            )
            await self._open.enter_async_context(models)
            self._agents[model_id] = CompanionAgent(models.for_role(role), clock=ground.clock)
        return self._agents[model_id]
