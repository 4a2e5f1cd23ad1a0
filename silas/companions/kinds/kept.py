"""The definition that each companion was made from."""

from collections.abc import Sequence

from silas.companions.errors import CompanionUnknown
from silas.companions.ids import digest
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.models import KeptDefinition
from silas.companions.statements import among
from silas.companions.store import CompanionStore
from silas.storage import Transaction

_HASHES = "SELECT agent_id, definition_hash FROM agent_definitions WHERE true{these}"
_BODIES = "SELECT definition_hash, body FROM agent_definitions WHERE true{these}"


class Definitions:
    """Definitions by companion. Without one a companion can do nothing."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def of(self, agent_id: str) -> CompanionDefinition:
        """The definition; raises `CompanionUnknown`."""
        kept = await self._store.get(KeptDefinition, agent_id)
        if kept is None:
            raise CompanionUnknown(f"It is not known what {agent_id} may do, so it does nothing.")
        return CompanionDefinition.model_validate(kept.definition)

    async def all(self, agent_ids: Sequence[str] | None = None) -> dict[str, CompanionDefinition]:
        """The definitions of all, or of these, by companion; the same one is read once."""
        fetch = self._store.database.fetch_all
        hashes: dict[str, str] = dict(await fetch(*among(_HASHES, "agent_id", agent_ids)))
        one_each = {definition_hash: agent for agent, definition_hash in hashes.items()}
        rows = await fetch(*among(_BODIES, "agent_id", list(one_each.values())))
        read = {
            definition_hash: CompanionDefinition.model_validate(
                KeptDefinition.model_validate_json(body).definition
            )
            for definition_hash, body in rows
        }
        return {agent: read[definition_hash] for agent, definition_hash in hashes.items()}

    def keep_in(self, tx: Transaction, agent_id: str, definition: CompanionDefinition) -> None:
        """Keep a definition for a companion."""
        plain = definition.model_dump(mode="json")
        # Sets have no order: without one the same definition would have several hashes.
        plain["tools"], plain["capabilities"] = (
            sorted(plain["tools"]),
            sorted(plain["capabilities"]),
        )
        self._store.put_in(
            tx,
            KeptDefinition(
                agent_id=agent_id,
                definition=plain,
                definition_hash=digest("definition", plain),
                updated_at=self._store.clock.now(),
            ),
        )
