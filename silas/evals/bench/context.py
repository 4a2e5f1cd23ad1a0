"""The line *context*: rendering beside joining the strings, a turn that adds two items, eviction.

CPU time is measured, for all of it is computing. The floor puts the same tags and contents together
in one expression, without counting, checking or remembering anything. A full render starts from the
items; a turn adds two of them to a context that was rendered before. Both end with the whole text.
"""

import gc
import random
import time
from datetime import UTC, datetime
from pathlib import Path

from silas.context.blocks import Block, block_text
from silas.context.manager import ContextManager
from silas.context.models import ContextItem, ContextKind, ContextZone, TokenBudget
from silas.context.zone import Zone
from silas.evals.bench.measure import Line, Round, medians, milliseconds
from silas.kernel import SystemClock, TaintLevel

_SENTENCE = "the report on page seven has three open points that we plan to look at on Friday"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_TOKENS = 180_000
_SCOPE = "bench"
_KINDS = {
    ContextZone.CHRONICLE: ContextKind.MESSAGE,
    ContextZone.MEMORY: ContextKind.MEMORY,
    ContextZone.WORKSPACE: ContextKind.EXECUTION_RESULT,
}
_EVICTED = 5_000
_MOST_MS = 10.0


async def measure(folder: Path) -> list[Line]:
    """Ratios to joining the strings and to a full render; milliseconds of eviction."""
    del folder
    items = _filling(random.Random(1))
    blocks = [Block(item, block_text(item), 0) for item in items]
    turn = _Turn(items)
    await turn.once()
    got = await medians(
        {
            "join": lambda: _calm(lambda: _joined(items)),
            "full": lambda: _calm(lambda: _full(items)),
            "join blocks": lambda: _calm(lambda: _joined_blocks(blocks)),
            "full of blocks": lambda: _calm(lambda: _full_of_blocks(blocks)),
            "turn": lambda: _calm(turn.once),
            "evict": lambda: _calm(lambda: _evicting(_EVICTED), times=3),
            "evict twice": lambda: _calm(lambda: _evicting(2 * _EVICTED), times=3),
        },
        repeat=5,
    )
    return _lines(got, len(items))


def _lines(got: dict[str, float], count: int) -> list[Line]:
    def line(what: str, silas: float, compared: str, ratio: float, goal: float) -> Line:
        return Line("context", what, milliseconds(silas), compared, ratio, goal, at_least=False)

    full, turn, evict = got["full"], got["turn"], got["evict"]
    return [
        line(
            f"full render of 180 k tokens, {count} items",
            full,
            f"tagging and joining the strings {milliseconds(got['join'])}",
            full / got["join"],
            3,
        ),
        line(
            "the same from blocks that are ready",
            got["full of blocks"],
            f"joining those blocks {milliseconds(got['join blocks'])}",
            got["full of blocks"] / got["join blocks"],
            3,
        ),
        line(
            "a turn that adds two items",
            turn,
            f"full render {milliseconds(full)}",
            turn / full,
            0.05,
        ),
        line(
            f"enforce_budget over {_EVICTED} items, in ms",
            evict,
            "10 ms",
            1000 * evict,
            _MOST_MS,
        ),
        line(
            f"the same over {2 * _EVICTED} items, twice the budget",
            got["evict twice"],
            f"twice the time for half of them {milliseconds(2 * evict)}",
            got["evict twice"] / (2 * evict),
            1.5,
        ),
    ]


def _filling(chance: random.Random) -> list[ContextItem]:
    """Messages and memories of everyday length that fill the window."""
    context = _manager()
    items: list[ContextItem] = []
    while sum(context.token_usage(_SCOPE).values()) < _TOKENS:
        items.append(_item(len(items), chance))
        context.add(_SCOPE, items[-1])
    return items


def _item(number: int, chance: random.Random, words: int | None = None) -> ContextItem:
    zone = chance.choice(list(_KINDS))
    return ContextItem(
        ctx_id=f"i{number}",
        zone=zone,
        content=" ".join(chance.choices(_SENTENCE.split(), k=words or chance.randint(5, 120))),
        created_at=_NOW,
        turn_number=number,
        source="channel:web",
        taint=TaintLevel.OWNER,
        kind=_KINDS[zone],
        relevance=chance.random(),
    )


def _manager() -> ContextManager:
    # Room for what the turns add: this line is about rendering, not about what leaves.
    return ContextManager(TokenBudget(total=2 * _TOKENS), clock=SystemClock())


async def _calm(once: Round, *, times: int = 20) -> float:
    """The best of several: what else the machine does is no part of the figure."""
    return min([await once() for _ in range(times)])


async def _joined(items: list[ContextItem]) -> float:
    begun = time.thread_time()
    text = "".join(
        [
            f"--- {item.kind.value} | turn {item.turn_number} | {item.source} | live ---\n"
            f"{item.content}\n--- end ---\n\n"
            for item in items
        ]
    )
    return _spent(begun, text)


async def _full(items: list[ContextItem]) -> float:
    begun = time.thread_time()
    return _spent(begun, "".join([block_text(item) for item in items]))


async def _joined_blocks(blocks: list[Block]) -> float:
    begun = time.thread_time()
    return _spent(begun, "".join([block.text for block in blocks]))


async def _full_of_blocks(blocks: list[Block]) -> float:
    zones = _zones(blocks)
    begun = time.thread_time()
    return _spent(begun, "".join([text for zone in zones for text in zone.texts()]))


def _zones(blocks: list[Block]) -> list[Zone]:
    zones = {name: Zone() for name in _KINDS}
    for block in blocks:
        zones[block.item.zone].put(block)
    return list(zones.values())


def _spent(begun: float, text: str) -> float:
    spent = time.thread_time() - begun
    if len(text) < _TOKENS:
        raise RuntimeError("the text is not whole")
    return spent


class _Turn:
    """A context that was rendered before, and gets two more items."""

    def __init__(self, items: list[ContextItem]) -> None:
        self._context = _manager()
        self._chance = random.Random(2)
        self._next = len(items)
        for item in items:
            self._context.add(_SCOPE, item)

    async def once(self) -> float:
        """Seconds of one such turn."""
        added = [_item(self._next + more, self._chance, 30) for more in range(2)]
        self._next += 2
        begun = time.thread_time()
        for item in added:
            self._context.add(_SCOPE, item)
        return _spent(begun, await self._context.render(_SCOPE, 0))


async def _evicting(count: int) -> float:
    chance = random.Random(3)
    context = ContextManager(TokenBudget(total=count * _TOKENS // _EVICTED), clock=SystemClock())
    for number in range(count):
        context.add(_SCOPE, _item(number, chance, 60))
    gc.collect()
    begun = time.thread_time()
    gone = await context.enforce_budget(_SCOPE, count, None)
    spent = time.thread_time() - begun
    if not gone:
        raise RuntimeError("nothing had to leave")
    return spent
