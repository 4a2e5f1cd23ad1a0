"""A million memories: store, search, consolidate, export, and how much memory the process takes.

`python -m silas.evals.million_memories [--count N] [--folder DIR]`
"""

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from silas.evals.made_up import made_up_memories, made_up_questions
from silas.kernel import SystemClock
from silas.memory.consolidator import MemoryConsolidator
from silas.memory.models import MemoryItem, MemoryQuery
from silas.memory.portability import MemoryPortability
from silas.memory.retriever import MemoryRetriever
from silas.memory.store import Memories
from silas.storage import SqliteDatabase, load_migrations, migrate

T = TypeVar("T")
_BATCH = 5000


async def run(path: Path, count: int) -> None:
    """Do everything once, at a tenth of the size and at the full size."""
    clock = SystemClock()
    database = SqliteDatabase.open(path)
    await migrate(database, load_migrations("runtime"), clock=clock)
    memories = Memories(database, clock=clock)
    stored = 0
    batch: list[MemoryItem] = []
    begun = time.perf_counter()
    for item in made_up_memories(count):
        batch.append(item)
        if len(batch) == _BATCH:
            await memories.of("owner").store_many(batch)
            stored, batch = stored + len(batch), []
            if stored in {count // 10, count}:
                _tell(f"store {stored}", time.perf_counter() - begun)
                await _use(memories)
    await database.close()


async def _use(memories: Memories) -> None:
    retriever = MemoryRetriever(memories)
    seconds = []
    for question in made_up_questions(40):
        begun = time.perf_counter()
        await retriever.retrieve(MemoryQuery(query=question, max_results=10), "owner")
        seconds.append(time.perf_counter() - begun)
    _tell("  search (median)", statistics.median(seconds))
    _tell("  search (slowest)", max(seconds))
    await _timed("  consolidate", MemoryConsolidator(memories).run_once)
    moving = MemoryPortability(memories, "owner")
    await _timed("  export", lambda: moving.export_to(lambda _: None))


async def _timed(what: str, work: Callable[[], Awaitable[T]]) -> T:
    begun = time.perf_counter()
    result = await work()
    _tell(what, time.perf_counter() - begun)
    return result


def _tell(what: str, seconds: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:24} {seconds:9.3f} s   peak memory {peak:6.0f} MB", flush=True)


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix=".million-") as folder:
        asyncio.run(run(Path(folder) / "silas.db", chosen.count))


if __name__ == "__main__":
    main()
