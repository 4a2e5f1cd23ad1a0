"""The one clock for all timers: it sleeps until the nearest, and nothing runs meanwhile.

At least once a minute it looks at the clock on the wall, and at nothing else: a machine that was
asleep, or whose clock was set, must not make a companion late for good. When the clock was set
back, or the owner's zone has changed, all due times are worked out from their intents again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from silas.companions.models import AgentTimer, Diagnostic, InteractiveSession, WakeJob
from silas.companions.sessions import Sessions
from silas.companions.store import CompanionStore
from silas.companions.timers import fire, scheduled
from silas.companions.wake.dispatch import WakeDispatch
from silas.companions.wake.ports import OwnersZone
from silas.kernel import CompanionError, DatabaseError, format_timestamp, parse_timestamp
from silas.storage import Transaction

Sleep = Callable[[float], Awaitable[object]]
Closed = Callable[[InteractiveSession], Awaitable[None]]

_NEAREST = "SELECT min(next_run_at) FROM agent_timers WHERE active = 1"
_DUE = """
SELECT body FROM agent_timers
WHERE active = 1 AND next_run_at <= ? AND deleted_at IS NULL ORDER BY next_run_at LIMIT 100
"""
_SILENCE = "UPDATE agent_timers SET active = 0 WHERE id = ?"
_LONGEST_SLEEP = timedelta(minutes=1)
_SET_BACK = timedelta(seconds=5)
_CALM_DOWN = 1.0
_log = logging.getLogger(__name__)


class Alarms:
    """Fires what is due and sleeps until the next."""

    def __init__(
        self,
        store: CompanionStore,
        dispatch: WakeDispatch,
        *,
        sessions: Sessions,
        zone: OwnersZone,
        closed: Closed | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`closed` is called with every conversation that has ended by itself."""
        self._store = store
        self._dispatch = dispatch
        self._sessions = sessions
        self._zone = zone
        self._closed = closed
        self._sleep = sleep
        self._changed = asyncio.Event()
        self._seen: datetime | None = None
        self._seen_zone: str | None = None

    def poke(self) -> None:
        """A timer or a session has changed: look for the nearest again."""
        self._changed.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            try:
                nearest = await self.tick()
            except DatabaseError as error:
                # What is due stays due, and what was fired stays in the log of wakes.
                _log.warning("the companions' timers wait: %s [%s]", error.message, error.code)
                await self._sleep(_CALM_DOWN)
                continue
            except Exception:  # noqa: BLE001 - a bad moment must not be the end of all timers
                _log.exception("the companions' timers had to stop for a moment")
                await self._sleep(_CALM_DOWN)
                continue
            await self._until(nearest)

    async def tick(self) -> datetime | None:
        """Fire everything that is due; returns when the next is, or None."""
        self._changed.clear()
        await self._dispatch.send_rest()
        now, zone = self._store.clock.now(), self._zone.time_zone()
        if self._seen is None or now < self._seen - _SET_BACK or zone != self._seen_zone:
            await self._reschedule(now, zone)
        self._seen, self._seen_zone = now, zone
        while await self._fire_some(now, zone):
            pass
        for session in await self._sessions.close_expired(now):
            if self._closed is not None:
                await self._closed(session)
        return await self._nearest()

    async def _until(self, nearest: datetime | None) -> None:
        """Sleep until then, or until something changes; looks at the wall clock only."""
        while not self._changed.is_set():
            now = self._store.clock.now()
            if self._clock_is_odd(now) or (nearest is not None and nearest <= now):
                return
            self._seen = now
            wait = _LONGEST_SLEEP if nearest is None else min(_LONGEST_SLEEP, nearest - now)
            sleeping = asyncio.ensure_future(self._sleep(wait.total_seconds()))
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait({sleeping, changed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleeping.cancel()
                changed.cancel()

    def _clock_is_odd(self, now: datetime) -> bool:
        set_back = self._seen is not None and now < self._seen - _SET_BACK
        return set_back or self._zone.time_zone() != self._seen_zone

    async def _fire_some(self, now: datetime, zone: str) -> bool:
        """Fire at most a hundred; True if there were any."""

        def take(tx: Transaction) -> tuple[int, list[WakeJob]]:
            rows = tx.fetch_all(_DUE, (format_timestamp(now),))
            taken = (self._fire_in(tx, row[0], now, zone) for row in rows)
            return len(rows), [job for job in taken if job is not None]

        due, jobs = await self._store.transaction(take)
        await self._dispatch.send(jobs)
        return due > 0

    def _fire_in(self, tx: Transaction, body: str, now: datetime, zone: str) -> WakeJob | None:
        """The wake of a timer, written down together with its next due time."""
        timer = AgentTimer.model_validate_json(body)
        try:
            firing = fire(timer, now, owners_zone=zone)
            if firing is None:
                return None
            self._store.put_in(tx, firing.timer)
            return self._dispatch.log.enqueue_in(tx, firing.job)
        except CompanionError as error:
            # One timer that makes no sense must not keep all others from being heard.
            self._silence_in(tx, timer, error)
            return None

    def _silence_in(self, tx: Transaction, timer: AgentTimer, error: CompanionError) -> None:
        tx.execute(_SILENCE, (timer.id,))
        self._store.put_in(
            tx,
            Diagnostic(
                id=self._store.ids.new("diagnostic"),
                agent_id=timer.agent_id,
                kind="timer_silenced",
                subject_id=timer.id,
                detail={"code": error.code, "message": error.message},
                created_at=self._store.clock.now(),
            ),
        )

    async def _reschedule(self, now: datetime, zone: str) -> None:
        timers = await self._store.find(AgentTimer, {"active": True})
        moved: list[AgentTimer] = []
        for timer in timers:
            # One that makes no sense is silenced when it rings.
            with contextlib.suppress(CompanionError):
                anew = scheduled(timer, now, owners_zone=zone)
                moved += [anew] if anew.next_run_at != timer.next_run_at else []
        if moved:
            await self._store.transaction(
                lambda tx: [self._store.put_in(tx, timer) for timer in moved]
            )

    async def _nearest(self) -> datetime | None:
        row = await self._store.database.fetch_one(_NEAREST)
        timer = parse_timestamp(row[0]) if row and row[0] else None
        session = await self._sessions.nearest_expiry()
        return min((each for each in (timer, session) if each is not None), default=None)
