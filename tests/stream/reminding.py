"""A house that tells reminders, and a process of it that is killed on the way."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from silas.app.agents import Agents
from silas.journal import Journal
from silas.journal.conversation import JournalConversation, JournalOp
from silas.queue.models import QueueName
from silas.stream.delivery import Deliveries
from silas.testing import FakeClock
from tests.stream.house import House, standing_house
from tests.stream.test_journal_ops import a_journal

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 17, 11, 0, tzinfo=UTC)


class Reminding:
    """A house whose answers become deliveries, as in a running Silas."""

    def __init__(self, house: House, journal: Journal, clock: FakeClock) -> None:
        self.house, self.journal, self.clock = house, journal, clock
        self.spoken = JournalConversation(journal, clock=clock, zone=BERLIN)

    async def wish(self, number: int = 0, **op: Any) -> None:
        told = await self.spoken.fulfil(
            JournalOp.model_validate(op), operation_id=f"m{number}", said_at=self.clock.now()
        )
        assert told.done, told.text

    async def look(self) -> int:
        return await self.house.stream.clockwork.tell_reminders()

    async def told(self) -> list[str]:
        deliveries = Deliveries(self.house.database, self.clock)
        return [each.message.content for each in await deliveries.after("owner", 0)]


@asynccontextmanager
async def reminding(root: Path, *, at: datetime = NOON, **rooms: Any) -> AsyncIterator[Reminding]:
    clock = FakeClock()
    clock.set(at)
    async with a_journal(root, clock) as journal:
        rooms["journal"] = JournalConversation(journal, clock=clock, zone=BERLIN)
        async with standing_house(root, Agents(), clock=clock, **rooms) as house:
            deliveries = Deliveries(house.database, clock)
            house.stream.queue.deliver_directly(
                QueueName.CHANNEL, deliveries.write, tell=deliveries.tell
            )
            yield Reminding(house, journal, clock)


def tell_or_die(root: Path, death: str, first: bool, said: Connection) -> None:
    """Tell what is due, and say what was told; `death` is the moment to be killed at."""
    asyncio.run(_tell(root, death, first=first, said=said))


async def _tell(root: Path, death: str, *, first: bool, said: Connection) -> None:
    at = NOON if first else NOON + timedelta(minutes=1)
    async with reminding(root, at=at) as here:
        if first:
            await here.wish(op="remind", title="call mom", due="in 1 minute")
            here.clock.advance(minutes=1)
        if death == "audit":
            here.house.core.audit.append = _die  # type: ignore[method-assign,assignment]
        if death == "notify":
            here.house.stream.queue.bus.notify_of = _die  # type: ignore[method-assign]
        await here.look()
        said.send(await here.told())


def _die(*_args: object, **_more: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
