"""The dates of an event that repeats (RFC 5545, 3.8.5), where the server does not spell them out.

Each day from the first one on is looked at: a rule says whether it is one of its days. A rule with
a part that is not known here is followed by nobody, and is said to be so (`UnknownRule`).
"""

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from ical import Event, Moment, Property, instant, read_moment

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_KNOWN = frozenset(
    {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS", "WKST"}
)
_MOST_DAYS = 366 * 120


class UnknownRule(Exception):
    """Nobody here knows on which days this event is."""


@dataclass(frozen=True)
class Rule:
    """One `RRULE`."""

    first: date
    frequency: str
    interval: int = 1
    days: tuple[tuple[int, int], ...] = ()
    """The days of the week, each with the how-many-th of its month or year it is; 0: every one."""
    month_days: tuple[int, ...] = ()
    months: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    """Of the days of a month, only those at these places."""
    week_begins: int = 0
    count: int | None = None

    @classmethod
    def parse(cls, text: str, first: date) -> "Rule":
        """Raises `UnknownRule`."""
        said = dict(each.partition("=")[::2] for each in text.upper().split(";") if each)
        if not set(said) <= _KNOWN or said.get("FREQ") not in _MATCHES:
            raise UnknownRule(text)
        if "BYSETPOS" in said and said["FREQ"] != "MONTHLY":
            raise UnknownRule(text)
        try:
            return cls(
                first,
                said["FREQ"],
                interval=max(1, int(said.get("INTERVAL", 1))),
                days=tuple(map(_weekday, _listed(said.get("BYDAY")))),
                month_days=tuple(map(int, _listed(said.get("BYMONTHDAY")))),
                months=tuple(map(int, _listed(said.get("BYMONTH")))),
                places=tuple(map(int, _listed(said.get("BYSETPOS")))),
                week_begins=_DAYS.index(said.get("WKST", "MO")),
                count=int(said["COUNT"]) if "COUNT" in said else None,
            )
        except ValueError as error:
            raise UnknownRule(text) from error

    def dates(self, until: date) -> Iterator[date]:
        """Its days in order, the first one always among them."""
        found = 0
        for number in range(min(_MOST_DAYS, (until - self.first).days + 1)):
            day = self.first + timedelta(days=number)
            if number and not self.holds(day):
                continue
            found += 1
            if self.count is not None and found > self.count:
                return
            yield day

    def holds(self, day: date) -> bool:
        """Whether a day is one of them."""
        if not self.places:
            return self._matches(day)
        length = calendar.monthrange(day.year, day.month)[1]
        month = [each for n in range(1, length + 1) if self._matches(each := day.replace(day=n))]
        chosen = [
            month[p - (p > 0)] for p in self.places if -len(month) <= p - (p > 0) < len(month)
        ]
        return day in chosen

    def _matches(self, day: date) -> bool:
        return (not self.months or day.month in self.months) and _MATCHES[self.frequency](self, day)

    def daily(self, day: date) -> bool:
        every = (day - self.first).days % self.interval == 0
        return every and self._is_named(day, by_month=True, otherwise=True)

    def weekly(self, day: date) -> bool:
        weeks = (self._week(day) - self._week(self.first)).days // 7
        same = day.weekday() == self.first.weekday()
        return weeks % self.interval == 0 and self._is_named(day, by_month=True, otherwise=same)

    def monthly(self, day: date) -> bool:
        months = (day.year - self.first.year) * 12 + day.month - self.first.month
        same = day.day == self.first.day
        return months % self.interval == 0 and self._is_named(day, by_month=True, otherwise=same)

    def yearly(self, day: date) -> bool:
        same = day.day == self.first.day and (bool(self.months) or day.month == self.first.month)
        every = (day.year - self.first.year) % self.interval == 0
        return every and self._is_named(day, by_month=bool(self.months), otherwise=same)

    def _week(self, day: date) -> date:
        return day - timedelta(days=(day.weekday() - self.week_begins) % 7)

    def _is_named(self, day: date, *, by_month: bool, otherwise: bool) -> bool:
        """Whether the rule's own parts name this day; `otherwise`, if it has none."""
        if not self.days and not self.month_days:
            return otherwise
        last = calendar.monthrange(day.year, day.month)[1]
        if self.month_days and not {day.day, day.day - last - 1} & set(self.month_days):
            return False
        number, length = (day.day, last) if by_month else (day.timetuple().tm_yday, _year(day))
        places = {0, (number - 1) // 7 + 1, -((length - number) // 7) - 1}
        named = {(place, day.weekday()) for place in places}
        return not self.days or bool(named & set(self.days))


_MATCHES = {
    "DAILY": Rule.daily,
    "WEEKLY": Rule.weekly,
    "MONTHLY": Rule.monthly,
    "YEARLY": Rule.yearly,
}


def spelled_out(event: Event, start: datetime, end: datetime) -> list[Event]:
    """An event that repeats as single events, as far as they touch this time; what was moved or
    left out by itself is left out here. Raises `UnknownRule`."""
    length, found = event.end - event.start, []
    left_out = {instant(each) for each in _moments(event, "EXDATE")}
    for moment in sorted({instant(each): each for each in _all(event, end)}.items()):
        at, begin = moment
        finish = begin + length
        if at not in left_out and at < end and instant(finish) >= start:
            found.append(event.at(begin, finish))
    return found


def _all(event: Event, end: datetime) -> Iterator[Moment]:
    first = event.start
    yield first
    yield from _moments(event, "RDATE")
    rules = event.all("RRULE")
    if len(rules) > 1 or event.get("EXRULE"):
        raise UnknownRule("more than one rule")
    for each in rules:
        ends = re.search(r"UNTIL=([0-9TZ]+)", each.value.upper())
        last = _last(ends[1], first) if ends else end
        day = first.date() if isinstance(first, datetime) else first
        for found in Rule.parse(each.value, day).dates((min(end, last) + timedelta(days=1)).date()):
            moment = (
                datetime.combine(found, first.timetz()) if isinstance(first, datetime) else found
            )
            if not ends or instant(moment) <= last:
                yield moment


def _last(text: str, first: Moment) -> datetime:
    """When a rule ends: a day counts to its end, a time without a zone is in that of the event."""
    until = read_moment(Property("UNTIL", "", text))
    if not isinstance(until, datetime):
        return datetime(until.year, until.month, until.day, 23, 59, 59, tzinfo=UTC)
    if until.tzinfo is None and isinstance(first, datetime):
        until = until.replace(tzinfo=first.tzinfo)
    return instant(until)


def _moments(event: Event, name: str) -> Iterator[Moment]:
    for each in event.all(name):
        for value in each.value.split(","):
            if "/" in value:
                raise UnknownRule(value)
            yield event.moment_of(Property(name, each.parameters, value))


def _weekday(text: str) -> tuple[int, int]:
    return int(text[:-2] or 0), _DAYS.index(text[-2:])


def _listed(text: str | None) -> list[str]:
    return text.split(",") if text else []


def _year(day: date) -> int:
    return 366 if calendar.isleap(day.year) else 365
