"""The stretches of time that a question speaks of: "in May", "on 5 May 2023", "last week"."""

import calendar
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_SHORT = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_NAMES = "|".join([*_MONTHS, *(name for name in _SHORT if name != "may")])
# "May" is a month only where it cannot be the verb.
_MONTH = re.compile(
    rf"(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?"
    rf"\b(?P<month>{_NAMES})\b\.?"
    r"(?: (?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?!:))?,?(?: (?P<year>(?:19|20)\d\d)\b)?"
)
_BEFORE_MAY = re.compile(
    r"\b(?:in|on|of|during|since|until|early|late|mid|last|this|\d{1,2}\w{0,2}) $"
)
_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_AROUND = timedelta(days=3)
_RELATIVE = {
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
_IN_ITS_MONTH = 0.4
_IN_ITS_YEAR = 0.5


class Stretch(NamedTuple):
    """From `since` until before `until`, and how well a memory from then fits the question."""

    since: datetime
    until: datetime
    fit: float


def stretches(question: str, *, now: datetime) -> list[Stretch]:
    """What times the question speaks of; the years of a month without one are all near ones."""
    small = question.lower()
    found: list[Stretch] = []
    for words, (back, days) in _RELATIVE.items():
        if words in small:
            since = _midnight(now) - timedelta(days=back)
            found.append(Stretch(since, since + timedelta(days=days), 1.0))
    for year, month, day in _ISO.findall(small):
        found += _day(int(year), int(month), int(day))
    rest = _ISO.sub(" ", small)
    years = [int(year) for year in _YEAR.findall(rest)]
    months = [match for match in _MONTH.finditer(rest) if _is_month(rest, match)]
    for match in months:
        found += _month_stretches(match, years, now)
    if not months and not found:
        found += [stretch for year in years for stretch in _year(year)]
    return found


def fit(stretches_: list[Stretch], moment: datetime) -> float:
    """How well a moment fits: 1 if it is meant, 0 if it is not."""
    return max((each.fit for each in stretches_ if each.since <= moment < each.until), default=0.0)


def _is_month(text: str, match: re.Match[str]) -> bool:
    if match["month"] != "may" or match["day"] or match["after"] or match["year"]:
        return True
    return _BEFORE_MAY.search(text[: match.start("month")]) is not None


def _month_stretches(match: re.Match[str], years: list[int], now: datetime) -> list[Stretch]:
    month = _MONTHS.get(match["month"]) or _SHORT[match["month"]]
    day = int(match["day"] or match["after"] or 0)
    chosen = [int(match["year"])] if match["year"] else years or range(now.year - 9, now.year + 1)
    found: list[Stretch] = []
    for year in chosen:
        whole = _month(year, month)
        found.append(whole._replace(fit=_IN_ITS_MONTH if day else 1.0))
        found += _day(year, month, day) if day else []
    return found


def _month(year: int, month: int) -> Stretch:
    since = datetime(year, month, 1, tzinfo=UTC)
    days = calendar.monthrange(year, month)[1]
    return Stretch(since, since + timedelta(days=days), 1.0)


def _day(year: int, month: int, day: int) -> list[Stretch]:
    """The days around it: what happened is mostly told a little later."""
    try:
        exact = datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return []
    return [Stretch(exact - _AROUND, exact + _AROUND + timedelta(days=1), 1.0)]


def _year(year: int) -> list[Stretch]:
    since = datetime(year, 1, 1, tzinfo=UTC)
    return [Stretch(since, datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC), _IN_ITS_YEAR)]


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
