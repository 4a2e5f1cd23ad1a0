"""Cron expressions of five fields, and the moments at which they are due.

Minute, hour, day of the month, month, day of the week. Each field is `*`, a number, a name (`mon`,
`jan`), a range `1-5`, each with a step `/2`, or several of these with commas. Sunday is 0 or 7. As
in every cron, if both the day of the month and the day of the week are restricted, either may
match. `cronsim` reads the expression and lists its times on the wall; this module refuses what
cronsim knows beyond that (seconds, `L`, `#`), and says what such a time means in a time zone:

1. An intent is about the clock on the wall: seven o'clock stays seven o'clock when summer begins.
2. A time that the clocks skip is due as much later as they skip.
3. A time that the clocks show twice is due the first time only.
4. What is due next is always later than the moment that was asked about.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_MAX_LENGTH = 200
_ITEM = re.compile(r"(?:\*|[0-9a-z]{1,3}(?:-[0-9a-z]{1,3})?)(?:/([0-9]{1,2}))?", re.ASCII)
_RANGE_OF_ONE = re.compile(r"\b([0-9a-z]+)-\1/[0-9]+")
_LONGEST_WAIT = timedelta(days=366 * 9)
"""29 February comes at least every eight years."""
_CLOCKS_ARE_SET_BY = timedelta(hours=3)
"""More than any zone has ever changed by at once, apart from the date line."""
_LOOKS_BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), _LONGEST_WAIT)


class InvalidCron(ValueError):
    """The text is not a cron expression; the message says what would be right."""


class _Field(NamedTuple):
    name: str
    low: int
    high: int


_FIELDS = {
    "minute": _Field("minute", 0, 59),
    "hour": _Field("hour", 0, 23),
    "day-of-month": _Field("day of the month", 1, 31),
    "month": _Field("month", 1, 12),
    "day-of-week": _Field("day of the week", 0, 7),
}
"""By cronsim's names, in their order."""


@dataclass(frozen=True)
class CronSchedule:
    """The minutes, hours and days on which something is due."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday, 6 is Saturday."""
    either_day: bool
    """Whether a day of the month *or* of the week is enough, because both were restricted."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an expression; raises `InvalidCron` with a sentence if there is no such moment."""
        parts = text.lower().split()
        if len(parts) != len(_FIELDS) or len(text) > _MAX_LENGTH:
            raise InvalidCron(
                "must be a cron expression of five fields, such as `*/15 * * * *` (every quarter "
                f"of an hour); this has {len(parts)}"
            )
        for field, part in zip(_FIELDS.values(), parts, strict=True):
            items = [_ITEM.fullmatch(item) for item in part.split(",")]
            if not all(each and int(each[1] or 1) <= field.high for each in items):
                raise _not_right(field)
        # cronsim would go on to the end from a range of one with a step.
        text = _RANGE_OF_ONE.sub(r"\1", " ".join(parts))
        cron = _read(text, parts)
        return cls(
            text,
            minutes=frozenset(cron.minutes),
            hours=frozenset(cron.hours),
            days=frozenset(cron.days),
            months=frozenset(cron.months),
            weekdays=frozenset(day % 7 for day in cron.weekdays if isinstance(day, int)),
            either_day=not cron.day_and,
        )

    def is_due(self, moment: datetime) -> bool:
        """Whether the minute of this moment, in its own time zone, is one of those."""
        wall = moment.replace(tzinfo=None, second=0, microsecond=0)
        return next(CronSim(self.text, wall - timedelta(seconds=1))) == wall


def _read(text: str, parts: list[str]) -> CronSim:
    for name, part in (("day-of-month", parts[2]), ("day-of-week", parts[4])):
        if "l" in part:  # the last one: not known to every cron
            raise _not_right(_FIELDS[name])
    try:
        return CronSim(text, datetime.min.replace(tzinfo=UTC))
    except CronSimError as error:
        field = _FIELDS[str(error).removeprefix("Bad ")]
        if field.name == "day of the month" and all(
            number.isdecimal() and 1 <= int(number) <= field.high
            for number in re.findall(r"\w+", parts[2])
        ):
            message = "names a day that none of its months has; it would never be due"
            raise InvalidCron(message) from error
        raise _not_right(field) from error


def _not_right(field: _Field) -> InvalidCron:
    return InvalidCron(
        f"must be a cron expression; its {field.name} must be made of `*`, numbers from "
        f"{field.low} to {field.high}, ranges (`1-5`) and steps (`*/15`)"
    )


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
    last = start + _LONGEST_WAIT
    found: list[tuple[datetime, datetime]] = []
    for wall in takewhile(lambda wall: wall <= last, CronSim(schedule.text, start)):
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
