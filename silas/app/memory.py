"""The memory room, wired: the stores, retrieval, and vectors if the extra `vector` is there."""

import importlib
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

from silas.app.ground import Ground
from silas.app.housekeeping import PeriodicJob
from silas.memory.consolidator import ConsolidationPolicy, MemoryConsolidator
from silas.memory.errors import EmbedderRefused
from silas.memory.intake import Intake
from silas.memory.keeper import MemoryKeeper, RawRecords
from silas.memory.models import ReingestionTier
from silas.memory.ports import Embedder, Index
from silas.memory.retriever import MemoryRetriever
from silas.memory.store import Memories

_SOON = timedelta(minutes=1)


@dataclass(frozen=True)
class MemoryRoom:
    """What Silas remembers, and the ways to it."""

    memories: Memories
    retriever: MemoryRetriever
    keeper: MemoryKeeper
    index: Index | None


@asynccontextmanager
async def open_memory(ground: Ground, *, vectors: bool = True) -> AsyncIterator[MemoryRoom]:
    """The memory of this data directory; what waits to be written is written at the end."""
    memories = Memories(
        ground.database,
        clock=ground.clock,
        audit=ground.audit,
        approvals=ground.approvals,
        intake=Intake(ground.vault.seen),
    )
    settings = ground.settings.memory
    vectors = vectors and settings.embedding_model != "none"
    dimensions = settings.embedding_dim
    folder = ground.paths.data_dir
    index = await open_index(folder, memories, dimensions=dimensions) if vectors else None
    try:
        retriever = MemoryRetriever(memories, vectors=index)
        raw = RawRecords(
            kept=settings.raw_reingestion_enabled,
            tier=ReingestionTier(settings.raw_reingestion_default_tier),
        )
        yield MemoryRoom(memories, retriever, MemoryKeeper(memories, retriever, raw=raw), index)
    finally:
        await memories.flush()
        if index is not None:
            await index.close()


def memory_jobs(ground: Ground, room: MemoryRoom) -> list[PeriodicJob]:
    """What is done again and again for the memory: condense it, and keep its vectors up to date."""
    settings = ground.settings.memory
    policy = ConsolidationPolicy(stale_after=timedelta(days=settings.stale_after_days))
    consolidator = MemoryConsolidator(room.memories, index=room.index, policy=policy)
    every = timedelta(minutes=settings.consolidation_interval_minutes)
    jobs = [PeriodicJob("condense the memory", every, consolidator.run_once)]
    if room.index is not None:
        jobs.append(PeriodicJob("embed new memories", _SOON, room.index.catch_up))
    return jobs


async def open_index(
    folder: Path, memories: Memories, *, dimensions: int | None = None
) -> Index | None:
    """The vectors in this folder, or None if the extra `vector` is not installed."""
    embedder = load_embedder()
    if embedder is None:
        return None
    if dimensions not in {None, embedder.dimensions}:
        raise EmbedderRefused(
            f"memory.embedding_dim is {dimensions}, but the vectors of the embedded model have "
            f"the length {embedder.dimensions}. Correct the setting."
        )
    # Both need packages of the extra, so they are imported where it is known to be there.
    module = importlib.import_module("silas.memory.vectors")
    index: Index = await module.open_vectors(folder, memories, embedder=embedder)
    return index


@lru_cache(maxsize=1)
def load_embedder() -> Embedder | None:
    """The embedded model, or None if the extra `vector` is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    try:
        module = importlib.import_module("silas.memory.minilm.embedder")
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("silas"):
            raise
        return None
    embedder: Embedder = module.MiniLm()
    return embedder
