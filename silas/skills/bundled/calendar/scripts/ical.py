"""Events as iCalendar texts (RFC 5545): read, written, and changed without touching anything else.

1. A text is its lines, unfolded. What is changed is a property of the event itself. Everything that
   nobody asked about stays as it was: alarms, time zones, properties of other programs.
2. Times come in as ISO 8601, with an offset (`2026-03-05T10:00+01:00`), or as days (`2026-03-05`).
   A zone is known by its name, or as the text describes it (`VTIMEZONE`); a time without one is
   meant by the clock of whoever reads it.
3. An event that repeats is shown, and not changed: which of its dates is meant, the owner says in
   a calendar program.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from dav import Conflict

Moment = datetime | date
_PROPERTY = re.compile(r"([A-Za-z0-9-]+)((?:;[^:\"]*(?:\"[^\"]*\"[^:\"]*)*)*):(.*)", re.DOTALL)
_WEEKS = re.compile(r"([+-]?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")


@dataclass(frozen=True)
class Property:
    """One line: its name, its parameters as they stand there, its value."""

    name: str
    parameters: str
    value: str

    @property
    def line(self) -> str:
        return f"{self.name}{self.parameters}:{self.value}"

    def parameter(self, name: str) -> str:
        found = re.search(rf';{name}=("[^"]*"|[^;]*)', self.parameters, re.IGNORECASE)
        return found[1].strip('"') if found else ""


class Event:
    """The first event of a text, with all lines around it."""

    def __init__(self, text: str) -> None:
        # Other characters at which Python ends a line end none here: no text becomes a property.
        unfolded = re.split(r"\r\n|\n|\r", re.sub(r"\r?\n[ \t]", "", text))
        self._lines = [each for each in unfolded if each]
        self._places = self._own_lines()
        if not self._places:
            raise Conflict("This is no event.")

    def _own_lines(self) -> list[int]:
        """Where the properties of the first event are; components inside of it are not its own."""
        places: list[int] = []
        depth: list[str] = []
        for number, line in enumerate(self._lines):
            name, _, value = line.upper().partition(":")
            if name == "BEGIN":
                depth.append(value)
            elif name == "END":
                if depth == ["VCALENDAR", "VEVENT"]:
                    return [*places, number]
                depth = depth[:-1]
            elif depth == ["VCALENDAR", "VEVENT"]:
                places.append(number)
        return []

    def get(self, name: str) -> Property | None:
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> list[Property]:
        found = []
        for place in self._places[:-1]:
            parts = _PROPERTY.fullmatch(self._lines[place])
            if parts and parts[1].upper() == name:
                found.append(Property(parts[1].upper(), parts[2] or "", parts[3]))
        return found

    def text(self, name: str, limit: int = 500) -> str:
        """A property as a text for people."""
        found = self.get(name)
        if found is None:
            return ""
        value = re.sub(r"\\([\\,;nN])", lambda m: "\n" if m[1] in "nN" else m[1], found.value)
        return value[:limit]

    @property
    def repeats(self) -> bool:
        several = sum(each.upper() == "BEGIN:VEVENT" for each in self._lines) > 1
        return several or any(self.get(name) for name in ("RRULE", "RDATE", "RECURRENCE-ID"))

    @property
    def start(self) -> Moment:
        return self._moment("DTSTART")

    @property
    def end(self) -> Moment:
        if self.get("DTEND"):
            return self._moment("DTEND")
        length, start = self.get("DURATION"), self.start
        if length is not None:
            return start + _duration(length.value)
        return start if isinstance(start, datetime) else start + timedelta(days=1)

    def _moment(self, name: str) -> Moment:
        found = self.get(name)
        if found is None:
            raise Conflict("This event has no time.")
        return self.moment_of(found)

    def moment_of(self, found: Property) -> Moment:
        """When a property of this event says that something is; raises `Conflict`."""
        time, name = read_moment(found), found.parameter("TZID")
        if not isinstance(time, datetime) or time.tzinfo is not None or not name:
            return time
        return time.replace(tzinfo=_zone(name) or self._described(name))

    def _described(self, name: str) -> tzinfo | None:
        """A zone that has a name of its own, as the text describes it."""
        text = "\n".join(self._lines)
        for each in re.findall(r"(?s)BEGIN:VTIMEZONE\n(.*?)END:VTIMEZONE", text):
            if re.search(rf"(?m)^TZID[^:\n]*:{re.escape(name)}$", each):
                parts = re.findall(r"(?s)BEGIN:(?:STANDARD|DAYLIGHT)\n(.*?)END:", each)
                return DescribedZone(name, [change for part in parts if (change := _change(part))])
        return None

    def at(self, start: Moment, end: Moment) -> "Event":
        """One date of an event that repeats, at this time."""
        times = {"DTSTART": [_stamped("DTSTART", start)], "DTEND": [_stamped("DTEND", end)]}
        return self.with_properties({**times, "DURATION": []})

    def with_times(self, start: Moment, end: Moment) -> "Event":
        """The same at another time, in the time zone that it was in."""
        self.require_single()
        if isinstance(start, datetime) != isinstance(self.start, datetime):
            kind = "a time" if isinstance(self.start, datetime) else "a day"
            raise Conflict(f"The event has {kind}: give {kind} for its start and its end.")
        before = self.get("DTSTART")
        zone = before.parameter("TZID") if before else ""
        return self.with_properties(
            {
                "DTSTART": [_timed("DTSTART", start, zone)],
                "DTEND": [_timed("DTEND", end, zone)],
                "DURATION": [],
            }
        )

    def with_properties(self, changes: dict[str, list[Property]]) -> "Event":
        """The same with these properties instead of those by the same names, and a new version."""
        number = self.get("SEQUENCE")
        count = int(number.value) + 1 if number and number.value.isdigit() else 1
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        changes = {
            **changes,
            "SEQUENCE": [Property("SEQUENCE", "", str(count))],
            "DTSTAMP": [Property("DTSTAMP", "", stamp)],
        }
        own = set(self._places[:-1])
        last = self._places[-1]
        lines = []
        for place, line in enumerate(self._lines):
            if place in own and re.split("[:;]", line, maxsplit=1)[0].upper() in changes:
                continue
            if place == last:
                lines += [each.line for new in changes.values() for each in new]
            lines.append(line)
        return Event("\r\n".join(lines))

    def require_single(self) -> None:
        """Raise `Conflict` for an event that repeats (rule 3)."""
        if self.repeats:
            raise Conflict(
                "Nothing was done. This event repeats, and Silas changes single events alone. "
                "Change it in a calendar program."
            )

    def __str__(self) -> str:
        return "".join(f"{folded}\r\n" for line in self._lines for folded in _folded(line))


def _folded(line: str) -> list[str]:
    parts, rest = [], line.encode()
    while len(rest) > 74:
        cut = 74
        while rest[cut] & 0xC0 == 0x80:  # not within a letter
            cut -= 1
        parts.append(rest[:cut].decode())
        rest = b" " + rest[cut:]
    return [*parts, rest.decode()]


def _zone(name: str) -> ZoneInfo | None:
    # Some programs write a path in front: /freeassociation.sourceforge.net/Europe/Berlin.
    path = name.split("/") if name.startswith("/") else []
    for each in (name, "/".join(path[-2:]), "/".join(path[-3:])):
        try:
            return ZoneInfo(each) if each else None
        except (ValueError, OSError, KeyError):
            continue
    return None


@dataclass(frozen=True)
class _Change:
    """When a zone goes over to an offset: once, or every year on a day of the week in a month."""

    first: datetime
    offset: timedelta
    before: timedelta
    month: int = 0
    place: int = 0
    weekday: int = 0

    def last_before(self, time: datetime) -> datetime | None:
        """The last time that it happened."""
        if not self.month:
            return self.first if self.first <= time else None
        for year in (time.year, time.year - 1):
            at = self._in(year)
            if self.first <= at <= time:
                return at
        return None

    def _in(self, year: int) -> datetime:
        begins = self.first.replace(year=year, month=self.month, day=1)
        if self.place < 0:
            begins = (begins + timedelta(days=31)).replace(day=1) + timedelta(days=7 * self.place)
            return begins + timedelta(days=(self.weekday - begins.weekday()) % 7)
        days = (self.weekday - begins.weekday()) % 7 + 7 * (self.place - 1)
        return begins + timedelta(days=days)


_OFFSET = re.compile(r"(?m)^TZOFFSET(FROM|TO):([+-])(\d\d)(\d\d)")
_YEARLY = re.compile(r"(?m)^RRULE:(.*)$")


def _change(part: str) -> _Change | None:
    """One half of a `VTIMEZONE`; None: nobody knows when it is."""
    offsets = {}
    for name, sign, hours, minutes in _OFFSET.findall(part):
        length = timedelta(hours=int(hours), minutes=int(minutes))
        offsets[name] = -length if sign == "-" else length
    start, rule = re.search(r"(?m)^DTSTART:(\d{8}T\d{6})$", part), _YEARLY.search(part)
    if start is None or set(offsets) != {"FROM", "TO"}:
        return None
    first = datetime.strptime(start[1], "%Y%m%dT%H%M%S")  # noqa: DTZ007 - by the zone's own clock
    both = first, offsets["TO"], offsets["FROM"]
    if rule is None:
        return _Change(*both)
    said = dict(each.partition("=")[::2] for each in rule[1].split(";"))
    day = re.fullmatch(r"(-?[1-5])(MO|TU|WE|TH|FR|SA|SU)", said.get("BYDAY", ""))
    if said.get("FREQ") != "YEARLY" or day is None or not said.get("BYMONTH", "").isdigit():
        return None
    weekday = ("MO", "TU", "WE", "TH", "FR", "SA", "SU").index(day[2])
    return _Change(*both, month=int(said["BYMONTH"]), place=int(day[1]), weekday=weekday)


class DescribedZone(tzinfo):
    """A zone as a text describes it, such as those of Outlook."""

    def __init__(self, name: str, changes: list[_Change]) -> None:
        self._name, self._changes = name, changes

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        if dt is None or not self._changes:
            return None
        time = dt.replace(tzinfo=None)
        happened = [(at, each) for each in self._changes if (at := each.last_before(time))]
        if happened:
            return max(happened, key=lambda each: each[0])[1].offset
        return min(self._changes, key=lambda each: each.first).before

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None

    def tzname(self, dt: datetime | None) -> str:
        return self._name


def _duration(text: str) -> timedelta:
    found = _WEEKS.fullmatch(text)
    if found is None:
        raise Conflict("This event has a duration that nobody can read.")
    weeks, days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:])
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -length if found[1] == "-" else length


def _timed(name: str, moment: Moment, zone: str) -> Property:
    if not isinstance(moment, datetime):
        return Property(name, ";VALUE=DATE", moment.strftime("%Y%m%d"))
    known = _zone(zone)
    if known is not None:
        return Property(name, f";TZID={zone}", moment.astimezone(known).strftime("%Y%m%dT%H%M%S"))
    return Property(name, "", moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ"))


def read_moment(found: Property) -> Moment:
    """A time as a property writes it, without the zone of its `TZID`; raises `Conflict`."""
    try:
        if re.fullmatch(r"\d{8}", found.value):
            return datetime.strptime(found.value, "%Y%m%d").date()  # noqa: DTZ007 - a day
        time = datetime.strptime(found.value.rstrip("Z"), "%Y%m%dT%H%M%S")  # noqa: DTZ007
    except ValueError as error:
        raise Conflict("This event has a time that nobody can read.") from error
    return time.replace(tzinfo=UTC) if found.value.endswith("Z") else time


def _stamped(name: str, moment: Moment) -> Property:
    """A time as it is to be shown: by the clock of its zone, with the offset that it has then."""
    if isinstance(moment, datetime) and moment.tzinfo is None:
        return Property(name, "", moment.strftime("%Y%m%dT%H%M%S"))
    known = moment.tzinfo if isinstance(moment, datetime) else None
    return _timed(name, moment, known.key if isinstance(known, ZoneInfo) else "")


def moment(text: str) -> Moment:
    """A time of the owner's (rule 2); raises `Conflict`."""
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return date.fromisoformat(text)
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise Conflict(
            f"{text[:40]!r} is no time. Write it as 2026-03-05T10:00+01:00, or a day as 2026-03-05."
        ) from error
    if time.tzinfo is None:
        raise Conflict(f"Say in which zone {text} is meant: {text}+01:00, for example.")
    return time


