"""The way to a companion's model, wired.

A companion's model is one that the owner has configured for some role; its address and its key are
the settings'. There is no fallback to another model: who is asked is the owner's choice.
"""

import asyncio
import importlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Protocol

from silas.app.companion_destinations import Destinations
from silas.app.ground import Ground
from silas.companions.ports import CompanionRequest, Destination
from silas.companions.proposals import CompanionProposal


class Proposing(Protocol):
    """The agent of one model."""

    async def propose(self, request: CompanionRequest) -> CompanionProposal:
        """What the model proposes."""
        ...


class ModelGateway(Destinations):
    """`silas.companions.ports.ProviderGateway` to the models of the settings."""

    def __init__(self, ground: Ground, *, environ: Mapping[str, str]) -> None:
        super().__init__(ground)
        self._environ = environ
        self._agents: dict[str, Proposing] = {}
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

    async def _agent(self, model_id: str) -> Proposing:
        if model_id not in self._agents:
            # Loaded here: it brings the library of the models along, which most houses never need.
            agents = await asyncio.to_thread(importlib.import_module, "silas.app.companion_agents")
            role = self._roles()[model_id]
            opening = agents.open_companion_agent(self._ground, role, environ=self._environ)
            self._agents[model_id] = await self._open.enter_async_context(opening)
        return self._agents[model_id]
