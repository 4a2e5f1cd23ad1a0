"""What the store promises, one promise at a time."""

import asyncio
import threading
from datetime import timedelta

import pytest

from silas.kernel import IdFactory
from silas.queue import (
    LeaseLost,
    MessageRefused,
    NoRoute,
    QueueMessage,
    QueueName,
    QueueStore,
    RetryPolicy,
    Urgency,
)
from silas.queue.models import Agent, MessageKind, SystemEvent
from silas.storage import SqliteDatabase, Transaction
from silas.testing import FakeClock
from tests.queue.messages import FROM_TERMINAL, answer, message, plan_request

PROXY, PLANNER, CHANNEL = QueueName.PROXY, QueueName.PLANNER, QueueName.CHANNEL


async def leased_ids(store: QueueStore, queue: QueueName, count: int = 10) -> list[str]:
    leases = await store.lease_many(queue, consumer="c", limit=count)
    return [lease.message.message_id for lease in leases]


async def test_a_message_comes_out_as_it_went_in(store: QueueStore, clock: FakeClock) -> None:
    sent = plan_request(artifacts={"a": "b"}, plan_markdown="# x", task_id="t")
    assert await store.enqueue(sent)
    clock.advance(seconds=2)
    lease = await store.lease(PLANNER, consumer="planner", seconds=30)
    assert lease is not None
    assert lease.message == sent
    assert (lease.queue, lease.attempt, lease.waited_seconds) == (PLANNER, 1, 2.0)
    assert lease.expires_at == clock.now() + timedelta(seconds=30)
    await store.ack(lease)
    assert await store.lease(PLANNER, consumer="planner") is None


async def test_an_id_is_accepted_once_while_queued_done_or_dead(store: QueueStore) -> None:
    assert await store.enqueue(message("queued"))
    assert not await store.enqueue(message("queued", content="other"))
    await store.enqueue(plan_request("done"))
    lease = await store.lease(PLANNER, consumer="c")
    assert lease is not None
    await store.finish(lease, consumer="c")
    assert not await store.enqueue(plan_request("done"))
    await store.enqueue(plan_request("dead"))
    lease = await store.lease(PLANNER, consumer="c")
    assert lease is not None
    await store.dead_letter(lease, reason="no")
    assert not await store.enqueue(plan_request("dead"))
    assert await leased_ids(store, PLANNER) == []


async def test_what_breaks_the_contract_is_not_queued(store: QueueStore) -> None:
    with pytest.raises(NoRoute, match="user_message from executor"):
        await store.enqueue(message(sender=Agent.EXECUTOR))
    with pytest.raises(MessageRefused, match="user_message carries UserMessage"):
        await store.enqueue(message().model_copy(update={"payload": plan_request().payload}))
    with pytest.raises(MessageRefused):
        await store.enqueue(message().model_copy(update={"trace_id": ""}))
    with pytest.raises(MessageRefused):
        await store.enqueue(QueueMessage.model_construct(message_id="x"))
    with pytest.raises(MessageRefused, match="channel"):
        await store.enqueue(message(payload=FROM_TERMINAL.model_copy(update={"channel": ""})))
    listed = message(artifacts={"a": "b"})
    listed.artifacts["a"] = 1  # type: ignore[assignment]
    with pytest.raises(MessageRefused):
        await store.enqueue(listed)
    assert await leased_ids(store, PROXY) == []


async def test_what_may_hold_anything_is_given_out_as_it_will_always_be_read(
    store: QueueStore,
) -> None:
    event = SystemEvent(event="x", data={"pair": (1, 2), "keys": {1: "one"}})
    kind = {"sender": Agent.RUNTIME, "message_kind": MessageKind.SYSTEM_EVENT, "payload": event}
    await store.enqueue(message(**kind))
    lease = await store.lease(QueueName.RUNTIME, consumer="c")
    assert lease is not None
    assert lease.message.payload == SystemEvent(
        event="x", data={"pair": [1, 2], "keys": {"1": "one"}}
    )


