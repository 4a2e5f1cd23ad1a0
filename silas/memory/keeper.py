"""The memory as conversations use it: all scopes through one door, each call naming its scope.

What comes twice (after a crash, say) is kept once. What an agent wishes was looked at by gates
before; here the rules of the store decide. Whatever the agent saw taints what it stores; what may
not be stored as asked is stored as less, never as more.
"""

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from silas.kernel import TaintLevel
from silas.memory.errors import MemoryExists, MemoryInvalid, MemoryUnknown
from silas.memory.models import (
    MemoryItem,
    MemoryOp,
    MemoryOpType,
    MemoryQuery,
    ReingestionTier,
)
from silas.memory.retriever import MemoryRetriever
from silas.memory.store import Memories, MemoryStore
from silas.memory.trust import lowered
from silas.storage import Transaction

CAUSAL = "causal"


@dataclass(frozen=True)
class RawRecords:
    """What becomes of messages and answers as they were said."""

    kept: bool = True
    tier: ReingestionTier = ReingestionTier.LOW_REINGESTION


class MemoryKeeper:
    """Keeps, finds, and does what agents wish."""

    def __init__(
        self, memories: Memories, retriever: MemoryRetriever, *, raw: RawRecords | None = None
    ) -> None:
        self._memories = memories
        self._retriever = retriever
        self._raw = raw or RawRecords()

    def raw_record(self, item: MemoryItem) -> Callable[[Transaction, str | None], None]:
        """What keeps a raw record, if they are kept, in a transaction and with its session.

        The text is made ready here and now. A record with an id that is known is kept already.
        """
        if not self._raw.kept:
            return _keep_nothing
        store = self._memories.of(item.scope_id)
        if item.reingestion_tier is not self._raw.tier:
            item = item.model_copy(update={"reingestion_tier": self._raw.tier})
        record = store.ready(lowered(item))

        def keep(tx: Transaction, session_id: str | None) -> None:
            with contextlib.suppress(MemoryExists):
                store.insert_in(tx, record.model_copy(update={"session_id": session_id}))

        return keep

    async def keep(self, scope_id: str, items: Sequence[MemoryItem]) -> None:
        """Keep memories, lowered to what their taint allows; known ones are kept already."""
        store = self._memories.of(scope_id)
        for item in items:
            with contextlib.suppress(MemoryExists):
                await store.store(lowered(item))

    async def retrieve(
        self, query: MemoryQuery, scope_id: str, session_id: str | None = None
    ) -> list[MemoryItem]:
        """What is remembered in this scope, best first."""
        return await self._retriever.retrieve(query, scope_id, session_id)

    async def apply(self, op: MemoryOp, *, scope_id: str, taint: TaintLevel, key: str) -> None:
        """Do what an agent wishes; `key` is the same if a crash lets it be wished twice."""
        store = self._memories.of(scope_id)
        match op.op:
            case MemoryOpType.STORE:
                await self.keep(scope_id, [self._new(op, scope_id, taint, key)])
            case MemoryOpType.UPDATE:
                await store.update(op.memory_id or "", taint=taint, content=op.content)
            case MemoryOpType.DELETE:
                await store.delete(op.memory_id or "", taint=taint)
            case MemoryOpType.LINK:
                await _link(store, op, taint)

    def _new(self, op: MemoryOp, scope_id: str, taint: TaintLevel, key: str) -> MemoryItem:
        now = self._memories.keeping.clock.now()
        return MemoryItem(
            memory_id=f"mem_{hashlib.sha256(key.encode()).hexdigest()[:26]}",
            scope_id=scope_id,
            content=op.content or "",
            memory_type=op.memory_type,
            taint=taint,
            created_at=now,
            updated_at=now,
            semantic_tags=op.tags,
            entity_refs=op.entity_refs,
        )


def _keep_nothing(_tx: Transaction, _session_id: str | None) -> None:
    """The owner wants no raw records."""


async def _link(store: MemoryStore, op: MemoryOp, taint: TaintLevel) -> None:
    """Both ends must be here: a link to another scope would say that something is there."""
    source, target = op.memory_id or "", op.link_to or ""
    item = await store.get(source)
    if item is None or await store.get(target) is None:
        raise MemoryUnknown
    if op.link_type == CAUSAL:
        refs = list(dict.fromkeys([*item.causal_refs, target]))
        await store.update(source, taint=taint, causal_refs=refs)
    elif op.link_type == "temporal_next":
        await store.update(source, taint=taint, temporal_next=target)
    elif op.link_type == "temporal_prev":
        await store.update(source, taint=taint, temporal_prev=target)
    else:
        raise MemoryInvalid(f"A link is {CAUSAL}, temporal_next or temporal_prev.")
