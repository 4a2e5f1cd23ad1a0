"""Times in words: moments, durations, days of the week, schedules, and the times a question names.

Everything that people write about time is read here, wherever they write it.

1. What is written is meant in the owner's time zone. A time that the clocks skip in spring is taken
   as if they had not been changed yet, one that comes twice in autumn is the first of the two.
2. `in 2 hours` is two hours from now, also when the clocks change in between.
3. What could mean two things (`03/04/2026`, a bare `10`) is refused, not guessed.
4. A schedule is read whole or not at all, and becomes a cron expression.
"""

import calendar
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from silas.kernel.errors import TimeNotUnderstood

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
Prefer = Literal["future", "past"]
DayMeans = Literal["start", "end"]
"""What a day without a time stands for: its beginning, or its last minute (for due dates)."""

_SHORT = re.compile(r"([+-]?)\s*(\d{1,5})\s*(s|m|min|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TWO_ORDERS = re.compile(r"(\d{1,2})[/.-](\d{1,2})(?:[/.-]\d{2,4})?")
_ISO_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?!\d)")
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
    "in the morning": "9:00",
    "in the afternoon": "15:00",
    "in the evening": "19:00",
    "morning": "9:00",
    "afternoon": "15:00",
    "evening": "19:00",
    "night": "20:00",
    "noon": "12:00",
}
_HALF_AN_HOUR = re.compile(r"\bhalf an hour\b", re.IGNORECASE)
_CLOCK_IN_WORDS = re.compile(r"\b\d{1,2}(?::\d{2}|\s*[ap]\.?m\b)", re.IGNORECASE)
_PART_OF_DAY = re.compile(rf"\b(?:{'|'.join(_PARTS_OF_DAY)})\b", re.IGNORECASE)
_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)\s*h(?:ours?|rs?)?)?\s*(?:(\d+)\s*(?:m(?:in(?:utes?)?)?)?)?"
)
_SPOKEN_DURATIONS = (
    (re.compile(r"\bhalf an hour\b"), "30m"),
    (re.compile(r"\b(?:an|one) hour and a half\b"), "1.5h"),
    (re.compile(r"\b(?:an|one) hour\b"), "1h"),
    (re.compile(r"(?<=[a-z\d])(?:\s*,\s*|\s+and\s+)(?=\d)"), " "),
)
_LAST_MINUTE = time(23, 59)
MAX_TEXT_CHARS = 80
_YEARS = range(1970, 2200)


def parse_moment(
    text: str,
    *,
    now: datetime,
    zone: ZoneInfo,
    prefer: Prefer = "future",
    day_means: DayMeans = "start",
) -> datetime:
    """The moment in UTC; raises `TimeNotUnderstood`."""
    words = " ".join(text.split())
    if not words or len(words) > MAX_TEXT_CHARS or words.isdigit() or _has_two_orders(words):
        raise _not_understood(text)
    here = now.astimezone(zone)
    found = _iso(words, zone, day_means) or _short(words, here, prefer)
    if found is None:
        found = _in_words(words, here, zone, prefer, day_means)
    if found is None or found.year not in _YEARS:
        raise _not_understood(text)
    return found.astimezone(UTC)


def parse_day(text: str, *, now: datetime, zone: ZoneInfo, prefer: Prefer = "future") -> date:
    """The day in the owner's time zone."""
    return parse_moment(text, now=now, zone=zone, prefer=prefer).astimezone(zone).date()


def parse_minutes(text: str) -> int:
    """A duration in minutes: `45`, `45m`, `1h30`, `1.5h`, `an hour and a half`."""
    words = text.strip().lower()
    for said, meant in _SPOKEN_DURATIONS:
        words = said.sub(meant, words)
    match = _DURATION.fullmatch(words)
    minutes = round(float(match[1] or 0) * 60) + int(match[2] or 0) if match else 0
    if minutes < 1:
        raise TimeNotUnderstood(f"{text!r} is not a duration. Write 45m, 1h30 or 1.5h.")
    return minutes


def parse_time_of_day(text: str) -> tuple[int, int]:
    """Hour and minute of `07:00`, `7:30 pm` or `7am`; a bare `7` could be either half (rule 3)."""
    found = _CLOCK.fullmatch(text.strip().lower())
    clock = _hour_and_minute(found) if found and (found["minute"] or found["half"]) else None
    if clock is None:
        raise TimeNotUnderstood(f"{text[:40]!a} is not a time of day, such as 07:00.")
    return clock


