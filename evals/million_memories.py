"""How the memory grows: store, search, consolidate, export at rising sizes, each in a new file.

`python -m evals.million_memories [--sizes N,N,N] [--folder DIR]`

Seconds are those of the processor, all threads together: beside other work on the machine, seconds
by the clock say little. `memory` is the most that the process has taken so far. A search is put
beside the strategy `keyword` (plain BM25) for the same question.
"""

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from evals.made_up import made_up_memories, made_up_questions
from silas.kernel import SystemClock
from silas.memory.consolidator import MemoryConsolidator
from silas.memory.models import MemoryItem, MemoryQuery, MemoryQueryStrategy
from silas.memory.portability import MemoryPortability
from silas.memory.service import MemoryRetriever
from silas.memory.store import MemoryStores
from silas.storage import SqliteDatabase, load_migrations, migrate

_BATCH = 5000
_QUESTIONS = 40
_HEAD = ("memories", "store s", "search ms", "slowest", "keyword ms", "consolidate s", "export s")


@dataclass
class Seconds:
    """What one size took."""

    store: float = 0.0
    search: float = 0.0
    slowest: float = 0.0
    plain: float = 0.0
    consolidate: float = 0.0
    export: float = 0.0


async def measure(path: Path, count: int) -> Seconds:
    """Do everything once with this many memories."""
    clock = SystemClock()
    database = SqliteDatabase.open(path)
    await migrate(database, load_migrations("runtime"), clock=clock)
    memories = MemoryStores(database, clock=clock)
    took = Seconds()
    try:
        took.store = await _timed(lambda: _store(memories, count))
        retriever = MemoryRetriever(memories)
        questions = made_up_questions(_QUESTIONS)
        searches = [await _timed(_asking(retriever, each)) for each in questions]
        took.search, took.slowest = statistics.median(searches), max(searches)
        keyword = MemoryQueryStrategy.KEYWORD
        took.plain = statistics.median(
            [await _timed(_asking(retriever, each, keyword)) for each in questions]
        )
        took.consolidate = await _timed(MemoryConsolidator(memories).run_once)
        moving = MemoryPortability(memories, "owner")
        took.export = await _timed(lambda: moving.export_to(lambda _: None))
    finally:
        await database.close()
    return took


async def _store(memories: MemoryStores, count: int) -> None:
    batch: list[MemoryItem] = []
    for item in made_up_memories(count):
        batch.append(item)
        if len(batch) == _BATCH:
            await memories.of("owner").store_many(batch)
            batch = []
    await memories.of("owner").store_many(batch)


def _asking(
    retriever: MemoryRetriever,
    question: str,
    strategy: MemoryQueryStrategy = MemoryQueryStrategy.FUSED,
) -> Callable[[], Awaitable[object]]:
    query = MemoryQuery(query=question, max_results=10, strategy=strategy)
    return lambda: retriever.retrieve(query, "owner")


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.process_time()
    await work()
    return time.process_time() - begun


def _line(count: int, took: Seconds) -> str:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cells = (
        f"{count:,}",
        f"{took.store:.1f}",
        f"{1000 * took.search:.1f}",
        f"{1000 * took.slowest:.0f}",
        f"{1000 * took.plain:.1f}",
        f"{took.consolidate:.1f}",
        f"{took.export:.1f}",
        f"{peak:.0f}",
    )
    return "  ".join(cell.rjust(13) for cell in cells)


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    chosen = parser.parse_args()
    print("  ".join(name.rjust(13) for name in (*_HEAD, "memory MB")), flush=True)
    for size in map(int, chosen.sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=chosen.folder, prefix=".million-") as folder:
            took = asyncio.run(measure(Path(folder) / "silas.db", size))
        print(_line(size, took), flush=True)


if __name__ == "__main__":
    main()
