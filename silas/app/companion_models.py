"""The way to a companion's model, wired: the models that the settings name, and no others.

A companion's model is one that the owner has configured for some role; its address and its key are
the settings'. There is no fallback to another model: who is asked is the owner's choice.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from silas.agents.companion import CompanionAgent
from silas.agents.models.choices import ModelChoice, RoleChoice
from silas.agents.models.factory import Models
from silas.agents.models.modes import ModeMemory
from silas.agents.models.providers import facts_of
from silas.agents.models.roles import Role
from silas.app.ground import Ground
from silas.app.model_choices import key_reader, model_choices, model_name, without_reading
from silas.companions.kinds.offline import OfflineBrain
from silas.companions.ports import CompanionRequest, Destination
from silas.companions.proposals import CompanionProposal
from silas.kernel import SecretsError

OFFLINE = Destination(provider="offline", model="brain")
_SECRET = "secret:"  # noqa: S105 - how a reference to a secret begins


class ModelGateway:
    """`silas.companions.ports.ProviderGateway`."""

    def __init__(self, ground: Ground, *, environ: Mapping[str, str]) -> None:
        self._ground = ground
        self._environ = environ
        self._offline = OfflineBrain()
        self._agents: dict[str, CompanionAgent] = {}
        self._open = AsyncExitStack()

    def names(self) -> tuple[str, ...]:
        """The models that a companion may be given."""
        return tuple(sorted(self._roles()))

    def destination(self, model_id: str | None) -> Destination | None:
        """Where this model is; None if no role has it."""
        if model_id is None:
            return OFFLINE
        role = self._roles().get(model_id)
        if role is None:
            return None
        choice = model_choices(self._ground.settings, without_reading)[role].model
        return _destination(choice) if choice is not None else None

    async def propose(
        self, destination: Destination, request: CompanionRequest
    ) -> CompanionProposal:
        """Ask the model there."""
        if destination.local:
            return await self._offline.propose(request)
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

    def _roles(self) -> dict[str, Role]:
        settings = self._ground.settings
        named = {role: model_name(settings, role) for role in Role}
        return {name: role for role, name in named.items() if name is not None}


class VaultSecrets:
    """`silas.companions.ports.SecretProvider` over the vault and the environment."""

    def __init__(self, ground: Ground, *, environ: Mapping[str, str]) -> None:
        self._ground = ground
        self._environ = environ

    def available(self, secret_ref_id: str) -> bool:
        """Whether the key can be read now."""
        if not secret_ref_id.startswith(_SECRET):
            return bool(self._environ.get(secret_ref_id.removeprefix("env:")))
        try:
            return self._ground.vault.get(secret_ref_id.removeprefix(_SECRET)) is not None
        except SecretsError:
            return False


def _destination(choice: ModelChoice) -> Destination:
    facts = facts_of(choice.provider)
    address = choice.base_url or (facts.default_url if facts else None)
    host = urlsplit(address).hostname if address else None
    reference = choice.api_key.get_secret_value() if choice.api_key else None
    return Destination(
        provider=choice.provider,
        model=choice.model,
        host=host or f"{choice.provider}'s own servers",
        secret_ref_id=reference,
    )
