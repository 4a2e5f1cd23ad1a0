"""Where companions' models are, and the way to them: those that the settings name, and no others.

A companion's model is one that the owner has configured for some role; its address and its key are
that role's. There is no fallback to another model: who is asked is the owner's choice. Nothing here
loads the library of the models before one of them is asked: commands only look.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from silas.agents.models.choices import ModelChoice, RoleChoice
from silas.agents.models.providers import facts_of
from silas.companions.errors import NetworkDenied
from silas.companions.kinds.offline import OfflineBrain
from silas.companions.ports import CompanionProposal, CompanionRequest, ModelDestination
from silas.kernel import SecretsError

if TYPE_CHECKING:
    from silas.agents.companion import CompanionAgent

OpenAgent = Callable[[RoleChoice], AbstractAsyncContextManager["CompanionAgent"]]
"""Opens the agent of a chosen model; connections end with the block."""

_OFFLINE = ModelDestination(provider="offline", model="brain")
_PORTS = {"http": 80, "https": 443}
_SECRET = "secret:"  # noqa: S105 - how a reference to a secret begins


class Destinations:
    """`silas.companions.ports.ProviderGateway` that reaches the offline brain and nobody else."""

    def __init__(self, choices: Mapping[str, RoleChoice]) -> None:
        self._choices = choices
        """By the model's name."""
        self._offline = OfflineBrain()

    def names(self) -> tuple[str, ...]:
        """The models that a companion may be given."""
        return tuple(sorted(self._choices))

    def destination(self, model_id: str | None) -> ModelDestination | None:
        """Where this model is; None if no role has it."""
        if model_id is None:
            return _OFFLINE
        choice = self._choices[model_id].model if model_id in self._choices else None
        return _destination(choice) if choice is not None else None

    async def propose(
        self, destination: ModelDestination, request: CompanionRequest
    ) -> CompanionProposal:
        """Ask the offline brain; raises `NetworkDenied` for everybody else."""
        if not destination.local:
            raise NetworkDenied("Models are asked by the running Silas alone. Nothing was sent.")
        return await self._offline.propose(request)

    async def close(self) -> None:
        """There is nothing to close."""


class ModelGateway(Destinations):
    """`silas.companions.ports.ProviderGateway` that also reaches the configured models."""

    def __init__(self, choices: Mapping[str, RoleChoice], open_agent: OpenAgent) -> None:
        super().__init__(choices)
        self._open_agent = open_agent
        self._agents: dict[str, CompanionAgent] = {}
        self._open = AsyncExitStack()

    async def propose(
        self, destination: ModelDestination, request: CompanionRequest
    ) -> CompanionProposal:
        """Ask the model there."""
        if destination.local:
            return await super().propose(destination, request)
        model_id = destination.model_id
        if model_id not in self._agents:
            opening = self._open_agent(self._choices[model_id])
            self._agents[model_id] = await self._open.enter_async_context(opening)
        return await self._agents[model_id].propose(request)

    async def close(self) -> None:
        """Close the connections to models."""
        await self._open.aclose()


class ReferencedSecrets:
    """`silas.companions.ports.SecretProvider` over the vault and the environment."""

    def __init__(
        self, read_secret: Callable[[str], bytes | None], *, environ: Mapping[str, str]
    ) -> None:
        self._read_secret = read_secret
        self._environ = environ

    def available(self, secret_ref_id: str) -> bool:
        """Whether the key can be read now."""
        if not secret_ref_id.startswith(_SECRET):
            return bool(self._environ.get(secret_ref_id.removeprefix("env:")))
        try:
            return self._read_secret(secret_ref_id.removeprefix(_SECRET)) is not None
        except SecretsError:
            return False


def _destination(choice: ModelChoice) -> ModelDestination:
    facts = facts_of(choice.provider)
    address = urlsplit(choice.base_url or (facts.default_url if facts else None) or "")
    reference = choice.api_key.get_secret_value() if choice.api_key else None
    return ModelDestination(
        provider=choice.provider,
        model=choice.model,
        host=address.hostname or f"{choice.provider}'s own servers",
        port=address.port or _PORTS.get(address.scheme),
        secret_ref_id=reference,
    )
