"""Bringing a conversation back: what was said last, and who the owner is.

It happens when a scope is first heard of, not at the start for all: a conversation that nobody
continues costs nothing.
"""

import logging

from silas.context.chronicle import ChronicleStore
from silas.context.errors import ZoneFull
from silas.context.manager import ContextManager
from silas.context.materialising import MEMORY_ID
from silas.context.models import ContextItem, ContextKind, ContextZone
from silas.context.ports import Recall
from silas.kernel import Clock, SilasError, TaintLevel
from silas.memory.models import MemoryItem, MemoryQuery, MemoryType

_log = logging.getLogger(__name__)
_PROFILE = "user profile preferences"
_NOTE = "[SYSTEM] Session rehydrated after restart."
_OWN = frozenset({MemoryType.PROFILE, MemoryType.PREFERENCE})


def memory_item(
    item: MemoryItem, *, turn_number: int, relevance: float, pinned: bool = False
) -> ContextItem:
    """A memory as an item of the memory zone."""
    return ContextItem(
        ctx_id=f"{MEMORY_ID}{item.memory_id}",
        zone=ContextZone.MEMORY,
        content=item.content,
        created_at=item.created_at,
        turn_number=turn_number,
        source=f"memory:{item.memory_type.value}",
        taint=item.taint,
        kind=ContextKind.MEMORY,
        relevance=relevance,
        pinned=pinned,
    )


class Rehydration:
    """Fills the context of a scope from what is kept."""

    def __init__(
        self,
        manager: ContextManager,
        chronicle: ChronicleStore,
        *,
        clock: Clock,
        recall: Recall | None = None,
        max_entries: int = 50,
    ) -> None:
        self._manager = manager
        self._chronicle = chronicle
        self._clock = clock
        self._recall = recall
        self._max_entries = max_entries

    async def restore(self, scope_id: str) -> int:
        """Load what was said last; returns the place in the chronicle up to which it is there."""
        entries, end = await self._chronicle.recent_and_end(scope_id, self._max_entries)
        profile = await self._profile(scope_id)
        for item in entries:
            self._manager.add(scope_id, item)
        turn_number = entries[-1].turn_number if entries else 0
        for known in profile:
            self._pin(scope_id, memory_item(known, turn_number=turn_number, relevance=1.0))
        if entries:
            self._manager.add(scope_id, self._note(turn_number, end))
        return end

    async def _profile(self, scope_id: str) -> list[MemoryItem]:
        if self._recall is None:
            return []
        try:
            found = await self._recall.retrieve(MemoryQuery(query=_PROFILE), scope_id)
            found += await self._recall.defaults(scope_id)
        except SilasError as error:
            _log.warning("the profile is not remembered now: %s", error.message)
            return []
        # Only the owner's own words about the owner stay for good.
        return [
            item
            for item in found
            if item.scope_id == scope_id
            and item.memory_type in _OWN
            and item.taint is not TaintLevel.EXTERNAL
        ]

    async def pin_defaults(self, scope_id: str) -> None:
        """Show what the owner has confirmed meanwhile."""
        for known in await self._profile(scope_id):
            self._pin(scope_id, memory_item(known, turn_number=0, relevance=1.0))

    def _pin(self, scope_id: str, item: ContextItem) -> None:
        try:
            self._manager.add(scope_id, item.model_copy(update={"pinned": True}))
        except ZoneFull:
            self._manager.add(scope_id, item)

    def _note(self, turn_number: int, end: int) -> ContextItem:
        return ContextItem(
            ctx_id=f"rehydrated_{end}",
            zone=ContextZone.CHRONICLE,
            content=_NOTE,
            created_at=self._clock.now(),
            turn_number=turn_number,
            source="runtime",
            taint=TaintLevel.OWNER,
            kind=ContextKind.SYSTEM,
        )