def span(start_text: str, end_text: str) -> tuple[Moment, Moment]:
    """Start and end; raises `Conflict` unless they are of one kind, and in order."""
    start, end = moment(start_text), moment(end_text)
    if isinstance(start, datetime) != isinstance(end, datetime):
        raise Conflict("Start and end must both be times, or both be days.")
    if instant(end) <= instant(start):
        raise Conflict("The end must be after the start. The end of a day is the next day.")
    return start, end


def touches(event: Event, start: Moment, end: Moment) -> bool:
    """Whether an event is in this time. Its days, and its times without a zone, are those of
    whoever asks; a day of theirs ends where the next one begins."""
    zone = start.tzinfo if isinstance(start, datetime) else UTC
    begins, ends = (
        instant(each if isinstance(each, datetime) and each.tzinfo else _local(each, zone))
        for each in (event.start, event.end)
    )
    return begins < instant(end) and (ends > instant(start) or begins >= instant(start))


def _local(when: Moment, zone: tzinfo | None) -> datetime:
    if isinstance(when, datetime):
        return when.replace(tzinfo=zone)
    return datetime(when.year, when.month, when.day, tzinfo=zone)


def instant(when: Moment) -> datetime:
    """A moment that can be compared; a day begins at midnight, a floating time is taken as UTC."""
    if not isinstance(when, datetime):
        return datetime(when.year, when.month, when.day, tzinfo=UTC)
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def in_words(when: Moment) -> str:
    """A moment for an answer, and for an id."""
    return when.isoformat(timespec="minutes") if isinstance(when, datetime) else when.isoformat()


def escaped(text: str) -> str:
    """A text as a value."""
    text = re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", "", text.replace("\r\n", "\n"))
    return re.sub(r"([\\,;])", r"\\\1", text).replace("\n", "\\n")


def new_event(
    *, uid: str, title: str, start: Moment, end: Moment, location: str, text: str
) -> Event:
    """A new event."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    own = [
        Property("UID", "", uid),
        Property("DTSTAMP", "", stamp),
        _timed("DTSTART", start, ""),
        _timed("DTEND", end, ""),
        Property("SUMMARY", "", escaped(title)),
        *([Property("LOCATION", "", escaped(location))] if location else []),
        *([Property("DESCRIPTION", "", escaped(text))] if text else []),
    ]
    head = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Silas//calendar//EN", "BEGIN:VEVENT"]
    return Event("\r\n".join([*head, *(each.line for each in own), "END:VEVENT", "END:VCALENDAR"]))