def parse_days(text: str) -> tuple[str, ...]:
    """The days that are meant by `mon,wed`, `mon-fri` or `sat-sun`, as `DAYS` names them."""
    found: list[str] = []
    for part in text.lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        begin = _day_number(first)
        # A range may go past the end of the week: fri-mon.
        length = (_day_number(last) - begin) % len(DAYS) if dash else 0
        found += [DAYS[(begin + step) % len(DAYS)] for step in range(length + 1)]
    return week_days(found)


def week_days(names: Sequence[str]) -> tuple[str, ...]:
    """Days by their names or the beginnings of those, in the order of the week, each once."""
    numbers = {_day_number(each) for each in names}
    return tuple(day for number, day in enumerate(DAYS) if number in numbers)


def days_in_words(days: Sequence[str]) -> str:
    """`Monday and Friday`, `Monday to Friday`, or `day` for all of them."""
    numbers = [DAYS.index(each) for each in days]
    names = [DAY_NAMES[each] for each in numbers]
    if len(days) == len(DAYS):
        return "day"
    if len(days) >= _RANGE_DAYS and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{names[0]} to {names[-1]}"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def parse_schedule(text: str, *, day_means: DayMeans = "start") -> str | None:
    """The cron expression for `every 15 minutes`, `every Monday at 9:00`; None if it is not one.

    A day without a time is its morning, or its last minute (`day_means="end"`, for due dates).
    """
    words = _EACH.sub("every", " ".join(text.lower().strip(" .!").split()))
    if words in _FIXED_SCHEDULES:
        return _FIXED_SCHEDULES[words]
    if found := _EVERY_N.fullmatch(words):
        return _interval(int(found["count"] or 1), found["unit"].rstrip("s"))
    for times, days in _DAY_SCHEDULES:
        if found := times.fullmatch(words):
            clock = _clock(found, words, day_means)
            when = days(found)
            return f"{clock[1]} {clock[0]} {when}" if clock and when else None
    return None


def schedule_in_words(cron: str, *, day_means: DayMeans = "start") -> str:
    """`every 15 minutes` for a cron expression; what words cannot say stays as it is written."""
    if cron in _FIXED_WORDS:
        return _FIXED_WORDS[cron]
    if found := _CRON_INTERVAL.fullmatch(cron):
        count, unit = found["minutes"] or found["hours"], "minute" if found["minutes"] else "hour"
        return f"every {unit}" if count == "1" else f"every {count} {unit}s"
    found = _CRON_TIME.fullmatch(cron)
    if not found or int(found["hour"]) > 23 or int(found["minute"]) > 59:
        return cron
    day = _cron_day_in_words(found["date"], found["month"], found["day"])
    clock = time(int(found["hour"]), int(found["minute"]))
    if day is None:
        return cron
    if day_means == "end" and clock == _LAST_MINUTE:
        return f"every {day}"
    return f"every {day} at {clock.hour}:{clock.minute:02}"


_DAY_WORDS = "|".join(name.lower() for name in DAY_NAMES)
_MONTH_WORDS = "|".join(
    name.lower() for names in (calendar.month_name, calendar.month_abbr) for name in names if name
)
_PART_WORDS = r"(?:\s+(?:(?:in\s+the\s+)?(?:morning|afternoon|evening)|night))?"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
DATE_WORDS = (
    rf"(?:(?:today|tomorrow|the\s+day\s+after\s+tomorrow){_PART_WORDS}|tonight|"
    r"this\s+(?:morning|afternoon|evening)|next\s+(?:week|month|year)|"
    rf"(?:(?:on|next|this|on\s+next)\s+)?(?:{_DAY_WORDS}){_PART_WORDS}|(?:on\s+)?\d{{4}}-\d\d-\d\d|"
    rf"(?:on\s+)?(?:the\s+)?{_NTH}\s+(?:of\s+)?(?:{_MONTH_WORDS})(?:\s+\d{{4}})?|"
    rf"(?:on\s+)?(?:{_MONTH_WORDS})\s+{_NTH}(?:,?\s+\d{{4}})?)"
)
CLOCK_WORDS = (
    r"(?:(?:at\s+)?\d{1,2}(?::\d{2})?\s*(?:am|pm)\b|(?:at\s+)?\d{1,2}:\d{2}|"
    r"at\s+\d{1,2}|at\s+noon|in\s+the\s+(?:morning|afternoon|evening))"
)
SPAN_WORDS = (
    r"in\s+(?:\d+(?:\.\d+)?|an?|half\s+an)\s*"
    r"(?:seconds?|secs?|minutes?|mins?|m|hours?|hrs?|h|days?|weeks?|months?)"
)
MOMENT_WORDS = (
    rf"(?:{SPAN_WORDS}|{DATE_WORDS}(?:\s*,?\s+{CLOCK_WORDS})?|{CLOCK_WORDS}(?:\s+{DATE_WORDS})?)"
)
"""A pattern for words that name a moment to come, inside of a sentence. Ignores case."""


