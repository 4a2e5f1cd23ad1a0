"""The lines *storage* and *queue*.

*storage* is one small transaction, through our driver and through others; *queue* is a message in,
leased, done, and back and forth between two consumers.
"""

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import aiosqlite
import apsw
import litequeue
import persistqueue

from evals.bench.measure import Line, medians, milliseconds, per_second, rate_of
from silas.kernel import IdFactory, SystemClock, TaintLevel
from silas.queue import Agent, Consumer, Handled, Lease, MessageKind, QueueName, QueueStore, follow
from silas.queue.models import PlanRequest, QueueMessage, ResearchRequest, ResearchResult
from silas.storage import Durability, SqliteDatabase, load_migrations, migrate

_TABLE = "CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, body BLOB)"
_INSERT = "INSERT INTO messages (body) VALUES (?)"
_STORAGE_BODY = b"x" * 1024
_STORAGE_CALLERS = 100


async def measure_storage(folder: Path) -> list[Line]:
    """Ratios of the driver at a hundred callers and at one."""
    database = SqliteDatabase.open(folder / "silas.db")
    await database.execute(_TABLE)
    peer = await aiosqlite.connect(folder / "peer.db", isolation_level=None)
    await peer.executescript(
        f"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=5000; {_TABLE}"
    )
    turn = asyncio.Lock()  # aiosqlite's transactions would otherwise run into each other

    async def ours(durability: Durability) -> None:
        await database.execute(_INSERT, (_STORAGE_BODY,), durability=durability)

    async def theirs() -> None:
        async with turn:
            await peer.execute("BEGIN IMMEDIATE")
            await peer.execute(_INSERT, (_STORAGE_BODY,))
            await peer.execute("COMMIT")

    got = await medians(
        {
            "raw": lambda: _storage_raw(folder / "raw.db"),
            "sync": lambda: _sync(folder / "sync"),
            "normal": lambda: rate_of(_STORAGE_CALLERS, 40, lambda: ours(Durability.ORDINARY)),
            "full": lambda: rate_of(_STORAGE_CALLERS, 40, lambda: ours(Durability.TRUST)),
            "aiosqlite": lambda: rate_of(_STORAGE_CALLERS, 10, theirs),
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
            file.write(_STORAGE_BODY * _STORAGE_CALLERS)
            os.fsync(file.fileno())
        return 20 / (time.perf_counter() - begun)


async def _storage_raw(path: Path) -> float:
    connection = apsw.Connection(str(path))
    # A pragma that answers would keep the rest of the script waiting until its row is read.
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute(f"PRAGMA synchronous=NORMAL; {_TABLE}")
    begun = time.perf_counter()
    for _ in itertools.repeat(None, 1000):
        connection.execute(_INSERT, (_STORAGE_BODY,))
    rate = 1000 / (time.perf_counter() - begun)
    connection.close()
    return rate


_QUEUE_BODY = "x" * 1024
_QUEUE_CALLERS = 100
# Short rounds, many of them: what else the machine does then hits all contenders alike.
_ROUNDS = 15
_CYCLES = 1000
_PEER_CYCLES = 300
_HOPS = 200
_POLL_SECONDS = 0.0001
_CLOCK = SystemClock()
_IDS = IdFactory(_CLOCK)


async def measure_queue(folder: Path) -> list[Line]:
    """Ratios of the bus with a hundred callers, and of the time that one hop takes."""
    database = SqliteDatabase.open(folder / "silas.db")
    await migrate(database, load_migrations("runtime"), clock=_CLOCK)
    store = QueueStore(database, clock=_CLOCK, ids=_IDS)
    lite = litequeue.LiteQueue(str(folder / "lite.db"))
    persist = persistqueue.SQLiteAckQueue(str(folder / "persist"), auto_commit=True)
    raw = _open_raw(folder / "raw.db")

    async def of(cycle: Callable[[], None]) -> float:
        return _PEER_CYCLES / sum(_times(_PEER_CYCLES, cycle))

    got = await medians(
        {
            "ours": lambda: _ours(store),
            "litequeue": lambda: of(lambda: _lite(lite)),
            "persist-queue": lambda: of(lambda: _persist(persist)),
            "raw": lambda: of(lambda: _queue_raw(raw)),
            "our hop": lambda: _ping_pong(store),
            "litequeue hop": lambda: asyncio.to_thread(_lite_ping_pong, folder / "hops.db"),
        },
        repeat=_ROUNDS,
    )
    await database.close()
    persist.close()
    lite.conn.close()
    raw.close()
    return _lines(got)


def _lines(got: dict[str, float]) -> list[Line]:
    ours = per_second(got["ours"])
    floor = f"raw APSW, one caller: {per_second(got['raw'])}"
    rates = [
        Line(
            "queue",
            "100 callers, with marks",
            ours,
            f"{peer} {per_second(got[peer])} ({floor})",
            got["ours"] / got[peer],
            goal,
            at_least=True,
        )
        for peer, goal in (("litequeue", 1.5), ("persist-queue", 5))
    ]
    hop, theirs = got["our hop"], got["litequeue hop"]
    compared = f"litequeue, two threads that poll, {milliseconds(theirs)}"
    what = "ping-pong, one hop"
    return [
        *rates,
        Line("queue", what, milliseconds(hop), compared, hop / theirs, 1, at_least=False),
    ]


async def _ours(store: QueueStore) -> float:
    # Made before, as the peers' text is: it is the queue that is measured.
    messages = iter([_request() for _ in range(_CYCLES)])

    async def caller() -> None:
        for message in messages:
            await store.enqueue(message)
            lease = await store.lease(QueueName.PLANNER, consumer="bench")
            if lease is not None:
                await store.finish(lease, consumer="bench")

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(_QUEUE_CALLERS)))
    return _CYCLES / (time.perf_counter() - begun)


