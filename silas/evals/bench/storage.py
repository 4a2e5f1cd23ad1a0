"""The line *storage*: one small transaction, through our driver and through others."""

import asyncio
import itertools
import os
import time
from pathlib import Path

import aiosqlite
import apsw

from silas.evals.bench.measure import Line, medians, milliseconds, per_second, rate_of
from silas.storage import Durability, SqliteDatabase

_TABLE = "CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, body BLOB)"
_INSERT = "INSERT INTO messages (body) VALUES (?)"
_BODY = b"x" * 1024
_CALLERS = 100


async def measure(folder: Path) -> list[Line]:
    """Ratios of the driver at a hundred callers and at one."""
    database = SqliteDatabase.open(folder / "silas.db")
    await database.execute(_TABLE)
    peer = await aiosqlite.connect(folder / "peer.db", isolation_level=None)
    await peer.executescript(
        f"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=5000; {_TABLE}"
    )
    turn = asyncio.Lock()  # aiosqlite's transactions would otherwise run into each other

    async def ours(durability: Durability) -> None:
        await database.execute(_INSERT, (_BODY,), durability=durability)

    async def theirs() -> None:
        async with turn:
            await peer.execute("BEGIN IMMEDIATE")
            await peer.execute(_INSERT, (_BODY,))
            await peer.execute("COMMIT")

    got = await medians(
        {
            "raw": lambda: _raw(folder / "raw.db"),
            "sync": lambda: _sync(folder / "sync"),
            "normal": lambda: rate_of(_CALLERS, 40, lambda: ours(Durability.ORDINARY)),
            "full": lambda: rate_of(_CALLERS, 40, lambda: ours(Durability.TRUST)),
            "aiosqlite": lambda: rate_of(_CALLERS, 10, theirs),
            "one": lambda: rate_of(1, 300, lambda: ours(Durability.ORDINARY)),
            "aiosqlite one": lambda: rate_of(1, 300, theirs),
        }
    )
    await database.close()
    await peer.close()
    latency, their_latency = 1 / got["one"], 1 / got["aiosqlite one"]
    return [
        Line(
            "storage",
            "100 callers, NORMAL",
            per_second(got["normal"]),
            f"aiosqlite {per_second(got['aiosqlite'])} (raw APSW, one caller: "
            f"{per_second(got['raw'])})",
            got["normal"] / got["aiosqlite"],
            4,
            at_least=True,
        ),
        Line(
            "storage",
            "100 callers, FULL",
            per_second(got["full"]),
            # A hundred rows wait for one sync: no group commit is faster than the disk.
            f"our NORMAL {per_second(got['normal'])} (one bare sync of 100 rows: "
            f"{milliseconds(1 / got['sync'])})",
            got["full"] / got["normal"],
            0.8,
            at_least=True,
        ),
        Line(
            "storage",
            "one caller, latency",
            milliseconds(latency),
            f"aiosqlite {milliseconds(their_latency)}",
            latency / their_latency,
            1.2,
            at_least=False,
        ),
    ]


async def _sync(path: Path) -> float:
    """How often a second this disk can be made to keep what a group of callers writes."""
    with path.open("wb", buffering=0) as file:
        begun = time.perf_counter()
        for _ in itertools.repeat(None, 20):
            file.write(_BODY * _CALLERS)
            os.fsync(file.fileno())
        return 20 / (time.perf_counter() - begun)


async def _raw(path: Path) -> float:
    connection = apsw.Connection(str(path))
    # A pragma that answers would keep the rest of the script waiting until its row is read.
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute(f"PRAGMA synchronous=NORMAL; {_TABLE}")
    begun = time.perf_counter()
    for _ in itertools.repeat(None, 1000):
        connection.execute(_INSERT, (_BODY,))
    rate = 1000 / (time.perf_counter() - begun)
    connection.close()
    return rate
