"""The lines *wake* and *companion log*.

*wake* says who waits for a change among 100,000 subscriptions, and what 10,000 sleepers cost. Its
floor is a plain dict of sets that is handed its keys; Silas is handed typed tokens. Beside it is
the same question to the indexed table that the index is made from.

*companion log* says what remembering costs when the log is long, and what one more message adds.
Both companions have lived through the same forty runs before, so that both have summaries to tell;
the thread in which they are woken is short or long.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import apsw

from evals.bench.measure import Line, medians, milliseconds, per_second
from silas.app.companions import build_companions
from silas.companions.compaction import Compactor
from silas.companions.ids import run_thread, session_thread, state_id
from silas.companions.log import MemoryAssembler, MessageLog
from silas.companions.messages import MessageDraft, RunOutcome
from silas.companions.models import (
    AgentLifecycle,
    AgentMessageKind,
    AgentState,
    AgentSubscription,
    AgentTimer,
    Companion,
    TimerKind,
)
from silas.companions.store import TABLES, CompanionStore, upsert
from silas.companions.wake.orchestrator import TokenIndex
from silas.journal.notifications import TypedToken, entity
from silas.journal.store import Journal
from silas.kernel import IdFactory, SystemClock
from silas.kernel.models import Data
from silas.queue import QueueStore
from silas.storage import SqliteDatabase, Transaction, load_migrations, migrate
from silas.testing import RecordingAudit
from silas.testing.companions import UnsafeNoGates

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


async def _nobody(*_given: object) -> RunOutcome:
    """Is never called: everybody sleeps."""
    raise RuntimeError("nobody was to be woken")


async def measure_wake(folder: Path) -> list[Line]:
    """The lines of this topic."""
    clock = SystemClock()
    database = await _open(folder / "agent.db", "agent")
    store = CompanionStore(database, clock=clock, ids=IdFactory(clock), host_id="bench")
    await _wake_fill(store)
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


async def _wake_fill(store: CompanionStore) -> None:
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
    """The processor time of a runtime in which 10,000 companions wait for tomorrow."""
    runtime = await _open(folder / "silas.db", "runtime")
    written = await _open(folder / "journal.db", "journal")
    journal = await Journal.open(written, clock=store.clock, ids=store.ids)
    queue = QueueStore(runtime, clock=store.clock, ids=store.ids, holder="bench")
    waking = build_companions(
        store,
        journal,
        queue=queue,
        gateway=None,
        approvals=None,
        secret_available=None,
        time_zone=lambda: "UTC",
        gates=UnsafeNoGates(),
        audit=RecordingAudit(),
        talked=None,
        run=_nobody,
    )
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


_SHORT, _LONG = 100, 10_000
_READS = 20
_ROUNDS = 31
_AT_ONCE = 500
_RUNS_BEFORE = 40
_MESSAGES_OF_A_RUN = 20
_SIZE = """
SELECT (SELECT sum(length(body)) FROM agent_messages WHERE agent_id = ?)
    + (SELECT sum(length(body)) FROM agent_message_payloads WHERE agent_id = ?)
    + (SELECT sum(length(body)) FROM agent_links WHERE agent_id = ?)
"""


async def measure_companion_log(folder: Path) -> list[Line]:
    """The lines of this topic."""
    clock = SystemClock()
    database = SqliteDatabase.open(folder / "agent.db")
    await migrate(database, load_migrations("agent"), clock=clock)
    store = CompanionStore(database, clock=clock, ids=IdFactory(clock), host_id="bench")
    try:
        added = {
            name: await _companion_log_fill(store, name, count) for name, count in _LENGTHS.items()
        }
        found = await medians({name: _reading(store, name) for name in _LENGTHS}, repeat=_ROUNDS)
    finally:
        await database.close()
    return [
        Line(
            "companion log",
            f"assemble what is remembered: {_LONG:,} messages in the thread",
            milliseconds(found["long"]),
            f"{_SHORT} messages {milliseconds(found['short'])}",
            found["long"] / found["short"],
            1.2,
            at_least=False,
        ),
        Line(
            "companion log",
            f"bytes that one more message adds after {_LONG:,}",
            f"{added['long']} bytes",
            f"after {_SHORT}: {added['short']} bytes",
            added["long"] / added["short"],
            1.1,
            at_least=False,
        ),
    ]


_LENGTHS = {"short": _SHORT, "long": _LONG}


async def _companion_log_fill(store: CompanionStore, name: str, count: int) -> int:
    """Write the log and its summaries; returns the bytes that one more message adds."""
    now = store.clock.now()
    await store.put(
        Companion(
            id=name,
            kind="planner",
            display_name=name,
            lifecycle=AgentLifecycle.ACTIVE,
            current_state_id=state_id(name),
            created_at=now,
            updated_at=now,
        )
    )
    await store.put(AgentState(id=state_id(name), agent_id=name, updated_at=now))
    compactor = Compactor(store)
    for run in range(_RUNS_BEFORE):
        before = run_thread(name, f"{run}")
        await _append(store, [_draft(name, before, n) for n in range(_MESSAGES_OF_A_RUN)])
        await compactor.consider(name, before, ended=True)
        await compactor.work()
    thread = session_thread(name, "1")
    for first in range(0, count, _AT_ONCE):
        some = range(first, min(count, first + _AT_ONCE))
        await _append(store, [_draft(name, thread, number) for number in some])
        while await compactor.consider(name, thread, ended=False):
            await compactor.work()
    size = await _size(store, name)
    await _append(store, [_draft(name, thread, count)])
    return await _size(store, name) - size


async def _append(store: CompanionStore, drafts: list[MessageDraft]) -> None:
    await store.transaction(lambda tx: MessageLog(store).append_in(tx, drafts))


def _draft(name: str, thread: str, number: int) -> MessageDraft:
    return MessageDraft(
        agent_id=name,
        thread_id=thread,
        kind=AgentMessageKind.OBSERVATION,
        content={"text": f"{number:06} " + "something was done about the squats. " * 4},
    )


async def _size(store: CompanionStore, name: str) -> int:
    row = await store.database.fetch_one(_SIZE, (name, name, name))
    return int(row[0]) if row else 0


def _reading(store: CompanionStore, name: str) -> Callable[[], Awaitable[float]]:
    assembler, thread = MemoryAssembler(store), session_thread(name, "1")

    async def read() -> float:
        # Processor time: a read is so short that other programs would decide the ratio.
        begun = time.process_time()
        for _ in range(_READS):
            await assembler.assemble(name, thread)
        return (time.process_time() - begun) / _READS

    return read
