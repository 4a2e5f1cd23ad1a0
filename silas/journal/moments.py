"""Times as people write them: `tomorrow 9am`, `next friday`, `in 2 hours`, `2026-03-01 08:30`.

1. What is written is meant in the owner's time zone. A time that the clocks skip in spring is taken
   as if they had not been changed yet, one that comes twice in autumn is the first of the two.
2. `in 2 hours` is two hours from now, also when the clocks change in between.
3. What could mean two things (`03/04/2026`, a bare `10`) is refused, not guessed.
"""

import importlib
import re
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

from silas.journal.errors import TimeNotUnderstood

Prefer = Literal["future", "past"]
DayMeans = Literal["start", "end"]
"""What a day without a time stands for: its beginning, or its last minute (for due dates)."""

_SHORT = re.compile(r"([+-]?)\s*(\d{1,5})\s*(m|min|h|d|w)")
_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TWO_ORDERS = re.compile(r"(\d{1,2})[/.-](\d{1,2})(?:[/.-]\d{2,4})?")
_BARE_HOUR = re.compile(r"\bat (\d{1,2})(?!\s*(?:[:.\d]|[ap]\.?m|h|o'clock))", re.IGNORECASE)
_HOURS_FROM_NOW = re.compile(
    r"(?:in\s+)?(?:\d+(?:\.\d+)?|an?|half an)\s*"
    r"(?:h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?)"
    r"(?:[\s,]+(?:and\s+)?\d+\s*(?:m|mins?|minutes?|s|secs?|seconds?))?(?:\s+ago)?",
    re.IGNORECASE,
)
_PARTS_OF_DAY = {
    "tonight": "today 20:00",
    "this morning": "today 9:00",
    "this afternoon": "today 15:00",
    "this evening": "today 19:00",
    "morning": "9:00",
    "afternoon": "15:00",
    "evening": "19:00",
}
_PART_OF_DAY = re.compile(rf"\b(?:{'|'.join(_PARTS_OF_DAY)})\b", re.IGNORECASE)
_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)\s*h(?:ours?|rs?)?)?\s*(?:(\d+)\s*(?:m(?:in(?:utes?)?)?)?)?"
)
_LAST_MINUTE = time(23, 59)
_LONGEST_TEXT = 80
_YEARS = range(1970, 2200)


def understand(
    text: str,
    *,
    now: datetime,
    zone: ZoneInfo,
    prefer: Prefer = "future",
    day_means: DayMeans = "start",
) -> datetime:
    """The moment in UTC; raises `TimeNotUnderstood`."""
    said = " ".join(text.split())
    if not said or len(said) > _LONGEST_TEXT or said.isdigit() or _has_two_orders(said):
        raise _not_understood(text)
    here = now.astimezone(zone)
    found = _iso(said, zone, day_means) or _short(said, here, prefer)
    if found is None:
        found = _in_words(said, here, zone, prefer, day_means)
    if found is None or found.year not in _YEARS:
        raise _not_understood(text)
    return found.astimezone(UTC)


def understand_day(text: str, *, now: datetime, zone: ZoneInfo, prefer: Prefer = "future") -> date:
    """The day in the owner's time zone."""
    return understand(text, now=now, zone=zone, prefer=prefer).astimezone(zone).date()


def understand_minutes(text: str) -> int:
    """A duration in minutes: `45`, `45m`, `1h30`, `1.5h`."""
    match = _DURATION.fullmatch(text.strip().lower())
    minutes = round(float(match[1] or 0) * 60) + int(match[2] or 0) if match else 0
    if minutes < 1:
        raise TimeNotUnderstood(f"{text!r} is not a duration. Write 45m, 1h30 or 1.5h.")
    return minutes


def local(naive: datetime, zone: ZoneInfo) -> datetime:
    """A time of the owner's clocks as a moment (rule 1)."""
    return naive.replace(tzinfo=zone, fold=0).astimezone(UTC)


def day_bounds(day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The beginning and the end of a local day; it has 23 or 25 hours when clocks change."""
    midnight = time.min
    begin = local(datetime.combine(day, midnight), zone)
    return begin, local(datetime.combine(day + timedelta(days=1), midnight), zone)


def _iso(text: str, zone: ZoneInfo, day_means: DayMeans) -> datetime | None:
    try:
        written = datetime.fromisoformat(text)
    except ValueError:
        return None
    if written.tzinfo is not None:
        return written
    if len(text) <= len("2026-03-01"):
        written = _on(written.date(), day_means)
    return local(written, zone)


def _short(text: str, here: datetime, prefer: Prefer) -> datetime | None:
    match = _SHORT.fullmatch(text.lower())
    if match is None:
        return None
    back = match[1] == "-" or (not match[1] and prefer == "past")
    step = timedelta(**{_UNITS[match[3]]: int(match[2])})
    if match[3] in "dw":
        moved = here.replace(tzinfo=None) + (-step if back else step)
        return local(moved, here.tzinfo)  # type: ignore[arg-type]
    return here.astimezone(UTC) + (-step if back else step)


def _in_words(
    text: str, here: datetime, zone: ZoneInfo, prefer: Prefer, day_means: DayMeans
) -> datetime | None:
    said = _BARE_HOUR.sub(r"at \1:00", _PART_OF_DAY.sub(_part_of_day, text))
    if _HOURS_FROM_NOW.fullmatch(said):  # 2
        found, _ = _parse(said, here.astimezone(UTC).replace(tzinfo=None), prefer)
        return found.replace(tzinfo=UTC) if found is not None else None
    found, has_time = _parse(said, here.replace(tzinfo=None), prefer)
    if found is None or found.tzinfo is not None:
        return found
    return local(found if has_time else _on(found.date(), day_means), zone)


def _part_of_day(match: re.Match[str]) -> str:
    return _PARTS_OF_DAY[match[0].lower()]


def _parse(text: str, base: datetime, prefer: Prefer) -> tuple[datetime | None, bool]:
    """What the library makes of it, and whether a time of day was said."""
    answer = _parser(prefer, base).get_date_data(text)
    found: datetime | None = answer.date_obj
    return found, answer.period == "time"


def _parser(prefer: Prefer, base: datetime) -> Any:
    return _library().DateDataParser(
        languages=["en"],
        settings={
            "RELATIVE_BASE": base,
            "PREFER_DATES_FROM": prefer,
            "RETURN_TIME_AS_PERIOD": True,
            "DATE_ORDER": "DMY",
        },
    )


@cache
def _library() -> Any:
    # It takes a quarter of a second to load, and most commands name no time in words.
    return importlib.import_module("dateparser.date")


def _on(day: date, day_means: DayMeans) -> datetime:
    return datetime.combine(day, time.min if day_means == "start" else _LAST_MINUTE)


def _has_two_orders(text: str) -> bool:
    match = _TWO_ORDERS.match(text)
    return (
        match is not None and int(match[1]) <= 12 and int(match[2]) <= 12 and match[1] != match[2]
    )


def _not_understood(text: str) -> TimeNotUnderstood:
    return TimeNotUnderstood(f"{text!r}: {TimeNotUnderstood.sentence()}")
