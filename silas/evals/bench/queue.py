"""The line *queue*: a message in, leased, done; and back and forth between two consumers."""

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import apsw
import litequeue
import persistqueue

from silas.evals.bench.measure import Line, medians, milliseconds, per_second
from silas.kernel import IdFactory, SystemClock, TaintLevel
from silas.queue import Agent, Consumer, Handled, Lease, MessageKind, QueueName, QueueStore, follow
from silas.queue.models import PlanRequest, QueueMessage, ResearchRequest, ResearchResult
from silas.storage import SqliteDatabase, load_migrations, migrate

_BODY = "x" * 1024
_CALLERS = 100
# Short rounds, many of them: what else the machine does then hits all contenders alike.
_ROUNDS = 15
_CYCLES = 1000
_PEER_CYCLES = 300
_HOPS = 200
_POLL_SECONDS = 0.0001
_CLOCK = SystemClock()
_IDS = IdFactory(_CLOCK)


async def measure(folder: Path) -> list[Line]:
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
            "raw": lambda: of(lambda: _raw(raw)),
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
        for peer, goal in (("litequeue", 3), ("persist-queue", 10))
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
    await asyncio.gather(*(caller() for _ in range(_CALLERS)))
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
        content=_BODY,
        payload=payload,
        ids=_IDS,
        clock=_CLOCK,
    )
    return Handled((message,))


def _request() -> QueueMessage:
    return QueueMessage(
        message_id=_IDS.new("msg"),
        trace_id=_IDS.new("trace"),
        content=_BODY,
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
    queue.put(_BODY)
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
    first.put(_BODY)
    first.conn.close()
    threads = [Thread(target=consume, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statistics.median(later - earlier for earlier, later in itertools.pairwise(moments))


def _persist(queue: persistqueue.SQLiteAckQueue) -> None:
    queue.put(_BODY)
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


def _raw(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO messages (taken, body) VALUES (0, ?)", (_BODY,))
    [(row,)] = connection.execute(
        "UPDATE messages SET taken = 1 WHERE id = "
        "(SELECT id FROM messages WHERE taken = 0 ORDER BY id LIMIT 1) RETURNING id"
    ).fetchall()
    connection.execute("DELETE FROM messages WHERE id = ?", (row,))
