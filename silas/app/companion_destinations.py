"""Where companions' models are: those that the settings name, and no others.

Nothing here can ask a model, nor loads what would be needed for that: commands only look.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from silas.agents.models.choices import ModelChoice
from silas.agents.models.providers import facts_of
from silas.agents.models.roles import Role
from silas.app.ground import Ground
from silas.app.model_choices import model_choices, model_name, without_reading
from silas.companions.errors import NetworkDenied
from silas.companions.kinds.offline import OfflineBrain
from silas.companions.ports import CompanionRequest, Destination
from silas.companions.proposals import CompanionProposal
from silas.kernel import SecretsError

OFFLINE = Destination(provider="offline", model="brain")
_PORTS = {"http": 80, "https": 443}
_SECRET = "secret:"  # noqa: S105 - how a reference to a secret begins


class Destinations:
    """`silas.companions.ports.ProviderGateway` that reaches the offline brain and nobody else."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._offline = OfflineBrain()

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
        """Ask the offline brain; raises `NetworkDenied` for everybody else."""
        if not destination.local:
            raise NetworkDenied("Models are asked by the running Silas alone. Nothing was sent.")
        return await self._offline.propose(request)

    async def close(self) -> None:
        """There is nothing to close."""

    def _roles(self) -> dict[str, Role]:
        settings = self._ground.settings
        # If two roles have the same model at two addresses, the first role's is meant.
        named = {role: model_name(settings, role) for role in reversed(Role)}
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
    address = urlsplit(choice.base_url or (facts.default_url if facts else None) or "")
    reference = choice.api_key.get_secret_value() if choice.api_key else None
    return Destination(
        provider=choice.provider,
        model=choice.model,
        host=address.hostname or f"{choice.provider}'s own servers",
        port=address.port or _PORTS.get(address.scheme),
        secret_ref_id=reference,
    )
