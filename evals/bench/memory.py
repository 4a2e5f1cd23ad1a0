"""The lines *memory* and *context*.

*memory* is search and bulk import against what SQLite itself needs. *context* is rendering beside
joining the strings, a turn that adds two items, eviction: processor time, for all of it is
computing. Its floor puts the same tags and contents together in one expression, without counting,
checking or remembering anything. A full render starts from the items; a turn adds two of them to a
context that was rendered before. Both end with the whole text.
"""

import gc
import json
import random
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw

from evals.bench.measure import Line, Round, medians, milliseconds, per_second
from evals.made_up import made_up_memories, made_up_questions
from silas.context.manager import ContextManager
from silas.context.models import ContextItem, ContextKind, ContextZone, TokenBudget
from silas.context.scope import Block, Zone, block_text
from silas.kernel import SystemClock, TaintLevel
from silas.memory.models import MemoryItem, MemoryQuery
from silas.memory.portability import MemoryPortability
from silas.memory.question import content_words, match_expression
from silas.memory.rows import content_hash
from silas.memory.service import MemoryRetriever
from silas.memory.store import MemoryStores
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import MemoryVault
from silas.testing.fakes import owners_keys

_SIZES = (6_000, 50_000)
_QUESTIONS = 60
_RAW_SEARCH = "SELECT rowid FROM memory_words WHERE memory_words MATCH ? ORDER BY rank LIMIT 10"
_IMPORTED = 5_000
_TURNS = 3


async def measure_memory(folder: Path) -> list[Line]:
    """Search at two sizes, and the import of a bundle."""
    lines = [await _search(folder / f"{size}.db", size) for size in _SIZES]
    return [*lines, await _bulk_import(folder)]


async def _search(path: Path, size: int) -> Line:
    database, memories = await _filled(path, size)
    retriever = MemoryRetriever(memories)
    raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    ours: list[float] = []
    floor: list[float] = []
    for question in made_up_questions(_QUESTIONS):
        begun = time.perf_counter()
        await retriever.retrieve(MemoryQuery(query=question, max_results=10), "owner")
        between = time.perf_counter()
        raw.execute(_RAW_SEARCH, (match_expression(content_words(question)),)).fetchall()
        ours.append(between - begun)
        floor.append(time.perf_counter() - between)
    raw.close()
    await database.close()
    mine, theirs = statistics.median(ours), statistics.median(floor)
    return Line(
        "memory",
        f"search, {size // 1000} k memories",
        milliseconds(mine),
        f"raw FTS5 {milliseconds(theirs)}",
        mine / theirs,
        1.5,
        at_least=False,
    )


async def _bulk_import(folder: Path) -> Line:
    """Turn by turn, as a busy machine is not equally busy all the time."""
    source, memories = await _filled(folder / "source.db", _IMPORTED)
    keys = owners_keys(MemoryVault(), clock=SystemClock())
    bundle = await MemoryPortability(memories, "owner", keys=keys).export_bundle()
    await source.close()
    items = list(made_up_memories(_IMPORTED))
    ours: list[float] = []
    floor: list[float] = []
    for turn in range(_TURNS):
        target, empty = await _filled(folder / f"target{turn}.db", 0)
        begun = time.perf_counter()
        await MemoryPortability(empty, "owner", keys=keys).import_bundle(bundle)
        ours.append(_IMPORTED / (time.perf_counter() - begun))
        await target.close()
        floor.append(_raw_insert(folder / f"raw{turn}.db", items))
    mine, theirs = statistics.median(ours), statistics.median(floor)
    return Line(
        "memory",
        f"bulk import, {_IMPORTED // 1000} k memories",
        per_second(mine),
        f"raw insert, same tables {per_second(theirs)}",
        mine / theirs,
        0.5,
        at_least=True,
    )


def _raw_insert(path: Path, items: list[MemoryItem]) -> float:
    """The same rows in the same tables, by SQLite alone."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    for migration in load_migrations("runtime"):
        connection.execute(migration.sql)
    rows = list(_rows(items))
    spots = ", ".join("?" * len(rows[0]))
    columns = "id, scope_no, memory_id, content, content_hash, memory_type, reingestion_tier,"
    columns += " trust_level, taint, created_at, updated_at, access_count, semantic_tags,"
    columns += " entity_refs, causal_refs, session_id, source_kind, scrubbed"
    begun = time.perf_counter()
    with connection:
        connection.executemany(f"INSERT INTO memory_items ({columns}) VALUES ({spots})", rows)
    rate = len(items) / (time.perf_counter() - begun)
    connection.close()
    return rate


def _rows(items: list[MemoryItem]) -> Iterator[tuple[object, ...]]:
    for number, item in enumerate(items, 1):
        when = item.created_at.isoformat()
        lists = (json.dumps(item.semantic_tags), json.dumps(item.entity_refs), "[]")
        kind = ("episode", "active", "working", "owner", when, when, 0)
        hashed = content_hash(item.content)
        end = (item.session_id, item.source_kind, "[]")
        yield (number, 1, item.memory_id, item.content, hashed, *kind, *lists, *end)


async def _filled(path: Path, size: int) -> tuple[SqliteDatabase, MemoryStores]:
    clock = SystemClock()
    database = SqliteDatabase.open(path)
    await migrate(database, load_migrations("runtime"), clock=clock)
    memories = MemoryStores(database, clock=clock)
    random.seed(size)
    batch: list[MemoryItem] = []
    for item in made_up_memories(size):
        batch.append(item)
        if len(batch) == 5000:
            await memories.of("owner").store_many(batch)
            batch = []
    await memories.of("owner").store_many(batch)
    return database, memories


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


async def measure_context(folder: Path) -> list[Line]:
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
