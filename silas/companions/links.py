"""The edges of the companions' own graph: in `agent_links` alone, never in the journal."""

from datetime import datetime

from silas.companions.ids import head_link_id, link_id
from silas.companions.models import AgentLink, AgentLinkRelation, JsonMap
from silas.companions.store import CompanionStore
from silas.storage import Transaction


class LinkBook:
    """Draws edges and follows them."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    def draw_in(
        self,
        tx: Transaction,
        relation: AgentLinkRelation,
        *,
        agent_id: str,
        from_id: str,
        to_id: str,
        now: datetime,
        thread_id: str | None = None,
        metadata: JsonMap | None = None,
    ) -> AgentLink:
        """Draw an edge; drawing it again is the same edge."""
        return self._store.put_in(
            tx,
            AgentLink(
                id=link_id(relation, from_id, to_id),
                agent_id=agent_id,
                relation=relation,
                from_id=from_id,
                to_id=to_id,
                created_at=now,
                thread_id=thread_id,
                metadata=metadata or {},
            ),
        )

    def head_in(self, tx: Transaction, agent_id: str, thread_id: str) -> AgentLink | None:
        """The edge to the newest message of a thread."""
        return self._store.get_in(tx, AgentLink, head_link_id(agent_id, thread_id))

    def move_head_in(
        self, tx: Transaction, agent_id: str, thread_id: str, *, to_id: str, now: datetime
    ) -> AgentLink:
        """Let the head of a thread point to another message: the one edge that moves."""
        return self._store.put_in(
            tx,
            AgentLink(
                id=head_link_id(agent_id, thread_id),
                agent_id=agent_id,
                relation=AgentLinkRelation.AGENT_HEAD,
                from_id=agent_id,
                to_id=to_id,
                created_at=now,
                thread_id=thread_id,
            ),
        )

    async def leaving(
        self, relation: AgentLinkRelation, from_id: str, *, limit: int | None = None
    ) -> list[AgentLink]:
        """The edges of a kind that begin here, newest first."""
        where = {"type": relation, "from_id": from_id, "hidden": False}
        return await self._store.find(AgentLink, where, newest_first=True, limit=limit)

    async def arriving(
        self, relation: AgentLinkRelation, to_id: str, *, limit: int | None = None
    ) -> list[AgentLink]:
        """The edges of a kind that end here, newest first."""
        where = {"type": relation, "to_id": to_id, "hidden": False}
        return await self._store.find(AgentLink, where, newest_first=True, limit=limit)
