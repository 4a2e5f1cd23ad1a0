"""Memories by their meaning: vectors in `embeddings.db`, and the matrix that is searched.

Only the active lane has vectors. Everything here is derived from the runtime database: `reindex`
makes it anew, `catch_up` adds what is new or was reworded, `forget` erases. Importing this needs
the extra `vector`.
"""

import asyncio
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from silas.memory.matrix import Matrix
from silas.memory.models import ReingestionTier
from silas.memory.ports import Embedder
from silas.memory.rows import Lane, as_list, lane_of
from silas.memory.store import Memories
from silas.storage import Database, Reader, SqliteDatabase, Transaction, load_migrations, migrate
from silas.storage.ports import Progress

_BATCH = 64
_MOST_RECENT = 4096
_REMEMBERED_QUESTIONS = 256
_CURRENT = "SELECT item, vector FROM vectors WHERE model = ? ORDER BY item"
_SINCE = "SELECT item, vector FROM vectors WHERE model = ? AND written > ?"
_PUT = """
INSERT INTO vectors (item, model, content_hash, vector, written)
VALUES (?, ?, ?, ?, (SELECT coalesce(max(written), 0) + 1 FROM vectors))
ON CONFLICT (item) DO UPDATE SET model = excluded.model, content_hash = excluded.content_hash,
    vector = excluded.vector, written = excluded.written
"""
_PAGE = """
SELECT id, content_hash FROM memory_items
WHERE id > ? AND reingestion_tier = 'active' ORDER BY id LIMIT ?
"""
_PAGE_SIZE = 2048
_KNOWN = "SELECT item, content_hash FROM vectors WHERE model = ? AND item > ? AND item <= ?"
_TEXTS = """
SELECT m.id, m.content, m.content_hash FROM json_each(?) AS wanted
JOIN memory_items AS m ON m.id = wanted.value WHERE m.reingestion_tier = 'active'
"""


