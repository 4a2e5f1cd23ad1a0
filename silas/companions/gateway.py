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

The owner's yes to a model: which companion may ask it, about what, and under which terms.

9. Nothing said means no. A grant is for one companion, in these categories, with one model of one
   provider, at one address and with one account, for exactly these fields and these words.
10. Before the first question to a model, the owner is shown what is known about the provider and
   which fields are sent (the terms), and confirms it. No confirmation, no request.
11. A confirmation is for one version. The version follows from everything that was shown: provider,
   model, host and port, the key and so the account that is used, the fields, and every sentence.
   Another one of these is another version, and asks again.
12. The grant says all of that in words, and is compared word for word when it is used.
13. The owner may say which models alone can be asked about a category, or by a kind. That stands
   above every grant.

Stop switches: everything, one companion, or a class of tools. Kept on disk, asked at every door.

14. Whoever stops is obeyed at once: no wake and no question to a model begins after it, and nothing
   is written, not even what was just allowed: the journal's fence has moved.
15. A switch stays as it is until the owner releases it, also across a restart.
16. What was in flight ends at its next door: what the journal has already is written down, and
   nothing follows.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from silas.companions.budgets import MICRO, Budgets, allowance_of
from silas.companions.errors import (
    AgentPaused,
    CompanionInvalid,
    ModelNotAllowed,
    NetworkDenied,
    OutOfScope,
    PrivacyConfirmationRequired,
    ProviderNotAllowed,
    SecretUnavailable,
    Stopped,
)
from silas.companions.ids import (
    digest,
    model_grant_id,
    model_rule_id,
    privacy_policy_id,
    stop_switch_id,
)
from silas.companions.kinds.library import CompanionDefinition
from silas.companions.messages import PolicyDecisions
from silas.companions.models import (
    BudgetReservation,
    BudgetUsage,
    Companion,
    ModelGrant,
    ModelRule,
    ModelRuleScope,
    ProviderPrivacyPolicy,
    StopScope,
    StopSwitch,
)
from silas.companions.ports import (
    CompanionProposal,
    CompanionRequest,
    ModelDestination,
    ModelUsage,
    ProviderGateway,
    SecretAvailable,
)
from silas.companions.projection import OPERATION_KEY, ProjectionPolicies, require_projected
from silas.companions.store import CompanionStore, among
from silas.companions.tools.registry import ToolClass
from silas.kernel import CompanionError
from silas.kernel.loopback import is_loopback
from silas.storage import Durability, Reader, Transaction

_GRANTS = "SELECT body FROM model_grants WHERE true{these}"
_HERE = "The model runs on this machine. What it is asked does not leave it."
_AWAY = (
    "Silas sends the fields below to {host} for every run of the companion. What the provider does "
    "with them is set out in its own policy; Silas cannot check or enforce it."
)
_NOT_KNOWN = "Not known to Silas: read the provider's policy."


@dataclass(frozen=True)
class ModelTerms:
    """What the owner is shown of a model: where it is, what it is sent, what becomes of that."""

    destination: ModelDestination
    fields: frozenset[str]
    shown: ProviderPrivacyPolicy
    """Its version is that of the whole (rule 11)."""

    def met_by(self, grant: ModelGrant | None, companion: Companion) -> bool:
        """Whether the owner has confirmed exactly this for this companion (rule 12)."""
        if grant is None or grant.revoked_at is not None or grant.agent_id != companion.id:
            return False
        bound = _bound_to(self.destination)
        return (
            grant.model_dump(include=set(bound)) == bound
            and grant.fields == tuple(sorted(self.fields))
            and grant.policy_version == self.shown.policy_version
            and grant.disclosure_hash == _hash(self.shown)
        )


