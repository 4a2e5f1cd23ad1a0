"""Several processes on one database, and processes that are killed."""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from silas.kernel import SystemClock
from silas.queue import QueueName
from silas.storage import load_migrations, migrate
from tests.chaos import FORKED
from tests.queue import worker
from tests.queue.messages import message

KILLS = 40


def start(target: Callable[..., None], path: Path, holder: str):
    ours, theirs = FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=target, args=(path, theirs, holder))
    process.start()
    theirs.close()
    return process, ours


async def prepare(path: Path, names: list[tuple[str, str]]):
    database, store = worker.open_store(path, "test")
    await migrate(database, load_migrations("runtime"), clock=SystemClock())
    await database.execute(worker.EFFECTS)
    sent = [store.enqueue(message(name, scope_id=scope)) for name, scope in names]
    assert all(await asyncio.gather(*sent))
    return database, store


async def test_two_processes_share_a_queue_without_sharing_a_message(tmp_path: Path) -> None:
    path = tmp_path / "silas.db"
    names = [(f"{scope}-{number}", f"s{scope}") for number in range(20) for scope in range(10)]
    database, store = await prepare(path, names)
    started = [start(worker.lease_all, path, f"p{number}") for number in range(2)]
    got = [await asyncio.to_thread(pipe.recv) for _, pipe in started]
    for process, _ in started:
        await asyncio.to_thread(process.join)
    assert sorted(got[0] + got[1]) == sorted(name for name, _ in names)
    for each in got:
        for scope in range(10):
            mine = [int(name.split("-")[1]) for name in each if name.startswith(f"{scope}-")]
            assert mine == sorted(mine)
    assert set((await store.depth()).values()) == {0}
    await database.close()


@pytest.mark.slow
async def test_killed_at_any_moment_every_message_is_answered_once(tmp_path: Path) -> None:
    path, chance = tmp_path / "silas.db", random.Random(2026)
    numbers = range(KILLS * 3)
    database, store = await prepare(path, [])

    async def effects() -> int:
        return len(await database.fetch_all("SELECT 1 FROM effects"))

    async def more_than(before: int) -> None:
        async with asyncio.timeout(120):
            while await effects() <= before:  # noqa: ASYNC110 - a row is no event
                await asyncio.sleep(0.001)

    for kill in range(KILLS):
        process, pipe = start(worker.converse, path, f"p{kill}")
        await asyncio.to_thread(pipe.recv)
        before = await effects()
        for number in range(3 * kill, 3 * kill + 3):
            # A few scopes, so that messages wait for each other as well.
            await store.enqueue(message(f"{number}-1", scope_id=f"s{number % 4}"))
        # Half of them at any moment, half in the middle of their work, however slow the machine is.
        if kill % 2:
            await more_than(before)
        await asyncio.sleep(chance.uniform(0, 0.012))
        process.kill()
        await asyncio.to_thread(process.join)
    process, _ = start(worker.converse, path, "last")
    deadline = time.monotonic() + 300
    while any((await store.depth()).values()) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    process.kill()
    await asyncio.to_thread(process.join)
    assert await database.fetch_all("SELECT reason FROM dead_letters") == []
    done = await database.fetch_all("SELECT stage, conversation FROM effects")
    expected = {(s, str(n)) for s in ("proxy", "planner", "channel") for n in numbers}
    assert len(done) == len(expected)
    assert set(done) == expected
    assert (await store.depth())[QueueName.PROXY] == 0
    await database.close()
