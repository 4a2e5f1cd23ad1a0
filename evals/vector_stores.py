"""The vectors of memories in two stores, at the size of many years: the own matrix and sqlite-vec.

    pip install sqlite-vec && python -m evals.vector_stores [--rows 100000]

Both keep the vectors of the same random texts in SQLite through APSW (WAL, `synchronous=NORMAL`),
in batches of 64 as the indexer writes them. Measured, in the same process, on the same vectors:

1. insert: all batches, until everything can be searched.
2. open: until the first search can begin, in a fresh connection.
3. search: the nearest 50 of a lane with nearly all rows, and of a lane with 1,000; the median of
   50.
4. forget: 100 rows, one call; then whether a forgotten vector's bytes are left in any file.
5. disk: the bytes of all files together, with the write-ahead log folded in.

`docs/adr/0014-vectors-in-an-own-matrix.md` has the figures and what follows from them.
"""

import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import apsw
import click
import numpy as np
import numpy.typing as npt
import sqlite_vec  # type: ignore[import-not-found, unused-ignore]

from silas.memory.rows import Lane
from silas.memory.vectors import Matrix

DIMENSIONS = 384
BATCH_ROWS = 64
SMALL_LANE_ROWS = 1_000
NEAREST = 50
SEARCHES = 50
FORGOTTEN_ROWS = 100
Vectors = npt.NDArray[np.float32]


class OwnMatrix:
    """The table `vectors` with half-precision rows, and the memory-mapped matrix beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open()
        self._connection.execute("CREATE TABLE vectors (item INTEGER PRIMARY KEY, vector BLOB)")

    def _open(self) -> None:
        self._connection = _connection(self._folder / "embeddings.db")
        self._matrix = Matrix(self._folder / "embeddings.matrix", dimensions=DIMENSIONS)

    def insert(self, first: int, vectors: Vectors) -> None:
        rows = [
            (item, vector.astype("<f2").tobytes()) for item, vector in enumerate(vectors, first)
        ]
        with self._connection:
            self._connection.executemany("INSERT INTO vectors VALUES (?, ?)", rows)
        for row in rows:
            self._matrix.add(*row)
        if self._matrix.recent > 4096:
            self._build()

    def _build(self) -> None:
        rows = self._connection.execute("SELECT item, vector FROM vectors ORDER BY item")
        self._matrix.build(rows, model="m", written=1)

    def settle(self) -> None:
        """Make everything searchable."""
        self._build()

    def open(self) -> None:
        self._connection.close()
        self._open()
        self._matrix.load("m")

    def nearest(self, lane: Lane, vector: Sequence[float]) -> list[int]:
        return list(self._matrix.nearest(lane, list(vector), NEAREST))

    def forget(self, items: Sequence[int]) -> None:
        with self._connection:
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.executemany(
                "DELETE FROM vectors WHERE item = ?", [(item,) for item in items]
            )
        self._matrix.remove(items)

    def close(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


class SqliteVec:
    """A `vec0` table in one file, one partition for each lane."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open()
        self._connection.execute(
            "CREATE VIRTUAL TABLE vectors USING vec0(item INTEGER PRIMARY KEY, lane INTEGER"
            f" PARTITION KEY, vector float[{DIMENSIONS}] distance_metric=cosine)"
        )

    def open(self) -> None:
        self._connection.close()
        self._open()

    def _open(self) -> None:
        self._connection: apsw.Connection = _connection(self._folder / "embeddings.db")
        self._connection.enable_load_extension(True)
        self._connection.load_extension(sqlite_vec.loadable_path())

    def insert(self, first: int, vectors: Vectors) -> None:
        with self._connection:
            self._connection.executemany(
                "INSERT INTO vectors (item, lane, vector) VALUES (?, ?, ?)",
                [
                    (item, _lane_number(item), vector.tobytes())
                    for item, vector in enumerate(vectors, first)
                ],
            )

    def settle(self) -> None:
        """Everything is searchable already."""

    def nearest(self, lane: Lane, vector: Sequence[float]) -> list[int]:
        rows = self._connection.execute(
            "SELECT item FROM vectors WHERE vector MATCH ? AND k = ? AND lane = ?",
            (struct.pack(f"{DIMENSIONS}f", *vector), NEAREST, lane.scope_no),
        )
        return [item for (item,) in rows]

    def forget(self, items: Sequence[int]) -> None:
        with self._connection:
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.executemany(
                "DELETE FROM vectors WHERE item = ?", [(item,) for item in items]
            )

    def close(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


def _connection(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _lane_number(item: int) -> int:
    return 1 if item <= SMALL_LANE_ROWS else 2


def _batches(vectors: Vectors) -> Iterator[tuple[int, Vectors]]:
    for start in range(0, len(vectors), BATCH_ROWS):
        yield start + 1, vectors[start : start + BATCH_ROWS]


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def _is_left(folder: Path, vector: npt.NDArray[np.float32]) -> bool:
    """Whether some file still holds the vector, in single or half precision."""
    forms = (vector.tobytes(), vector.astype("<f2").tobytes())
    return any(form in path.read_bytes() for path in folder.iterdir() for form in forms)


def measure(store: OwnMatrix | SqliteVec, folder: Path, vectors: Vectors) -> dict[str, float]:
    """All figures of one store: milliseconds, megabytes, and 0 or 1."""
    large = Lane(2, SMALL_LANE_ROWS + 1, len(vectors))
    small = Lane(1, 1, SMALL_LANE_ROWS)
    figures: dict[str, float] = {}

    def insert() -> None:
        for first, some in _batches(vectors):
            store.insert(first, some)
        store.settle()

    figures["insert"] = _milliseconds(insert)
    figures["open"] = _milliseconds(store.open)
    rng = np.random.default_rng(2)
    questions = _unit(rng.standard_normal((SEARCHES, DIMENSIONS)).astype(np.float32)).tolist()
    for name, lane in (("search, large lane", large), ("search, small lane", small)):
        times = [_milliseconds(partial(store.nearest, lane, each)) for each in questions]
        figures[name] = statistics.median(times)
    gone = list(range(5_000, 5_000 + FORGOTTEN_ROWS))
    figures["forget"] = _milliseconds(lambda: store.forget(gone))
    found = set(store.nearest(large, vectors[gone[0] - 1].tolist()))
    figures["forgotten is found"] = float(not found.isdisjoint(gone))
    store.close()
    figures["forgotten bytes left"] = float(
        any(_is_left(folder, vectors[item - 1]) for item in gone)
    )
    figures["megabytes"] = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    return figures


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


@click.command()
@click.option("--rows", default=100_000, show_default=True)
def main(rows: int) -> None:
    """Measure both stores and print their figures side by side."""
    vectors = _unit(np.random.default_rng(1).standard_normal((rows, DIMENSIONS)).astype(np.float32))
    results = {}
    for kind in (OwnMatrix, SqliteVec):
        folder = Path(tempfile.mkdtemp())
        try:
            results[kind.__name__] = measure(kind(folder), folder, vectors)
        finally:
            shutil.rmtree(folder)
    click.echo(f"{rows} rows of {DIMENSIONS}, sqlite-vec {sqlite_vec.__version__}")
    for name in results["OwnMatrix"]:
        shown = "  ".join(f"{kind} {figures[name]:>10.1f}" for kind, figures in results.items())
        click.echo(f"{name:<22} {shown}")


if __name__ == "__main__":
    main()
