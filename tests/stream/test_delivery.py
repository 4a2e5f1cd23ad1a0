"""Whoever listens for answers hears them, and can be sent away at any moment."""

import asyncio

from silas.storage import SqliteDatabase
from silas.stream.delivery import Deliveries
from silas.testing import FakeClock


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
    await deliveries._tell("owner")
    listening.cancel()
    gone, _ = await asyncio.wait({listening}, timeout=60)
    assert gone == {listening}
    assert listening.cancelled()
    assert not deliveries._news
