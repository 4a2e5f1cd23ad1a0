"""When a companion wakes by the clock, as its owner says it: a time of day and days of the week.

Pure. What cannot be said like that (`0 9 1 * *`, a single moment) stays as it is and has no
`weekly`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from silas.companions.errors import CompanionInvalid
from silas.companions.models import AgentTimer, TimerKind
from silas.kernel.models import Data
from silas.scheduler import CronSchedule, InvalidCron

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_ALL_DAYS, _ALL_MONTHS = frozenset(range(1, 32)), frozenset(range(1, 13))
_RANGE = 3
"""So many days in a row are told as a range."""
Said = Annotated[str, Field(max_length=200)]


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


@dataclass(frozen=True)
class Weekly:
    """A time of day, `07:00`, and the days on which it holds, Monday first."""

    at: str
    days: tuple[str, ...]


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
    return f"every {_spoken_days(when.days)} at {when.at}"


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


def read_days(text: str) -> tuple[str, ...]:
    """The days that are meant by `mon,wed`, `mon-fri` or `sat-sun`; raises `CompanionInvalid`."""
    found: list[str] = []
    for part in text.lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        begin = _number(first)
        # A range may go past the end of the week: fri-mon.
        length = (_number(last) - begin) % len(DAYS) if dash else 0
        found += [DAYS[(begin + step) % len(DAYS)] for step in range(length + 1)]
    return _days(found)


def _time_of_day(text: str) -> tuple[int, int]:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise CompanionInvalid(f"{text[:40]!a} is not a time of day, such as 07:00.")
    return int(match[1]), int(match[2])


def _days(said: Sequence[str]) -> tuple[str, ...]:
    """In the order of the week, each once."""
    if not said:
        raise CompanionInvalid("Choose at least one day of the week, or switch the timer off.")
    numbers = {_number(each) for each in said}
    return tuple(name for number, name in enumerate(DAYS) if number in numbers)


def _number(text: str) -> int:
    small = text.strip().lower()
    for number, name in enumerate(_NAMES):
        if len(small) >= len(DAYS[number]) and name.lower().startswith(small):
            return number
    raise CompanionInvalid(f"{text[:40]!a} is no day of the week. Say {', '.join(DAYS)}.")


def _spoken_days(days: tuple[str, ...]) -> str:
    numbers = [DAYS.index(each) for each in days]
    names = [_NAMES[each] for each in numbers]
    if len(days) == len(DAYS):
        return "day"
    if len(days) >= _RANGE and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{names[0]} to {names[-1]}"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