@pytest.mark.parametrize("others", [0, 20])
async def test_the_same_twice_at_the_same_moment_happens_once(
    store: QueueStore, others: int
) -> None:
    """With and without others, because a few are committed elsewhere than many."""
    more = [store.enqueue(plan_request(f"m{number}")) for number in range(others)]
    twice = [store.enqueue(plan_request("twice")) for _ in range(2)]
    assert (await asyncio.gather(*more, *twice))[-2:] == [True, False]
    leases = await store.lease_many(PLANNER, consumer="c", limit=50)
    ending = [store.finish(lease, consumer="c") for lease in (*leases, leases[-1])]
    ended = await asyncio.gather(*ending, return_exceptions=True)
    assert [type(each) for each in ended if each is not None] == [LeaseLost]
    assert len(ended) == others + 2
    assert await store.has_processed("c", "twice")


async def test_a_lease_says_whether_its_consumer_has_processed_it(store: QueueStore) -> None:
    await store.enqueue(plan_request())
    await store.mark_processed("c", "msg_1")
    for consumer, known in (("c", True), ("other", False)):
        lease = await store.lease(PLANNER, consumer=consumer)
        assert lease is not None
        assert lease.processed is known
        await store.release(lease)


async def test_the_more_urgent_comes_first_then_the_older(store: QueueStore) -> None:
    for name, urgency in [
        ("a", Urgency.BACKGROUND),
        ("b", Urgency.INFORMATIONAL),
        ("c", Urgency.NEEDS_ATTENTION),
        ("d", Urgency.INFORMATIONAL),
    ]:
        await store.enqueue(plan_request(name, urgency=urgency))
    assert await leased_ids(store, PLANNER) == ["c", "b", "d", "a"]


async def test_a_scope_comes_one_at_a_time_and_in_order_whatever_the_urgency(
    store: QueueStore,
) -> None:
    await store.enqueue(message("a1", scope_id="a", urgency=Urgency.BACKGROUND))
    await store.enqueue(message("a2", scope_id="a", urgency=Urgency.NEEDS_ATTENTION))
    await store.enqueue(message("b1", scope_id="b"))
    first = await store.lease_many(PROXY, consumer="c", limit=5)
    assert [lease.message.message_id for lease in first] == ["b1", "a1"]
    assert await leased_ids(store, PROXY) == []
    await store.ack(first[1])
    assert await leased_ids(store, PROXY) == ["a2"]


async def test_a_scope_waits_for_its_first_message_also_while_that_is_delayed(
    store: QueueStore, clock: FakeClock
) -> None:
    await store.enqueue(message("first"))
    await store.enqueue(message("second"))
    lease = await store.lease(PROXY, consumer="c")
    assert lease is not None
    await store.nack(lease, reason="not now", delay=10)
    assert await leased_ids(store, PROXY) == []
    clock.advance(seconds=10)
    assert await leased_ids(store, PROXY) == ["first"]


async def test_the_same_scope_in_two_queues_is_two_lanes(store: QueueStore) -> None:
    await store.enqueue(message("in"))
    await store.enqueue(answer("out"))
    assert await leased_ids(store, PROXY) == ["in"]
    assert await leased_ids(store, CHANNEL) == ["out"]


async def test_a_lease_that_runs_out_is_given_to_the_next_and_lost_to_the_first(
    store: QueueStore, clock: FakeClock, database: SqliteDatabase
) -> None:
    await store.enqueue(plan_request())
    slow = await store.lease(PLANNER, consumer="slow", seconds=10)
    assert slow is not None
    clock.advance(seconds=9)
    slow = await store.heartbeat(slow, seconds=10)
    clock.advance(seconds=9)
    assert await store.lease(PLANNER, consumer="quick") is None
    clock.advance(seconds=1)
    quick = await store.lease(PLANNER, consumer="quick")
    assert quick is not None
    assert quick.attempt == 2
    for lost in (
        store.heartbeat(slow),
        store.ack(slow),
        store.nack(slow, reason="x"),
        store.dead_letter(slow, reason="x"),
        store.release(slow),
        store.finish(slow, consumer="slow"),
        database.transaction(lambda tx: store.finish_in(tx, slow, consumer="slow")),
    ):
        with pytest.raises(LeaseLost):
            await lost
    assert not await store.has_processed("slow", "msg_1")
    await store.ack(quick)


