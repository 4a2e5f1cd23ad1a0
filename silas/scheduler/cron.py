"""Cron expressions of five fields: minute, hour, day of the month, month, day of the week.

Each field is `*`, a number, a name (`mon`, `jan`), a range `1-5`, each with a step `/2`, or several
of these with commas. Sunday is 0 or 7. As in every cron, if both the day of the month and the day
of the week are restricted, either may match.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Self

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTH = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
_ITEM = re.compile(r"(\*|[0-9a-z]{1,3})(?:-([0-9a-z]{1,3}))?(?:/([0-9]{1,2}))?")
_MAX_LENGTH = 200


class InvalidCron(ValueError):
    """The text is not a cron expression; the message says what would be right."""


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)


@dataclass(frozen=True)
class CronSchedule:
    """The minutes, hours and days on which something is due."""

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
        minutes, hours, days, months, weekdays = (
            _read_field(field, part) for field, part in zip(_FIELDS, parts, strict=True)
        )
        either = not parts[2].startswith("*") and not parts[4].startswith("*")
        if not either and all(min(days) > _LONGEST_MONTH.get(month, 31) for month in months):
            raise InvalidCron("names a day that none of its months has; it would never be due")
        return cls(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), either)

    def is_due(self, moment: datetime) -> bool:
        """Whether the minute of this moment, in its own time zone, is one of those."""
        of_month, of_week = moment.day in self.days, (moment.weekday() + 1) % 7 in self.weekdays
        right_day = of_month or of_week if self.either_day else of_month and of_week
        return (
            right_day
            and moment.month in self.months
            and moment.hour in self.hours
            and moment.minute in self.minutes
        )


def _read_field(field: _Field, text: str) -> frozenset[int]:
    return frozenset[int]().union(*(_read_item(field, item) for item in text.split(",")))


def _read_item(field: _Field, text: str) -> range:
    match = _ITEM.fullmatch(text)
    if not match:
        raise _not_right(field)
    first, last, step = match.groups()
    if first == "*":
        if last:
            raise _not_right(field)
        low, high = field.low, field.high
    else:
        low = _read_number(field, first)
        # `5/10` means: from 5 on, every 10.
        high = _read_number(field, last) if last else field.high if step else low
    every = int(step) if step else 1
    if low > high or not 1 <= every <= field.high:
        raise _not_right(field)
    return range(low, high + 1, every)


def _read_number(field: _Field, text: str) -> int:
    if text in field.words:
        return field.words.index(text) + field.low
    if not text.isdecimal() or not field.low <= int(text) <= field.high:
        raise _not_right(field)
    return int(text)


def _not_right(field: _Field) -> InvalidCron:
    return InvalidCron(
        f"must be a cron expression; its {field.name} must be made of `*`, numbers from "
        f"{field.low} to {field.high}, ranges (`1-5`) and steps (`*/15`)"
    )
