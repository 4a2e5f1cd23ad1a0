"""Consumers keep the contract of the bus, whatever their handlers do."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from silas.kernel import DatabaseError, LlmError
from silas.queue import (
    Agent,
    Consumer,
    Handled,
    Handler,
    Lease,
    MessageKind,
    NotWorthRetrying,
    QueueName,
    QueueStore,
)
from silas.queue.errors import NotYet
from silas.storage import SqliteDatabase
from silas.testing import FakeClock
from tests.queue.messages import answer, message, plan_request

PROXY, PLANNER, CHANNEL = QueueName.PROXY, QueueName.PLANNER, QueueName.CHANNEL


@asynccontextmanager
async def running(*consumers: Consumer) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(consumer.run()) for consumer in consumers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(120):
        while not await condition():  # noqa: ASYNC110 - a row is no event
            await asyncio.sleep(0.001)


Make = Callable[..., Consumer]


@pytest.fixture
def consumer(store: QueueStore) -> Make:
    def make(handler: Handler, queue: QueueName = PROXY, **more: object) -> Consumer:
        return Consumer("c", queue, handler, store, **more)  # type: ignore[arg-type]

    return make


async def reasons(database: SqliteDatabase) -> list[str]:
    return [row[0] for row in await database.fetch_all("SELECT reason FROM dead_letters")]


async def test_a_conversation_runs_over_three_queues_and_keeps_its_trace(
    store: QueueStore, database: SqliteDatabase
) -> None:
    heard: list[tuple[str, str]] = []

    async def proxy(lease: Lease) -> Handled:
        return Handled((plan_request("m2", trace_id=lease.message.trace_id),))

    async def planner(lease: Lease) -> Handled:
        return Handled((answer("m3", trace_id=lease.message.trace_id),))

    async def channel(lease: Lease) -> Handled:
        heard.append((lease.message.message_id, lease.message.trace_id))
        return Handled()

    handlers = {PROXY: proxy, PLANNER: planner, CHANNEL: channel}
    consumers = [Consumer(q.value, q, h, store) for q, h in handlers.items()]
    async with running(*consumers):
        await store.enqueue(message("m1", trace_id="trace_9"))

        async def answered() -> bool:
            return bool(heard) and await store.has_processed("channel_queue", "m3")

        await until(answered)
    assert heard == [("m3", "trace_9")]
    assert await database.fetch_all("SELECT 1 FROM queue_messages") == []


async def test_what_is_to_be_done_later_comes_back_then_and_has_not_failed(
    store: QueueStore, consumer: Make, clock: FakeClock, database: SqliteDatabase
) -> None:
    seen: list[int] = []
    until_then = clock.now() + timedelta(days=3)

    async def later(lease: Lease) -> Handled:
        seen.append(lease.attempt)
        if clock.now() < until_then:
            raise NotYet(until_then)
        return Handled()

    await store.enqueue(message("m1"))
    working = consumer(later)
    for _ in range(4):
        await working.run_until_empty()
    assert seen == [1], "it waits, and is not tried again and again"
    clock.advance(days=3)
    await working.run_until_empty()
    assert seen == [1, 1]
    assert await reasons(database) == []


async def test_what_was_processed_before_is_ended_and_not_done_again(
    store: QueueStore, consumer: Make, database: SqliteDatabase
) -> None:
    async def never(_lease: Lease) -> Handled:
        raise AssertionError

    await store.enqueue(message())
    await store.mark_processed("c", "msg_1")
    await consumer(never).run_until_empty()
    assert await database.fetch_all("SELECT 1 FROM queue_messages") == []
    assert await reasons(database) == []


async def test_a_write_that_fails_takes_everything_back(
    store: QueueStore, consumer: Make, database: SqliteDatabase, clock: FakeClock
) -> None:
    await database.execute("CREATE TABLE effects (what TEXT)")
    tries: list[int] = []

    async def handle(lease: Lease) -> Handled:
        tries.append(lease.attempt)
        second = "INSERT INTO effects VALUES ('two')" if len(tries) > 1 else "INSERT INTO nowhere"
        return Handled(
            (plan_request("m2"),),
            (
                lambda tx: tx.execute("INSERT INTO effects VALUES ('one')"),
                lambda tx: tx.execute(second),
            ),
        )

    await store.enqueue(message())
    await consumer(handle).run_until_empty()
    assert await database.fetch_all("SELECT what FROM effects") == []
    assert not await store.has_processed("c", "msg_1")
    clock.advance(seconds=5)
    await consumer(handle).run_until_empty()
    assert tries == [1, 2]
    assert await database.fetch_all("SELECT what FROM effects") == [("one",), ("two",)]
    assert await database.fetch_all("SELECT message_id FROM queue_messages") == [("m2",)]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LlmError("The model is away."), "It was tried 5 times. The last time: The model is away."),
        (ZeroDivisionError("by zero"), "The last time: ZeroDivisionError: by zero"),
    ],
)
async def test_a_handler_that_always_fails_leaves_a_sentence(
    store: QueueStore,
    consumer: Make,
    database: SqliteDatabase,
    clock: FakeClock,
    error: Exception,
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)

    async def fails(_lease: Lease) -> Handled:
        raise error

    await store.enqueue(message("m1"))
    for _ in range(5):
        await consumer(fails).run_until_empty()
        clock.advance(minutes=2)
    [reason] = await reasons(database)
    assert told in reason


async def test_what_is_hopeless_is_given_up_at_once(
    store: QueueStore, consumer: Make, database: SqliteDatabase
) -> None:
    async def hopeless(_lease: Lease) -> Handled:
        raise NotWorthRetrying("This goal was deleted.")

    await store.enqueue(message())
    await consumer(hopeless).run_until_empty()
    assert await reasons(database) == ["This goal was deleted."]


async def test_a_handler_that_sends_what_nobody_receives_is_told_in_the_dead_letter(
    store: QueueStore, consumer: Make, database: SqliteDatabase
) -> None:
    async def lost(_lease: Lease) -> Handled:
        return Handled((plan_request("m2", sender=Agent.EXECUTOR),))

    await store.enqueue(message())
    await consumer(lost).run_until_empty()
    [reason] = await reasons(database)
    assert MessageKind.PLAN_REQUEST in reason
    assert "executor" in reason


async def test_a_consumer_that_is_stopped_gives_its_work_back_at_once(
    store: QueueStore, consumer: Make
) -> None:
    begun = asyncio.Event()

    async def long(_lease: Lease) -> Handled:
        begun.set()
        await asyncio.Event().wait()
        return Handled()

    await store.enqueue(message())
    async with running(consumer(long)):
        await asyncio.wait_for(begun.wait(), 120)
    lease = await store.lease(PROXY, consumer="c")
    assert lease is not None
    assert lease.attempt == 1


async def test_a_lease_is_held_while_the_handler_works(
    store: QueueStore, consumer: Make, database: SqliteDatabase
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def long(_lease: Lease) -> Handled:
        begun.set()
        await go_on.wait()
        return Handled()

    async def ends() -> str:
        row = await database.fetch_one("SELECT due_at FROM queue_messages")
        return str(row and row[0])

    await store.enqueue(message())
    async with running(consumer(long, lease_seconds=0.01)):
        await asyncio.wait_for(begun.wait(), 120)
        await database.execute("UPDATE queue_messages SET due_at = '2025'")

        async def renewed() -> bool:
            return await ends() > "2026"

        await until(renewed)
        go_on.set()

        async def done() -> bool:
            return await store.has_processed("c", "msg_1")

        await until(done)


async def test_a_handler_whose_lease_is_lost_is_stopped(
    store: QueueStore, consumer: Make, database: SqliteDatabase
) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def long(_lease: Lease) -> Handled:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return Handled()

    await store.enqueue(message())
    async with running(consumer(long, lease_seconds=0.01)):
        await asyncio.wait_for(begun.wait(), 120)
        await database.execute("UPDATE queue_messages SET lease_id = 'of another'")
        await asyncio.wait_for(stopped.wait(), 120)


async def test_no_more_are_handled_at_once_than_asked(store: QueueStore, consumer: Make) -> None:
    now, most = 0, 0

    async def count(_lease: Lease) -> Handled:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return Handled()

    for number in range(30):
        await store.enqueue(plan_request(f"m{number}"))
    await consumer(count, PLANNER, concurrency=4).run_until_empty()
    assert most == 4


async def test_a_database_that_fails_for_a_while_stops_no_consumer(
    store: QueueStore, consumer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = asyncio.Event()

    async def handle(_lease: Lease) -> Handled:
        done.set()
        return Handled()

    lease_many, failures = store.lease_many, [DatabaseError("The disk is full.")]

    async def sometimes(*args: object, **kwargs: object) -> list[Lease]:
        if failures:
            raise failures.pop()
        return await lease_many(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "lease_many", sometimes)
    monkeypatch.setattr("silas.queue.consumer._PAUSE_AFTER_ERROR_SECONDS", 0)
    async with running(consumer(handle)):
        await store.enqueue(message())
        await asyncio.wait_for(done.wait(), 120)


async def test_a_hundred_scopes_at_once_each_in_its_order(
    store: QueueStore, consumer: Make
) -> None:
    seen: dict[str, list[int]] = {}

    async def note(lease: Lease) -> Handled:
        await asyncio.sleep(0)
        seen.setdefault(lease.message.scope_id, []).append(int(lease.message.content))
        return Handled()

    for number in range(5):
        sent = [
            store.enqueue(message(f"{scope}-{number}", scope_id=f"s{scope}", content=str(number)))
            for scope in range(100)
        ]
        await asyncio.gather(*sent)
    others = [consumer(note, concurrency=16) for _ in range(3)]
    await asyncio.gather(*(each.run_until_empty() for each in others))
    await consumer(note).run_until_empty()
    assert len(seen) == 100
    assert all(order == [0, 1, 2, 3, 4] for order in seen.values())


async def test_a_clock_that_jumps_lets_nobody_do_the_same_message_twice_at_once(
    store: QueueStore, database: SqliteDatabase, clock: FakeClock, consumer: Make
) -> None:
    """The machine slept: the lease has run out, and the work under it still goes on."""
    busy: list[int] = []
    most: list[int] = []
    release = asyncio.Event()

    async def slow(lease: Lease) -> Handled:
        busy.append(1)
        most.append(len(busy))
        try:
            await release.wait()
        finally:
            busy.pop()
        return Handled()

    await store.enqueue(message("m1"))
    async with running(consumer(slow, concurrency=4)):
        await until(lambda: _is(len(most) == 1))
        clock.advance(hours=1)
        store.bus.notify((PROXY,))
        await until(lambda: _is(len(most) == 2))
        assert most == [1, 1]
        release.set()
        await until(lambda: _empty(store))
    assert await reasons(database) == []


async def _is(true: bool) -> bool:
    return true


async def _empty(store: QueueStore) -> bool:
    return not any((await store.depth()).values())


async def test_a_lease_that_fails_in_an_unknown_way_does_not_keep_a_consumer_from_stopping(
    store: QueueStore, consumer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> list[Lease]:
        raise RuntimeError("nobody thought of this")

    async def never(lease: Lease) -> Handled:
        return Handled()

    monkeypatch.setattr(store, "lease_many", broken)
    async with asyncio.timeout(120):
        with pytest.raises(RuntimeError, match="nobody thought"):
            await consumer(never).run()
