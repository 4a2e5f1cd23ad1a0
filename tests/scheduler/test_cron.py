"""Cron expressions: what they mean, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.scheduler import CronSchedule, InvalidCron


def test_every_quarter_of_an_hour() -> None:
    schedule = CronSchedule.parse("*/15 * * * *")
    assert schedule.minutes == {0, 15, 30, 45}
    assert schedule.hours == set(range(24))
    assert schedule.days == set(range(1, 32))
    assert schedule.months == set(range(1, 13))
    assert schedule.weekdays == set(range(7))
    assert not schedule.either_day


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        ("0 9 * * mon-fri", "weekdays", {1, 2, 3, 4, 5}),
        ("0 9 * * 7", "weekdays", {0}),
        ("0 9 * * SUN", "weekdays", {0}),
        ("0 9 1 jan,JUL *", "months", {1, 7}),
        ("1,2,50-52 * * * *", "minutes", {1, 2, 50, 51, 52}),
        ("10-30/10 * * * *", "minutes", {10, 20, 30}),
        ("5/20 * * * *", "minutes", {5, 25, 45}),
        ("5-5/20 * * * *", "minutes", {5}),
        ("0 0 29 2 *", "days", {29}),
    ],
)
def test_fields_mean_what_cron_means(text: str, field: str, values: set[int]) -> None:
    assert getattr(CronSchedule.parse(text), field) == values


def test_two_restricted_days_mean_either() -> None:
    assert CronSchedule.parse("0 0 13 * fri").either_day
    assert not CronSchedule.parse("0 0 13 * *").either_day
    assert CronSchedule.parse("0 0 31 2 mon").either_day


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "five fields"),
        ("* * * *", "this has 4"),
        ("* * * * * *", "this has 6"),
        ("@daily", "five fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of the week"),
        ("* * * * funday", "day of the week"),
        ("5-1 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("*-5 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("-1 * * * *", "minute"),
        ("\u0661 * * * *", "minute"),
        ("*/90 * * * *", "minute"),
        ("0 0 l * *", "day of the month"),
        ("0 0 lw * *", "day of the month"),
        ("0 0 * * 5l", "day of the week"),
        ("0 0 * * fri#2", "day of the week"),
        ("0 0 31 2 *", "never be due"),
        ("0 0 31 4,6 *", "never be due"),
        ("1" + ",1" * 200 + " * * * *", "five fields"),
    ],
)
def test_what_is_no_cron_expression_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidCron, match=words):
        CronSchedule.parse(text)


@given(st.text(max_size=40) | st.lists(st.sampled_from("*/,-0159 monj"), max_size=20).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        schedule = CronSchedule.parse(text)
    except InvalidCron:
        return
    assert schedule.minutes <= set(range(60))
    assert all((schedule.minutes, schedule.hours, schedule.days, schedule.months))
    assert schedule.weekdays <= set(range(7))
