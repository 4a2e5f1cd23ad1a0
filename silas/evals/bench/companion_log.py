"""A companion's log: what remembering costs when it is long, and what one more message adds.

Both companions have lived through the same forty runs before, so that both have summaries to tell;
the thread in which they are woken is short or long.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from silas.companions.compaction.compactor import Compactor
from silas.companions.ids import run_thread, session_thread, state_id
from silas.companions.log import MessageLog
from silas.companions.memory import MemoryAssembler
from silas.companions.models import (
    AgentLifecycle,
    AgentMessageKind,
    AgentState,
    Companion,
    MessageDraft,
)
from silas.companions.store import CompanionStore
from silas.evals.bench.measure import Line, medians, milliseconds
from silas.kernel import IdFactory, SystemClock
from silas.storage import SqliteDatabase, load_migrations, migrate

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


async def measure(folder: Path) -> list[Line]:
    """The lines of this topic."""
    clock = SystemClock()
    database = SqliteDatabase.open(folder / "agent.db")
    await migrate(database, load_migrations("agent"), clock=clock)
    store = CompanionStore(database, clock=clock, ids=IdFactory(clock), host_id="bench")
    try:
        added = {name: await _fill(store, name, count) for name, count in _LENGTHS.items()}
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


async def _fill(store: CompanionStore, name: str, count: int) -> int:
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
    log, compactor = MessageLog(store), Compactor(store)
    for run in range(_RUNS_BEFORE):
        before = run_thread(name, f"{run}")
        await log.append([_draft(name, before, number) for number in range(_MESSAGES_OF_A_RUN)])
        await compactor.consider(name, before, ended=True)
        await compactor.work()
    thread = session_thread(name, "1")
    for first in range(0, count, _AT_ONCE):
        some = range(first, min(count, first + _AT_ONCE))
        await log.append([_draft(name, thread, number) for number in some])
        while await compactor.consider(name, thread, ended=False):
            await compactor.work()
    size = await _size(store, name)
    await log.append([_draft(name, thread, count)])
    return await _size(store, name) - size


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
