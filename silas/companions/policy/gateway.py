"""The one door to a model. In order, each a no on its own:

1. No stop switch is on: for everything, this companion, or asking models.
2. There is budget left today.
3. The owner has configured this model; no other host can be reached (`network_denied`).
4. The model is allowed for this companion in every category that is spoken of.
5. The owner has confirmed what the provider does with data, in the version in force.
6. The key can be read from the vault.
7. The payload holds allowlisted fields only.

A model inside this process (the offline brain) sends nothing anywhere: for it 3 to 6 do not apply.
What was used is charged before the answer is looked at. Nothing here ever picks another model.
"""

from silas.companions.budgets import MICRO, Budgets
from silas.companions.decisions import Decisions
from silas.companions.errors import NetworkDenied, SecretUnavailable
from silas.companions.models import BudgetUsage, Companion
from silas.companions.policy.access import AgentModelAccessResolver
from silas.companions.policy.consent import PrivacyConsents
from silas.companions.policy.projection import require_projected
from silas.companions.policy.switches import StopSwitches
from silas.companions.ports import (
    CompanionRequest,
    Destination,
    ProviderGateway,
    SecretProvider,
)
from silas.companions.proposals import CompanionProposal
from silas.companions.tools.models import ToolClass


class ModelDoor:
    """Asks a model for a companion, or says why not."""

    def __init__(
        self,
        gateway: ProviderGateway | None,
        *,
        switches: StopSwitches,
        budgets: Budgets,
        access: AgentModelAccessResolver,
        consents: PrivacyConsents,
        secrets: SecretProvider | None,
    ) -> None:
        self._gateway = gateway
        self._switches = switches
        self._budgets = budgets
        self._access = access
        self._consents = consents
        self._secrets = secrets

    def destination(self, companion: Companion) -> Destination:
        """Where the owner's choice for this companion leads; raises `NetworkDenied` (3)."""
        model_id = companion.config.model_id
        found = self._gateway.destination(model_id) if self._gateway is not None else None
        if found is None:
            raise NetworkDenied(
                f"{model_id or 'No model'} is not among the configured models. Nothing was sent.",
                model=model_id,
            )
        return found

    def knows(self, model_id: str) -> bool:
        """Whether the owner has configured this model."""
        return self._gateway is not None and self._gateway.destination(model_id) is not None

    async def ask(
        self,
        companion: Companion,
        request: CompanionRequest,
        *,
        allowed_fields: frozenset[str],
        decisions: Decisions,
    ) -> CompanionProposal:
        """The model's proposal; raises what stands against asking."""
        async with decisions.deciding("stop_switch", "model"):
            await self._switches.require(companion.id, {ToolClass.MODEL})
        async with decisions.deciding("budget", "model"):
            allowance = await self._budgets.allowance(companion)
        async with decisions.deciding("egress", companion.config.model_id or "offline"):
            destination = self.destination(companion)
        if not destination.local:
            await self._require_agreed(companion, destination, request, decisions)
        async with decisions.deciding("projection", request.agent_kind):
            require_projected(request.payload, allowed_fields)
        asked = request.model_copy(update={"allowance": allowance})
        return await self._ask(companion, destination, asked)

    async def _require_agreed(
        self,
        companion: Companion,
        destination: Destination,
        request: CompanionRequest,
        decisions: Decisions,
    ) -> None:
        named = destination.model_id
        async with decisions.deciding("model_access", named):
            await self._access.require(companion, destination, request.category_ids)
        async with decisions.deciding("privacy_consent", named):
            await self._consents.require(destination)
        async with decisions.deciding("secret", named):
            self._require_secret(destination)

    def _require_secret(self, destination: Destination) -> None:
        reference = destination.secret_ref_id
        if reference is None:
            return
        if self._secrets is None or not self._secrets.available(reference):
            raise SecretUnavailable(secret_ref_id=reference)

    async def _ask(
        self, companion: Companion, destination: Destination, request: CompanionRequest
    ) -> CompanionProposal:
        if self._gateway is None:
            raise NetworkDenied
        proposal = await self._gateway.propose(destination, request)
        usage = proposal.usage
        await self._budgets.charge(
            companion.id,
            BudgetUsage(
                tokens=usage.tokens,
                cost_micro_usd=round(usage.cost_usd * MICRO),
                runtime_ms=round(usage.seconds * 1000),
            ),
        )
        return proposal.model_copy(update={"model_id": destination.model_id})
