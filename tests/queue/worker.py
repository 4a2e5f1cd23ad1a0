"""What other processes do to the same bus; `test_processes.py` starts and kills them."""

import asyncio
from multiprocessing.connection import Connection
from pathlib import Path

from silas.kernel import IdFactory, SystemClock
from silas.queue import Bus, Consumer, Handled, Lease, QueueName, QueueStore, RetryPolicy
from silas.storage import SqliteDatabase
from tests.queue.messages import answer, plan_request

EFFECTS = "CREATE TABLE IF NOT EXISTS effects (stage TEXT, conversation TEXT)"


def open_store(path: Path, holder: str) -> tuple[SqliteDatabase, QueueStore]:
    """The store of one process."""
    database, clock = SqliteDatabase.open(path), SystemClock()
    ids, bus = IdFactory(clock), Bus(poll_seconds=0.005)
    # On a slow machine, many processes are killed before they get far with the same message.
    policy = RetryPolicy(max_attempts=10_000)
    return database, QueueStore(
        database, clock=clock, ids=ids, holder=holder, bus=bus, policy=policy
    )


def conversation(store: QueueStore) -> list[Consumer]:
    """Proxy, planner and channel: each writes down what it did."""

    def stage(name: str, queue: QueueName) -> Consumer:
        async def handle(lease: Lease) -> Handled:
            number = lease.message.message_id.split("-")[0]
            following = {
                "proxy": (plan_request(f"{number}-2", trace_id=lease.message.trace_id),),
                "planner": (answer(f"{number}-3", trace_id=lease.message.trace_id),),
                "channel": (),
            }[name]
            sql = "INSERT INTO effects VALUES (?, ?)"
            return Handled(following, (lambda tx: tx.execute(sql, (name, number)),))

        return Consumer(name, queue, handle, store, concurrency=4)

    return [
        stage("proxy", QueueName.PROXY),
        stage("planner", QueueName.PLANNER),
        stage("channel", QueueName.CHANNEL),
    ]


def converse(path: Path, said: Connection, holder: str) -> None:
    """Serve all three queues until killed; says when it begins."""

    async def work() -> None:
        _, store = open_store(path, holder)
        await store.recover(alive=lambda other: other == holder)
        said.send("begun")
        await asyncio.gather(*(consumer.run() for consumer in conversation(store)))

    asyncio.run(work())


def lease_all(path: Path, said: Connection, holder: str) -> None:
    """Lease and finish until the queues are empty; says what was got, in order."""

    async def work() -> list[str]:
        database, store = open_store(path, holder)
        got: list[str] = []
        while True:
            leases = await store.lease_many(QueueName.PROXY, consumer="c", limit=3)
            if not leases and not (await store.depth())[QueueName.PROXY]:
                break
            for lease in leases:
                got.append(lease.message.message_id)
                await store.finish(lease, consumer="c")
        await database.close()
        return got

    said.send(asyncio.run(work()))