class ModelGrants:
    """The terms of models, and what the owner has granted."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def terms(self, destination: ModelDestination, fields: frozenset[str]) -> ModelTerms:
        """What the owner is shown: what was configured for this provider, or what can be said."""
        text = await self._text(destination)
        whole = digest("terms", _hash(text), _bound_to(destination), sorted(fields))
        shown = text.model_copy(update={"policy_version": whole[:16]})
        return ModelTerms(destination, fields, shown)

    async def describe(
        self, destination: ModelDestination, words: Mapping[str, str]
    ) -> ProviderPrivacyPolicy:
        """Keep what a provider says, as the owner has read it: any other word asks again."""
        text = (await self._text(destination)).model_copy(update=dict(words))
        version = digest(text.training, text.retention, text.jurisdiction, text.disclosure)[:16]
        kept = {"policy_version": version, "updated_at": self._store.clock.now()}
        return await self._store.put(text.model_copy(update=kept))

    async def give(
        self, companion: Companion, terms: ModelTerms, *, policy_version: str
    ) -> ModelGrant:
        """Write down the owner's yes to the version that was shown; raises if it has changed."""
        if terms.shown.policy_version != policy_version:
            raise PrivacyConfirmationRequired(
                "What the provider does with your data has changed since. Read it again."
            )
        grant = ModelGrant(
            id=_key(companion, terms),
            agent_id=companion.id,
            category_ids=companion.allowed_category_ids,
            **_bound_to(terms.destination),
            fields=tuple(sorted(terms.fields)),
            policy_version=terms.shown.policy_version,
            disclosure_hash=_hash(terms.shown),
            confirmed_at=self._store.clock.now(),
        )
        return await self._store.transaction(
            lambda tx: self._store.put_in(tx, grant), durability=Durability.TRUST
        )

    async def revoke(self, companion: Companion) -> None:
        """Take everything back that was granted to this companion; its next request is refused."""
        for grant in await self._store.find(ModelGrant, {"agent_id": companion.id}):
            gone = grant.model_copy(update={"revoked_at": self._store.clock.now()})
            await self._store.put(gone)

    async def of(self, agent_ids: Sequence[str] | None) -> dict[str, ModelGrant]:
        """The grants of these companions, or of all, by their ids."""
        rows = await self._store.database.fetch_all(*among(_GRANTS, "agent_id", agent_ids))
        found = (ModelGrant.model_validate_json(body) for (body,) in rows)
        return {each.id: each for each in found}

    async def confirmed(self, companion: Companion, terms: ModelTerms) -> bool:
        """Whether the owner has confirmed these terms for this companion, in all its categories."""
        grant = await self._store.get(ModelGrant, _key(companion, terms))
        return not missing_grant(companion, terms, {grant.id: grant} if grant else {})

    # Which models may be asked at all about a category, or by a kind.

    async def rules(self) -> list[ModelRule]:
        """The owner's rules, in no order."""
        return await self._store.find(ModelRule)

    async def set_rule(self, scope: ModelRuleScope, target: str, models: Sequence[str]) -> None:
        """Let only these models be asked there; with none of them, any that is granted."""
        key = model_rule_id(scope, target)
        if not models:
            sql = "DELETE FROM model_rules WHERE id = ?"
            await self._store.database.execute(sql, (key,), durability=Durability.TRUST)
            return
        rule = ModelRule(
            id=key,
            scope=scope,
            target=target,
            models=tuple(sorted(set(models))),
            updated_at=self._store.clock.now(),
        )
        await self._store.transaction(
            lambda tx: self._store.put_in(tx, rule), durability=Durability.TRUST
        )

    async def require_rules(
        self, companion: Companion, destination: ModelDestination, category_ids: Collection[str]
    ) -> None:
        """Raise unless every rule for its kind and these categories lets it be asked (rule 13)."""
        wanted = {
            model_rule_id(ModelRuleScope.KIND, companion.kind),
            *(model_rule_id(ModelRuleScope.CATEGORY, each) for each in category_ids),
        }
        for rule in await self.rules():
            if rule.id in wanted and not rule.allows(destination.provider, destination.model_id):
                what = "about this category" if rule.scope is ModelRuleScope.CATEGORY else "here"
                raise NetworkDenied(
                    f"You let only {', '.join(rule.models)} be asked {what}. Nothing was sent.",
                    model=destination.model_id,
                )

    async def require_access(
        self, companion: Companion, destination: ModelDestination, category_ids: Collection[str]
    ) -> None:
        """Raise unless the model was granted in every one of these categories (rule 9)."""
        if not category_ids or not set(category_ids) <= set(companion.allowed_category_ids):
            raise OutOfScope
        mine = await self._store.find(ModelGrant, {"agent_id": companion.id})
        given = [each for each in mine if each.revoked_at is None]
        for category_id in sorted(category_ids):
            here = {
                (each.provider, each.model) for each in given if category_id in each.category_ids
            }
            if destination.provider not in {provider for provider, _ in here}:
                raise ProviderNotAllowed(category_id=category_id, provider=destination.provider)
            if (destination.provider, destination.model) not in here:
                raise ModelNotAllowed(category_id=category_id, model=destination.model_id)

    async def require_consent(self, companion: Companion, terms: ModelTerms) -> None:
        """Raise `PrivacyConfirmationRequired` unless these very terms are confirmed (rule 10)."""
        if not await self.confirmed(companion, terms):
            raise PrivacyConfirmationRequired(model=terms.destination.model_id)

    async def _text(self, destination: ModelDestination) -> ProviderPrivacyPolicy:
        """What is kept of this provider; or, if nothing is, what can be said of any."""
        # What is known about one server is not known about another that has the same model.
        key = privacy_policy_id(destination.provider, destination.model, destination.address or "")
        known = await self._store.get(ProviderPrivacyPolicy, key)
        return known or self._unknown(key, destination)

    def _unknown(self, key: str, destination: ModelDestination) -> ProviderPrivacyPolicy:
        here = destination.local or is_loopback(destination.host or "")
        text = _HERE if here else _AWAY.format(host=destination.address)
        return ProviderPrivacyPolicy(
            id=key,
            provider=destination.provider,
            model=destination.model,
            policy_version=digest(text)[:16],
            training=_HERE if here else _NOT_KNOWN,
            retention=_HERE if here else _NOT_KNOWN,
            jurisdiction=_HERE if here else _NOT_KNOWN,
            disclosure=text,
            updated_at=self._store.clock.now(),
        )