class VectorIndex:
    """`Nearest` with an embedder. Open it with `open_vectors`, end it with `close`."""

    def __init__(
        self, memories: Memories, database: Database, matrix: Matrix, *, embedder: Embedder
    ) -> None:
        self._keeping = memories.keeping
        self._database = database
        self._matrix = matrix
        self._embedder = embedder
        self._lock = asyncio.Lock()
        self._vector_of = lru_cache(_REMEMBERED_QUESTIONS)(self._mean)

    async def load(self) -> None:
        """Map the matrix, or make it anew, and add what was written since."""
        model = self._embedder.model_id
        if not await asyncio.to_thread(self._matrix.load, model):
            await self._rebuild()
            return
        for item, vector in await self._database.fetch_all(_SINCE, (model, self._matrix.written)):
            self._matrix.add(item, vector)

    async def close(self) -> None:
        """Release the files."""
        await self._database.close()

    async def nearest(
        self, lane: Lane, texts: Sequence[str], most: int, *, context: float = 0.0
    ) -> dict[int, float]:
        """The rows of this lane that are nearest to the mean of the texts, with their cosines."""
        if not len(self._matrix):
            return {}  # and the model is not loaded for nothing
        async with self._lock:
            return await asyncio.to_thread(self._search, lane, tuple(texts), most, context)

    async def catch_up(self, *, most: int = 1000) -> int:
        """Embed memories that are new or were reworded, at most so many; returns how many."""
        lanes = await self._lanes()
        reworded = list(self._keeping.reworded)[:most]
        wanted = list(reworded)
        for lane in lanes:
            if len(wanted) < most:
                rows = await self._keeping.database.fetch_all(
                    "SELECT id FROM memory_items WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
                    (self._matrix.last_of(lane), lane.last, most - len(wanted)),
                )
                wanted += [row for (row,) in rows]
        done = await self._embed_rows(wanted)
        self._keeping.reworded.difference_update(reworded)
        return done

    async def reindex(self, *, progress: Progress | None = None) -> dict[str, int]:
        """Embed what has no vector of its present text, drop what has no memory any more."""
        model = self._embedder.model_id
        embedded = removed = last = 0
        total = await self._count()
        done = 0
        while page := await self._keeping.database.fetch_all(_PAGE, (last, _PAGE_SIZE)):
            begin, last = last, page[-1][0]
            found = await self._database.fetch_all(_KNOWN, (model, begin, last))
            known: dict[int, bytes] = dict(found)
            missing = [row for row, hashed in page if known.get(row) != hashed]
            orphans = sorted(set(known) - {row for row, _ in page})
            embedded += await self._embed_rows(missing, progress=progress, done=done, total=total)
            removed += await self.forget(orphans) if orphans else 0
            done += len(page)
        removed += await self._database.execute(
            "DELETE FROM vectors WHERE model <> ? OR item > ?", (model, last)
        )
        await self._rebuild()
        self._keeping.reworded.clear()
        return {"embedded": embedded, "removed": removed, "vectors": len(self._matrix)}

    async def forget(self, rows: Sequence[int]) -> int:
        """Erase the vectors of these rows, in the table and in the matrix."""

        def erase(tx: Transaction) -> int:
            tx.execute("PRAGMA secure_delete = ON")
            return tx.execute(
                "DELETE FROM vectors WHERE item IN (SELECT value FROM json_each(?))",
                (as_list(rows),),
            )

        async with self._lock:
            removed = await self._database.transaction(erase)
            await asyncio.to_thread(self._matrix.remove, rows)
            # Questions may quote what was forgotten.
            self._vector_of.cache_clear()
        return removed

    def _mean(self, texts: tuple[str, ...]) -> list[float]:
        mean = np.asarray(self._embedder.embed_batch(texts), np.float32).mean(axis=0)
        unit: list[float] = (mean / (np.linalg.norm(mean) or 1.0)).tolist()
        return unit

    def _search(
        self, lane: Lane, texts: tuple[str, ...], most: int, context: float
    ) -> dict[int, float]:
        vector = self._vector_of(texts)
        if not context:
            return self._matrix.nearest(lane, vector, most)
        return self._matrix.nearest_in_context(lane, vector, most, context=context)

    async def _lanes(self) -> list[Lane]:
        rows = await self._keeping.database.fetch_all(
            "SELECT scope_no, next_active FROM memory_scopes ORDER BY scope_no"
        )
        lanes = [lane_of(number, ReingestionTier.ACTIVE) for number, _ in rows]
        newest = [
            lane.first + following - 1 for lane, (_, following) in zip(lanes, rows, strict=True)
        ]
        return [
            lane
            for lane, last in zip(lanes, newest, strict=True)
            if self._matrix.last_of(lane) < last
        ]

    async def _count(self) -> int:
        row = await self._keeping.database.snapshot(
            lambda reader: reader.fetch_one(
                "SELECT count(*) FROM memory_items WHERE reingestion_tier = 'active'"
            )
        )
        return row[0] if row else 0

    async def _embed_rows(
        self,
        rows: Sequence[int],
        *,
        progress: Progress | None = None,
        done: int = 0,
        total: int = 0,
    ) -> int:
        embedded = 0
        for start in range(0, len(rows), _BATCH):
            some = as_list(rows[start : start + _BATCH])
            texts = await self._keeping.database.fetch_all(_TEXTS, (some,))
            vectors = await asyncio.to_thread(self._packed, [text for _, text, _ in texts])
            put = [
                (item, hashed, vector)
                for (item, _, hashed), vector in zip(texts, vectors, strict=True)
            ]
            await self._database.transaction(partial(self._put, rows=put))
            async with self._lock:
                for item, _, vector in put:
                    self._matrix.add(item, vector)
            embedded += len(put)
            if progress is not None:
                progress("embedding", done + start + len(put), total)
        if self._matrix.recent > _MOST_RECENT:
            await self._rebuild()
        return embedded

    def _packed(self, texts: list[str]) -> list[bytes]:
        vectors = self._embedder.embed_batch(texts) if texts else []
        return [np.asarray(vector, "<f2").tobytes() for vector in vectors]

    def _put(self, tx: Transaction, *, rows: list[tuple[int, bytes, bytes]]) -> None:
        for item, hashed, vector in rows:
            tx.execute(_PUT, (item, self._embedder.model_id, hashed, vector))

    async def _rebuild(self) -> None:
        model = self._embedder.model_id

        def write(reader: Reader) -> None:
            row = reader.fetch_one("SELECT coalesce(max(written), 0) FROM vectors")
            written = row[0] if row else 0
            self._matrix.build(reader.rows(_CURRENT, (model,)), model=model, written=written)

        async with self._lock:
            await self._database.snapshot(write)


async def open_vectors(folder: Path, memories: Memories, *, embedder: Embedder) -> VectorIndex:
    """The vectors in `embeddings.db` of this folder, which is created if it is missing."""
    database = SqliteDatabase.open(folder / "embeddings.db")
    await migrate(database, load_migrations("embeddings"), clock=memories.keeping.clock)
    matrix = Matrix(folder / "embeddings.matrix", dimensions=embedder.dimensions)
    index = VectorIndex(memories, database, matrix, embedder=embedder)
    await index.load()
    return index
