"""The context of one scope, as it is in memory. Nothing in it can refer to another scope.

An item reads as a block: a tag that says what it is and where it came from, its content, an end. No
content can close its block or open another: a line that looks like a tag gets a backslash in front.
No name in a tag can end it.

A `Zone` holds blocks in the order in which they came, and their text in pieces. A change touches
the piece that it lies in. The other pieces are the same strings as before, so a turn that adds two
blocks joins a few dozen strings instead of thousands.

How many tokens a text has is estimated on the safe side, and settled by a server that can count.
The rule of thumb is 3.5 characters to a token. Two corrections, measured against real tokenizers
(`docs/context.md` has the table):

1. Bytes of UTF-8 are counted, not characters: a Chinese, Japanese or Korean character is about a
   token, and three bytes.
2. Digits, punctuation, capitals and line breaks cost more than small letters, so code, JSON and
   tables are weighed by what they consist of. A long run without gaps (base64, hex) is nearly a
   token for each pair of characters.

The larger figure counts. What it still gets wrong is what the headroom of a profile is for.

If a server counts tokens (`ExactTokens`), no text waits for it:

3. A text is estimated when it comes, as always.
4. Once a turn, before the budget is enforced, everything that was estimated since is counted in one
   request. Its sum is exact from then on; the single texts share it by their estimates.
5. The server has two seconds. After three failures in a row it is not asked for five minutes, and
   the estimates stand.
"""

import asyncio
import logging
import math
import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from silas.context.models import (
    ContextItem,
    ContextKind,
    ContextSubscription,
    ContextZone,
    ExactTokens,
    TokenCounter,
)
from silas.kernel import Clock, Provenance, SilasError, TaintLevel, external, join_taint, read_at
from silas.memory.models import MemoryItem

_BYTES_OF_A_TOKEN = 3.5
_BYTES_OF_A_TOKEN_IN_A_RUN = 1.4
_SHORTEST_RUN = 40
_GAPS_OF_A_RUN = 1 / 30
_LINE_BREAKS = b"\r\n"
_DIGITS = string.digits.encode()
_CAPITALS = string.ascii_uppercase.encode()
_MARKS = string.punctuation.encode()
_LETTERS = string.ascii_lowercase.encode()
_FOUR_BYTES = bytes(range(0xF0, 0x100))
_OTHER_BYTES = bytes(range(0x80, 0xF0))


class HeuristicTokenCounter:
    """`TokenCounter` that needs nothing but the text."""

    def count(self, text: str) -> int:
        """About as many tokens as a model will see, rather more than fewer."""
        data = text.encode("utf-8", "surrogatepass")
        size = len(data)
        if not size:
            return 0
        rest = data.translate(None, _LETTERS)
        capitals, rest = _taken(rest, _CAPITALS)
        digits, rest = _taken(rest, _DIGITS)
        marks, rest = _taken(rest, _MARKS)
        breaks, rest = _taken(rest, _LINE_BREAKS)
        weighed = (
            0.2 * (size - len(rest) - capitals - digits - marks - breaks)
            + 0.7 * capitals
            + 0.75 * digits
            + 0.65 * marks
            + 0.5 * breaks
        )
        foreign = 0
        if not text.isascii():
            emoji, rest = _taken(rest, _FOUR_BYTES)
            foreign, rest = _taken(rest, _OTHER_BYTES)
            weighed += 2.0 * emoji + 0.3 * foreign
            foreign += emoji
        weighed += 0.05 * len(rest)
        plain = size / _BYTES_OF_A_TOKEN
        gaps = marks + breaks + len(rest) + foreign
        if size >= _SHORTEST_RUN and gaps < size * _GAPS_OF_A_RUN:
            plain = size / _BYTES_OF_A_TOKEN_IN_A_RUN
        return math.ceil(max(plain, weighed))


def _taken(data: bytes, kind: bytes) -> tuple[int, bytes]:
    rest = data.translate(None, kind)
    return len(data) - len(rest), rest


_log = logging.getLogger(__name__)
_MOST_KNOWN = 50_000
_LONGEST = 4_000_000


@dataclass(frozen=True)
class CountingLimits:
    """How long a server is waited for, and when it is left alone."""

    seconds: float = 2.0
    failures: int = 3
    cool_down_seconds: float = 300.0


