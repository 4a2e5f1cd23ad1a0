"""Time: aware UTC only, one spelling, and text order is time order."""

import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import SystemClock, format_timestamp, parse_timestamp
from silas.testing import FakeClock

zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
# A day away from the ends of the calendar, so that no zone leads out of it.
moments = st.datetimes(
    datetime(1, 1, 2),  # noqa: DTZ001 - the strategy adds the zone
    datetime(9999, 12, 30),  # noqa: DTZ001
    timezones=zones,
)


@given(moments)
def test_a_timestamp_comes_back_as_the_same_moment(moment: datetime) -> None:
    text = format_timestamp(moment)
    assert parse_timestamp(text) == moment
    assert parse_timestamp(text).tzinfo is UTC
    assert len(text) == 27


@given(moments, moments)
def test_text_order_is_time_order(one: datetime, other: datetime) -> None:
    assert (format_timestamp(one) < format_timestamp(other)) == (one < other)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC), "2026-02-03T04:05:06.000007Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
        (datetime(999, 1, 1, tzinfo=UTC), "0999-01-01T00:00:00.000000Z"),
        (datetime.max.replace(tzinfo=UTC), "9999-12-31T23:59:59.999999Z"),
        (
            datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=14))),
            "2025-12-31T10:00:00.000000Z",
        ),
    ],
)
def test_known_spellings(moment: datetime, text: str) -> None:
    assert format_timestamp(moment) == text
    assert parse_timestamp(text) == moment


def test_the_time_zone_of_the_machine_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=1)))
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "Asia/Kathmandu")
        time.tzset()
        assert format_timestamp(moment) == "2026-07-01T11:00:00.000000Z"
        assert parse_timestamp("2026-07-01T11:00:00.000000Z") == moment
    time.tzset()


class _NoOffset(tzinfo):
    def utcoffset(self, moment: datetime | None) -> None:
        return None


@pytest.mark.parametrize("zone", [None, _NoOffset()])
def test_a_naive_datetime_is_refused(zone: tzinfo | None) -> None:
    with pytest.raises(ValueError, match=r"^a datetime without a time zone is ambiguous: use an"):
        format_timestamp(datetime(2026, 1, 1, tzinfo=zone))


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(minutes=1))),
        datetime.max.replace(tzinfo=timezone(timedelta(minutes=-1))),
    ],
)
def test_a_moment_outside_the_calendar_in_utc_is_refused(moment: datetime) -> None:
    with pytest.raises(ValueError, match=r"^in UTC, this moment lies outside the years 1 to 9999$"):
        format_timestamp(moment)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.0Z",
        "2026-01-01T00:00:00.000000",
        "2026-01-01T00:00:00.000000+00:00",
        "2026-01-01T00:00:00.000000z",
        "2026-1-01T00:00:00.000000Z",
        "2026-01-01 00:00:00.000000Z",
        " 2026-01-01T00:00:00.000000Z",
        "2026-01-01T00:00:00.000000Z\n",
        "2026-02-30T00:00:00.000000Z",
        "2026-01-01T24:00:00.000000Z",
        "2026-01-01T00:00:61.000000Z",
        "\u0662026-01-01T00:00:00.000000Z",
        "",
    ],
)
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_timestamp(text)


def test_the_refused_spelling_is_named() -> None:
    with pytest.raises(ValueError, match=r"not a canonical timestamp: '2026-01-01T00:00:00\.5Z'"):
        parse_timestamp("2026-01-01T00:00:00.5Z")


def test_the_system_clock_agrees_with_the_machine() -> None:
    clock = SystemClock()
    before = datetime.now(UTC)
    now = clock.now()
    assert before <= now <= datetime.now(UTC)
    assert now.tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()


def test_the_fake_clock_moves_when_told() -> None:
    clock = FakeClock()
    start = clock.now()
    clock.advance(minutes=2, seconds=1)
    assert clock.now() == start + timedelta(seconds=121)
    assert clock.monotonic() == 121.0
    clock.set(start)
    assert (clock.now(), clock.monotonic()) == (start, 121.0)
