"""When a companion wakes by the clock: its timers, as the owner says them, and when each is due.

1. A timer keeps its intent (`daily` with `07:00`, a cron expression, a single moment); when it is
   due next is worked out from that, in the zone that holds then.
2. People say a time of day and days of the week. What cannot be said like that (`0 9 1 * *`, a
   single moment) stays as it is and has no `weekly`.
3. However many due times were missed, they are one wake.
4. The owner's changes are made all of them, or none.

The one clock for all timers: it sleeps until the nearest, and nothing runs meanwhile.

At least once a minute it looks at the clock on the wall, and at nothing else: a machine that was
asleep, or whose clock was set, must not make a companion late for good. When the clock was set
back, or the owner's zone has changed, all due times are worked out from their intents again.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.ids import run_thread, timer_run_key
from silas.companions.log import CompanionSessions
from silas.companions.messages import Diagnostic, WakeJob
from silas.companions.models import AgentTimer, InteractiveSession, TimerKind, WakeReason
from silas.companions.store import CompanionStore
from silas.companions.wake.dispatch import WakeDispatch
from silas.kernel import CompanionError, DatabaseError, format_timestamp, parse_timestamp
from silas.kernel.errors import TimeNotUnderstood
from silas.kernel.models import Data
from silas.kernel.when import DAYS, days_in_words, parse_time_of_day, week_days
from silas.scheduler import CronSchedule, InvalidCron, known_zone, last_due, next_due
from silas.storage import Transaction

TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
ON_TIME = timedelta(minutes=1)
"""How late a wake may be and still be on time. Whoever is later makes up for something missed."""
_ALL_DAYS, _ALL_MONTHS = frozenset(range(1, 32)), frozenset(range(1, 13))
_TO_THE_MINUTE = len("2026-01-01T07:00")
Said = Annotated[str, Field(max_length=200)]
_MOST = 20
"""Nobody reads a longer list of times."""


@dataclass(frozen=True)
class TimerDraft:
    """When a companion is to be woken."""

    kind: TimerKind
    expression: str
    time_zone: str | None = None


class TimerWish(Data):
    """What the owner wants of one timer: a new one has no id, and what is not said stays.

    It rings `at` a time of day on some `days`, or as a `cron` expression says.
    """

    id: Said | None = None
    at: Said | None = None
    days: Annotated[tuple[Said, ...], Field(max_length=20)] | None = None
    cron: Said | None = None
    active: bool | None = None
    remove: bool = False


class TimerBook:
    """Writes timers; `poke_alarms` is called after each change, so that the nearest one rings."""

    def __init__(
        self,
        store: CompanionStore,
        *,
        time_zone: Callable[[], str],
        poke_alarms: Callable[[], None],
    ) -> None:
        self._store = store
        self._time_zone = time_zone
        self._poke = poke_alarms

    @property
    def zone(self) -> str:
        """Where the owner is."""
        return self._time_zone()

    async def of(self, agent_id: str) -> list[AgentTimer]:
        """The timers of a companion that ring or can be switched on again, the oldest first."""
        found = await self._store.find(AgentTimer, {"agent_id": agent_id})
        known = [shown for each in found if (shown := self._shown(each)) is not None]
        return sorted(known, key=lambda each: (each.created_at, each.id))

    def draft(self, agent_id: str, draft: TimerDraft) -> AgentTimer:
        """A timer that is not written yet; raises `CompanionInvalid`."""
        now = self._store.clock.now()
        timer = AgentTimer(
            id=self._store.ids.new("timer"),
            agent_id=agent_id,
            kind=draft.kind,
            expression=draft.expression,
            time_zone=draft.time_zone,
            created_at=now,
            updated_at=now,
        )
        return self._scheduled(timer)

    async def add(self, agent_id: str, draft: TimerDraft) -> AgentTimer:
        """Wake a companion at one time more; raises `CompanionInvalid`."""
        timer = await self._store.put(self.draft(agent_id, draft))
        self._poke()
        return timer

    async def remove(self, timer_id: str) -> None:
        """Wake a companion at one time less."""
        await self._store.delete(AgentTimer, timer_id)
        self._poke()

    async def change(self, agent_id: str, wishes: Sequence[TimerWish]) -> None:
        """Make the timers as the owner wishes; one wish that cannot be, and nothing is changed."""
        named = [each.id for each in wishes if each.id is not None]
        if len(set(named)) < len(named):
            raise CompanionInvalid("One timer was named twice. Nothing was changed.")

        def write(tx: Transaction) -> None:
            made = [self._fulfil_in(tx, agent_id, wish) for wish in wishes]
            self._require_sense_in(tx, agent_id, {each.id for each in made if each is not None})

        await self._store.transaction(write)
        self._poke()

    def _fulfil_in(self, tx: Transaction, agent_id: str, wish: TimerWish) -> AgentTimer | None:
        """The timer, if it is another one now."""
        if wish.id is None:
            fresh = self.draft(agent_id, TimerDraft(*intent(wish, None)))
            return self._store.put_in(tx, self._changed(fresh, wish))
        known = self._store.get_in(tx, AgentTimer, wish.id)
        if known is None or known.agent_id != agent_id:
            raise CompanionUnknown("This timer is not there any more. Nothing was changed.")
        if wish.remove:
            self._store.delete_in(tx, AgentTimer, known.id)
            return None
        changed = self._changed(known, wish)
        return self._store.put_in(tx, changed) if changed != known else None

    def _changed(self, known: AgentTimer, wish: TimerWish) -> AgentTimer:
        """The timer as wanted. What rings anew rings from now on: nothing is made up for."""
        kind, expression = intent(wish, known)
        active = known.active if wish.active is None else wish.active
        if (kind, expression, active) == (known.kind, known.expression, known.active):
            return known
        now = self._store.clock.now()
        changes = {"kind": kind, "expression": expression, "active": active, "next_run_at": None}
        timer = self._scheduled(known.model_copy(update={**changes, "updated_at": now}))
        if active and timer.next_run_at is None:
            raise CompanionInvalid("This moment has passed. Nothing was changed.")
        return timer if active else timer.model_copy(update={"next_run_at": None})

    def _scheduled(self, timer: AgentTimer) -> AgentTimer:
        check_timer(timer)
        return scheduled(timer, self._store.clock.now(), owners_zone=self.zone)

    def _shown(self, timer: AgentTimer) -> AgentTimer | None:
        """As it rings: what makes no sense is silent; a single moment that has passed is over."""
        try:
            check_timer(timer)
        except CompanionInvalid:
            return timer.model_copy(update={"active": False})
        now = self._store.clock.now()
        over = not timer.active and next_run(timer, now, owners_zone=self.zone) is None
        return None if over else timer

    def _require_sense_in(self, tx: Transaction, agent_id: str, changed: set[str]) -> None:
        """What was changed must not be too much, or the same as another one."""
        found = self._store.find_in(tx, AgentTimer, {"agent_id": agent_id})
        rings = [each for each in found if each.kind is not TimerKind.ONCE]
        if changed and len(rings) > _MOST:
            raise CompanionInvalid(f"A companion has at most {_MOST} timers. Nothing was changed.")
        for timer in (each for each in rings if each.id in changed and each.active):
            alike = [each for each in rings if each.active and _same(each, timer)]
            if len(alike) > 1:
                raise CompanionInvalid(
                    f"It wakes {spoken_timer(timer)} already. Nothing was changed."
                )


@dataclass(frozen=True)
class Firing:
    """A wake that is due, and the timer after it."""

    job: WakeJob
    timer: AgentTimer


def check_timer(timer: AgentTimer) -> None:
    """Raise `CompanionInvalid`, with a sentence, if there is no such intent."""
    if timer.time_zone is not None and known_zone(timer.time_zone) is None:
        raise CompanionInvalid(f"There is no time zone {timer.time_zone}.")
    if timer.kind is TimerKind.ONCE:
        try:
            parse_timestamp(timer.expression)
        except ValueError as error:
            raise CompanionInvalid(f"This is not a moment: {timer.expression}.") from error
    else:
        _schedule(timer)


def scheduled(timer: AgentTimer, now: datetime, *, owners_zone: str) -> AgentTimer:
    """The timer with its next due time after `now`, in the zone that holds now.

    What is overdue stays so: it is made up for first.
    """
    if timer.next_run_at is not None and timer.next_run_at <= now:
        return timer
    return timer.model_copy(update={"next_run_at": next_run(timer, now, owners_zone=owners_zone)})


def next_run(timer: AgentTimer, after: datetime, *, owners_zone: str) -> datetime | None:
    """The first due time after this moment; None if there is none any more."""
    if timer.kind is TimerKind.ONCE:
        moment = parse_timestamp(timer.expression)
        return moment if moment > after else None
    return next_due(_schedule(timer), after, zone=zone_of(timer, owners_zone))


def fire(timer: AgentTimer, now: datetime, *, owners_zone: str) -> Firing | None:
    """The wake of a timer that is due; None if it is not.

    However many due times were missed, they are one wake: for the last of them, so that every
    device that makes up for them has the same run key.
    """
    due = timer.next_run_at
    if due is None or due > now or not timer.active:
        return None
    following = next_run(timer, due, owners_zone=owners_zone)
    late = now - due > ON_TIME or (following is not None and following <= now)
    at = _last_missed(timer, due, now, owners_zone) if late else due
    run_key = timer_run_key(timer.agent_id, timer.id, at)
    job = WakeJob(
        run_key=run_key,
        thread_id=run_thread(timer.agent_id, run_key),
        agent_id=timer.agent_id,
        reason=WakeReason.RECOVERY_CATCHUP if late else WakeReason.TIMER,
        reason_id=timer.id,
        scheduled_at=at,
        cause="timer" if late else None,
    )
    next_run_at = next_run(timer, now, owners_zone=owners_zone)
    changes = {
        "next_run_at": next_run_at,
        "last_scheduled_at": at,
        "active": next_run_at is not None,
        "updated_at": now,
    }
    return Firing(job, timer.model_copy(update=changes))


def zone_of(timer: AgentTimer, owners_zone: str) -> ZoneInfo:
    """The clock that a timer goes by."""
    # A zone that this machine does not know must not keep a companion from waking.
    named = known_zone(timer.time_zone) if timer.time_zone else None
    return named or known_zone(owners_zone) or ZoneInfo("UTC")


@dataclass(frozen=True)
class Weekly:
    """A time of day, `07:00`, and the days on which it holds, Monday first."""

    at: str
    days: tuple[str, ...]


def _last_missed(timer: AgentTimer, due: datetime, now: datetime, owners_zone: str) -> datetime:
    if timer.kind is TimerKind.ONCE:
        return due
    last = last_due(_schedule(timer), now, zone=zone_of(timer, owners_zone))
    return max(due, last) if last is not None else due


def _schedule(timer: AgentTimer) -> CronSchedule:
    text = timer.expression
    if timer.kind is TimerKind.DAILY:
        match = TIME_OF_DAY.fullmatch(text)
        if match is None:
            raise CompanionInvalid(f"This is not a time of day, such as 07:00: {text}.")
        text = f"{int(match[2])} {int(match[1])} * * *"
    try:
        return CronSchedule.parse(text)
    except InvalidCron as error:
        raise CompanionInvalid(f"The timer {error}.") from error


def weekly(timer: AgentTimer) -> Weekly | None:
    """The timer as people say it; None if that takes more words."""
    if timer.kind == TimerKind.DAILY:
        return Weekly(timer.expression, DAYS)
    if timer.kind == TimerKind.ONCE:
        return None
    try:
        cron = CronSchedule.parse(timer.expression)
    except InvalidCron:
        return None
    if len(cron.hours) != 1 or len(cron.minutes) != 1 or cron.either_day:
        return None
    if (cron.days, cron.months) != (_ALL_DAYS, _ALL_MONTHS):
        return None
    days = tuple(name for number, name in enumerate(DAYS, start=1) if number % 7 in cron.weekdays)
    return Weekly(f"{min(cron.hours):02}:{min(cron.minutes):02}", days)


def spoken(when: Weekly) -> str:
    """In words: `every day at 07:00`, `every Monday and Friday at 18:00`."""
    return f"every {days_in_words(when.days)} at {when.at}"


def spoken_timer(timer: AgentTimer) -> str:
    """When a timer wakes: `every day at 07:00`, `every Sunday at 18:00`."""
    when = weekly(timer)
    if when is not None:
        return spoken(when)
    if timer.kind == TimerKind.ONCE:
        return f"once at {timer.expression[:_TO_THE_MINUTE].replace('T', ' ')} UTC"
    return f"{timer.kind} {timer.expression}"


def intent(wish: TimerWish, known: AgentTimer | None) -> tuple[TimerKind, str]:
    """Kind and expression of what is wanted; raises `CompanionInvalid` with a sentence."""
    if wish.cron is not None:
        if wish.at is not None or wish.days is not None:
            raise CompanionInvalid("Say a time of day or a cron expression, not both.")
        return TimerKind.CRON, " ".join(wish.cron.split())
    if known is not None and wish.at is None and wish.days is None:
        return known.kind, known.expression
    before = weekly(known) if known is not None else None
    at = wish.at if wish.at is not None else before.at if before else None
    if at is None or not at.strip():
        raise CompanionInvalid("Say at what time it wakes, such as 07:00.")
    hour, minute = _time_of_day(at)
    days = _days(wish.days if wish.days is not None else before.days if before else DAYS)
    if days == DAYS:
        return TimerKind.DAILY, f"{hour:02}:{minute:02}"
    return TimerKind.CRON, f"{minute} {hour} * * {','.join(days)}"


def _days(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        raise CompanionInvalid("Choose at least one day of the week, or switch the timer off.")
    try:
        return week_days(names)
    except TimeNotUnderstood as error:
        raise CompanionInvalid(str(error)) from error


def _time_of_day(text: str) -> tuple[int, int]:
    try:
        return parse_time_of_day(text)
    except TimeNotUnderstood as error:
        raise CompanionInvalid(str(error)) from error


def _same(one: AgentTimer, other: AgentTimer) -> bool:
    return _meaning(one) == _meaning(other)


def _meaning(timer: AgentTimer) -> tuple[object, str | None]:
    return weekly(timer) or (timer.kind, timer.expression), timer.time_zone


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
        sessions: CompanionSessions,
        time_zone: Callable[[], str],
        closed: Closed | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`closed` is called with every conversation that has ended by itself."""
        self._store = store
        self._dispatch = dispatch
        self._sessions = sessions
        self._time_zone = time_zone
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
        now, zone = self._store.clock.now(), self._time_zone()
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
        return set_back or self._time_zone() != self._seen_zone

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
