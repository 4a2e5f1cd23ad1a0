"""Times as people write them, in the owner's time zone, also when clocks change."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.journal.errors import TimeNotUnderstood
from silas.journal.moments import day_bounds, understand, understand_day, understand_minutes

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 16, 10, 30, tzinfo=BERLIN)  # a Monday


def said(text: str, **more: object) -> str:
    found = understand(text, now=NOW, zone=BERLIN, **more)  # type: ignore[arg-type]
    assert found.tzinfo is UTC
    return f"{found.astimezone(BERLIN):%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("tomorrow 9am", "2026-11-17 09:00"),
        ("Tomorrow at 9", "2026-11-17 09:00"),
        ("tomorrow morning", "2026-11-17 09:00"),
        ("tonight", "2026-11-16 20:00"),
        ("in 2 hours", "2026-11-16 12:30"),
        ("in 20 min", "2026-11-16 10:50"),
        ("+90m", "2026-11-16 12:00"),
        ("2d", "2026-11-18 10:30"),
        ("next friday", "2026-11-20 00:00"),
        ("friday 18:00", "2026-11-20 18:00"),
        ("monday", "2026-11-23 00:00"),
        ("17:00", "2026-11-16 17:00"),
        ("9am", "2026-11-17 09:00"),
        ("the day after tomorrow", "2026-11-18 00:00"),
        ("1 dec", "2026-12-01 00:00"),
        ("2026-12-01", "2026-12-01 00:00"),
        ("2026-12-01 08:30", "2026-12-01 08:30"),
        ("2026-12-01T08:30Z", "2026-12-01 09:30"),
        ("3pm UTC", "2026-11-16 16:00"),
        ("now", "2026-11-16 10:30"),
    ],
)
def test_what_people_write(text: str, meant: str) -> None:
    assert said(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("9am", "2026-11-16 09:00"),
        ("17:00", "2026-11-15 17:00"),
        ("friday", "2026-11-13 00:00"),
        ("2 hours ago", "2026-11-16 08:30"),
        ("an hour ago", "2026-11-16 09:30"),
        ("2h", "2026-11-16 08:30"),
        ("yesterday 5pm", "2026-11-15 17:00"),
    ],
)
def test_what_was_before(text: str, meant: str) -> None:
    assert said(text, prefer="past") == meant


def test_something_that_is_due_on_a_day_is_due_at_its_end() -> None:
    assert said("next friday", day_means="end") == "2026-11-20 23:59"
    assert said("2026-12-01", day_means="end") == "2026-12-01 23:59"
    assert said("next friday 9am", day_means="end") == "2026-11-20 09:00"


@pytest.mark.parametrize(
    "text",
    ["", "  ", "10", "soon", "Squats", "03/04/2026", "3.4.", "30 feb 2026", "tomorrow 9am or so"],
)
def test_what_is_not_clear_is_refused(text: str) -> None:
    with pytest.raises(TimeNotUnderstood):
        said(text)


@given(st.text(max_size=30))
def test_nonsense_is_a_moment_or_refused(text: str) -> None:
    try:
        found = understand(text, now=NOW, zone=BERLIN)
    except TimeNotUnderstood:
        return
    assert found.tzinfo is UTC


def test_hours_are_hours_also_when_the_clocks_change() -> None:
    before = datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN)
    for text in ("in 2 hours", "2h", "+120m"):
        later = understand(text, now=before, zone=BERLIN)
        assert later - before == timedelta(hours=2), text
    assert f"{understand('tomorrow 9am', now=before, zone=BERLIN):%H:%M}" == "07:00"


def test_a_time_that_the_clocks_skip_is_after_the_gap() -> None:
    before = datetime(2026, 3, 29, 0, 30, tzinfo=BERLIN)
    found = understand("today 02:30", now=before, zone=BERLIN).astimezone(BERLIN)
    assert f"{found:%H:%M %z}" == "03:30 +0200"


def test_a_time_that_comes_twice_is_the_first() -> None:
    before = datetime(2026, 10, 25, 0, 30, tzinfo=BERLIN)
    found = understand("today 02:30", now=before, zone=BERLIN).astimezone(BERLIN)
    assert f"{found:%H:%M %z}" == "02:30 +0200"


def test_days_have_the_hours_that_they_have() -> None:
    for day, hours in [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 1, 1), 24)]:
        begin, end = day_bounds(day, BERLIN)
        assert end - begin == timedelta(hours=hours)
    assert understand_day("tomorrow", now=NOW, zone=BERLIN) == date(2026, 11, 17)
    # Late in the evening the day is still the owner's, not that of UTC.
    late = datetime(2026, 11, 16, 23, 30, tzinfo=ZoneInfo("America/New_York"))
    assert understand_day("today", now=late, zone=ZoneInfo("America/New_York")) == date(
        2026, 11, 16
    )


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("45", 45), ("45m", 45), ("1h", 60), ("1h30", 90), ("1.5h", 90), ("2h 15m", 135)],
)
def test_durations(text: str, minutes: int) -> None:
    assert understand_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "0", "x", "h", "-5m", "1h30x"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(TimeNotUnderstood):
        understand_minutes(text)