class CountingServer:
    """The server that all scopes share, what it said before, and whether it is asked now."""

    def __init__(
        self, exact: ExactTokens, *, clock: Clock, limits: CountingLimits | None = None
    ) -> None:
        self._exact = exact
        self._clock = clock
        self._limits = limits or CountingLimits()
        self._failures = 0
        self._rests_until: float | None = None
        self._known: dict[bytes, int] = {}

    def known(self, text: str) -> int | None:
        """What was found out about this text."""
        return self._known.get(_digest(text))

    def remember(self, text: str, tokens: int) -> None:
        """Keep a figure; the text itself is not kept."""
        if len(self._known) >= _MOST_KNOWN:
            for old in list(self._known)[: _MOST_KNOWN // 2]:
                del self._known[old]
        self._known[_digest(text)] = tokens

    async def ask(self, text: str) -> int | None:
        """How many tokens this is; None if there is no answer."""
        rests = self._rests_until
        if rests is not None and self._clock.monotonic() < rests:
            return None
        try:
            async with asyncio.timeout(self._limits.seconds):
                tokens = await self._exact.count(text)
        except (SilasError, TimeoutError) as error:
            self._failed(error)
            return None
        self._failures, self._rests_until = 0, None
        return tokens

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        _log.warning("tokens are estimated, not counted: %s", str(error) or type(error).__name__)
        if self._failures >= self._limits.failures:
            self._rests_until = self._clock.monotonic() + self._limits.cool_down_seconds


class SettlingCounter:
    """`TokenCounter` of one scope: estimates that are settled once a turn."""

    def __init__(self, server: CountingServer, *, estimate: TokenCounter) -> None:
        self._server = server
        self._estimate = estimate
        self._estimated: dict[str, int] = {}
        self._length = 0

    def count(self, text: str) -> int:
        """The figure that is known, or an estimate."""
        known = self._server.known(text)
        if known is not None:
            return known
        tokens = self._estimate.count(text)
        if text not in self._estimated and self._length + len(text) <= _LONGEST:
            self._estimated[text] = tokens
            self._length += len(text)
        return tokens

    async def settle(self) -> dict[str, int]:
        """The figures of what was estimated since the last time; empty if nobody could tell."""
        estimated, self._estimated, self._length = self._estimated, {}, 0
        total = sum(estimated.values())
        exact = await self._server.ask("".join(estimated)) if total else None
        if exact is None:
            return {}
        settled = {text: math.ceil(each * exact / total) for text, each in estimated.items()}
        for text, tokens in settled.items():
            self._server.remember(text, tokens)
        return settled


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


BLOCK_END = "\n--- end ---\n\n"
"""What ends every block; no content holds it."""

_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_POSING = re.compile(rf"(?:(?<=[{_BREAKS}])|\A)(?=[^\S{_BREAKS}]*---[^{_BREAKS}]*---)")
_NOT_IN_A_TAG = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029|]+|-{3,}")
_LONGEST_NAME = 200
_EXTERNAL = TaintLevel.EXTERNAL  # looked up once: this is the hottest line of a render


class Block(NamedTuple):
    """An item as it is rendered, and what that costs."""

    item: ContextItem
    text: str
    tokens: int

    @property
    def counted(self) -> ContextItem:
        """The item, with its tokens."""
        if self.item.token_count == self.tokens:
            return self.item
        return self.item.model_copy(update={"token_count": self.tokens})


def block_text(item: ContextItem, *, status: str = "live") -> str:
    """The item with its tag; `status` is `live` unless there is something better to say."""
    content = item.content
    # Most texts have no dash at all, and one character is found far quicker than three.
    if "-" in content and "---" in content:
        content = _POSING.sub(r"\\", content)
    if item.masked:
        status = "masked"
    if item.taint is _EXTERNAL:
        status = f"{status} | external"
    return f"--- {_TAGS[item.kind](item, status)} ---\n{content}{BLOCK_END}"


def _message(item: ContextItem, status: str) -> str:
    return f"turn {item.turn_number} | {_speaker(item.source)} | {status}"


def _memory(item: ContextItem, status: str) -> str:
    day = item.created_at.date().isoformat()
    name = in_tag(item.source.removeprefix("memory:"))
    return f'memory | {day} | "{name}"{_unless_live(status)}'


def _subscription(item: ContextItem, status: str) -> str:
    kind, _, target = item.source.partition(":")
    return f"subscription:{in_tag(kind)} | {in_tag(target)} | {status}"


def _system(item: ContextItem, status: str) -> str:
    return f"system | {in_tag(item.source)}{_unless_live(status)}"


def _work(item: ContextItem, status: str) -> str:
    return f"{item.kind} | turn {item.turn_number} | {in_tag(item.source)} | {status}"


_TAGS: dict[ContextKind, Callable[[ContextItem, str], str]] = {
    ContextKind.MESSAGE: _message,
    ContextKind.MEMORY: _memory,
    ContextKind.SUBSCRIPTION: _subscription,
    ContextKind.SYSTEM: _system,
    ContextKind.TOOL_RESULT: _work,
    ContextKind.PLAN: _work,
    ContextKind.EXECUTION_RESULT: _work,
}


@lru_cache(maxsize=256)
def _speaker(source: str) -> str:
    if source.startswith("channel:"):
        return "user"
    return "silas" if source.startswith("agent:") else in_tag(source)


def _unless_live(status: str) -> str:
    if status == "live":
        return ""
    shown = status.removeprefix("live").removeprefix(" | ")
    return f" | {shown}" if shown else ""


@lru_cache(maxsize=1024)
def in_tag(name: str) -> str:
    """A name as it may stand in a tag: on one line, and without what separates its parts."""
    if not _NOT_IN_A_TAG.search(name) and len(name) <= _LONGEST_NAME:
        return name
    return _NOT_IN_A_TAG.sub(" ", name)[:_LONGEST_NAME]


