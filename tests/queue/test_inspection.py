"""What a person can see of the bus, and do about it."""

from collections.abc import Mapping
from typing import Any

import pytest

from silas.queue import MessageInWork, MessageRefused, MessageUnknown, QueueName, QueueStore
from silas.queue.inspection import QueueInspector
from silas.storage import SqliteDatabase, Transaction
from silas.testing import FakeClock
from tests.queue.messages import message, plan_request

PROXY, PLANNER = QueueName.PROXY, QueueName.PLANNER


@pytest.fixture
def recorded() -> list[tuple[str, Mapping[str, Any]]]:
    return []


@pytest.fixture
def inspector(
    database: SqliteDatabase, clock: FakeClock, recorded: list[tuple[str, Mapping[str, Any]]]
) -> QueueInspector:
    def record(_tx: Transaction, event: str, data: Mapping[str, Any]) -> None:
        recorded.append((event, data))

    return QueueInspector(database, clock=clock, record=record)


async def bury(store: QueueStore, name: str) -> None:
    await store.enqueue(plan_request(name))
    lease = await store.lease(PLANNER, consumer="planner")
    assert lease is not None
    await store.dead_letter(lease, reason="It makes no sense.")


async def test_everything_can_be_seen(store: QueueStore, inspector: QueueInspector) -> None:
    await store.enqueue(message("first"))
    await store.enqueue(message("second"))
    await store.lease(PROXY, consumer="proxy")
    await bury(store, "third")
    states = [(each.message_id, each.state, each.consumer) for each in await inspector.queued()]
    assert states == [("first", "leased", "proxy"), ("second", "waiting", None)]
    assert [each.message_id for each in await inspector.queued(state="waiting")] == ["second"]
    assert await inspector.queued(queue=PLANNER) == []
    [dead] = await inspector.dead()
    assert (dead.message_id, dead.reason) == ("third", "It makes no sense.")
    assert dead.message() == plan_request("third")
    assert await inspector.show("third") == dead
    assert (await inspector.show("first")).state == "leased"
    with pytest.raises(MessageUnknown):
        await inspector.show("fourth")


async def test_a_dead_letter_is_tried_again_as_if_it_were_new(
    store: QueueStore, inspector: QueueInspector, recorded: list[tuple[str, Mapping[str, Any]]]
) -> None:
    await bury(store, "m")
    await inspector.requeue("m")
    lease = await store.lease(PLANNER, consumer="planner")
    assert lease is not None
    assert (lease.message.message_id, lease.attempt) == ("m", 1)
    assert await inspector.dead() == []
    assert recorded == [("queue_message_requeued", {"message_id": "m"})]
    with pytest.raises(MessageUnknown):
        await inspector.requeue("m")


async def test_what_cannot_be_requeued_stays_where_it_is(
    store: QueueStore, inspector: QueueInspector, database: SqliteDatabase
) -> None:
    await bury(store, "done")
    await store.mark_processed("planner", "done")
    await bury(store, "damaged")
    await database.execute("UPDATE dead_letters SET body = '{' WHERE message_id = 'damaged'")
    for name in ("done", "damaged"):
        with pytest.raises(MessageRefused, match="silas queue drop"):
            await inspector.requeue(name)
    assert len(await inspector.dead()) == 2
    assert (await inspector.show("damaged")).message() is None


async def test_dropping_never_takes_work_away_and_lets_the_next_come(
    store: QueueStore, inspector: QueueInspector
) -> None:
    await store.enqueue(message("first"))
    await store.enqueue(message("second"))
    lease = await store.lease(PROXY, consumer="proxy")
    assert lease is not None
    with pytest.raises(MessageInWork):
        await inspector.drop("first")
    await store.release(lease)
    await inspector.drop("first")
    after = await store.lease(PROXY, consumer="proxy")
    assert after is not None
    assert after.message.message_id == "second"
    await bury(store, "third")
    await inspector.drop("third")
    with pytest.raises(MessageUnknown):
        await inspector.drop("third")


async def test_telemetry_of_depth_wait_lease_time_and_expiry(
    store: QueueStore, inspector: QueueInspector, clock: FakeClock
) -> None:
    await store.enqueue(plan_request("m"))
    clock.advance(seconds=3)
    await store.lease(PLANNER, consumer="slow", seconds=10)
    clock.advance(seconds=10)
    again = await store.lease(PLANNER, consumer="planner")
    assert again is not None
    clock.advance(seconds=2)
    await store.finish(again, consumer="planner")
    await store.enqueue(plan_request("n"))
    stats = {each.queue: each for each in await inspector.stats()}
    planner = stats["planner_queue"]
    assert planner.depth == {"ready": 1}
    assert planner.oldest == "2026-01-01T12:00:15.000000Z"
    assert planner.processed is not None
    assert planner.processed.count == 1
    assert planner.processed.mean_wait == 0.0
    assert planner.processed.longest_lease == 2.0
    assert (planner.processed.redeliveries, planner.processed.expiries) == (1, 1)
    assert stats["proxy_queue"].processed is None
    assert (await store.depth())[PLANNER] == 1
