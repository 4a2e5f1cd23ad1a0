"""Due times across summer time, odd calendars, and back."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.scheduler import CronSchedule, known_zone, last_due, next_due

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "after", "due"),
    [
        ("0 7 * * *", "2026-01-01T05:59", "2026-01-01T06:00"),
        ("0 7 * * *", "2026-01-01T06:00", "2026-01-02T06:00"),
        # Summer time begins on 29 March 2026: seven stays seven, which is five in UTC.
        ("0 7 * * *", "2026-03-28T12:00", "2026-03-29T05:00"),
        # Half past two is skipped that night; it is due as much later as the clocks skip.
        ("30 2 * * *", "2026-03-28T12:00", "2026-03-29T01:30"),
        ("30 2 * * *", "2026-03-29T01:30", "2026-03-30T00:30"),
        # Half past two comes twice on 25 October 2026; it is due the first time only.
        ("30 2 * * *", "2026-10-24T12:00", "2026-10-25T00:30"),
        ("30 2 * * *", "2026-10-25T00:30", "2026-10-26T01:30"),
        ("0 9 29 2 *", "2026-03-01T00:00", "2028-02-29T08:00"),
        ("0 9 * * mon-fri", "2026-01-02T12:00", "2026-01-05T08:00"),
        ("*/15 * * * *", "2026-01-01T05:59", "2026-01-01T06:00"),
    ],
)
def test_the_next_due_time_in_berlin(cron: str, after: str, due: str) -> None:
    assert next_due(CronSchedule.parse(cron), utc(after), zone=BERLIN) == utc(due)


def test_the_last_due_time_is_found_however_rare_or_frequent() -> None:
    until = utc("2026-06-01T12:00")
    cases = {
        "* * * * *": "2026-06-01T12:00",
        "0 7 * * *": "2026-06-01T05:00",
        "0 9 1 1 *": "2026-01-01T08:00",
        "0 9 29 2 *": "2024-02-29T08:00",
    }
    for cron, due in cases.items():
        assert last_due(CronSchedule.parse(cron), until, zone=BERLIN) == utc(due)


def test_zones_that_nobody_knows() -> None:
    assert known_zone("Europe/Berlin") == BERLIN
    for name in ("Europe/Atlantis", "", "../etc/passwd", "/etc/passwd"):
        assert known_zone(name) is None


@given(
    cron=st.sampled_from(["*/15 * * * *", "30 2 * * *", "0 7 * * 1-5", "15 3 1 * *"]),
    minutes=st.integers(0, 60 * 24 * 365),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
def test_what_is_due_next_is_later_and_nothing_lies_between(
    cron: str, minutes: int, zone: str
) -> None:
    schedule, place = CronSchedule.parse(cron), ZoneInfo(zone)
    after = utc("2026-01-01T00:00") + timedelta(minutes=minutes)
    due = next_due(schedule, after, zone=place)
    assert due is not None
    assert due > after
    assert last_due(schedule, due, zone=place) == due
    between = next_due(schedule, after + (due - after) / 2, zone=place)
    assert between == due
