"""All vectors as one memory-mapped matrix, in the order of their memories' ids.

The memories of one lane have consecutive ids, so its vectors are one slice: searching a lane reads
nothing of any other. The file is a copy of the table `vectors` up to some point; what was written
after that is kept beside it until the file is made anew. Importing this needs the extra `vector`.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from silas.memory.rows import Lane
from silas.storage.files import PRIVATE_FILE

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
