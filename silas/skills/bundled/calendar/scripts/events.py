"""What can be done with calendars: `events.py COMMAND`, with the arguments as JSON on its input.

1. A command prints one JSON object. If it fails, the object has `error`, a sentence, and `kind`:
   `conflict`, `unknown_outcome`, or the type of a failure of the account.
2. The id of an event is `ETAG START/END PATH`. A change is made only to the version that the etag
   names (`If-Match`): what was changed meanwhile is a conflict, and nothing is overwritten.
3. After a change, the event is read anew and compared with what was wanted.
4. The tool that undoes a change takes the same arguments as the one that it undoes; for a new event
   also, in `left`, the version that was made: one that was changed since is not deleted.
5. What stands in events is a stranger's text: everybody can invite.
6. Servers understand a span of time as they like: days and times without a zone as UTC, for
   example, and repetitions not at all. They are asked for a day more at either end, and what they
   give is looked at again.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import dav
import ical
import repeats
from dav import Calendar, Conflict, Unavailable, UnknownOutcome
from ical import Event, Moment, Property, in_words, instant

Args = Mapping[str, Any]
_ADDRESS = re.compile(r"[^\s<>,;:\"()\[\]\\@]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,250}")
_WAS = "X-SILAS-STATUS-BEFORE"
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class EventId:
    """Which version of which event, and when it was then (rule 2)."""

    etag: str
    start: str
    end: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "EventId":
        found = re.fullmatch(r'((?:W/)?"[^"\s]*") (\S+)/(\S+) (/\S+)', text)
        if found is None:
            raise Conflict(f"{text[:80]!r} is no id of an event. Take it from the list.")
        return cls(*found.groups())

    def __str__(self) -> str:
        return f"{self.etag} {self.start}/{self.end} {self.path}"


# Looking.


def calendars(_args: Args) -> dict[str, Any]:
    """The calendars."""
    return {"calendars": [each.name for each in dav.calendars()]}


def events(args: Args) -> dict[str, Any]:
    """What happens in a time, in order."""
    start, end = ical.span(args["start"], args["end"])
    wide = instant(start) - _DAY, instant(end) + _DAY
    bounds = [each.strftime("%Y%m%dT%H%M%SZ") for each in wide]
    found, unclear = [], set()
    for calendar in _chosen(args):
        for path, etag, text in dav.events_between(calendar, bounds[0], bounds[1]):
            try:
                dates = [each for each in _dates(text, *wide) if ical.touches(each[0], start, end)]
                for event, again in dates:
                    more = {"repeats": again, "calendar": calendar.name}
                    shown = {**_shown(event, path, etag), **more, "_order": instant(event.start)}
                    found.append(shown)
            except (repeats.UnknownRule, Conflict, OverflowError):
                unclear.add(_title(text) or path)
    found.sort(key=lambda each: each.pop("_order"))
    limit = int(args.get("limit") or 50)
    listed = {"events": found[:limit], "found": len(found)}
    note = "Nobody here can tell when these are: they may be in this time, or not."
    return {**listed, "unclear": sorted(unclear), "note": note} if unclear else listed


def _chosen(args: Args) -> list[Calendar]:
    every, name = dav.calendars(), args.get("calendar")
    chosen = [each for each in every if not name or each.name.casefold() == name.casefold()]
    if not chosen:
        known = ", ".join(each.name for each in every) or "none"
        raise Conflict(f"There is no calendar {name!r}. There are: {known}.")
    return chosen


def _dates(text: str, start: datetime, end: datetime) -> list[tuple[Event, bool]]:
    """Each date of an event, and whether it repeats. Most servers give the dates as events of
    their own; others give the rule, and what was changed of single dates. Raises `UnknownRule`."""
    zones = "".join(re.findall(r"(?ms)^BEGIN:VTIMEZONE.*?^END:VTIMEZONE\r?\n", text))
    whole = re.split(r"(?m)^(?=BEGIN:VEVENT)", text)[1:]
    single = [each.partition("END:VEVENT")[0] for each in whole]
    events = [Event(f"BEGIN:VCALENDAR\n{zones}{each}END:VEVENT\nEND:VCALENDAR") for each in single]
    changed = {
        instant(event.moment_of(found))
        for event in events
        if (found := event.get("RECURRENCE-ID")) is not None
    }
    dates = []
    for event in events:
        if event.get("RECURRENCE-ID") or not (event.get("RRULE") or event.get("RDATE")):
            dates.append((event, event.repeats or len(events) > 1))
            continue
        spelled = repeats.spelled_out(event, start, end)
        dates += [(each, True) for each in spelled if instant(each.start) not in changed]
    return dates


def _shown(event: Event, path: str, etag: str) -> dict[str, Any]:
    start, end = in_words(event.start), in_words(event.end)
    return {
        "id": str(EventId(etag, start, end, path)),
        "title": event.text("SUMMARY"),
        "start": start,
        "end": end,
        "location": event.text("LOCATION"),
        "text": event.text("DESCRIPTION", 2000),
        "status": event.text("STATUS") or "CONFIRMED",
        "organizer": event.text("ORGANIZER").removeprefix("mailto:"),
        "invited": [_mailto(each)[:300] for each in event.all("ATTENDEE")[:50]],
        "your_answer": _own_answer(event),
    }


def _title(text: str) -> str:
    try:
        return Event(text).text("SUMMARY")
    except Conflict:
        return ""


def _mailto(person: Property) -> str:
    return re.sub(r"(?i)^mailto:", "", person.value)


def _own_answer(event: Event) -> str:
    """What the owner has said to an invitation; nothing if there is none."""
    own = _address().casefold()
    answers = (
        each.parameter("PARTSTAT").upper() or "NEEDS-ACTION"
        for each in event.all("ATTENDEE")
        if _mailto(each).casefold() == own
    )
    return next(answers, "")


# Creating.


def create(args: Args) -> dict[str, Any]:
    """A new event, once."""
    path, event = _new(args)
    dav.put(path, str(event), If_None_Match="*")
    there, etag = dav.get(path)
    _require(Event(there), event.start, event.end)
    created = _shown(Event(there), path, etag)
    undo = {"tool": "calendar_remove", "args": {**args, "left": created["id"]}}
    return {"created": created, "read_back": True, "undo": undo}


def remove(args: Args) -> dict[str, Any]:
    """Delete the event that was created with the same arguments, unless it was changed since."""
    path, event = _new(args)
    text, etag = dav.get(path)
    there = Event(text)
    same = all(
        there.text(name) == event.text(name) for name in ("UID", "SUMMARY", "LOCATION", "STATUS")
    )
    times = (instant(there.start), instant(there.end)) == (instant(event.start), instant(event.end))
    left = EventId.parse(args["left"]).etag if args.get("left") else etag
    if not same or not times or left != etag or there.all("ATTENDEE") or there.repeats:
        raise Conflict("Nothing was done. The event was changed since it was created.")
    dav.delete(path, etag)
    try:
        dav.get(path)
    except Conflict:
        return {"removed": 1, "read_back": True}
    raise UnknownOutcome("The server said that the event is gone, but it is there.")


def _new(args: Args) -> tuple[str, Event]:
    """The event that these arguments make, and where: the same ones make no second event."""
    start, end = ical.span(args["start"], args["end"])
    names = ("calendar", "title", "start", "end", "location", "text")
    said = json.dumps([args.get(name) or "" for name in names])
    uid = f"silas-{hashlib.sha256(said.encode()).hexdigest()[:32]}"
    calendar = _chosen(args)[0]
    event = ical.new_event(
        uid=uid,
        title=args["title"],
        start=start,
        end=end,
        location=args.get("location") or "",
        text=args.get("text") or "",
    )
    return f"{calendar.path.rstrip('/')}/{uid}.ics", event


# Changing.


def move(args: Args) -> dict[str, Any]:
    """Move an event to another time."""
    wanted = EventId.parse(args["event"])
    start, end = ical.span(args["start"], args["end"])
    event = _unchanged(wanted)
    return _written(wanted.path, event.with_times(start, end), wanted.etag, "move_back", args)


def move_back(args: Args) -> dict[str, Any]:
    """Move an event back to the time in its id, if it is still where it was moved to."""
    wanted = EventId.parse(args["event"])
    event, etag = _now_at(wanted, *ical.span(args["start"], args["end"]))
    before = [ical.moment(each) for each in (wanted.start, wanted.end)]
    return _written(wanted.path, event.with_times(before[0], before[1]), etag)


def cancel(args: Args) -> dict[str, Any]:
    """Call an event off. It stays in the calendar, as cancelled."""
    wanted = EventId.parse(args["event"])
    event = _unchanged(wanted)
    event.require_single()
    status = event.text("STATUS") or "CONFIRMED"
    if status == "CANCELLED":
        raise Conflict("Nothing was done. The event is cancelled already.")
    changed = event.with_properties(
        {
            "STATUS": [Property("STATUS", "", "CANCELLED")],
            _WAS: [Property(_WAS, "", status if event.get("STATUS") else "NONE")],
        }
    )
    return _written(wanted.path, changed, wanted.etag, "uncancel", args)


def uncancel(args: Args) -> dict[str, Any]:
    """Let an event that was called off take place after all."""
    wanted = EventId.parse(args["event"])
    times = (ical.moment(wanted.start), ical.moment(wanted.end))
    event, etag = _now_at(wanted, *times)
    before = event.text(_WAS)
    if event.text("STATUS") != "CANCELLED" or not before:
        raise Conflict("Nothing was done. Silas has not cancelled this event.")
    status = [] if before == "NONE" else [Property("STATUS", "", before)]
    return _written(wanted.path, event.with_properties({"STATUS": status, _WAS: []}), etag)


def invite(args: Args) -> dict[str, Any]:
    """Invite people to an event. The server writes to them, if it does that."""
    wanted = EventId.parse(args["event"])
    event = _unchanged(wanted)
    event.require_single()
    people = list(dict.fromkeys(args["people"]))
    for each in people:
        if not _ADDRESS.fullmatch(each):
            raise Conflict(f"{each[:100]!r} is no mail address. Write it as `ann@example.org`.")
    known = {each.value.casefold() for each in event.all("ATTENDEE")}
    new = [each for each in people if f"mailto:{each}".casefold() not in known]
    if not new:
        raise Conflict("Nothing was done. All of them are invited already.")
    line = ";PARTSTAT=NEEDS-ACTION;RSVP=TRUE"
    attendees = [*event.all("ATTENDEE"), *(_person("ATTENDEE", line, each) for each in new)]
    organizer = event.all("ORGANIZER") or [_person("ORGANIZER", "", _own_address())]
    changed = event.with_properties({"ATTENDEE": attendees, "ORGANIZER": organizer})
    done = _written(wanted.path, changed, wanted.etag)
    able = dav.request("OPTIONS", wanted.path).headers.get("dav", "")
    writes = "calendar-auto-schedule" in able
    note = None if writes else "This server writes to nobody. Send the people a mail."
    return {**done, "invited": new, "server_writes_to_them": writes, "note": note}


def _person(name: str, parameters: str, address: str) -> Property:
    return Property(name, parameters, f"mailto:{address}")


def _own_address() -> str:
    address = _address()
    if not _ADDRESS.fullmatch(address):
        raise Conflict("Nothing was done. The account's user name is no mail address to invite by.")
    return address


def _address() -> str:
    return str(dav.account().get("address") or dav.account().get("username", ""))


def _unchanged(wanted: EventId) -> Event:
    """The event in exactly the version of its id (rule 2)."""
    text, etag = dav.get(wanted.path)
    if etag != wanted.etag:
        raise Conflict("Nothing was done. The event was changed meanwhile. List it again.")
    return Event(text)


def _now_at(wanted: EventId, start: Moment, end: Moment) -> tuple[Event, str]:
    """The event as it is now, if it is at this time."""
    text, etag = dav.get(wanted.path)
    event = Event(text)
    if (instant(event.start), instant(event.end)) != (instant(start), instant(end)):
        raise Conflict("Nothing was done. The event is at another time by now.")
    return event, etag


def _written(
    path: str, event: Event, etag: str, inverse: str = "", args: Args | None = None
) -> dict[str, Any]:
    dav.put(path, str(event), If_Match=etag)
    text, new_etag = dav.get(path)
    there = Event(text)
    _require(there, event.start, event.end)
    undo = {"tool": f"calendar_{inverse}", "args": dict(args)} if args else None
    return {"event": _shown(there, path, new_etag), "read_back": True, "undo": undo}


def _require(there: Event, start: Moment, end: Moment) -> None:
    """Rule 3."""
    if (instant(there.start), instant(there.end)) != (instant(start), instant(end)):
        raise UnknownOutcome("The server took the event, but it is there with another time.")


COMMANDS: Mapping[str, Callable[[Args], dict[str, Any]]] = {
    each.__name__: each
    for each in (*(calendars, events, create, remove, move, move_back, cancel, uncancel, invite),)
}


def main() -> int:
    args = json.load(sys.stdin)
    given = {name: value for name, value in args.items() if value is not None}
    try:
        answer = COMMANDS[sys.argv[1]](given)
    except Conflict as error:
        answer = {"error": str(error), "kind": "conflict"}
    except UnknownOutcome as error:
        answer = {"error": str(error), "kind": "unknown_outcome"}
    except Unavailable as error:
        answer = {"error": str(error), "kind": error.kind}
    # Half of a letter, which some programs write, is in no UTF-8.
    print(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace").decode())
    return 1 if "error" in answer else 0


if __name__ == "__main__":
    sys.exit(main())