_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


class TimeSpan(NamedTuple):
    """From `since` until before `until`, and how well a memory from then fits the question."""

    since: datetime
    until: datetime
    fit: float


def spans_in(question: str, *, now: datetime, zone: ZoneInfo) -> list[TimeSpan]:
    """What times a question speaks of: "in May", "on 5 May 2023", "last week".

    The years of a month without one are all near ones.
    """
    small = question.lower()
    found: list[TimeSpan] = []
    for words, (back, days) in _DAYS_BACK.items():
        if words in small:
            first = now.astimezone(zone).date() - timedelta(days=back)
            found.append(_span(first, first + timedelta(days=days), zone))
    for year, month, day in _ISO_DAY.findall(small):
        found += _around_day(int(year), int(month), int(day), zone)
    rest = _ISO_DAY.sub(" ", small)
    years = [int(year) for year in _YEAR.findall(rest)]
    months = [match for match in _MONTH.finditer(rest) if _is_month(rest, match)]
    for match in months:
        found += _month_spans(match, years, now, zone)
    if not months and not found:
        found += [
            _span(date(year, 1, 1), date(year + 1, 1, 1), zone, _FIT_OF_ITS_YEAR) for year in years
        ]
    return found


def spans_in_words(text: str) -> bool:
    """Whether a text names a time that has passed, whichever: "March", "last week"."""
    return bool(spans_in(text, now=_SOME_DAY, zone=ZoneInfo("UTC")))


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
    words = _BARE_HOUR.sub(r"at \1:00", _HALF_AN_HOUR.sub("30 minutes", text))
    # "tonight at 9pm" has its own time; alone it stands for one.
    named = _CLOCK_IN_WORDS.search(words) is not None
    words = _PART_OF_DAY.sub(_only_day if named else _part_of_day, words)
    if _HOURS_FROM_NOW.fullmatch(words):  # 2
        found, _ = _parse(words, here.astimezone(UTC).replace(tzinfo=None), prefer)
        return found.replace(tzinfo=UTC) if found is not None else None
    found, has_time = _parse(words, here.replace(tzinfo=None), prefer)
    if found is None or found.tzinfo is not None:
        return found
    # The library takes a time for none if it is this very minute.
    timed = has_time or _CLOCK_IN_WORDS.search(words) is not None
    return local(found if timed else _on(found.date(), day_means), zone)


def _part_of_day(match: re.Match[str]) -> str:
    return _PARTS_OF_DAY[match[0].lower()]


def _only_day(match: re.Match[str]) -> str:
    return "today" if _PARTS_OF_DAY[match[0].lower()].startswith("today") else ""


def _parse(text: str, base: datetime, prefer: Prefer) -> tuple[datetime | None, bool]:
    """What the library makes of it, and whether it names a time of day."""
    answer = _parser(prefer, base).get_date_data(text)
    found: datetime | None = answer.date_obj
    return found, answer.period == "time"


def _parser(prefer: Prefer, base: datetime) -> Any:
    # It takes a quarter of a second to load, and most commands name no time in words.
    from dateparser.date import (  # type: ignore[import-untyped]  # noqa: PLC0415
        DateDataParser,
    )

    return DateDataParser(
        languages=["en"],
        settings={
            "RELATIVE_BASE": base,
            "PREFER_DATES_FROM": prefer,
            "RETURN_TIME_AS_PERIOD": True,
            "DATE_ORDER": "DMY",
        },
    )


def _on(day: date, day_means: DayMeans) -> datetime:
    return datetime.combine(day, time.min if day_means == "start" else _LAST_MINUTE)


def _has_two_orders(text: str) -> bool:
    if iso := _ISO_DATE.match(text):
        return not _is_date(iso[0])  # else 2026-13-01 would be read as the 13th of January
    match = _TWO_ORDERS.match(text)
    return (
        match is not None and int(match[1]) <= 12 and int(match[2]) <= 12 and match[1] != match[2]
    )


def _is_date(text: str) -> bool:
    try:
        date(*map(int, text.split("-")))
    except ValueError:
        return False
    return True


def _not_understood(text: str) -> TimeNotUnderstood:
    return TimeNotUnderstood(f"{text!r}: {TimeNotUnderstood.sentence()}")


