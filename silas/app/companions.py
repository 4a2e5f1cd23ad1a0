"""Companions, wired: their file, what they do things with, and what wakes them."""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from silas.app.companion_cards import CardApprovals
from silas.app.companion_destinations import Destinations, VaultSecrets
from silas.app.gates import open_gates
from silas.app.ground import Ground
from silas.app.housekeeping import PeriodicJob
from silas.app.machine import OpenDatabase
from silas.app.paths import Paths
from silas.app.settings.companions import CompanionSettings
from silas.companions.compaction.jobs import CompactionPolicy
from silas.companions.compaction.model import ModelSummariser
from silas.companions.desk import CompanionDesk
from silas.companions.hands import Hands, make_hands
from silas.companions.kinds.library import KindLibrary
from silas.companions.policy.gating import CallGates
from silas.companions.retention import FOR_EVER, ArtifactClass, Retention
from silas.companions.store import CompanionStore
from silas.companions.waking import Waking, make_waking
from silas.gates.ports import GateModel
from silas.journal import Journal
from silas.kernel import Clock, IdFactory
from silas.queue import QueueStore
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.stream.review.store import QuestionStore

_LOOK = timedelta(minutes=1)
_PRUNE = timedelta(days=1)


@dataclass(frozen=True)
class CompanionRoom:
    """What fronts talk to."""

    store: CompanionStore
    hands: Hands
    waking: Waking
    desk: CompanionDesk
    models: Destinations
    retention: Retention

    async def answered(self, about: str) -> None:
        """The owner has answered the card of an action: `companion:AGENT:OPERATION`."""
        await self.desk.decided(about.rpartition(":")[2])


@dataclass(frozen=True)
class SettingsZone:
    """`OwnersZone` of the settings."""

    name: str

    def time_zone(self) -> str:
        return self.name


@contextlib.asynccontextmanager
async def open_companion_store(
    paths: Paths,
    *,
    clock: Clock,
    ids: IdFactory,
    host_id: str,
    open_database: OpenDatabase = SqliteDatabase.open,
) -> AsyncIterator[CompanionStore]:
    """The companions' records; the file is made if it is not there yet.

    `host_id` is the journal's: a device has one name in all vector clocks.
    """
    database = open_database(paths.companions)
    try:
        await migrate(database, load_migrations("agent"), clock=clock)
        yield CompanionStore(database, clock=clock, ids=ids, host_id=host_id)
    finally:
        await database.close()


def make_companions(
    ground: Ground,
    journal: Journal,
    store: CompanionStore,
    *,
    queue: QueueStore,
    questions: QuestionStore | None = None,
    environ: Mapping[str, str] | None = None,
    gate_model: GateModel | None = None,
    models: Destinations | None = None,
) -> CompanionRoom:
    """Companions, wired and standing still.

    Without `questions`, nothing can be put to the owner; without `models`, none can be asked.
    """
    settings, zone = ground.settings.companions, SettingsZone(ground.settings.scheduler.timezone)
    around = os.environ if environ is None else environ
    gateway = models or Destinations(ground)
    hands = make_hands(
        store,
        journal,
        gateway=gateway,
        approvals=CardApprovals(ground, questions) if questions is not None else None,
        secrets=VaultSecrets(ground, environ=around),
        time_zone=zone.time_zone,
        gates=CallGates(ground.settings.gates.system, open_gates(ground, model=gate_model)),
        audit=ground.audit,
    )
    waking = make_waking(
        store,
        journal,
        queue=queue,
        runs=hands.workflow,
        zone=zone,
        summariser=ModelSummariser(store, hands.door, definitions=hands.definitions),
        compaction=CompactionPolicy(model_attempts=settings.summary_model_attempts),
    )
    desk = CompanionDesk(
        store,
        journal,
        hands,
        lifecycle=waking.lifecycle,
        worker=waking.worker,
        library=KindLibrary(ground.paths.companion_kinds),
        audit=ground.audit,
    )
    retention = _retention(store, settings)
    return CompanionRoom(store, hands, waking, desk, gateway, retention)


def _retention(store: CompanionStore, settings: CompanionSettings) -> Retention:
    days = settings.keep_days
    return Retention(store, {each: getattr(days, each.value) or FOR_EVER for each in ArtifactClass})


@contextlib.asynccontextmanager
async def open_companions(
    ground: Ground,
    journal: Journal,
    *,
    queue: QueueStore,
    questions: QuestionStore | None = None,
    environ: Mapping[str, str] | None = None,
    gate_model: GateModel | None = None,
    models: Destinations | None = None,
) -> AsyncIterator[CompanionRoom]:
    """Companions, awake for as long as the block lasts."""
    async with open_companion_store(
        ground.paths,
        clock=ground.clock,
        ids=ground.ids,
        host_id=journal.host_id,
        open_database=ground.machine.open_database,
    ) as store:
        room = make_companions(
            ground,
            journal,
            store,
            queue=queue,
            questions=questions,
            environ=environ,
            gate_model=gate_model,
            models=models,
        )
        await room.desk.recover()
        try:
            async with room.waking.running():
                yield room
        finally:
            await room.models.close()


def companion_jobs(room: CompanionRoom) -> list[PeriodicJob]:
    """What companions need again and again: what nobody answers, or needs any more, ends."""
    return [
        PeriodicJob("end unanswered questions of companions", _LOOK, room.desk.expire),
        PeriodicJob("prune companions", _PRUNE, room.retention.prune),
    ]
