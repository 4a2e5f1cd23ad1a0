"""The memory as a turn uses it: `silas.stream.ports.MemoryRoom`."""

import hashlib
from dataclasses import dataclass

from silas.app.memory import MemoryRoom
from silas.kernel import Clock, TaintLevel
from silas.memory.errors import MemoryExists, MemoryUnknown
from silas.memory.models import MemoryItem, MemoryOp, MemoryOpType, MemoryQuery
from silas.memory.store import MemoryStore


@dataclass(frozen=True)
class TurnMemory:
    """What is kept and found in a turn. Wishes are done once, however often they are repeated."""

    room: MemoryRoom
    clock: Clock

    async def store_raw(self, item: MemoryItem) -> str:
        """Keep a raw record; one with an id that is known is kept already."""
        try:
            return await self._of(item.scope_id).store_raw(item)
        except MemoryExists:
            return item.memory_id

    async def retrieve(self, query: MemoryQuery, scope_id: str) -> list[MemoryItem]:
        """What is remembered in this scope, best first."""
        return await self.room.retriever.retrieve(query, scope_id)

    async def apply(self, op: MemoryOp, *, scope_id: str, taint: TaintLevel, key: str) -> None:
        """Do what an agent wishes, within the rules of trust of the store."""
        store = self._of(scope_id)
        target, content = op.memory_id or "", op.content or ""
        match op.op:
            case MemoryOpType.STORE:
                await self._keep(store, op, taint=taint, key=key)
            case MemoryOpType.UPDATE:
                await store.update(target, taint=taint, content=content)
            case MemoryOpType.DELETE:
                await store.delete(target, taint=taint)
            case MemoryOpType.LINK:
                await self._link(store, target, op.link_to or "", taint=taint)

    async def _keep(self, store: MemoryStore, op: MemoryOp, *, taint: TaintLevel, key: str) -> None:
        now = self.clock.now()
        item = MemoryItem(
            memory_id=f"mem_{hashlib.sha256(key.encode()).hexdigest()[:20]}",
            scope_id=store.scope_id,
            content=op.content or "",
            memory_type=op.memory_type,
            taint=taint,
            created_at=now,
            updated_at=now,
            semantic_tags=op.tags,
            entity_refs=op.entity_refs,
        )
        try:
            await store.store(item)
        except MemoryExists:
            return

    async def _link(self, store: MemoryStore, here: str, there: str, *, taint: TaintLevel) -> None:
        item, other = await store.get(here), await store.get(there)
        if item is None or other is None:
            raise MemoryUnknown(f"There is no memory {here!a} or {there!a} here.")
        if there not in item.causal_refs:
            await store.update(here, taint=taint, causal_refs=[*item.causal_refs, there])

    def _of(self, scope_id: str) -> MemoryStore:
        return self.room.memories.of(scope_id)
