"""Times as people write them, in the owner's time zone, also when clocks change."""

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel.errors import TimeNotUnderstood
from silas.kernel.when import (
    MOMENT_WORDS,
    day_bounds,
    parse_day,
    parse_minutes,
    parse_moment,
    parse_schedule,
    parse_time_of_day,
    schedule_in_words,
    spans_in,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 16, 10, 30, tzinfo=BERLIN)  # a Monday


def said(text: str, **more: object) -> str:
    found = parse_moment(text, now=NOW, zone=BERLIN, **more)  # type: ignore[arg-type]
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
        ("2026-12-01 8:30am", "2026-12-01 08:30"),
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
        found = parse_moment(text, now=NOW, zone=BERLIN)
    except TimeNotUnderstood:
        return
    assert found.tzinfo is UTC


def test_hours_are_hours_also_when_the_clocks_change() -> None:
    before = datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN)
    for text in ("in 2 hours", "2h", "+120m"):
        later = parse_moment(text, now=before, zone=BERLIN)
        assert later - before == timedelta(hours=2), text
    assert f"{parse_moment('tomorrow 9am', now=before, zone=BERLIN):%H:%M}" == "07:00"


def test_a_time_that_the_clocks_skip_is_after_the_gap() -> None:
    before = datetime(2026, 3, 29, 0, 30, tzinfo=BERLIN)
    found = parse_moment("today 02:30", now=before, zone=BERLIN).astimezone(BERLIN)
    assert f"{found:%H:%M %z}" == "03:30 +0200"


def test_a_time_that_comes_twice_is_the_first() -> None:
    before = datetime(2026, 10, 25, 0, 30, tzinfo=BERLIN)
    found = parse_moment("today 02:30", now=before, zone=BERLIN).astimezone(BERLIN)
    assert f"{found:%H:%M %z}" == "02:30 +0200"


def test_days_have_the_hours_that_they_have() -> None:
    for day, hours in [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 1, 1), 24)]:
        begin, end = day_bounds(day, BERLIN)
        assert end - begin == timedelta(hours=hours)
    assert parse_day("tomorrow", now=NOW, zone=BERLIN) == date(2026, 11, 17)
    # Late in the evening the day is still the owner's, not that of UTC.
    late = datetime(2026, 11, 16, 23, 30, tzinfo=ZoneInfo("America/New_York"))
    assert parse_day("today", now=late, zone=ZoneInfo("America/New_York")) == date(2026, 11, 16)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("45", 45), ("45m", 45), ("1h", 60), ("1h30", 90), ("1.5h", 90), ("2h 15m", 135)],
)
def test_durations(text: str, minutes: int) -> None:
    assert parse_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "0", "x", "h", "-5m", "1h30x"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(TimeNotUnderstood):
        parse_minutes(text)


@pytest.mark.parametrize(
    ("words", "cron"),
    [
        ("every minute", "*/1 * * * *"),
        ("every 15 minutes", "*/15 * * * *"),
        ("every 60 minutes", "0 * * * *"),
        ("every 7 minutes", None),
        ("every 0 minutes", None),
        ("every hour", "0 * * * *"),
        ("every 6 hours", "0 */6 * * *"),
        ("every day", "0 9 * * *"),
        ("every evening", "0 18 * * *"),
        ("daily at 6pm", "0 18 * * *"),
        ("every day at 12am", "0 0 * * *"),
        ("every day at 13pm", None),
        ("every day at 24:00", None),
        ("every Monday at 9:05", "5 9 * * 1"),
        ("every weekday", "0 9 * * 1-5"),
        ("weekly", "0 9 * * 1"),
        ("every week at 10:00", "0 10 * * 1"),
        ("every Monday and Thursday at 5pm", "0 17 * * 1,4"),
        ("every tuesday, friday", "0 9 * * 2,5"),
        ("every weekend", "0 9 * * 0,6"),
        ("every night", "0 20 * * *"),
        ("every month", "0 9 1 * *"),
        ("every month on the 3rd at 8:00", "0 8 3 * *"),
        ("on the 1st of every month", "0 9 1 * *"),
        ("every month on the 31st", None),
        ("every year on 29 february", None),
        ("every year on the 24th of december", "0 9 24 12 *"),
        ("every 2 weeks", None),
        ("every other day", None),
        ("every full moon", None),
    ],
)
def test_schedules(words: str, cron: str | None) -> None:
    assert parse_schedule(words) == cron
    if cron is not None:
        assert parse_schedule(schedule_in_words(cron)) == cron


