"""Which model a companion may ask about which category: only what the owner has allowed."""

from collections.abc import Collection

from silas.companions.errors import ModelNotAllowed, OutOfScope, ProviderNotAllowed
from silas.companions.ids import access_policy_id
from silas.companions.models import Companion, ProviderAccessPolicy
from silas.companions.ports import Destination
from silas.companions.store import CompanionStore


class AgentModelAccessResolver:
    """Answers for the tuple (companion, category, provider, model). Nothing said means no."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def allow(
        self, companion: Companion, category_id: str, *, provider: str, model: str
    ) -> ProviderAccessPolicy:
        """Let this companion ask this model about this category."""
        named = {"agent_id": companion.id, "category_id": category_id}
        tuple_id = access_policy_id(agent_kind=None, provider=provider, model=model, **named)
        return await self._store.put(
            ProviderAccessPolicy(
                id=tuple_id,
                provider=provider,
                model=model,
                created_at=self._store.clock.now(),
                **named,
            )
        )

    async def withdraw(self, companion: Companion) -> None:
        """Take back everything that was allowed to this companion."""
        for policy in await self._store.find(ProviderAccessPolicy, {"agent_id": companion.id}):
            await self._store.delete(ProviderAccessPolicy, policy.id)

    async def require(
        self, companion: Companion, destination: Destination, category_ids: Collection[str]
    ) -> None:
        """Raise unless the model is allowed in every one of these categories."""
        if not category_ids or not set(category_ids) <= set(companion.allowed_category_ids):
            raise OutOfScope
        for category_id in sorted(category_ids):
            allowed = await self._policies(companion, category_id)
            providers = {each.provider for each in allowed}
            if destination.provider not in providers:
                raise ProviderNotAllowed(category_id=category_id, provider=destination.provider)
            if (destination.provider, destination.model) not in {
                (each.provider, each.model) for each in allowed
            }:
                raise ModelNotAllowed(category_id=category_id, model=destination.model_id)

    async def _policies(self, companion: Companion, category_id: str) -> list[ProviderAccessPolicy]:
        found = await self._store.find(ProviderAccessPolicy, {"category_id": category_id})
        return [
            each
            for each in found
            if each.agent_id == companion.id
            or (each.agent_id is None and each.agent_kind == companion.kind)
        ]