def missing_grant(
    companion: Companion, terms: ModelTerms, grants: Mapping[str, ModelGrant]
) -> bool:
    """Whether none of these lets the companion ask under these terms in all of its categories."""
    grant = grants.get(_key(companion, terms))
    covered = grant.category_ids if grant is not None else ()
    return not terms.met_by(grant, companion) or not set(companion.allowed_category_ids) <= set(
        covered
    )


def _key(companion: Companion, terms: ModelTerms) -> str:
    destination = terms.destination
    return model_grant_id(
        companion.id, destination.provider, destination.model, terms.shown.policy_version
    )


def _bound_to(destination: ModelDestination) -> dict[str, str | int | None]:
    """Whom a grant is for. What a provider does may depend on the account, so on the key."""
    return {
        "provider": destination.provider,
        "model": destination.model,
        "host": destination.host,
        "port": destination.port,
        "secret_ref_id": destination.secret_ref_id,
    }


def _hash(policy: ProviderPrivacyPolicy) -> str:
    words = (policy.training, policy.retention, policy.jurisdiction, policy.disclosure)
    return digest("disclosure", policy.policy_version, *words)


Fence = Callable[[], Awaitable[None]]
"""Stops every write that was allowed before: `silas.journal.store`."""


class StopSwitches:
    """The switches of this device."""

    def __init__(self, store: CompanionStore, *, fence: Fence) -> None:
        self._store = store
        self._fence = fence

    async def engage(
        self, scope: StopScope, target: str | None = None, *, reason: str | None = None
    ) -> StopSwitch:
        """Stop; doing it again changes nothing."""
        switch = await self._set(scope, target, engaged=True, reason=reason)
        await self._fence()
        return switch

    async def release(self, scope: StopScope, target: str | None = None) -> StopSwitch:
        """Let it go on."""
        return await self._set(scope, target, engaged=False, reason=None)

    async def engaged(self) -> list[StopSwitch]:
        """The switches that are on."""
        return await self._store.find(StopSwitch, {"engaged": True})

    async def stopping(
        self, agent_id: str | None = None, classes: Collection[ToolClass] = ()
    ) -> StopSwitch | None:
        """The switch that stands against this companion and these tools, if any."""
        return _standing_against(await self.engaged(), agent_id, classes)

    def require_in(
        self, reader: Reader, agent_id: str | None = None, classes: Collection[ToolClass] = ()
    ) -> None:
        """`require` inside a transaction."""
        _refuse(stops_in(self._store, reader, agent_id, classes))

    async def require(
        self, agent_id: str | None = None, classes: Collection[ToolClass] = ()
    ) -> None:
        """Raise `Stopped` if a switch is on that concerns this."""
        _refuse(await self.stopping(agent_id, classes))

    async def _set(
        self, scope: StopScope, target: str | None, *, engaged: bool, reason: str | None
    ) -> StopSwitch:
        if (scope is StopScope.GLOBAL) != (target is None):
            raise CompanionInvalid("The switch for everything has no target; the others have one.")
        if scope is StopScope.TOOL_CLASS and target not in set(ToolClass):
            raise CompanionInvalid(f"There is no class of tools {target!a}.")
        switch = StopSwitch(
            id=stop_switch_id(scope, target),
            scope=scope,
            target=target,
            engaged=engaged,
            reason=reason,
            changed_at=self._store.clock.now(),
        )
        return await self._store.transaction(
            lambda tx: self._store.put_in(tx, switch), durability=Durability.TRUST
        )


