"""Time as a port: aware UTC datetimes, and one way to write them down."""

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Where every package gets the time from."""

    def now(self) -> datetime:
        """The current moment as an aware UTC datetime."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards; only differences have a meaning."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def format_timestamp(moment: datetime) -> str:
    """Write a moment as UTC with six fractional digits, so that text order is time order."""
    utc = moment if moment.tzinfo is UTC else _in_utc(moment)
    minute = _minute(utc.year, utc.month, utc.day, utc.hour, utc.minute)
    return f"{minute}{utc.second:02}.{utc.microsecond:06}Z"


# Every entry of the audit log has a time, and many have the same minute.
@lru_cache(maxsize=64)
def _minute(year: int, month: int, day: int, hour: int, minute: int) -> str:
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:"


def _in_utc(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise ValueError("a datetime without a time zone is ambiguous: use an aware one")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("in UTC, this moment lies outside the years 1 to 9999") from error


def parse_timestamp(text: str) -> datetime:
    """Read what `format_timestamp` wrote; any other spelling is an error."""
    moment = datetime.fromisoformat(text)
    # There are many ISO spellings of a moment; only the one that we write is ours.
    if format_timestamp(moment) != text:
        raise ValueError(f"not a canonical timestamp: {text!r}")
    return moment
