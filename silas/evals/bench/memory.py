"""The line *memory*: search and bulk import against what SQLite itself needs."""

import json
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from silas.evals.bench.measure import Line, milliseconds, per_second
from silas.evals.made_up import made_up_memories, made_up_questions
from silas.kernel import SystemClock
from silas.memory.models import MemoryItem, MemoryQuery
from silas.memory.portability import MemoryPortability
from silas.memory.query_words import content_words, match_expression
from silas.memory.retriever import MemoryRetriever
from silas.memory.rows import content_hash
from silas.memory.store import Memories
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import MemoryVault
from silas.testing.approvals import owners_keys

_SIZES = (6_000, 50_000)
_QUESTIONS = 60
_RAW_SEARCH = "SELECT rowid FROM memory_words WHERE memory_words MATCH ? ORDER BY rank LIMIT 10"
_IMPORTED = 5_000
_TURNS = 3


async def measure(folder: Path) -> list[Line]:
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


async def _filled(path: Path, size: int) -> tuple[SqliteDatabase, Memories]:
    clock = SystemClock()
    database = SqliteDatabase.open(path)
    await migrate(database, load_migrations("runtime"), clock=clock)
    memories = Memories(database, clock=clock)
    random.seed(size)
    batch: list[MemoryItem] = []
    for item in made_up_memories(size):
        batch.append(item)
        if len(batch) == 5000:
            await memories.of("owner").store_many(batch)
            batch = []
    await memories.of("owner").store_many(batch)
    return database, memories