async def test_retries_are_bounded_and_further_apart_each_time(
    store: QueueStore, clock: FakeClock, database: SqliteDatabase
) -> None:
    await store.enqueue(plan_request())
    waits = []
    for _ in range(5):
        waited = 0
        while (lease := await store.lease(PLANNER, consumer="c")) is None:
            clock.advance(seconds=1)
            waited += 1
        waits.append(waited)
        await store.nack(lease, reason="The model is away.")
    assert waits == [0, 1, 2, 4, 8]
    clock.advance(days=1)
    assert await store.lease(PLANNER, consumer="c") is None
    assert await database.fetch_one("SELECT reason, attempts, failures FROM dead_letters") == (
        "It was tried 5 times. The last time: The model is away.",
        5,
        5,
    )


async def test_a_message_on_which_everybody_hangs_is_given_up(
    database: SqliteDatabase, clock: FakeClock, ids: IdFactory
) -> None:
    store = QueueStore(database, clock=clock, ids=ids, policy=RetryPolicy(max_failures=2))
    await store.enqueue(message("poison"))
    await store.enqueue(message("next"))
    for _ in range(2):
        assert await leased_ids(store, PROXY) == ["poison"]
        clock.advance(minutes=2)
    assert await leased_ids(store, PROXY) == ["next"]
    row = await database.fetch_one("SELECT reason, expiries FROM dead_letters")
    assert row == (
        "It was tried 2 times. The last time: The lease ran out before the work was done.",
        2,
    )


async def test_what_follows_from_a_dead_letter_is_sent_with_it(
    database: SqliteDatabase, clock: FakeClock, ids: IdFactory
) -> None:
    store = QueueStore(
        database,
        clock=clock,
        ids=ids,
        on_dead_letter=lambda dead, reason, _attempts: [
            answer(f"sorry_{dead.message_id}", content=reason)
        ],
    )
    await store.enqueue(plan_request())
    lease = await store.lease(PLANNER, consumer="c")
    assert lease is not None
    await store.dead_letter(lease, reason="There is no such goal.")
    told = await store.lease(CHANNEL, consumer="c")
    assert told is not None
    assert (told.message.message_id, told.message.content) == (
        "sorry_msg_1",
        "There is no such goal.",
    )


async def test_finishing_joins_effects_mark_ack_and_what_follows(
    store: QueueStore, database: SqliteDatabase
) -> None:
    await database.execute("CREATE TABLE effects (what TEXT)")
    await store.enqueue(message())
    lease = await store.lease(PROXY, consumer="proxy")
    assert lease is not None

    def work(tx: Transaction) -> None:
        tx.execute("INSERT INTO effects VALUES ('one')")
        store.finish_in(tx, lease, consumer="proxy", messages=[plan_request("msg_2")])

    def work_that_fails(tx: Transaction) -> None:
        work(tx)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await database.transaction(work_that_fails)
    assert not await store.has_processed("proxy", "msg_1")
    assert await leased_ids(store, PLANNER) == []
    await database.transaction(work)
    assert await store.has_processed("proxy", "msg_1")
    assert not await store.has_processed("planner", "msg_1")
    assert await leased_ids(store, PLANNER) == ["msg_2"]
    assert await database.fetch_all("SELECT what FROM effects") == [("one",)]


async def test_released_work_is_as_if_it_had_not_been_leased(store: QueueStore) -> None:
    await store.enqueue(plan_request())
    for _ in range(50):
        lease = await store.lease(PLANNER, consumer="c")
        assert lease is not None
        assert lease.attempt == 1
        await store.release(lease)


