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
_LOOKS_BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), _LONGEST_WAIT)


def known_zone(name: str) -> ZoneInfo | None:
    """The time zone with this IANA name, or None."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def next_due(schedule: CronSchedule, after: datetime, *, zone: ZoneInfo) -> datetime | None:
    """The first moment after this one, in UTC; None if there is none within nine years."""
    # One day earlier: where clocks were set back, an earlier wall time can be a later moment.
    first = after.astimezone(zone).date() - timedelta(days=1)
    last = first + _LONGEST_WAIT
    day = first
    while day <= last:
        if _is_day_of(schedule, day):
            found = [each for each in _moments(schedule, day, zone) if each > after]
            if found:
                return min(found)
        day += timedelta(days=1)
    return None


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


def _moments(schedule: CronSchedule, day: date, zone: ZoneInfo) -> Iterator[datetime]:
    for hour in sorted(schedule.hours):
        for minute in sorted(schedule.minutes):
            # With `fold=0`, a skipped time counts from before the skip, and a double one is the
            # first of the two.
            yield datetime.combine(day, time(hour, minute), tzinfo=zone).astimezone(UTC)