_CLOCK = re.compile(r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>am|pm)?", re.ASCII)
_AT = rf"(?:\s+at\s+{_CLOCK.pattern})?"
_WEEKDAY = "|".join(f"{name.lower()}s?" for name in DAY_NAMES)
_MONTH_NAMES = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_ORDINAL = r"(?P<date>\d{1,2})(?:st|nd|rd|th)?"
_EACH = re.compile(r"^each\b|\beach(?= month\b)")
_EVERY_N = re.compile(r"every\s+(?:(?P<count>\d+)\s+)?(?P<unit>minutes?|hours?)")
_EVERY_DAY = re.compile(rf"(?:every\s*(?:day|morning|evening|night)|daily){_AT}")
_EVERY_WEEK = re.compile(rf"(?:every\s+week|weekly){_AT}")
_EVERY_WEEKDAY = re.compile(
    rf"every\s+(?P<days>(?:{_WEEKDAY})(?:(?:\s*,\s*|,?\s+and\s+)(?:{_WEEKDAY}))*){_AT}"
)
_WORKDAYS = re.compile(rf"every\s+(?:weekday|working day){_AT}")
_WEEKENDS = re.compile(rf"every\s+weekend{_AT}")
_EVERY_MONTH = re.compile(
    rf"(?:(?:every\s+month|monthly)(?:\s+on\s+the\s+{_ORDINAL})?|"
    rf"(?:on\s+)?the\s+{_ORDINAL.replace('date', 'of')}\s+of\s+every\s+month){_AT}"
)
_EVERY_YEAR = re.compile(
    rf"(?:every\s+year|yearly)\s+on\s+(?:the\s+)?{_ORDINAL}\s+(?:of\s+)?"
    rf"(?P<month>{'|'.join(_MONTH_NAMES)}){_AT}"
)
_SUREST_DATE = 28
"""The last day that every month has: a later one would be left out in some."""


def _cron_weekdays(found: re.Match[str]) -> str:
    names = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", found["days"])
    # Cron counts from Sunday.
    numbers = {(_day_number(name.removesuffix("s")) + 1) % len(DAYS) for name in names}
    return f"* * {','.join(map(str, sorted(numbers)))}"


def _cron_date(found: re.Match[str]) -> str | None:
    date_of_month = int(found["date"] or found["of"] or 1)
    return f"{date_of_month} * *" if 1 <= date_of_month <= _SUREST_DATE else None


def _cron_birthday(found: re.Match[str]) -> str | None:
    month, date_of_month = _MONTH_NAMES[found["month"]], int(found["date"])
    shortest = _SUREST_DATE if month == 2 else calendar.monthrange(2001, month)[1]
    return f"{date_of_month} {month} *" if 1 <= date_of_month <= shortest else None


_DAY_SCHEDULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]], ...] = (
    (_EVERY_DAY, lambda _: "* * *"),
    (_EVERY_WEEK, lambda _: "* * 1"),
    (_WORKDAYS, lambda _: "* * 1-5"),
    (_WEEKENDS, lambda _: "* * 0,6"),
    (_EVERY_WEEKDAY, _cron_weekdays),
    (_EVERY_MONTH, _cron_date),
    (_EVERY_YEAR, _cron_birthday),
)


def _cron_day_in_words(date_of_month: str, month: str, weekday: str) -> str | None:
    """What `every` is said of; None if words cannot say it."""
    if date_of_month == month == "*":
        fixed = {"*": "day", "1-5": "weekday", "0,6": "weekend"}
        numbers = weekday.split(",") if weekday not in fixed else []
        names = [DAY_NAMES[(int(each) - 1) % len(DAYS)] for each in numbers]
        listed = " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else None
        return fixed.get(weekday) or listed or names[0]
    if weekday != "*" or date_of_month == "*":
        return None
    if month == "*":
        return f"month on the {_ordinal(int(date_of_month))}"
    named = 1 <= int(month) <= len(_MONTH_NAMES)
    return f"year on {int(date_of_month)} {calendar.month_name[int(month)]}" if named else None


def _ordinal(number: int) -> str:
    teens = number // 10 == 1
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


