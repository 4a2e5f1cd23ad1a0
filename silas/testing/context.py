"""Counter, scorer and memory of a context, under the control of a test."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from silas.context.ports import ContextGroup
from silas.memory.models import MemoryItem, MemoryQuery, MemoryType, TrustLevel

Score = Callable[[Sequence[ContextGroup], str | None], Awaitable[list[str]]]


class FakeTokenCounter:
    """`TokenCounter` that counts words."""

    def count(self, text: str) -> int:
        return len(text.split())


class FakeScorer:
    """`Scorer` that does what the test says."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self.asked: list[tuple[list[ContextGroup], str | None]] = []

    async def score(self, groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        self.asked.append((list(groups), goal))
        return await self._score(groups, goal)


class FakeRecall:
    """`Recall` in dictionaries, one for each scope."""

    def __init__(self) -> None:
        self.kept: defaultdict[str, dict[str, MemoryItem]] = defaultdict(dict)
        self.found: list[MemoryItem] = []
        self.queries: list[tuple[str, str]] = []
        self.broken: Exception | None = None

    async def keep(self, scope_id: str, items: Sequence[MemoryItem]) -> None:
        if self.broken is not None:
            raise self.broken
        for item in items:
            self.kept[scope_id].setdefault(item.memory_id, item)

    async def retrieve(self, query: MemoryQuery, scope_id: str) -> list[MemoryItem]:
        self.queries.append((scope_id, query.query))
        return self.found[: query.max_results]

    async def defaults(self, scope_id: str) -> list[MemoryItem]:
        return [item for item in self.found if item.scope_id == scope_id and _is_default(item)]


def _is_default(item: MemoryItem) -> bool:
    preference = item.memory_type is MemoryType.PREFERENCE
    return preference and item.trust_level is TrustLevel.VERIFIED
