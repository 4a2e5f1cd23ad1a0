"""From a change in the journal to wakes.

For every batch, in the order of the journal, once:

1. the index says which subscriptions wait for one of its tokens;
2. its records are looked up, all on one view, real ids only;
3. a companion is woken if one of them is in its sight and meets the predicate, unless it has made
   the change itself; several subscriptions of one companion are one wake;
4. the wakes, what their keys were derived from, and the place in the journal are written down in
   one transaction, and only then put on the bus.

So a crash anywhere loses nothing: at the start the batches after the last place are read from the
journal, and their run keys are what they would have been. A database that fails for a moment loses
nothing either: the same is done a moment later, without waiting for the next change.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from silas.companions.ids import run_thread, subscription_run_key
from silas.companions.models import (
    Companion,
    Diagnostic,
    NotificationProvenance,
    WakeJob,
    WakeReason,
)
from silas.companions.store import CompanionStore
from silas.companions.wake.dispatch import WakeDispatch
from silas.companions.wake.index import TokenIndex, Waiting
from silas.companions.wake.predicates import Changed, entity_ids, in_sight, look_up, meets
from silas.journal.models import AccessScope
from silas.journal.notifications import NotificationBatch
from silas.journal.store import Journal
from silas.kernel import DatabaseError
from silas.storage import Reader, Transaction

_CURSOR = "SELECT position FROM wake_cursor WHERE one = 1"
_MOVE = """
INSERT INTO wake_cursor (one, position) VALUES (1, ?)
ON CONFLICT (one) DO UPDATE SET position = excluded.position
"""
_AT_ONCE = 200
_MAX_ENTITIES = 50
_CALM_DOWN = 1.0
_LONGEST_PAUSE = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Candidate:
    """A companion whose subscriptions know one of the tokens."""

    companion: Companion
    waiting: list[Waiting]


class WakeOrchestrator:
    """Listens to the journal and wakes whom a change concerns."""

    def __init__(
        self,
        store: CompanionStore,
        journal: Journal,
        *,
        dispatch: WakeDispatch,
        index: TokenIndex,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._sleep = sleep
        self._journal = journal
        self._dispatch = dispatch
        self._index = index
        self._turn = asyncio.Lock()
        self._position = 0
        self._stop: Callable[[], None] = _nothing

    async def start(self) -> int:
        """Catch up with the journal and listen from now on; returns how much was missed."""
        await self._index.load(self._store.database)
        self._position = await self._first_position()
        self._stop = self._journal.subscribe(self.on_batch)
        return await self.catch_up()

    def stop(self) -> None:
        """Listen no longer. What comes meanwhile is caught up at the next start."""
        self._stop()

    async def on_batch(self, batch: NotificationBatch) -> None:
        """Handle what was committed. If something before it was missed, that comes first."""
        del batch
        await self._caught_up()

    async def run(self) -> None:
        """Until cancelled, do again what a bad moment of a database has kept from being done."""
        pause = _CALM_DOWN
        while True:
            await self._dispatch.behind.wait()
            await self._sleep(pause)
            pause = _CALM_DOWN if await self._caught_up() else min(2 * pause, _LONGEST_PAUSE)

    async def _caught_up(self) -> bool:
        try:
            await self.catch_up()
        except DatabaseError as error:
            _log.warning("companions hear of it later: %s [%s]", error.message, error.code)
            return False
        return True

    async def catch_up(self) -> int:
        """Handle every batch after the last one that was; returns how many there were."""
        self._dispatch.behind.clear()
        try:
            await self._dispatch.send_rest()
            return await self._handle_all()
        except DatabaseError:
            self._dispatch.behind.set()
            raise

    async def _handle_all(self) -> int:
        handled = 0
        async with self._turn:
            while batches := await self._journal.batches_after(self._position, limit=_AT_ONCE):
                for batch in batches:
                    await self._handle(batch)
                handled += len(batches)
        return handled

    async def _first_position(self) -> int:
        newest = await self._journal.last_cursor()
        row = await self._store.database.fetch_one(_CURSOR)
        if row is None:
            # What happened before there were companions concerns none of them.
            await self._store.database.execute(_MOVE, (newest,))
            return newest
        # A journal that was restored from a backup may be behind.
        return min(int(row[0]), newest)

    async def _handle(self, batch: NotificationBatch) -> None:
        jobs = await self._jobs_or_none(batch)
        position = batch.source_cursor or self._position + 1

        def write_down(tx: Transaction) -> None:
            if jobs:
                self._store.put_in(tx, self._provenance(batch, position))
            tx.execute(_MOVE, (position,))

        await self._dispatch.enqueue(jobs, also=write_down)
        self._position = position

    async def _jobs_or_none(self, batch: NotificationBatch) -> list[WakeJob]:
        """The wakes of a batch. One that cannot be understood is told, and the next one comes."""
        try:
            return await self._jobs(batch)
        except DatabaseError:
            # It may be better in a moment, and then nothing is missed.
            raise
        except Exception as error:  # noqa: BLE001 - else nobody would ever be woken again
            _log.exception("nobody was woken by %s", batch.local_batch_id)
            await self._store.put(
                Diagnostic(
                    id=self._store.ids.new("diagnostic"),
                    kind="batch_not_understood",
                    subject_id=batch.local_batch_id,
                    detail={"error": f"{type(error).__name__}: {error}"},
                    created_at=self._store.clock.now(),
                )
            )
            return []

    async def _jobs(self, batch: NotificationBatch) -> list[WakeJob]:
        candidates = await self._candidates(batch)
        if not candidates:
            return []
        ids = entity_ids(batch.typed_tokens)
        scopes = {
            each.companion.id: AccessScope(
                allowed_category_ids=frozenset(each.companion.allowed_category_ids)
            )
            for each in candidates
        }

        def look(reader: Reader) -> dict[str, list[Changed]]:
            return in_sight(reader, look_up(reader, ids), scopes)

        seen = await self._journal.read(look)
        jobs = (self._job(batch, each, seen[each.companion.id]) for each in candidates)
        return [job for job in jobs if job is not None]

    async def _candidates(self, batch: NotificationBatch) -> list[_Candidate]:
        by_agent: dict[str, list[Waiting]] = {}
        for subscription_id in sorted(self._index.match(batch.typed_tokens)):
            waiting = self._index.waiting(subscription_id)
            if batch.actor != f"companion:{waiting.agent_id}":
                by_agent.setdefault(waiting.agent_id, []).append(waiting)
        if not by_agent:
            return []
        alive = await self._store.database.snapshot(lambda reader: self._alive(reader, by_agent))
        return [_Candidate(each, by_agent[each.id]) for each in alive]

    def _alive(self, reader: Reader, agent_ids: Iterable[str]) -> list[Companion]:
        found = (self._store.get_in(reader, Companion, each) for each in agent_ids)
        return [each for each in found if each is not None and not each.is_destroyed]

    def _job(
        self, batch: NotificationBatch, candidate: _Candidate, seen: list[Changed]
    ) -> WakeJob | None:
        for waiting in candidate.waiting:
            met = [each.record.id for each in seen if meets(waiting.predicate, each)]
            if met:
                return _wake(batch, waiting, met)
        return None

    def _provenance(self, batch: NotificationBatch, position: int) -> NotificationProvenance:
        return NotificationProvenance(
            logical_change_key=batch.logical_change_key,
            local_batch_id=batch.local_batch_id,
            change_unit_keys=batch.change_unit_keys,
            position=position,
            received_at=self._store.clock.now(),
        )


def _nothing() -> None:
    """Nobody listens yet."""


def _wake(batch: NotificationBatch, waiting: Waiting, entities: list[str]) -> WakeJob:
    run_key = subscription_run_key(
        waiting.agent_id, waiting.subscription_id, batch.logical_change_key
    )
    return WakeJob(
        run_key=run_key,
        thread_id=run_thread(waiting.agent_id, run_key),
        agent_id=waiting.agent_id,
        reason=WakeReason.SUBSCRIPTION,
        reason_id=waiting.subscription_id,
        logical_change_keys=(batch.logical_change_key,),
        changed_entity_ids=tuple(entities[:_MAX_ENTITIES]),
        source_cursor=batch.source_cursor,
    )