def masked_item(block: Block) -> ContextItem:
    """The item with a short note in place of its content."""
    item = block.item
    _, _, tool = item.source.partition(":")
    name, _, outcome = tool.partition(":")
    status = "FAILED" if outcome == "failed" else "SUCCEEDED"
    note = (
        f"[Result of {in_tag(name) or 'a tool'} ({status}) — {block.tokens} tokens — "
        "see memory for details]"
    )
    return item.model_copy(update={"content": note, "masked": True})


_BLOCKS_IN_A_PIECE = 64


class _Piece:
    __slots__ = ("blocks", "text")

    def __init__(self) -> None:
        self.blocks: dict[str, Block] = {}
        self.text: str | None = ""

    def joined(self) -> str:
        if self.text is None:
            self.text = "".join([block.text for block in self.blocks.values()])
        return self.text


class Zone:
    """The blocks of a zone, with the sums that a budget needs."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._where: dict[str, _Piece] = {}
        self._texts: list[str] | None = []
        self._taints = dict.fromkeys(TaintLevel, 0)
        self.tokens = 0
        self.pinned_tokens = 0
        self.pinned = 0

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, ctx_id: str) -> bool:
        return ctx_id in self._where

    def __iter__(self) -> Iterator[Block]:
        """The blocks, the oldest first."""
        for piece in self._pieces:
            yield from piece.blocks.values()

    def get(self, ctx_id: str) -> Block | None:
        """The block of this id."""
        piece = self._where.get(ctx_id)
        return piece.blocks[ctx_id] if piece else None

    def put(self, block: Block) -> None:
        """Add a block at the end; one with an id that is known takes the place of the old one."""
        ctx_id = block.item.ctx_id
        piece = self._where.get(ctx_id)
        if piece is None:
            piece = self._where[ctx_id] = self._last_piece()
        else:
            self._count(piece.blocks[ctx_id], -1)
        piece.blocks[ctx_id] = block
        self._count(block, 1)
        piece.text = self._texts = None

    def remove_all(self, blocks: Iterable[Block]) -> None:
        """Take out many blocks that are there."""
        where, taints = self._where, self._taints
        tokens = pinned_tokens = 0
        for block in blocks:
            item = block.item
            piece = where.pop(item.ctx_id)
            del piece.blocks[item.ctx_id]
            piece.text = None
            tokens += block.tokens
            taints[item.taint] -= 1
            if item.pinned:
                pinned_tokens += block.tokens
                self.pinned -= 1
        self.tokens -= tokens
        self.pinned_tokens -= pinned_tokens
        self._texts = None

    def texts(self) -> list[str]:
        """The text of the zone in pieces; those that did not change are the same objects."""
        if self._texts is None:
            self._pieces = [piece for piece in self._pieces if piece.blocks]
            self._texts = [piece.joined() for piece in self._pieces]
        return self._texts

    def taints(self) -> list[TaintLevel]:
        """The taints of the items, each once."""
        return [taint for taint, count in self._taints.items() if count > 0]

    def _last_piece(self) -> _Piece:
        pieces = self._pieces
        if not pieces or len(pieces[-1].blocks) >= _BLOCKS_IN_A_PIECE:
            pieces.append(_Piece())
        return pieces[-1]

    def _count(self, block: Block, sign: int) -> None:
        item, tokens = block.item, sign * block.tokens
        self.tokens += tokens
        self._taints[item.taint] += sign
        if item.pinned:
            self.pinned_tokens += tokens
            self.pinned += sign


TRIVIAL = re.compile(r"(ok|okay|thanks|thank you|got it|sure|yes|no|👍)\s*[.!?]*", re.IGNORECASE)
_TRIVIAL_TOKENS = 20
_LONGEST_TRIVIAL = 80
_SPEAKER = re.compile(r"\[(?:owner|auth|external)\] [^:\n]{0,64}: |Silas: ")


def _sources_of(item: ContextItem) -> tuple[str, ...]:
    """Where a stranger's text comes from; of older entries only their own name is known."""
    return item.sources or (read_at(f"{item.kind} {item.source}", item.created_at),)


@dataclass
class WatchedSubscription:
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
    watched: dict[str, WatchedSubscription] = field(default_factory=dict)
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

    def provenance(self) -> Provenance:
        """What all of it is derived from, joined; of nothing at all, the owner's."""
        found = [taint for zone in self.zones.values() for taint in zone.taints()]
        taint = join_taint(TaintLevel.OWNER, *found)
        if taint is not TaintLevel.EXTERNAL:
            return Provenance(taint)
        foreign = [
            block.item
            for zone in self.zones.values()
            for block in zone
            if block.item.taint is TaintLevel.EXTERNAL
        ]
        # The newest first: it is what a person remembers, and a card shows only some.
        return external(*(source for item in reversed(foreign) for source in _sources_of(item)))

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
