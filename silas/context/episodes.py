"""What leaves the context, as a memory: an episode that is trusted no further than before."""

from collections.abc import Iterable
from datetime import datetime

from silas.context.models import ContextItem, ContextKind
from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem, MemoryType, TrustLevel
from silas.memory.scrub import scrub

_KEPT_ELSEWHERE = frozenset({ContextKind.MEMORY, ContextKind.SUBSCRIPTION, ContextKind.SYSTEM})


def episodes(scope_id: str, items: Iterable[ContextItem], *, now: datetime) -> list[MemoryItem]:
    """Memories of what would be lost. What came from memory, or is read anew, would not be."""
    return [
        _episode(scope_id, item, now)
        for item in items
        if item.kind not in _KEPT_ELSEWHERE and not item.masked and item.content.strip()
    ]


def _episode(scope_id: str, item: ContextItem, now: datetime) -> MemoryItem:
    content = item.content
    removed: tuple[str, ...] = ()
    if item.taint is not TaintLevel.OWNER:
        cleaned = scrub(content)
        content, removed = cleaned.text, cleaned.removed
    return MemoryItem(
        # The same item, evicted again after a restart, is the same memory.
        memory_id=f"ctx_{item.ctx_id}",
        scope_id=scope_id,
        content=content,
        memory_type=MemoryType.EPISODE,
        trust_level=TrustLevel.WORKING,
        taint=item.taint,
        created_at=item.created_at,
        updated_at=now,
        source_kind="context",
        scrubbed=list(removed),
    )
