"""How things are measured and shown: medians of interleaved rounds, and a verdict per line.

`open_trust` opens approvals and audit on a fresh database, wired as the application does, with the
vault in memory: what several lines stand on.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from silas.approval import ApprovalEngine, KeyManager
from silas.audit import AuditLog
from silas.kernel import IdFactory, SystemClock
from silas.review import Decisions
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import MemoryVault
from silas.testing.fakes import approval_engine, owners_keys

Round = Callable[[], Awaitable[float]]


@dataclass(frozen=True)
class Line:
    """One ratio with its goal."""

    topic: str
    what: str
    silas: str
    compared: str
    ratio: float
    goal: float
    at_least: bool

    @property
    def met(self) -> bool:
        return self.ratio >= self.goal if self.at_least else self.ratio <= self.goal


async def medians(rounds: Mapping[str, Round], *, repeat: int = 5) -> dict[str, float]:
    """Run every contender once per round, in turn, so that a noisy moment hits all of them."""
    samples: dict[str, list[float]] = {name: [] for name in rounds}
    for _ in range(repeat):
        for name, measure in rounds.items():
            samples[name].append(await measure())
    return {name: statistics.median(values) for name, values in samples.items()}


async def rate_of(callers: int, each: int, call: Callable[[], Awaitable[object]]) -> float:
    """How many calls a second this many callers get through together."""

    async def caller() -> None:
        for _ in range(each):
            await call()

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return callers * each / (time.perf_counter() - begun)


def per_second(rate: float) -> str:
    """A rate for people."""
    return f"{rate / 1000:.1f} k/s" if rate >= 1000 else f"{rate:.0f}/s"


def milliseconds(seconds: float) -> str:
    """A duration for people."""
    return f"{seconds * 1000:.2f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


def table(lines: list[Line]) -> str:
    """All lines, aligned."""
    rows = [("line", "what", "Silas", "compared with", "ratio", "goal", "")]
    for line in lines:
        sign = ">=" if line.at_least else "<="
        verdict = "met" if line.met else "NOT MET"
        goal = f"{sign} {line.goal:g}"
        rows.append(
            (line.topic, line.what, line.silas, line.compared, f"{line.ratio:.2f}", goal, verdict)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(7)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


@dataclass(frozen=True)
class TrustStores:
    """What the lines *tokens*, *audit* and *work loop* stand on."""

    path: Path
    database: SqliteDatabase
    keys: KeyManager
    audit: AuditLog
    engine: ApprovalEngine
    decisions: Decisions


@asynccontextmanager
async def open_trust(folder: Path) -> AsyncIterator[TrustStores]:
    """Open it, and close it at the end."""
    clock = SystemClock()
    ids = IdFactory(clock)
    database = SqliteDatabase.open(folder / "silas.db")
    await migrate(database, load_migrations("runtime"), clock=clock)
    keys = owners_keys(MemoryVault(), clock=clock)
    audit = AuditLog(
        database, clock=clock, ids=ids, signer=keys, verifier=keys, witness=folder / "witness"
    )
    engine = approval_engine(database, keys, audit=audit, clock=clock, ids=ids)
    try:
        decisions = Decisions(database, keys, approvals=engine, audit=audit, clock=clock)
        yield TrustStores(folder / "silas.db", database, keys, audit, engine, decisions)
    finally:
        await database.close()
