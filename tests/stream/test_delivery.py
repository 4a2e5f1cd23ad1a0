"""Whoever listens for answers hears them, and can be sent away at any moment."""

import asyncio
from pathlib import Path

from silas.kernel import IdFactory, TaintLevel
from silas.queue import Consumer, QueueName, QueueStore
from silas.queue.models import Agent, AgentReply, MessageKind, QueueMessage
from silas.storage import SqliteDatabase
from silas.stream.delivery import Deliveries
from silas.testing import FakeClock
from tests.app.test_runtime import moved_in


def an_answer(message_id: str = "out_1") -> QueueMessage:
    return QueueMessage(
        message_id=message_id,
        trace_id="trace",
        content="hello",
        sender=Agent.PROXY,
        message_kind=MessageKind.AGENT_RESPONSE,
        scope_id="owner",
        taint=TaintLevel.OWNER,
        created_at=FakeClock().now(),
        payload=AgentReply(connection_id="owner", channel="test", surface="stream"),
    )


async def test_an_answer_is_delivered_in_the_transaction_that_sends_it(
    database: SqliteDatabase, clock: FakeClock
) -> None:
    deliveries = Deliveries(database, clock)
    queue = QueueStore(database, clock=clock, ids=IdFactory(clock))
    told: list[str] = []
    queue.deliver_directly(
        QueueName.CHANNEL, deliveries.write, tell=lambda message: told.append(message.message_id)
    )
    assert await queue.enqueue(an_answer())
    await queue.enqueue(an_answer())
    assert [each.message.message_id for each in await deliveries.after("owner", 0)] == ["out_1"]
    assert await queue.lease(QueueName.CHANNEL, consumer="channel") is None
    assert told[0] == "out_1"


async def test_what_another_process_left_in_the_queue_is_delivered_once(
    database: SqliteDatabase, clock: FakeClock
) -> None:
    deliveries = Deliveries(database, clock)
    other = QueueStore(database, clock=clock, ids=IdFactory(clock))
    await other.enqueue(an_answer())
    queue = QueueStore(database, clock=clock, ids=IdFactory(clock))
    queue.deliver_directly(QueueName.CHANNEL, deliveries.write, tell=deliveries.tell)
    assert not await queue.enqueue(an_answer()), "it is on its way already"
    channel = Consumer("channel", QueueName.CHANNEL, deliveries, queue)
    await channel.run_until_empty()
    assert not await queue.enqueue(an_answer()), "it was delivered"
    assert [each.message.message_id for each in await deliveries.after("owner", 0)] == ["out_1"]


async def test_a_turn_of_the_owner_takes_four_transactions(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        await newcomer.say("hello")
        database = newcomer.runtime.core.database
        begun: list[object] = []
        transaction = database.transaction

        async def counted(body: object, **more: object) -> object:
            begun.append(body)
            return await transaction(body, **more)  # type: ignore[arg-type]

        database.transaction = counted  # type: ignore[method-assign, assignment]
        await newcomer.say("hello again")
        names = [getattr(each, "__qualname__", "") for each in begun]
        assert len(names) <= 4, names
        marks = await database.fetch_all(
            "SELECT 1 FROM processed_messages WHERE consumer = 'channel'"
        )
        assert marks == [], "no answer had to be leased"


async def test_who_is_sent_away_while_news_come_is_gone(
    database: SqliteDatabase, clock: FakeClock
) -> None:
    deliveries = Deliveries(database, clock)

    async def listen() -> None:
        async for _ in deliveries.follow("owner", 0):
            pass

    listening = asyncio.create_task(listen())
    while not deliveries._news:  # noqa: ASYNC110 - it is somebody else's doing
        await asyncio.sleep(0)
    await deliveries.after("owner", 0)  # by now it has looked, and waits
    deliveries.tell(an_answer())
    listening.cancel()
    gone, _ = await asyncio.wait({listening}, timeout=60)
    assert gone == {listening}
    assert listening.cancelled()
    assert not deliveries._news
