"""The one door to a model. In order, each a no on its own:

1. No stop switch is on: for everything, this companion, or asking models.
2. There is budget left today.
3. The owner has configured this model; no other host can be reached (`network_denied`).
4. The model is allowed for this companion in every category that is spoken of.
5. The owner has confirmed what this very provider, host and account do with these very fields.
6. The key can be read from the vault.
7. The payload holds fields only that the projection policy in force allows.
8. The companion lives, is not paused, and is as it was when it began. This, 1 and 2 are decided in
   one transaction with setting the budget aside: whatever is stopped after it was asked already.

A model inside this process (the offline brain) sends nothing anywhere: for it 3 to 6 do not apply.
What was used is counted before the answer is looked at. If nobody knows how much that is, because
the question was called off or failed, all that was set aside is. Nothing here ever picks another
model.
"""

from silas.companions.budgets import MICRO, Budgets, allowance_of
from silas.companions.decisions import Decisions
from silas.companions.errors import (
    AgentPaused,
    ModelNotAllowed,
    NetworkDenied,
    OutOfScope,
    SecretUnavailable,
)
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.models import BudgetReservation, BudgetUsage, Companion
from silas.companions.policy.access import AgentModelAccessResolver
from silas.companions.policy.consent import PrivacyConsents
from silas.companions.policy.fields import OPERATION_KEY
from silas.companions.policy.projecting import ProjectionPolicies
from silas.companions.policy.projection import require_projected
from silas.companions.policy.switches import StopSwitches
from silas.companions.ports import (
    CompanionRequest,
    Destination,
    ProviderGateway,
    SecretProvider,
)
from silas.companions.proposals import CompanionProposal, ModelUsage
from silas.companions.store import CompanionStore
from silas.companions.tools.models import ToolClass
from silas.kernel import CompanionError
from silas.storage import Transaction


class ModelDoor:
    """Asks a model for a companion, or says why not."""

    def __init__(
        self,
        store: CompanionStore,
        gateway: ProviderGateway | None,
        *,
        switches: StopSwitches,
        budgets: Budgets,
        access: AgentModelAccessResolver,
        consents: PrivacyConsents,
        projections: ProjectionPolicies,
        secrets: SecretProvider | None,
    ) -> None:
        self._store = store
        self._gateway = gateway
        self._switches = switches
        self._budgets = budgets
        self._access = access
        self._consents = consents
        self._projections = projections
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

    def destinations(self) -> tuple[Destination, ...]:
        """Where the models are that the owner has configured."""
        known = self._gateway.names() if self._gateway is not None else ()
        found = [self._gateway.destination(each) for each in known] if self._gateway else []
        return tuple(each for each in found if each is not None)

    async def ask(
        self,
        companion: Companion,
        request: CompanionRequest,
        *,
        definition: CompanionDefinition,
        decisions: Decisions,
        operation_key: str = OPERATION_KEY,
    ) -> CompanionProposal:
        """The model's proposal; raises what stands against asking."""
        async with decisions.deciding("stop_switch", "model"):
            await self._switches.require(companion.id, {ToolClass.MODEL})
        async with decisions.deciding("budget", "model"):
            await self._budgets.require(companion)
        async with decisions.deciding("egress", companion.config.model_id or "offline"):
            destination = self.destination(companion)
        if not destination.local:
            agreed = await self._projections.allowed(definition)
            await self._require_agreed(companion, destination, request, agreed, decisions)
        async with decisions.deciding("projection", request.agent_kind):
            allowed = await self._projections.allowed(definition, operation_key)
            require_projected(request.payload, allowed)
        async with decisions.deciding("lifecycle", "model"):
            reserved = await self._store.transaction(lambda tx: self._begin_in(tx, companion))
        return await self._ask(destination, request, reserved)

    async def _require_agreed(
        self,
        companion: Companion,
        destination: Destination,
        request: CompanionRequest,
        fields: frozenset[str],
        decisions: Decisions,
    ) -> None:
        named = destination.model_id
        async with decisions.deciding("model_access", named):
            await self._access.require(companion, destination, request.category_ids)
        async with decisions.deciding("privacy_consent", named):
            await self._consents.require(destination, fields)
        async with decisions.deciding("secret", named):
            self._require_secret(destination)

    def _require_secret(self, destination: Destination) -> None:
        reference = destination.secret_ref_id
        if reference is None:
            return
        if self._secrets is None or not self._secrets.available(reference):
            raise SecretUnavailable(secret_ref_id=reference)

    def _begin_in(self, tx: Transaction, companion: Companion) -> BudgetReservation:
        """Rule 8."""
        self._switches.require_in(tx, companion.id, {ToolClass.MODEL})
        self._store.require_alive_in(tx, companion.id)
        now = self._store.require_in(tx, Companion, companion.id)
        if now.paused_at is not None:
            raise AgentPaused(agent_id=companion.id)
        if now.config.model_id != companion.config.model_id:
            raise ModelNotAllowed("The companion was given another model meanwhile.")
        if not set(companion.allowed_category_ids) <= set(now.allowed_category_ids):
            raise OutOfScope("A category was taken from the companion meanwhile.")
        return self._budgets.reserve_in(tx, now)

    async def _ask(
        self, destination: Destination, request: CompanionRequest, reserved: BudgetReservation
    ) -> CompanionProposal:
        clock = self._store.clock
        begun, used = clock.monotonic(), reserved.usage
        try:
            if self._gateway is None:
                raise NetworkDenied
            asked = request.model_copy(update={"allowance": allowance_of(reserved)})
            proposal = await self._gateway.propose(destination, asked)
            used = _reported(proposal.usage)
        except CompanionError:
            used = BudgetUsage()  # it was refused before anybody was asked
            raise
        finally:
            passed = max(0, round((clock.monotonic() - begun) * 1000))
            await self._budgets.settle(reserved, used.model_copy(update={"runtime_ms": passed}))
        seconds = proposal.usage.model_copy(update={"seconds": passed / 1000})
        return proposal.model_copy(update={"model_id": destination.model_id, "usage": seconds})


def _reported(usage: ModelUsage) -> BudgetUsage:
    return BudgetUsage(tokens=usage.tokens, cost_micro_usd=round(usage.cost_usd * MICRO))