_EVERY_HOUR = "0 * * * *"
_FIXED_SCHEDULES = {"hourly": _EVERY_HOUR, "every hour": _EVERY_HOUR}
_FIXED_WORDS = {_EVERY_HOUR: "every hour", "* * * * *": "every minute"}
_CRON_INTERVAL = re.compile(
    r"\*/(?P<minutes>[1-9]\d?) \* \* \* \*|0 \*/(?P<hours>[1-9]\d?) \* \* \*", re.ASCII
)
_CRON_TIME = re.compile(
    r"(?P<minute>\d{1,2}) (?P<hour>\d{1,2}) (?P<date>\*|\d{1,2}) (?P<month>\*|\d{1,2}) "
    r"(?P<day>\*|1-5|[0-7](?:,[0-7])*)",
    re.ASCII,
)
_MORNING, _EVENING, _NIGHT = (9, 0), (18, 0), (20, 0)
_RANGE_DAYS = 3
"""So many days in a row are named as a range."""


def _interval(count: int, unit: str) -> str | None:
    """Only what divides evenly: cron would start anew at each full hour or day."""
    whole = 60 if unit == "minute" else 24
    if count == 0 or whole % count:
        return None
    if unit == "minute":
        return _EVERY_HOUR if count == whole else f"*/{count} * * * *"
    return "0 0 * * *" if count == whole else f"0 */{count} * * *"


def _clock(found: re.Match[str], words: str, day_means: DayMeans) -> tuple[int, int] | None:
    if found["hour"] is not None:
        return _hour_and_minute(found)
    if "evening" in words or "night" in words:
        return _EVENING if "evening" in words else _NIGHT
    whole_day = day_means == "end" and "morning" not in words
    return (_LAST_MINUTE.hour, _LAST_MINUTE.minute) if whole_day else _MORNING


def _hour_and_minute(found: re.Match[str]) -> tuple[int, int] | None:
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"] == "pm" else 0)
    return (hour, minute) if hour < 24 and minute < 60 else None


def _day_number(text: str) -> int:
    small = text.strip().lower()
    for number, name in enumerate(DAY_NAMES):
        if len(small) >= len(DAYS[number]) and name.lower().startswith(small):
            return number
    raise TimeNotUnderstood(f"{text[:40]!a} is no day of the week. Say {', '.join(DAYS)}.")


_MONTHS = {
    name.lower(): number
    for names in (calendar.month_abbr, calendar.month_name)
    for number, name in enumerate(names)
    if name
}
# "May" is a month only where it cannot be the verb.
_MONTH = re.compile(
    rf"(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?"
    rf"\b(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
    r"(?: (?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?!:))?,?(?: (?P<year>(?:19|20)\d\d)\b)?"
)
_BEFORE_MAY = re.compile(
    r"\b(?:in|on|of|during|since|until|early|late|mid|last|this|\d{1,2}\w{0,2}) $"
)
_ISO_DAY = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DAYS_BACK = {
    "today": (0, 1),
    "yesterday": (1, 1),
    "last night": (1, 1),
    "this week": (6, 7),
    "last week": (13, 14),
    "this month": (30, 31),
    "last month": (61, 62),
    "recently": (13, 14),
    "lately": (13, 14),
    "last year": (730, 731),
}
_DAYS_AROUND = 3
"""What happened on a day is mostly told a little later."""
_FIT_OF_ITS_MONTH = 0.4
_FIT_OF_ITS_YEAR = 0.5
_YEARS_BACK = 9


def _span(first: date, end: date, zone: ZoneInfo, fit: float = 1.0) -> TimeSpan:
    return TimeSpan(day_bounds(first, zone)[0], day_bounds(end, zone)[0], fit)


def _is_month(text: str, match: re.Match[str]) -> bool:
    if match["month"] != "may" or match["day"] or match["after"] or match["year"]:
        return True
    return _BEFORE_MAY.search(text[: match.start("month")]) is not None


def _month_spans(
    match: re.Match[str], years: list[int], now: datetime, zone: ZoneInfo
) -> list[TimeSpan]:
    month = _MONTHS[match["month"]]
    day = int(match["day"] or match["after"] or 0)
    near = range(now.year - _YEARS_BACK, now.year + 1)
    found: list[TimeSpan] = []
    for year in [int(match["year"])] if match["year"] else years or near:
        first = date(year, month, 1)
        end = first + timedelta(days=calendar.monthrange(year, month)[1])
        found.append(_span(first, end, zone, _FIT_OF_ITS_MONTH if day else 1.0))
        found += _around_day(year, month, day, zone) if day else []
    return found


def _around_day(year: int, month: int, day: int, zone: ZoneInfo) -> list[TimeSpan]:
    try:
        exact = date(year, month, day)
    except ValueError:
        return []
    around = timedelta(days=_DAYS_AROUND)
    return [_span(exact - around, exact + around + timedelta(days=1), zone)]
