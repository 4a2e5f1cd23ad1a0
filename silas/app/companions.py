"""Companions, wired: their file, what they do things with, and what wakes them."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from silas.app.ground import Ground
from silas.app.paths import Paths
from silas.companions.hands import Hands, make_hands
from silas.companions.store import CompanionStore
from silas.companions.waking import Waking, make_waking
from silas.journal import Journal
from silas.kernel import Clock, IdFactory
from silas.queue import QueueStore
from silas.storage import SqliteDatabase, load_migrations, migrate


@dataclass(frozen=True)
class CompanionRoom:
    """What fronts talk to."""

    store: CompanionStore
    hands: Hands
    waking: Waking


@dataclass(frozen=True)
class SettingsZone:
    """`OwnersZone` of the settings."""

    name: str

    def time_zone(self) -> str:
        return self.name


@contextlib.asynccontextmanager
async def open_companion_store(
    paths: Paths, *, clock: Clock, ids: IdFactory, host_id: str
) -> AsyncIterator[CompanionStore]:
    """The companions' records; the file is made if it is not there yet.

    `host_id` is the journal's: a device has one name in all vector clocks.
    """
    database = SqliteDatabase.open(paths.companions)
    try:
        await migrate(database, load_migrations("agent"), clock=clock)
        yield CompanionStore(database, clock=clock, ids=ids, host_id=host_id)
    finally:
        await database.close()


@contextlib.asynccontextmanager
async def open_companions(
    ground: Ground, journal: Journal, *, queue: QueueStore
) -> AsyncIterator[CompanionRoom]:
    """Companions, awake for as long as the block lasts."""
    zone = SettingsZone(ground.settings.scheduler.timezone)
    async with open_companion_store(
        ground.paths, clock=ground.clock, ids=ground.ids, host_id=journal.host_id
    ) as store:
        hands = make_hands(
            store, journal, gateway=None, approvals=None, secrets=None, time_zone=zone.time_zone
        )
        waking = make_waking(store, journal, queue=queue, runs=hands.workflow, zone=zone)
        async with waking.running():
            yield CompanionRoom(store, hands, waking)
