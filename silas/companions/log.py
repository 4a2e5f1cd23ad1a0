"""The log of a companion: one row for each message, chained, never rewritten.

What one message adds is itself, its content and a few edges; none of it depends on how long the
log is already.
"""

from collections.abc import Sequence
from datetime import datetime

from silas.companions.ids import payload_id
from silas.companions.links import LinkBook
from silas.companions.models import (
    AgentLinkRelation,
    AgentMessage,
    AgentMessagePayload,
    AgentState,
    Companion,
    JsonMap,
    MessageDraft,
    MessagePointer,
)
from silas.companions.store import CompanionStore
from silas.kernel import canonical_bytes
from silas.storage import Reader, Transaction

_LAST_SEQUENCE = "SELECT max(sequence) FROM agent_messages WHERE agent_id = ?"
_BYTES_PER_TOKEN = 4


class MessageLog:
    """Appends messages and reads them back."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store
        self._links = LinkBook(store)

    async def append(self, drafts: Sequence[MessageDraft]) -> tuple[AgentMessage, ...]:
        """Append all of these, or none."""
        return await self._store.transaction(lambda tx: self.append_in(tx, drafts))

    def append_in(
        self, tx: Transaction, drafts: Sequence[MessageDraft]
    ) -> tuple[AgentMessage, ...]:
        """The same in a caller's transaction. A draft whose id is known is not appended again."""
        now = self._store.clock.now()
        return tuple(self._append_one(tx, draft, now) for draft in drafts)

    async def thread(
        self, agent_id: str, thread_id: str, *, limit: int | None = None
    ) -> list[AgentMessage]:
        """The messages of a thread, oldest first; with a limit, the newest of them."""
        where = {"agent_id": agent_id, "thread_id": thread_id, "summary_depth": 0}
        found = await self._store.find(AgentMessage, where, newest_first=True, limit=limit)
        return found[::-1]

    async def content(self, message: AgentMessage) -> JsonMap | None:
        """What a message says, if it says anything."""
        if message.content_entry_id is None:
            return None
        payload = await self._store.get(AgentMessagePayload, message.content_entry_id)
        return payload.content if payload else None

    async def of_operation(self, operation_id: str) -> list[AgentMessage]:
        """The action of an operation and what came of it, in their order."""
        return await self._store.find(AgentMessage, {"operation_id": operation_id})

    def _append_one(self, tx: Transaction, draft: MessageDraft, now: datetime) -> AgentMessage:
        store = self._store
        known = draft.message_id and store.get_in(tx, AgentMessage, draft.message_id)
        if known:
            return known
        head = self._links.head_in(tx, draft.agent_id, draft.thread_id)
        message = AgentMessage(
            id=draft.message_id or store.ids.new("msg"),
            agent_id=draft.agent_id,
            thread_id=draft.thread_id,
            kind=draft.kind,
            created_at=now,
            host_id=store.host_id,
            sequence=last_sequence(tx, draft.agent_id) + 1,
            prev_message_id=head.to_id if head else None,
            trigger_source_id=draft.trigger_source_id,
            tokens_approx=approximate_tokens(draft.content),
            metadata=draft.metadata,
        )
        message = self.keep_in(tx, message, draft.content)
        self._draw_edges(tx, message, draft)
        return message

    def keep_in(
        self, tx: Transaction, message: AgentMessage, content: JsonMap | None
    ) -> AgentMessage:
        """Write a message and its content, without a place in a thread."""
        if content is None:
            return self._store.put_in(tx, message)
        payload = self._store.put_in(
            tx,
            AgentMessagePayload(
                id=payload_id(message.id),
                agent_id=message.agent_id,
                created_at=message.created_at,
                content=content,
            ),
        )
        stored = self._store.put_in(tx, message.model_copy(update={"content_entry_id": payload.id}))
        self._links.draw_in(
            tx,
            AgentLinkRelation.MESSAGE_PAYLOAD,
            agent_id=message.agent_id,
            from_id=message.id,
            to_id=payload.id,
            now=message.created_at,
        )
        return stored

    def _draw_edges(self, tx: Transaction, message: AgentMessage, draft: MessageDraft) -> None:
        agent_id, thread_id, now = message.agent_id, message.thread_id, message.created_at
        if message.prev_message_id is not None:
            self._links.draw_in(
                tx,
                AgentLinkRelation.MESSAGE_PREV,
                agent_id=agent_id,
                from_id=message.id,
                to_id=message.prev_message_id,
                now=now,
                thread_id=thread_id,
            )
        for link in draft.links:
            self._links.draw_in(
                tx,
                link.relation,
                agent_id=agent_id,
                from_id=message.id,
                to_id=link.to_id,
                now=now,
                thread_id=thread_id,
                metadata=link.metadata,
            )
        self._links.move_head_in(tx, agent_id, thread_id, to_id=message.id, now=now)


def last_sequence(reader: Reader, agent_id: str) -> int:
    """The highest sequence of a companion's log; 0 if it is empty."""
    row = reader.fetch_one(_LAST_SEQUENCE, (agent_id,))
    return int(row[0]) if row and row[0] is not None else 0


def pointer_to(message: AgentMessage) -> MessagePointer:
    """A pointer that can be ranked without looking the message up."""
    return MessagePointer(message_id=message.id, sequence=message.sequence, host_id=message.host_id)


def approximate_tokens(content: JsonMap | None) -> int:
    """About how many tokens of a model this content is."""
    return 0 if content is None else 1 + len(canonical_bytes(content)) // _BYTES_PER_TOKEN


def forget_log_in(tx: Transaction, store: CompanionStore, agent_id: str) -> None:
    """Make tombstones of everything that a companion has said, summaries included."""
    for said in store.find_in(tx, AgentMessage, {"agent_id": agent_id}):
        store.delete_in(tx, AgentMessage, said.id)
    for content in store.find_in(tx, AgentMessagePayload, {"agent_id": agent_id}):
        store.delete_in(tx, AgentMessagePayload, content.id)
    state_id = store.require_in(tx, Companion, agent_id).current_state_id
    state = store.get_in(tx, AgentState, state_id)
    if state is not None:
        forgotten = {"recent_head": None, "latest_summary": None}
        store.put_in(tx, state.model_copy(update=forgotten))