async def _ping_pong(store: QueueStore) -> float:
    """The median time from one handler to the next, through two real consumers."""
    moments: list[float] = []
    over = asyncio.Event()

    async def planner(lease: Lease) -> Handled:
        moments.append(time.perf_counter())
        if len(moments) > _HOPS:
            over.set()
            return Handled()
        payload = ResearchRequest(research_id="r", request_id="q", round=1, deadline=_CLOCK.now())
        return _send(lease, Agent.PLANNER, MessageKind.RESEARCH_REQUEST, payload)

    async def executor(lease: Lease) -> Handled:
        moments.append(time.perf_counter())
        payload = ResearchResult(research_id="r", request_id="q", ok=True)
        return _send(lease, Agent.EXECUTOR, MessageKind.RESEARCH_RESULT, payload)

    consumers = [
        Consumer("planner", QueueName.PLANNER, planner, store),
        Consumer("executor", QueueName.EXECUTOR, executor, store),
    ]
    tasks = [asyncio.create_task(consumer.run()) for consumer in consumers]
    await store.enqueue(_request())
    await over.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return statistics.median(later - earlier for earlier, later in itertools.pairwise(moments))


def _send(
    lease: Lease, sender: Agent, kind: MessageKind, payload: ResearchRequest | ResearchResult
) -> Handled:
    message = follow(
        lease.message,
        sender=sender,
        kind=kind,
        content=_QUEUE_BODY,
        payload=payload,
        ids=_IDS,
        clock=_CLOCK,
    )
    return Handled((message,))


def _request() -> QueueMessage:
    return QueueMessage(
        message_id=_IDS.new("msg"),
        trace_id=_IDS.new("trace"),
        content=_QUEUE_BODY,
        sender=Agent.PROXY,
        message_kind=MessageKind.PLAN_REQUEST,
        scope_id="bench",
        taint=TaintLevel.OWNER,
        created_at=_CLOCK.now(),
        payload=PlanRequest(
            connection_id="bench", interaction_register="execution", interaction_mode="confirm"
        ),
    )


def _times(count: int, cycle: Callable[[], None]) -> list[float]:
    taken = []
    for _ in itertools.repeat(None, count):
        begun = time.perf_counter()
        cycle()
        taken.append(time.perf_counter() - begun)
    return taken


def _lite(queue: litequeue.LiteQueue) -> None:
    queue.put(_QUEUE_BODY)
    queue.done(queue.pop().message_id)


def _lite_ping_pong(path: Path) -> float:
    """The same with two threads. They have to poll; with this pause they are at their fastest."""
    moments: list[float] = []

    def consume(mine_is: str, other_is: str) -> None:
        mine, other = (litequeue.LiteQueue(str(path), queue_name=n) for n in (mine_is, other_is))
        while len(moments) <= _HOPS:
            message = mine.pop()
            if message is None:
                time.sleep(_POLL_SECONDS)
                continue
            moments.append(time.perf_counter())
            other.put(message.data)
            mine.done(message.message_id)
        mine.conn.close()
        other.conn.close()

    first = litequeue.LiteQueue(str(path), queue_name="a")
    litequeue.LiteQueue(str(path), queue_name="b").conn.close()
    first.put(_QUEUE_BODY)
    first.conn.close()
    threads = [Thread(target=consume, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statistics.median(later - earlier for earlier, later in itertools.pairwise(moments))


def _persist(queue: persistqueue.SQLiteAckQueue) -> None:
    queue.put(_QUEUE_BODY)
    queue.ack(queue.get())


def _open_raw(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute(
        "PRAGMA synchronous=NORMAL;"
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, taken INTEGER NOT NULL, body TEXT);"
        "CREATE INDEX free ON messages (id) WHERE taken = 0"
    )
    return connection


def _queue_raw(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO messages (taken, body) VALUES (0, ?)", (_QUEUE_BODY,))
    [(row,)] = connection.execute(
        "UPDATE messages SET taken = 1 WHERE id = "
        "(SELECT id FROM messages WHERE taken = 0 ORDER BY id LIMIT 1) RETURNING id"
    ).fetchall()
    connection.execute("DELETE FROM messages WHERE id = ?", (row,))
