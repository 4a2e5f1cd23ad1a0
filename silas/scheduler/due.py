"""The moments at which a wall-clock intent is due, in a time zone that has its own mind.

1. An intent is about the clock on the wall: seven o'clock stays seven o'clock when summer begins.
2. A time that the clocks skip is due as much later as they skip.
3. A time that the clocks show twice is due the first time only.
4. What is due next is always later than the moment that was asked about.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from silas.scheduler.cron import CronSchedule

_LONGEST_WAIT = timedelta(days=366 * 9)
"""29 February comes at least every eight years."""
_CLOCKS_ARE_SET_BY = timedelta(hours=3)
"""More than any zone has ever changed by at once, apart from the date line."""
_LOOKS_BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), _LONGEST_WAIT)


def known_zone(name: str) -> ZoneInfo | None:
    """The time zone with this IANA name, or None."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def next_due(schedule: CronSchedule, after: datetime, *, zone: ZoneInfo) -> datetime | None:
    """The first moment after this one, in UTC; None if there is none within nine years."""
    # Where clocks were set, the order of times on the wall is not the order of moments: a little
    # before and behind is looked at as well.
    start = after.astimezone(zone).replace(tzinfo=None) - _CLOCKS_ARE_SET_BY
    found: list[tuple[datetime, datetime]] = []
    for wall in _times(schedule, start):
        if found and wall > found[0][1] + _CLOCKS_ARE_SET_BY:
            break
        # With `fold=0`, a skipped time counts from before the skip, and a double one is the first.
        moment = wall.replace(tzinfo=zone).astimezone(UTC)
        if moment > after:
            found.append((moment, wall))
    return min(found)[0] if found else None


def last_due(schedule: CronSchedule, until: datetime, *, zone: ZoneInfo) -> datetime | None:
    """The last moment that is not after this one, in UTC."""
    for span in _LOOKS_BACK:
        found: datetime | None = None
        candidate = next_due(schedule, until - span, zone=zone)
        while candidate is not None and candidate <= until:
            found = candidate
            candidate = next_due(schedule, candidate, zone=zone)
        if found is not None:
            return found
    return None


def _is_day_of(schedule: CronSchedule, day: date) -> bool:
    of_month, of_week = day.day in schedule.days, day.isoweekday() % 7 in schedule.weekdays
    right = of_month or of_week if schedule.either_day else of_month and of_week
    return right and day.month in schedule.months


def _times(schedule: CronSchedule, start: datetime) -> Iterator[datetime]:
    """The times on the wall from this one on, in their order."""
    hours, minutes = sorted(schedule.hours), sorted(schedule.minutes)
    day, last = start.date(), start.date() + _LONGEST_WAIT
    while day <= last:
        if _is_day_of(schedule, day):
            for hour in hours:
                for minute in minutes:
                    wall = datetime.combine(day, time(hour, minute))
                    if wall >= start:
                        yield wall
        day += timedelta(days=1)
