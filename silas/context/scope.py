"""The context of one scope, as it is in memory. Nothing in it can refer to another scope."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from silas.context.blocks import Block, block_text
from silas.context.exact import SettlingCounter
from silas.context.models import ContextItem, ContextKind, ContextSubscription, ContextZone
from silas.context.ports import TokenCounter
from silas.context.zone import Zone
from silas.kernel import TaintLevel, join_taint
from silas.memory.models import MemoryItem

TRIVIAL = re.compile(r"(ok|okay|thanks|thank you|got it|sure|yes|no|👍)\s*[.!?]*", re.IGNORECASE)
_TRIVIAL_TOKENS = 20
_LONGEST_TRIVIAL = 80
_SPEAKER = re.compile(r"\[(?:owner|auth|external)\] [^:\n]{0,64}: |Silas: ")


@dataclass
class Watched:
    """A subscription and what became of it."""

    sub: ContextSubscription
    referenced: int
    """The last turn in which an agent spoke of it."""
    read_in: int | None = None
    """The turn for which its content was read."""
    changed_in: int = 0
    stale_since: int | None = None


@dataclass
class ScopeContext:
    """Zones, subscriptions and marks of one scope."""

    scope_id: str
    counter: TokenCounter
    profile: str
    zones: dict[ContextZone, Zone] = field(
        default_factory=lambda: {zone: Zone() for zone in ContextZone}
    )
    watched: dict[str, Watched] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)
    maskable: dict[str, int] = field(default_factory=dict)
    trivial: dict[str, int] = field(default_factory=dict)
    leaving: list[MemoryItem] = field(default_factory=list)
    """What left the context and is not kept in memory yet."""

    @property
    def tokens(self) -> int:
        return sum(zone.tokens for zone in self.zones.values())

    @property
    def size(self) -> int:
        """How many blocks there are."""
        return sum(len(zone) for zone in self.zones.values())

    @property
    def pinned_tokens(self) -> int:
        """What is pinned outside the system zone."""
        return sum(
            zone.pinned_tokens
            for name, zone in self.zones.items()
            if name is not ContextZone.SYSTEM
        )

    def made(self, item: ContextItem, *, status: str = "live") -> Block:
        """The item as a block, counted."""
        text = block_text(item, status=status)
        return Block(item, text, self.counter.count(text))

    def has(self, ctx_id: str) -> bool:
        """Whether there is a block of this id in any zone."""
        return any(ctx_id in zone for zone in self.zones.values())

    def get(self, ctx_id: str) -> Block | None:
        """The block of this id, in whichever zone it is."""
        for zone in self.zones.values():
            if ctx_id in zone:
                return zone.get(ctx_id)
        return None

    def put(self, block: Block) -> None:
        """Add a block, or put it in the place of the one with the same id."""
        item = block.item
        old = self.get(item.ctx_id)
        if old is not None and old.item.zone is not item.zone:
            self.take(item.ctx_id)
        self.zones[item.zone].put(block)
        self._mark(item)

    def take(self, ctx_id: str) -> Block | None:
        """Take a block out, with every mark that it had."""
        block = self.get(ctx_id)
        if block is not None:
            self.take_all(block.item.zone, [block])
        return block

    def take_all(self, zone: ContextZone, blocks: Sequence[Block]) -> None:
        """Take many blocks of one zone out."""
        if self.completed or self.maskable or self.trivial:
            for block in blocks:
                self.completed.discard(block.item.ctx_id)
                self._unmark(block.item.ctx_id)
        self.zones[zone].remove_all(blocks)

    def texts(self) -> Iterator[str]:
        """The whole context in pieces, zone by zone."""
        for zone in ContextZone:
            yield from self.zones[zone].texts()

    def taint(self) -> TaintLevel:
        """What all of it is derived from, joined; of nothing at all, the owner's."""
        found = [taint for zone in self.zones.values() for taint in zone.taints()]
        return join_taint(TaintLevel.OWNER, *found)

    async def settle_counts(self) -> None:
        """Put exact figures in the place of estimates, if somebody can tell them."""
        if not isinstance(self.counter, SettlingCounter):
            return
        settled = await self.counter.settle()
        if not settled:
            return
        for zone in self.zones.values():
            for block in [block for block in zone if block.text in settled]:
                zone.put(block._replace(tokens=settled[block.text]))

    def _unmark(self, ctx_id: str) -> None:
        if self.maskable:
            self.maskable.pop(ctx_id, None)
        if self.trivial:
            self.trivial.pop(ctx_id, None)

    def _mark(self, item: ContextItem) -> None:
        self._unmark(item.ctx_id)
        if item.zone is not ContextZone.CHRONICLE or item.pinned:
            return
        if item.kind is ContextKind.TOOL_RESULT and not item.masked:
            self.maskable[item.ctx_id] = item.turn_number
        elif item.kind is ContextKind.MESSAGE and self._is_trivial(item.content):
            self.trivial[item.ctx_id] = item.turn_number

    def _is_trivial(self, content: str) -> bool:
        if len(content) > _LONGEST_TRIVIAL + len("[external] ") + 64:
            return False
        said = _SPEAKER.sub("", content, count=1).strip()
        if len(said) > _LONGEST_TRIVIAL or not TRIVIAL.fullmatch(said):
            return False
        return self.counter.count(said) < _TRIVIAL_TOKENS
