"""Waking: who waits for a change among 100,000 subscriptions, and what 10,000 sleepers cost.

The floor is a plain dict of sets that is handed its keys; Silas is handed typed tokens. Beside it
is the same question to the indexed table that the index is made from.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import apsw

from silas.companions.models import (
    AgentLifecycle,
    AgentState,
    AgentSubscription,
    AgentTimer,
    Companion,
    RunOutcome,
    TimerKind,
)
from silas.companions.statements import upsert
from silas.companions.store import CompanionStore
from silas.companions.tables import TABLES
from silas.companions.wake.index import TokenIndex
from silas.companions.waking import make_waking
from silas.evals.bench.measure import Line, medians, per_second
from silas.journal.notifications import TypedToken, entity
from silas.journal.store import Journal
from silas.kernel import IdFactory, SystemClock
from silas.kernel.models import Data
from silas.queue import QueueStore
from silas.storage import SqliteDatabase, Transaction, load_migrations, migrate

B = TypeVar("B")

_COMPANIONS = 10_000
_SUBSCRIPTIONS = 100_000
_BATCH = 10
_BATCHES = 2_000
_ASLEEP_SECONDS = 3.0
_MATERIALISE = """
INSERT INTO agent_subscription_tokens VALUES (?, 'entity_id', NULL, ?, 1)
"""
_LOOK_UP = f"""
SELECT subscription_id FROM agent_subscription_tokens
WHERE token_class = 'entity_id' AND token_namespace IS NULL AND active = 1
    AND token_value IN ({", ".join("?" * _BATCH)})
"""


class _Nobody:
    """`CompanionRuns` that is never called: everybody sleeps."""

    async def run(self, *_given: object, **_more: object) -> RunOutcome:
        raise RuntimeError("nobody was to be woken")


class _Utc:
    def time_zone(self) -> str:
        return "UTC"


async def measure(folder: Path) -> list[Line]:
    """The lines of this topic."""
    clock = SystemClock()
    database = await _open(folder / "agent.db", "agent")
    store = CompanionStore(database, clock=clock, ids=IdFactory(clock), host_id="bench")
    await _fill(store)
    try:
        lines = []
        for hits in (10, 1_000):
            lines += await _matching(store, folder / "agent.db", hits)
        return [*lines, await _asleep(store, folder)]
    finally:
        await database.close()


async def _open(path: Path, schema: str) -> SqliteDatabase:
    database = SqliteDatabase.open(path)
    await migrate(database, load_migrations(schema), clock=SystemClock())
    return database


def _values(number: int) -> Iterator[str]:
    """What a subscription waits for: something of its own, and something that a hundred have."""
    yield f"own-{number}"
    yield f"shared-{number % (_SUBSCRIPTIONS // 100)}"


async def _fill(store: CompanionStore) -> None:
    now = store.clock.now()
    later = now + timedelta(days=1)
    rows: dict[type[Data], list[Data]] = {kind: [] for kind in _KINDS}
    for number in range(_COMPANIONS):
        agent_id = f"agent-{number}"
        mine = {"agent_id": agent_id, "updated_at": now}
        rows[Companion].append(
            Companion(
                id=agent_id,
                kind="planner",
                display_name="Planner",
                lifecycle=AgentLifecycle.ACTIVE,
                current_state_id=f"state-{number}",
                created_at=now,
                updated_at=now,
            )
        )
        rows[AgentState].append(AgentState(id=f"state-{number}", **mine))
        rows[AgentTimer].append(
            AgentTimer(
                id=f"timer-{number}",
                kind=TimerKind.DAILY,
                expression=f"{later:%H:%M}",
                next_run_at=later.replace(second=0, microsecond=0),
                created_at=now,
                **mine,
            )
        )
    for number in range(_SUBSCRIPTIONS):
        rows[AgentSubscription].append(
            AgentSubscription(
                id=f"subscription-{number}",
                agent_id=f"agent-{number % _COMPANIONS}",
                tokens=tuple(entity(value) for value in _values(number)),
                created_at=now,
                updated_at=now,
            )
        )

    def write(tx: Transaction) -> None:
        for kind, records in rows.items():
            table = TABLES[kind]
            tx.execute_many(upsert(table), (table.values(each) for each in records))
        tx.execute_many(
            _MATERIALISE,
            (
                (f"subscription-{number}", value)
                for number in range(_SUBSCRIPTIONS)
                for value in _values(number)
            ),
        )

    await store.transaction(write)


_KINDS: tuple[type[Data], ...] = (Companion, AgentState, AgentTimer, AgentSubscription)


async def _matching(store: CompanionStore, path: Path, hits: int) -> list[Line]:
    index = TokenIndex()
    await index.load(store.database)
    stem, different = (
        ("own", _SUBSCRIPTIONS) if hits == _BATCH else ("shared", _SUBSCRIPTIONS // 100)
    )
    batches = [
        [f"{stem}-{(start * 7919 + step * 104729) % different}" for step in range(_BATCH)]
        for start in range(_BATCHES)
    ]
    tokens = [[entity(value) for value in batch] for batch in batches]
    plain: dict[str, set[str]] = {}
    for number in range(_SUBSCRIPTIONS):
        for value in _values(number):
            plain.setdefault(value, set()).add(f"subscription-{number}")
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    nobody: set[str] = set()

    def of_silas(batch: list[TypedToken]) -> object:
        return index.match(batch)

    def of_dict(batch: list[str]) -> object:
        return set().union(*[plain.get(value, nobody) for value in batch])

    def of_table(batch: list[str]) -> object:
        return {row[0] for row in connection.execute(_LOOK_UP, batch)}

    found = await medians(
        {
            "silas": lambda: _rate(of_silas, tokens),
            "dict": lambda: _rate(of_dict, batches),
            "table": lambda: _rate(of_table, batches[: _BATCHES // 10]),
        }
    )
    connection.close()
    what = f"100,000 subscriptions, batches of {_BATCH} tokens, {hits:,} hits"
    silas = per_second(found["silas"])
    return [
        Line(
            "wake",
            what,
            silas,
            f"dict of sets {per_second(found['dict'])}",
            found["silas"] / found["dict"],
            0.5,
            at_least=True,
        ),
        Line(
            "wake",
            what,
            silas,
            f"indexed table {per_second(found['table'])}",
            found["silas"] / found["table"],
            2,
            at_least=True,
        ),
    ]


async def _rate(match: Callable[[list[B]], object], batches: list[list[B]]) -> float:
    begun = time.perf_counter()
    for batch in batches:
        match(batch)
    return len(batches) / (time.perf_counter() - begun)


async def _asleep(store: CompanionStore, folder: Path) -> Line:
    """The processor time of a house in which 10,000 companions wait for tomorrow."""
    runtime = await _open(folder / "silas.db", "runtime")
    written = await _open(folder / "journal.db", "journal")
    journal = await Journal.open(written, clock=store.clock, ids=store.ids)
    queue = QueueStore(runtime, clock=store.clock, ids=store.ids, holder="bench")
    waking = make_waking(store, journal, queue=queue, runs=_Nobody(), zone=_Utc())
    try:
        async with waking.running():
            await asyncio.sleep(2)  # what is done once at the start
            begun = time.process_time()
            await asyncio.sleep(_ASLEEP_SECONDS)
            used = time.process_time() - begun
    finally:
        await runtime.close()
        await written.close()
    share = used / _ASLEEP_SECONDS
    return Line(
        "wake",
        "10,000 companions asleep: share of one processor",
        f"{share:.2%}",
        "one percent",
        share / 0.01,
        1,
        at_least=False,
    )
