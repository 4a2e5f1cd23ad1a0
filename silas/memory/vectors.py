"""Memories by their meaning: vectors in `embeddings.db`, and the matrix that is searched.

Only the active lane has vectors. Everything here is derived from the runtime database: `reindex`
makes it anew, `catch_up` adds what is new or was reworded, `forget` erases. Importing this needs
the extra `vector`.

`Matrix` holds all vectors in one memory-mapped file, in the order of their memories' ids. The
memories of one lane have consecutive ids, so its vectors are one slice: searching a lane reads
nothing of any other. The file is a copy of the table `vectors` up to some point; what was written
after that is held beside it until the file is made anew. ADR 14 says why this is not sqlite-vec.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from silas.memory.models import Embedder, ReingestionTier
from silas.memory.rows import Lane, as_list, lane_of
from silas.memory.store import MemoryStores
from silas.storage import Database, Reader, SqliteDatabase, Transaction, load_migrations, migrate
from silas.storage.files import PRIVATE_FILE
from silas.storage.ports import Progress

_CHUNK = 16_384
Floats = npt.NDArray[np.float32]


class Matrix:
    """Vectors that are searched by cosine. Not safe for two threads at once."""

    def __init__(self, path: Path, *, dimensions: int) -> None:
        self._path = path
        self._dimensions = dimensions
        self._items: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._vectors: Any = np.empty((0, dimensions), np.float32)
        self._recent: dict[int, Floats] = {}
        self._gone: set[int] = set()
        self.written = 0
        """Up to which write of the table the file goes."""

    def load(self, model: str) -> bool:
        """Map the file; False if there is none, or one of another model or another length."""
        try:
            head = json.loads(self._head.read_text())
            items = np.fromfile(self._rows, np.int64)
            fits = head["model"] == model and head["count"] == len(items)
            if not fits or self._path.stat().st_size != len(items) * self._dimensions * 4:
                return False
            shape = (len(items), self._dimensions)
            self._vectors = (
                np.memmap(self._path, np.float32, "r+", shape=shape)
                if len(items)
                else np.empty(shape, np.float32)
            )
        except (OSError, ValueError, KeyError):
            return False
        self._items, self.written = items, head["written"]
        self._recent, self._gone = {}, set()
        return True

    def build(self, rows: Iterable[tuple[int, bytes]], *, model: str, written: int) -> None:
        """Write the file anew from the table's rows (ordered by id), then map it."""
        self._vectors = np.empty((0, self._dimensions), np.float32)
        items: list[int] = []
        self._head.unlink(missing_ok=True)
        with self._path.open("wb") as file:
            self._path.chmod(PRIVATE_FILE)
            for item, vector in rows:
                items.append(item)
                file.write(np.frombuffer(vector, "<f2").astype(np.float32).tobytes())
        np.array(items, np.int64).tofile(self._rows)
        head = {"model": model, "count": len(items), "written": written}
        self._head.write_text(json.dumps(head))
        for path in (self._rows, self._head):
            path.chmod(PRIVATE_FILE)
        self.load(model)

    def __len__(self) -> int:
        return len(self._items) + len(self._recent)

    @property
    def recent(self) -> int:
        """How many vectors the file lacks."""
        return len(self._recent)

    def last_of(self, lane: Lane) -> int:
        """The largest id of the lane that has a vector, or the one before its first."""
        place = int(np.searchsorted(self._items, lane.last, side="right"))
        known = [item for item in self._recent if lane.first <= item <= lane.last]
        if place and self._items[place - 1] >= lane.first:
            known.append(int(self._items[place - 1]))
        return max(known, default=lane.first - 1)

    def add(self, item: int, vector: bytes) -> None:
        """Take in a vector that the file does not have, or has in another form."""
        self._erase(item)
        self._recent[item] = np.frombuffer(vector, "<f2").astype(np.float32)
        self._gone.discard(item)

    def remove(self, items: Iterable[int]) -> None:
        """Take vectors out, also of the file itself."""
        for item in items:
            self._recent.pop(item, None)
            self._erase(item)
            self._gone.add(item)
        if isinstance(self._vectors, np.memmap):
            self._vectors.flush()

    def nearest(self, lane: Lane, vector: list[float], most: int) -> dict[int, float]:
        """The nearest of one lane, the best first."""
        wanted = np.asarray(vector, np.float32)
        found = [
            (item, float(self._recent[item] @ wanted))
            for item in self._recent
            if lane.first <= item <= lane.last
        ]
        found += self._in_file(lane, wanted, most)
        best = sorted(found, key=lambda pair: (-pair[1], pair[0]))
        return dict([pair for pair in best if pair[0] not in self._gone][:most])

    def nearest_in_context(
        self, lane: Lane, vector: list[float], most: int, *, context: float
    ) -> dict[int, float]:
        """The same, where `context` times the memory just before it is added to each.

        What is near in its context is near itself or follows something that is, so only those are
        looked at.
        """
        alone = self.nearest(lane, vector, 2 * most)
        rows = sorted({near for item in alone for near in (item, item + 1) if near <= lane.last})
        own = self._vectors_of(rows)
        before = self._vectors_of([max(row - 1, lane.first) for row in rows])
        wanted = np.asarray(vector, np.float32)
        # The cosine of a sum, out of the products of its parts: no third matrix is needed.
        lengths = np.einsum("ij,ij->i", own, own)
        squares = lengths + context**2 * np.einsum("ij,ij->i", before, before)
        squares += 2 * context * np.einsum("ij,ij->i", own, before)
        cosines = (own @ wanted + context * (before @ wanted)) / np.sqrt(np.maximum(squares, 1e-9))
        best = [int(place) for place in np.argsort(-cosines, kind="stable") if lengths[place] > 0]
        return {rows[place]: float(cosines[place]) for place in best[:most]}

    def _vectors_of(self, rows: list[int]) -> Floats:
        """One line for each of the rows; zeros where there is no vector."""
        found = np.zeros((len(rows), self._dimensions), np.float32)
        wanted = np.asarray(rows, np.int64)
        places = np.searchsorted(self._items, wanted)
        inside = places < len(self._items)
        inside[inside] = self._items[places[inside]] == wanted[inside]
        found[inside] = self._vectors[places[inside]]
        for line, row in enumerate(rows):
            if row in self._recent:
                found[line] = self._recent[row]
            elif row in self._gone:
                found[line] = 0.0
        return found

    def _in_file(self, lane: Lane, wanted: Floats, most: int) -> Iterator[tuple[int, float]]:
        """The best of every chunk; a chunk at a time, so that memory stays flat."""
        first = int(np.searchsorted(self._items, lane.first, side="left"))
        behind = int(np.searchsorted(self._items, lane.last, side="right"))
        for start in range(first, behind, _CHUNK):
            stop = min(start + _CHUNK, behind)
            cosines = self._vectors[start:stop] @ wanted
            keep = min(most, len(cosines))
            for place in np.argpartition(-cosines, keep - 1)[:keep]:
                item = int(self._items[start + int(place)])
                if item not in self._recent:
                    yield item, float(cosines[place])

    def _erase(self, item: int) -> None:
        place = int(np.searchsorted(self._items, item))
        if place < len(self._items) and self._items[place] == item:
            self._vectors[place] = 0.0

    @property
    def _rows(self) -> Path:
        return self._path.with_suffix(".rows")

    @property
    def _head(self) -> Path:
        return self._path.with_suffix(".json")


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
    """The vectors of all memories, which follow the memories; `open_vectors` opens it."""

    def __init__(
        self, memories: MemoryStores, database: Database, matrix: Matrix, *, embedder: Embedder
    ) -> None:
        self._memories = memories
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
        reworded = list(self._memories.reworded)[:most]
        wanted = list(reworded)
        for lane in lanes:
            if len(wanted) < most:
                rows = await self._memories.database.fetch_all(
                    "SELECT id FROM memory_items WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
                    (self._matrix.last_of(lane), lane.last, most - len(wanted)),
                )
                wanted += [row for (row,) in rows]
        done = await self._embed_rows(wanted)
        self._memories.reworded.difference_update(reworded)
        return done

    async def reindex(self, *, progress: Progress | None = None) -> dict[str, int]:
        """Embed what has no vector of its present text, drop what has no memory any more."""
        model = self._embedder.model_id
        embedded = removed = last = 0
        total = await self._count()
        done = 0
        while page := await self._memories.database.fetch_all(_PAGE, (last, _PAGE_SIZE)):
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
        self._memories.reworded.clear()
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
        rows = await self._memories.database.fetch_all(
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
        row = await self._memories.database.snapshot(
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
            texts = await self._memories.database.fetch_all(_TEXTS, (some,))
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


async def open_vectors(folder: Path, memories: MemoryStores, *, embedder: Embedder) -> VectorIndex:
    """The vectors in `embeddings.db` of this folder, which is created if it is missing."""
    database = SqliteDatabase.open(folder / "embeddings.db")
    await migrate(database, load_migrations("embeddings"), clock=memories.clock)
    matrix = Matrix(folder / "embeddings.matrix", dimensions=embedder.dimensions)
    index = VectorIndex(memories, database, matrix, embedder=embedder)
    await index.load()
    return index
