"""The whole house, wired: minds, rooms, cards, the conversation; whichever front opens it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from silas.app.ground import Ground
from silas.app.minds import open_minds
from silas.app.personality import open_personality
from silas.app.stream import Rooms, Stream, open_queue, open_stream
from silas.queue import Consumer, QueueName, QueueStore
from silas.storage.errors import translated
from silas.storage.files import make_private_directory
from silas.stream.cards import CardStore
from silas.stream.delivery import Deliveries
from silas.stream.ports import Live
from silas.work.ports import Approver


@dataclass(frozen=True)
class House:
    """What a front talks to."""

    ground: Ground
    stream: Stream
    cards: CardStore
    deliveries: Deliveries


@contextlib.asynccontextmanager
async def open_house(
    ground: Ground,
    *,
    environ: Mapping[str, str],
    home: Path,
    approver: Approver | None = None,
    live: Live | None = None,
) -> AsyncIterator[House]:
    """Everything, running; at the end of the block it is taken down, and nothing is lost."""
    _make_workspace(ground)
    queue = open_queue(ground)
    cards, deliveries = open_cards(ground, queue), Deliveries(ground.database, ground.clock)
    rooms = Rooms(personality=open_personality(ground), reviews=cards, approver=approver, live=live)
    channel = Consumer(name="channel", queue=QueueName.CHANNEL, handler=deliveries, store=queue)
    async with (
        open_minds(ground, environ=environ, home=home) as minds,
        open_stream(ground, minds, rooms=rooms, queue=queue) as stream,
        _running(channel),
    ):
        yield House(ground, stream, cards, deliveries)


def open_cards(ground: Ground, queue: QueueStore | None = None) -> CardStore:
    """The cards of this ground floor."""
    return CardStore(
        ground.database,
        queue or open_queue(ground),
        signer=ground.keys,
        audit=ground.audit,
        clock=ground.clock,
    )


def _make_workspace(ground: Ground) -> None:
    directory = ground.settings.planner.workspace_dir
    if directory is not None:
        with translated(str(directory)):
            make_private_directory(directory)


@contextlib.asynccontextmanager
async def _running(consumer: Consumer) -> AsyncIterator[None]:
    task = asyncio.create_task(consumer.run(), name=consumer.name)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