@pytest.mark.parametrize(
    ("words", "cron", "told"),
    [
        ("every monday", "59 23 * * 1", "every Monday"),
        ("daily", "59 23 * * *", "every day"),
        ("every morning", "0 9 * * *", "every day at 9:00"),
        ("every month on the 2nd", "59 23 2 * *", "every month on the 2nd"),
        ("every day at 11:59pm", "59 23 * * *", "every day"),
        ("every weekday at 7am", "0 7 * * 1-5", "every weekday at 7:00"),
    ],
)
def test_a_day_without_a_time_is_its_end_where_that_is_meant(
    words: str, cron: str, told: str
) -> None:
    assert parse_schedule(words, day_means="end") == cron
    assert schedule_in_words(cron, day_means="end") == told
    assert parse_schedule(told, day_means="end") == cron


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("*/15 * * * *", "every 15 minutes"),
        ("*/1 * * * *", "every minute"),
        ("0 */6 * * *", "every 6 hours"),
        ("5 9 * * 0", "every Sunday at 9:05"),
        ("5 9 * * 7", "every Sunday at 9:05"),
        ("0 9 * * 1-5", "every weekday at 9:00"),
        ("99 9 * * *", "99 9 * * *"),
        ("0 9 1 * *", "every month on the 1st at 9:00"),
        ("0 9 22 * *", "every month on the 22nd at 9:00"),
        ("0 9 12 5 *", "every year on 12 May at 9:00"),
        ("0 9 12 13 *", "0 9 12 13 *"),
        ("0 9 1 * 1", "0 9 1 * 1"),
        ("30 17 * * 1,3,5", "every Monday, Wednesday and Friday at 17:30"),
        ("always_on", "always_on"),
    ],
)
def test_schedules_in_words(cron: str, words: str) -> None:
    assert schedule_in_words(cron) == words


@pytest.mark.parametrize(
    ("text", "clock"),
    [("07:00", (7, 0)), ("7:05", (7, 5)), ("7am", (7, 0)), ("7:30 PM", (19, 30)), ("12am", (0, 0))],
)
def test_times_of_day(text: str, clock: tuple[int, int]) -> None:
    assert parse_time_of_day(text) == clock


@pytest.mark.parametrize("text", ["7", "24:00", "7:5", "13pm", "noon-ish", "", "07:00:00"])
def test_what_is_no_time_of_day(text: str) -> None:
    with pytest.raises(TimeNotUnderstood, match="is not a time of day, such as 07:00"):
        parse_time_of_day(text)


def test_yesterday_is_the_owners() -> None:
    late = datetime(2026, 11, 16, 23, 30, tzinfo=UTC)  # the 17th has begun in Berlin
    (there,) = spans_in("what did I do yesterday?", now=late, zone=BERLIN)
    (here,) = spans_in("what did I do yesterday?", now=late, zone=ZoneInfo("UTC"))
    assert there.since == datetime(2026, 11, 15, 23, tzinfo=UTC)
    assert here.since == datetime(2026, 11, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("tomorrow at noon", "Wed 2026-11-18 12:00"),
        ("tomorrow at 12:00", "Wed 2026-11-18 12:00"),
        ("today 12pm", "Tue 2026-11-17 12:00"),
        ("tonight at 9pm", "Tue 2026-11-17 21:00"),
        ("tomorrow evening at 7:30pm", "Wed 2026-11-18 19:30"),
        ("tomorrow in the morning", "Wed 2026-11-18 09:00"),
        ("tomorrow night", "Wed 2026-11-18 20:00"),
        ("in half an hour", "Tue 2026-11-17 12:30"),
    ],
)
def test_a_time_that_is_said_is_never_lost(words: str, told: str) -> None:
    """Said at noon: the library takes the time of this very minute for none."""
    berlin = ZoneInfo("Europe/Berlin")
    noon = datetime(2026, 11, 17, 11, 0, tzinfo=UTC)
    found = parse_moment(words, now=noon, zone=berlin).astimezone(berlin)
    assert f"{found:%a %Y-%m-%d %H:%M}" == told


@pytest.mark.parametrize(
    "words",
    [
        "at 5pm",
        "tomorrow",
        "tomorrow morning at 9:00",
        "at 5pm tomorrow",
        "the day after tomorrow",
        "on the 3rd of May",
        "May 3rd, 2027",
        "in 20 minutes",
        "in half an hour",
        "next friday at 10",
        "tonight",
        "2026-12-01 at 10:00",
    ],
)
def test_words_that_name_a_moment_are_known_and_read(words: str) -> None:
    assert re.fullmatch(MOMENT_WORDS, words, re.IGNORECASE)
    noon = datetime(2026, 11, 17, 11, 0, tzinfo=UTC)
    assert parse_moment(words, now=noon, zone=ZoneInfo("Europe/Berlin")) > noon


@pytest.mark.parametrize(
    "words", ["mom", "every monday", "at the lake", "in the house", "5", "may"]
)
def test_other_words_name_no_moment(words: str) -> None:
    assert re.fullmatch(MOMENT_WORDS, words, re.IGNORECASE) is None
