"""Points in time as people write them on the command line."""

import re
from datetime import UTC, datetime, timedelta

import click

_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str) -> datetime:
    """A point in time: `2026-03-01`, `2026-03-01T08:30` (UTC unless it says so), or `7d` ago."""
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        written = datetime.fromisoformat(text.strip())
        return written.astimezone(UTC) if written.tzinfo else written.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{text!r} is not a time. Write 2026-03-01, 2026-03-01T08:30, or 7d for a week ago."
        ) from error
