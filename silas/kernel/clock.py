"""Time as a port: aware UTC datetimes, and one way to write them down."""

import time
from datetime import UTC, datetime
from typing import Protocol

_LENGTH = len("0000-00-00T00:00:00.000000")


class Clock(Protocol):
    """Where every room gets the time from."""

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
    return utc.isoformat("T", "microseconds")[:_LENGTH] + "Z"


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
