"""When a companion's timer is due next, worked out from its intent (pure)."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from silas.companions.errors import CompanionInvalid
from silas.companions.ids import run_thread, timer_run_key
from silas.companions.models import AgentTimer, TimerKind, WakeJob, WakeReason
from silas.kernel import parse_timestamp
from silas.scheduler import CronSchedule, InvalidCron, known_zone, last_due, next_due

_DAILY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
ON_TIME = timedelta(minutes=1)
"""How late a wake may be and still be on time. Whoever is later makes up for something missed."""


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


def _last_missed(timer: AgentTimer, due: datetime, now: datetime, owners_zone: str) -> datetime:
    if timer.kind is TimerKind.ONCE:
        return due
    last = last_due(_schedule(timer), now, zone=zone_of(timer, owners_zone))
    return max(due, last) if last is not None else due


def _schedule(timer: AgentTimer) -> CronSchedule:
    text = timer.expression
    if timer.kind is TimerKind.DAILY:
        match = _DAILY.fullmatch(text)
        if match is None:
            raise CompanionInvalid(f"This is not a time of day, such as 07:00: {text}.")
        text = f"{int(match[2])} {int(match[1])} * * *"
    try:
        return CronSchedule.parse(text)
    except InvalidCron as error:
        raise CompanionInvalid(f"The timer {error}.") from error


def zone_of(timer: AgentTimer, owners_zone: str) -> ZoneInfo:
    """The clock that a timer goes by."""
    # A zone that this machine does not know must not keep a companion from waking.
    named = known_zone(timer.time_zone) if timer.time_zone else None
    return named or known_zone(owners_zone) or ZoneInfo("UTC")
