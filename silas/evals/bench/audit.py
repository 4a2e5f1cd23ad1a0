"""The line *audit*: appending and verifying, beside hashing and inserting with nothing around."""

import hashlib
import json
import time
from pathlib import Path

import apsw

from silas.evals.bench.desk import Desk, open_desk
from silas.evals.bench.measure import Line, medians, per_second, rate_of

_CALLERS = 100
_DATA = {"token_id": "tok_01", "work_item_id": "wi_01", "scope": "full_plan", "attempt": 1}
_TABLE = "CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, body TEXT, hash TEXT)"


async def measure(folder: Path) -> list[Line]:
    """Ratios of appending and verifying to their floors."""
    async with open_desk(folder) as desk:
        floor = _Floor(folder / "floor.db")
        got = await medians(
            {
                "single": lambda: floor.append(300, batch=1),
                "batch": lambda: floor.append(5000, batch=100),
                "append": lambda: rate_of(
                    _CALLERS, 100, lambda: desk.audit.log("bench_entry", **_DATA)
                ),
            }
        )
        verified = await medians({"hash": lambda: _hash(desk), "examine": lambda: _examine(desk)})
        await desk.audit.write_checkpoint()
        begun = time.perf_counter()
        await desk.audit.verify_from_checkpoint()
        incremental = time.perf_counter() - begun
        begun = time.perf_counter()
        _, entries = await desk.audit.verify_chain()
        whole = time.perf_counter() - begun
    appended = per_second(got["append"])
    return [
        Line(
            "audit",
            "append, 100 callers, FULL",
            appended,
            f"one FULL transaction each {per_second(got['single'])}",
            got["append"] / got["single"],
            15,
            at_least=True,
        ),
        Line(
            "audit",
            "append, 100 callers, FULL",
            appended,
            f"FULL batches of 100 {per_second(got['batch'])}",
            got["append"] / got["batch"],
            0.5,
            at_least=True,
        ),
        Line(
            "audit",
            "verify the whole chain",
            per_second(verified["examine"]),
            f"sha256 over the stored bytes {per_second(verified['hash'])}",
            verified["examine"] / verified["hash"],
            0.7,
            at_least=True,
        ),
        Line(
            "audit",
            f"verify from checkpoint, {entries} entries before it",
            f"{incremental * 1000:.1f} ms",
            f"the whole chain {whole * 1000:.0f} ms",
            incremental / whole,
            0.1,
            at_least=False,
        ),
    ]


class _Floor:
    """A hash chain without redaction, ids, concurrency or checkpoints."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode=WAL").fetchall()
        self._connection.execute(f"PRAGMA synchronous=FULL; {_TABLE}")
        self._hash = b"\0" * 32

    async def append(self, count: int, *, batch: int) -> float:
        begun = time.perf_counter()
        for _ in range(count // batch):
            with self._connection:
                for _ in range(batch):
                    self._append_one()
        return count / (time.perf_counter() - begun)

    def _append_one(self) -> None:
        entry = {"at": "2026-01-01T00:00:00.000000Z", "event": "bench_entry", "data": _DATA}
        body = json.dumps(entry, sort_keys=True, separators=(",", ":"))
        self._hash = hashlib.sha256(self._hash + body.encode()).digest()
        self._connection.execute(
            "INSERT INTO log (body, hash) VALUES (?, ?)", (body, self._hash.hex())
        )


async def _hash(desk: Desk) -> float:
    """Only what cannot be left out: read every row, hash its bytes, compare."""

    def run() -> float:
        connection = apsw.Connection(str(desk.path), flags=apsw.SQLITE_OPEN_READONLY)
        begun = time.perf_counter()
        count, running = 0, None
        for body, digest in connection.execute("SELECT body, hash FROM audit_log ORDER BY seq"):
            if running is not None:
                running = hashlib.sha256(running + body.encode()).digest()
                if running.hex() != digest:
                    raise RuntimeError("the chain does not hold")
            running = bytes.fromhex(digest)
            count += 1
        elapsed = time.perf_counter() - begun
        connection.close()
        return count / elapsed

    return run()


async def _examine(desk: Desk) -> float:
    begun = time.perf_counter()
    valid, entries = await desk.audit.verify_chain()
    if not valid:
        raise RuntimeError("the chain does not hold")
    return entries / (time.perf_counter() - begun)