def stops_in(
    store: CompanionStore,
    reader: Reader,
    agent_id: str | None,
    classes: Collection[ToolClass] = (),
) -> StopSwitch | None:
    """The switch that stands against this companion and these tools, on one view."""
    return _standing_against(
        store.find_in(reader, StopSwitch, {"engaged": True}), agent_id, classes
    )


def _standing_against(
    engaged: Collection[StopSwitch], agent_id: str | None, classes: Collection[ToolClass]
) -> StopSwitch | None:
    targets = {
        (StopScope.GLOBAL, None),
        (StopScope.COMPANION, agent_id),
        *((StopScope.TOOL_CLASS, str(each)) for each in classes),
    }
    return next((each for each in engaged if (each.scope, each.target) in targets), None)


def _refuse(switch: StopSwitch | None) -> None:
    if switch is not None:
        what = "everything" if switch.scope is StopScope.GLOBAL else str(switch.target)
        raise Stopped(f"The stop switch for {what} is on. Release it to go on.")


class ModelDoor:
    """Asks a model for a companion, or says why not."""

    def __init__(
        self,
        store: CompanionStore,
        gateway: ProviderGateway | None,
        *,
        switches: StopSwitches,
        budgets: Budgets,
        secret_available: SecretAvailable | None,
    ) -> None:
        self._store = store
        self._gateway = gateway
        self._switches = switches
        self._budgets = budgets
        self._grants = ModelGrants(store)
        self._projections = ProjectionPolicies(store)
        self._secret_available = secret_available

    def destination(self, companion: Companion, *, by_rules: bool = False) -> ModelDestination:
        """Where the owner's choice for this companion leads; raises `NetworkDenied` (3).

        `by_rules`: for once the owner wants no model to be asked.
        """
        model_id = None if by_rules else companion.config.model_id
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

    def destinations(self) -> tuple[ModelDestination, ...]:
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
        decisions: PolicyDecisions,
        operation_key: str = OPERATION_KEY,
        by_rules: bool = False,
    ) -> CompanionProposal:
        """The model's proposal; raises what stands against asking."""
        async with decisions.deciding("stop_switch", "model"):
            await self._switches.require(companion.id, {ToolClass.MODEL})
        async with decisions.deciding("budget", "model"):
            await self._budgets.require(companion)
        async with decisions.deciding("egress", companion.config.model_id or "offline"):
            destination = self.destination(companion, by_rules=by_rules)
        if not destination.local:
            agreed = await self._projections.allowed(definition.provider_fields)
            await self._require_agreed(companion, destination, request, agreed, decisions)
        async with decisions.deciding("projection", request.agent_kind):
            allowed = await self._projections.allowed(definition.provider_fields, operation_key)
            require_projected(request.payload, allowed)
        async with decisions.deciding("lifecycle", "model"):
            reserved = await self._store.transaction(lambda tx: self._begin_in(tx, companion))
        return await self._ask(destination, request, reserved)

    async def _require_agreed(
        self,
        companion: Companion,
        destination: ModelDestination,
        request: CompanionRequest,
        fields: frozenset[str],
        decisions: PolicyDecisions,
    ) -> None:
        named = destination.model_id
        async with decisions.deciding("model_access", named):
            await self._grants.require_rules(companion, destination, request.category_ids)
            await self._grants.require_access(companion, destination, request.category_ids)
        async with decisions.deciding("privacy_consent", named):
            terms = await self._grants.terms(destination, fields)
            await self._grants.require_consent(companion, terms)
        async with decisions.deciding("secret", named):
            self._require_secret(destination)

    def _require_secret(self, destination: ModelDestination) -> None:
        reference = destination.secret_ref_id
        if reference is None:
            return
        if self._secret_available is None or not self._secret_available(reference):
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
        self, destination: ModelDestination, request: CompanionRequest, reserved: BudgetReservation
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
