"""A clock that stands still until it is told to move."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """`Clock` under the control of a test."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, **duration: float) -> None:
        """Let time pass, in the words of `timedelta`: `advance(minutes=5)`."""
        step = timedelta(**duration)
        self._now += step
        self._monotonic += step.total_seconds()

    def set(self, moment: datetime) -> None:
        """Set the wall clock, as a person or a time server would; monotonic time is not moved."""
        self._now = moment