async def test_recovery_takes_from_the_dead_and_not_from_the_living(
    database: SqliteDatabase, clock: FakeClock, ids: IdFactory
) -> None:
    stores = {
        name: QueueStore(database, clock=clock, ids=ids, holder=name) for name in ("dead", "alive")
    }
    nameless = QueueStore(database, clock=clock, ids=ids)
    for name, store in {**stores, "nameless": nameless}.items():
        await store.enqueue(plan_request(name))
        assert await leased_ids(store, PLANNER) == [name]
    assert await nameless.recover(alive=lambda holder: holder == "alive") == 2
    assert sorted(await leased_ids(nameless, PLANNER)) == ["dead", "nameless"]


async def test_a_message_that_kills_its_reader_does_so_a_limited_number_of_times(
    store: QueueStore, database: SqliteDatabase
) -> None:
    await store.enqueue(message())
    for _ in range(25):
        assert await leased_ids(store, PROXY) == ["msg_1"]
        await store.recover(alive=lambda _: False)
    assert await leased_ids(store, PROXY) == []
    row = await database.fetch_one("SELECT reason FROM dead_letters")
    assert row == ("It was begun 25 times, and each time the process ended.",)


async def test_recovery_sets_a_lane_going_that_stands_still(
    store: QueueStore, database: SqliteDatabase
) -> None:
    await store.enqueue(message("first"))
    await store.enqueue(message("second"))
    await database.execute("DELETE FROM queue_messages WHERE message_id = 'first'")
    assert await leased_ids(store, PROXY) == []
    await store.recover(alive=lambda _: True)
    assert await leased_ids(store, PROXY) == ["second"]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("body = 'nonsense'", "JSON"),
        ("body = '{}'", "is missing"),
        ("body = ''", "JSON"),
        ("body = x'ff'", "JSON"),
        ("body = replace(body, 'plan_request', 'conjuring')", "must be one of"),
        ("body = replace(body, '\"plan_request\"', '[]')", "must be"),
        ("body = replace(body, '\"proxy\"', '\"executor\"')", "Nobody receives"),
        ("body = replace(body, 'msg_1', 'msg_9')", "another message"),
        ("ready_at = 'yesterday'", "yesterday"),
        ("ready_at = '2026-01-01'", "offset-naive"),
    ],
)
async def test_a_damaged_row_becomes_a_dead_letter_and_the_next_is_given_out(
    store: QueueStore, database: SqliteDatabase, damage: str, why: str
) -> None:
    await store.enqueue(plan_request("msg_1"))
    await store.enqueue(plan_request("msg_2"))
    await database.execute(f"UPDATE queue_messages SET {damage} WHERE message_id = 'msg_1'")
    assert await leased_ids(store, PLANNER, 1) == ["msg_2"]
    row = await database.fetch_one("SELECT message_id, reason FROM dead_letters")
    assert row is not None
    assert row[0] == "msg_1"
    assert row[1].startswith("The stored message is damaged and cannot be read: ")
    assert why in row[1]


async def test_marks_are_kept_while_they_are_needed(store: QueueStore, clock: FakeClock) -> None:
    await store.enqueue(plan_request("old"))
    await store.mark_processed("c", "old")
    await store.mark_processed("c", "gone")
    clock.advance(days=1)
    await store.mark_processed("c", "new")
    assert await store.prune_processed(before=clock.now()) == 1
    known = [await store.has_processed("c", name) for name in ("old", "gone", "new")]
    assert known == [True, False, True]


async def test_a_caller_that_gives_up_does_not_take_the_others_with_it(
    store: QueueStore, database: SqliteDatabase
) -> None:
    go_on = threading.Event()
    busy = asyncio.create_task(database.transaction(lambda _tx: go_on.wait(120)))
    await asyncio.sleep(0)
    sending = [asyncio.create_task(store.enqueue(plan_request(f"m{n}"))) for n in range(10)]
    await asyncio.sleep(0)
    sending[3].cancel()
    go_on.set()
    results = await asyncio.gather(*sending, return_exceptions=True)
    assert await busy
    assert sum(result is True for result in results) == 9
    arrived = await leased_ids(store, PLANNER, 20)
    assert set(arrived) == {f"m{n}" for n in range(10) if n != 3}
