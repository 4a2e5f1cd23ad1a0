"""What the owner reads and then agrees to: what a model means for privacy, and how one speaks."""

from typing import Any

from silas.companions.desk_views import DeskViews
from silas.companions.errors import CompanionInvalid
from silas.companions.hands import Hands
from silas.companions.models import AgentPersonaVersion, Companion
from silas.companions.store import CompanionStore
from silas.companions.views import DisclosureView, PersonaView
from silas.work.ports import AuditTrail

_LONGEST_POLICY = 500


class Agreements:
    """The part of the owner's desk where something is agreed to, or not."""

    _store: CompanionStore
    _hands: Hands
    _audit: AuditTrail
    _views: DeskViews

    async def disclosure(self, agent_id: str) -> DisclosureView | None:
        """What the model of a companion means for privacy; None for the offline brain."""
        return await self._views.disclosure(agent_id)

    async def consent(self, agent_id: str, *, policy_version: str) -> DisclosureView:
        """The owner has read this version and agrees, for the companion's categories."""
        companion = await self._store.require(Companion, agent_id)
        destination = self._hands.door.destination(companion)
        if destination.local:
            raise CompanionInvalid("The offline brain sends nothing: there is nothing to agree to.")
        definition = await self._hands.definitions.of(agent_id)
        fields = await self._hands.projections.allowed(definition)
        await self._hands.consents.confirm(destination, fields, policy_version=policy_version)
        for category_id in companion.allowed_category_ids:
            await self._hands.access.allow(
                companion, category_id, provider=destination.provider, model=destination.model
            )
        await self._audit.log(
            "companion_consent",
            agent_id=agent_id,
            model=destination.model_id,
            policy_version=policy_version,
        )
        return await self._shown_disclosure(agent_id)

    async def describe_provider(
        self,
        agent_id: str,
        *,
        training: str | None = None,
        retention: str | None = None,
        jurisdiction: str | None = None,
    ) -> DisclosureView:
        """Write down what the provider's policy says; whoever had agreed is asked again."""
        companion = await self._store.require(Companion, agent_id)
        destination = self._hands.door.destination(companion)
        given = {"training": training, "retention": retention, "jurisdiction": jurisdiction}
        said = {name: text.strip() for name, text in given.items() if text and text.strip()}
        if destination.local or not said or max(map(len, said.values())) > _LONGEST_POLICY:
            raise CompanionInvalid(
                f"Say in at most {_LONGEST_POLICY} letters what the policy of its provider says."
            )
        await self._hands.consents.describe(destination, said)
        await self._audit.log("companion_provider_described", model=destination.model_id)
        return await self._shown_disclosure(agent_id)

    async def _shown_disclosure(self, agent_id: str) -> DisclosureView:
        shown = await self._views.disclosure(agent_id)
        if shown is None:
            raise CompanionInvalid("The companion has no model any more.")
        return shown

    async def revoke_consent(self, agent_id: str) -> None:
        """Take the consent back; the next question to the model is refused."""
        companion = await self._store.require(Companion, agent_id)
        destination = self._hands.door.destination(companion)
        await self._hands.consents.revoke(destination)
        await self._hands.access.withdraw(companion)
        await self._audit.log("companion_consent_revoked", agent_id=agent_id)

    async def persona(self, agent_id: str) -> tuple[PersonaView, ...]:
        """Every version of a persona, the newest first, each with what it changes."""
        return await self._views.personas(agent_id)

    async def propose_persona(self, agent_id: str, changes: dict[str, Any]) -> PersonaView:
        """A draft with these fields changed; it is not in use until it is approved."""
        draft = await self._hands.personas.propose(agent_id, changes, author="user")
        return await self._views.persona(draft)

    async def approve_persona(self, agent_id: str, version_id: str) -> PersonaView:
        """Put a draft into use."""
        version: AgentPersonaVersion = await self._hands.personas.approve(agent_id, version_id)
        await self._audit.log(
            "companion_persona_approved", agent_id=agent_id, version=version.version
        )
        return await self._views.persona(version)

    async def decline_persona(self, agent_id: str, version_id: str) -> PersonaView:
        """Say no to a draft; it stays in the history."""
        version = await self._hands.personas.decline(agent_id, version_id)
        await self._audit.log(
            "companion_persona_declined", agent_id=agent_id, version=version.version
        )
        return await self._views.persona(version)
