"""The bundled calendar connection, on a real CalDAV server."""

import base64
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import silas.skills
from tests.servers.bridge import http_bridge, run_script
from tests.servers.radicale import CalendarAccount, Radicale, radicale

__all__ = ["radicale"]

SCRIPTS = Path(silas.skills.__file__).parent / "bundled" / "calendar" / "scripts"
HOST = "cloud.example.org"
DENTIST = {
    "title": "Dentist, at last",
    "start": "2026-03-05T10:00+01:00",
    "end": "2026-03-05T11:00+01:00",
    "location": "Main street 1; second floor",
    "text": "Bring the card.\nBe early.",
}
DAY = {"start": "2026-03-05", "end": "2026-03-06"}
OTHERS = """BEGIN:VCALENDAR\r
VERSION:2.0\r
PRODID:-//Another//program//EN\r
BEGIN:VTIMEZONE\r
TZID:Europe/Berlin\r
BEGIN:STANDARD\r
DTSTART:19701025T030000\r
TZOFFSETFROM:+0200\r
TZOFFSETTO:+0100\r
END:STANDARD\r
END:VTIMEZONE\r
BEGIN:VEVENT\r
UID:other-1\r
DTSTAMP:20260101T000000Z\r
DTSTART;TZID=Europe/Berlin:20260305T120000\r
DURATION:PT1H\r
SUMMARY:Lunch with a title that is so long that it has to be folded into more than \r
 one line\r
X-OTHER-PROGRAM;X-P="a:b;c":kept\r
BEGIN:VALARM\r
ACTION:DISPLAY\r
DESCRIPTION:Soon\r
TRIGGER:-PT10M\r
END:VALARM\r
END:VEVENT\r
END:VCALENDAR\r
"""

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def account(radicale: Radicale) -> CalendarAccount:
    return radicale.add_account()


@pytest.fixture
def proxy(account: CalendarAccount) -> Iterator[int]:
    word = base64.b64encode(f"{account.username}:{account.password}".encode()).decode()
    with http_bridge(f"{HOST}:443", account.server.port, f"Basic {word}") as port:
        yield port


def environment(username: str, host: str = HOST) -> dict[str, str]:
    endpoints = [{"kind": "caldav", "host": host, "port": 443}]
    return {"SILAS_ACCOUNT": json.dumps({"username": username, "endpoints": endpoints})}


@pytest.fixture
def calendar(account: CalendarAccount, proxy: int) -> Call:
    """Run one command of the connection, as its tool does."""

    def call(
        command: str, *, fails: bool = False, username: str = "me@example.org", **args: Any
    ) -> dict[str, Any]:
        ran = run_script(
            SCRIPTS / "events.py",
            command,
            stdin=json.dumps(args),
            ports={"dav.PROXY": proxy},
            environment=environment(username),
        )
        assert ran.returncode == int(fails), ran.stdout + ran.stderr
        answer = json.loads(ran.stdout)
        assert ("error" in answer) == fails
        return answer

    return call


def test_events_are_listed_in_order_across_calendars(
    calendar: Call, account: CalendarAccount
) -> None:
    account.add_calendar("work")
    account.put("lunch.ics", OTHERS)
    calendar("create", calendar="work", **DENTIST)
    assert sorted(calendar("calendars")["calendars"]) == ["private", "work"]
    found = calendar("events", **DAY)["events"]
    assert [(each["title"][:7], each["calendar"]) for each in found] == [
        ("Dentist", "work"),
        ("Lunch w", "private"),
    ]
    assert found[1]["start"] == "2026-03-05T12:00+01:00"
    assert found[1]["end"] == "2026-03-05T13:00+01:00"
    assert [each["title"] for each in calendar("events", calendar="work", **DAY)["events"]] == [
        DENTIST["title"]
    ]
    assert calendar("events", calendar="none", fails=True, **DAY)["kind"] == "conflict"


def test_each_date_of_a_repetition_is_listed_and_none_can_be_changed(
    calendar: Call, account: CalendarAccount
) -> None:
    repeating = OTHERS.replace("DURATION:PT1H", "DURATION:PT1H\r\nRRULE:FREQ=DAILY;COUNT=5")
    account.put("lunch.ics", repeating)
    found = calendar("events", start="2026-03-06", end="2026-03-08")["events"]
    assert [each["repeats"] for each in found] == [True, True]
    before = account.get("lunch.ics")
    for command, more in (
        ("move", {"start": "2026-03-09T10:00Z", "end": "2026-03-09T11:00Z"}),
        ("cancel", {}),
        ("invite", {"people": ["ann@example.com"]}),
    ):
        refused = calendar(command, event=found[0]["id"], fails=True, **more)
        assert "repeats" in refused["error"]
    assert account.get("lunch.ics") == before


def test_an_event_is_created_once_and_removed(calendar: Call, account: CalendarAccount) -> None:
    done = calendar("create", **DENTIST)
    assert done["created"]["title"] == DENTIST["title"]
    assert done["created"]["location"] == DENTIST["location"]
    assert done["created"]["text"] == DENTIST["text"]
    assert done["created"]["start"] == "2026-03-05T09:00+00:00"
    assert calendar("create", fails=True, **DENTIST)["kind"] == "conflict"
    assert len(account.names()) == 1
    calendar("remove", **done["undo"]["args"])
    assert account.names() == []
    assert calendar("remove", fails=True, **DENTIST)["kind"] == "conflict"


def test_what_was_changed_since_is_not_removed(calendar: Call, account: CalendarAccount) -> None:
    calendar("create", **DENTIST)
    [name] = account.names()
    account.put(name, account.get(name).replace("at last", "tomorrow"))
    assert calendar("remove", fails=True, **DENTIST)["kind"] == "conflict"
    assert account.names() == [name]


def test_an_event_is_moved_and_moved_back(calendar: Call, account: CalendarAccount) -> None:
    account.put("lunch.ics", OTHERS)
    [found] = calendar("events", **DAY)["events"]
    args = {
        "event": found["id"],
        "start": "2026-03-12T12:30+01:00",
        "end": "2026-03-12T14:00+01:00",
    }
    moved = calendar("move", **args)
    assert moved["event"]["start"] == "2026-03-12T12:30+01:00"
    text = account.get("lunch.ics")
    assert "DTSTART;TZID=Europe/Berlin:20260312T123000" in text
    # What nobody asked about stays.
    for kept in ("X-OTHER-PROGRAM", "BEGIN:VALARM", "TRIGGER:-PT10M", "BEGIN:VTIMEZONE"):
        assert kept in text
    assert calendar("events", **DAY)["events"] == []
    calendar("move_back", **args)
    [back] = calendar("events", **DAY)["events"]
    assert (back["start"], back["end"]) == (found["start"], found["end"])
    assert calendar("move_back", fails=True, **args)["kind"] == "conflict"


def test_a_change_in_between_is_not_overwritten(calendar: Call, account: CalendarAccount) -> None:
    account.put("lunch.ics", OTHERS)
    [found] = calendar("events", **DAY)["events"]
    changed = OTHERS.replace("SUMMARY:Lunch", "SUMMARY:Brunch")
    account.put("lunch.ics", changed)
    for command, more in (
        ("move", {"start": "2026-03-12T12:30Z", "end": "2026-03-12T14:00Z"}),
        ("cancel", {}),
        ("invite", {"people": ["ann@example.com"]}),
    ):
        assert calendar(command, event=found["id"], fails=True, **more)["kind"] == "conflict"
    assert "Brunch" in account.get("lunch.ics")


def test_an_event_is_cancelled_and_takes_place_after_all(
    calendar: Call, account: CalendarAccount
) -> None:
    account.put("lunch.ics", OTHERS)
    [found] = calendar("events", **DAY)["events"]
    assert calendar("cancel", event=found["id"])["event"]["status"] == "CANCELLED"
    assert calendar("events", **DAY)["events"][0]["status"] == "CANCELLED"
    calendar("uncancel", event=found["id"])
    assert calendar("events", **DAY)["events"][0]["status"] == "CONFIRMED"
    assert "STATUS" not in account.get("lunch.ics")
    assert calendar("uncancel", event=found["id"], fails=True)["kind"] == "conflict"


def test_a_day_stays_a_day(calendar: Call) -> None:
    done = calendar("create", title="Holiday", start="2026-03-05", end="2026-03-07")
    event = done["created"]["id"]
    assert (done["created"]["start"], done["created"]["end"]) == ("2026-03-05", "2026-03-07")
    refused = calendar(
        "move", event=event, start="2026-03-05T10:00Z", end="2026-03-05T11:00Z", fails=True
    )
    assert "a day" in refused["error"]
    moved = calendar("move", event=event, start="2026-03-08", end="2026-03-09")
    assert moved["event"]["start"] == "2026-03-08"


def test_people_are_invited_and_the_answer_says_who_writes_to_them(
    calendar: Call, account: CalendarAccount
) -> None:
    account.put("lunch.ics", OTHERS)
    [found] = calendar("events", **DAY)["events"]
    done = calendar("invite", event=found["id"], people=["ann@example.com", "bo@example.com"])
    assert done["invited"] == ["ann@example.com", "bo@example.com"]
    assert done["server_writes_to_them"] is False
    assert "Send the people a mail" in done["note"]
    text = account.get("lunch.ics").replace("\r\n ", "").replace("\n ", "")
    assert "ORGANIZER:mailto:me@example.org" in text
    new = done["event"]["id"]
    assert (
        calendar("invite", event=new, people=["ann@example.com"], fails=True)["kind"] == "conflict"
    )
    for wrong in ("ann", "ann@example.com\r\nATTACH:x", "ann@example.com;X=1"):
        assert calendar("invite", event=new, people=[wrong], fails=True)["kind"] == "conflict"


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "tomorrow"},
        {"start": "2026-03-05T10:00"},
        {"start": "2026-03-05"},
        {"end": "2026-03-05T10:00+01:00"},
        {"end": "2026-02-30"},
    ],
)
def test_what_is_no_time_is_refused(
    calendar: Call, account: CalendarAccount, wrong: dict[str, str]
) -> None:
    assert calendar("create", fails=True, **{**DENTIST, **wrong})["kind"] == "conflict"
    assert account.names() == []


def test_a_text_becomes_no_property(calendar: Call, account: CalendarAccount) -> None:
    sly = {
        **DENTIST,
        "title": "A\r\nATTENDEE:mailto:eve@example.com",
        "text": "B\nRRULE:FREQ=DAILY",
    }
    shown = calendar("create", **sly)["created"]
    assert shown["invited"] == []
    [name] = account.names()
    assert "\nATTENDEE" not in account.get(name)
    assert "\nRRULE" not in account.get(name)


@pytest.mark.parametrize("text", ["", "x", '"e" a/b http://evil.example/', '"e" a/b c', "e a/b /c"])
def test_nonsense_is_no_id(calendar: Call, text: str) -> None:
    assert calendar("cancel", event=text, fails=True)["kind"] == "conflict"


# Connecting it, and looking after it.


def ask(script: str, proxy: int, *lines: dict[str, Any], host: str = HOST) -> list[dict[str, Any]]:
    ran = run_script(
        SCRIPTS / script,
        stdin="".join(json.dumps(each) + "\n" for each in lines),
        ports={"dav.PROXY": proxy},
        environment=environment("me@example.org", host),
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


START = {
    "type": "start",
    "auth_strategy": "secure_input",
    "initial_permissions": ["calendar.observe"],
    "identity_hint": {},
}
STORED = {"type": "step_result", "step_id": "password", "payload": {"success": True}}


def test_setup_probe_and_health_look_inside(proxy: int) -> None:
    step, wait, _, done = ask("setup.py", proxy, START, STORED)
    assert (step["step"]["type"], wait["type"]) == ("secure_input", "await_input")
    assert done["connection_payload"]["summary"] == "Calendars: private."
    assert ask("probe.py", proxy, {"type": "probe"}) == [{"summary": "Calendars: private."}]
    assert ask("health_check.py", proxy, {"type": "health_check"})[0]["healthy"] is True
    assert ask("recover.py", proxy, {"type": "recover"}) == [{"success": True}]
    assert len(ask("setup.py", proxy, START, {"type": "cancel"})) == 2


def test_a_password_that_does_not_hold_is_said_to_be_so(
    proxy: int, account: CalendarAccount
) -> None:
    account.server.set_password(account.username, "another")
    assert ask("setup.py", proxy, START, STORED)[-1]["failure"]["failure_type"] == "token_revoked"
    [answer] = ask("health_check.py", proxy, {"type": "health_check"})
    assert answer["failure"]["failure_type"] == "token_revoked"
    [answer] = ask("recover.py", 9, {"type": "recover"})
    assert answer["failure"]["failure_type"] == "service_unavailable"


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("p34-caldav.icloud.com", "app-specific password"),
        ("caldav.fastmail.com", "app passwords: one for calendars"),
        (HOST, "Type the password of your account"),
    ],
)
def test_setup_says_where_the_password_comes_from(host: str, said: str) -> None:
    step, _ = ask("setup.py", 9, START, {"type": "cancel"}, host=host)
    assert said in step["step"]["request"]["guidance"]["instructions"]


def discovered(**hint: str) -> dict[str, Any]:
    [answer] = ask("discover.py", 9, {"type": "discover", "identity_hint": hint})
    return answer


def test_the_server_is_known_or_named() -> None:
    [known] = discovered(identity="me@fastmail.com")["endpoints"]
    assert known == {
        "kind": "caldav",
        "host": "caldav.fastmail.com",
        "port": 443,
        "tls": "tls",
        "address": None,
    }
    found = discovered(identity="me", caldav="nas:5232/none@192.168.1.5")
    assert found["username"] == "me"
    assert found["endpoints"][0]["address"] == "192.168.1.5"
    for hint in ({}, {"identity": "me@nowhere.example"}, {"identity": "me@gmail.com"}):
        assert discovered(**hint)["failure"]["message"]


# What servers and other programs make of it.


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The modules of the connection, with a server that gives what a test says."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    names = ("dav", "ical", "repeats", "events")
    found = SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    monkeypatch.setattr(found.dav, "calendars", lambda: [found.dav.Calendar("/c/", "private")])
    monkeypatch.setenv("SILAS_ACCOUNT", json.dumps({"username": "me@example.org"}))
    yield found
    for name in names:
        sys.modules.pop(name, None)


def listed(scripts: SimpleNamespace, start: str, end: str, *events: str) -> dict[str, Any]:
    """What is listed of a server that gives these texts, and spells out no repetition."""
    given = [
        (f"/c/{n}.ics", f'"{n}"', f"{OUTLOOK}{each}END:VCALENDAR\n")
        for n, each in enumerate(events)
    ]
    scripts.dav.events_between = lambda *_: iter(given)
    found: dict[str, Any] = scripts.events.events({"start": start, "end": end})
    return found


def event(*lines: str, title: str = "Standup") -> str:
    return "\n".join(["BEGIN:VEVENT", "UID:x", f"SUMMARY:{title}", *lines, "END:VEVENT", ""])


OUTLOOK = """BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VTIMEZONE
TZID:W. Europe Standard Time
BEGIN:STANDARD
DTSTART:16010101T030000
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:16010101T020000
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3
END:DAYLIGHT
END:VTIMEZONE
"""
_OUTLOOK = "TZID=W. Europe Standard Time"
_BERLIN = "/freeassociation.sourceforge.net/Europe/Berlin"


@pytest.mark.parametrize(
    ("rule", "days"),
    [
        ("FREQ=DAILY;INTERVAL=2;COUNT=3", ["2026-03-02", "2026-03-04", "2026-03-06"]),
        ("FREQ=WEEKLY;BYDAY=MO,WE;COUNT=4", ["2026-03-02", "2026-03-04", "2026-03-09", "2026-03-11"]),
        ("FREQ=WEEKLY;INTERVAL=2;COUNT=2", ["2026-03-02", "2026-03-16"]),
        ("FREQ=MONTHLY;COUNT=3", ["2026-03-02", "2026-04-02", "2026-05-02"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=3", ["2026-03-02", "2026-03-31", "2026-04-30"]),
        ("FREQ=MONTHLY;BYDAY=1MO;COUNT=3", ["2026-03-02", "2026-04-06", "2026-05-04"]),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=3",
            ["2026-03-02", "2026-03-31", "2026-04-30"],
        ),
        ("FREQ=YEARLY;COUNT=3", ["2026-03-02", "2027-03-02", "2028-03-02"]),
        ("FREQ=YEARLY;BYMONTH=5;BYDAY=2SU;COUNT=3", ["2026-03-02", "2026-05-10", "2027-05-09"]),
        ("FREQ=WEEKLY;UNTIL=20260309", ["2026-03-02", "2026-03-09"]),
    ],
)  # fmt: skip
def test_a_rule_is_followed_where_the_server_does_not(
    scripts: SimpleNamespace, rule: str, days: list[str]
) -> None:
    whole = event("DTSTART;VALUE=DATE:20260302", f"RRULE:{rule}")
    found = listed(scripts, "2026-01-01", "2029-01-01", whole)["events"]
    assert [each["start"] for each in found] == days
    assert all(each["repeats"] for each in found)


def test_of_a_repetition_what_was_moved_or_left_out_is_not_where_it_was(
    scripts: SimpleNamespace,
) -> None:
    series = event(
        f"DTSTART;{_OUTLOOK}:20250106T090000",
        f"DTEND;{_OUTLOOK}:20250106T093000",
        "RRULE:FREQ=WEEKLY;BYDAY=MO",
        f"EXDATE;{_OUTLOOK}:20260323T090000",
    )
    moved = event(
        f"RECURRENCE-ID;{_OUTLOOK}:20260330T090000",
        f"DTSTART;{_OUTLOOK}:20260331T140000",
        f"DTEND;{_OUTLOOK}:20260331T143000",
    )
    found = listed(scripts, "2026-03-16T00:00+01:00", "2026-04-07T00:00+02:00", series + moved)
    # At nine by the clock, before and after it was changed.
    assert [each["start"] for each in found["events"]] == [
        "2026-03-16T08:00+00:00",
        "2026-03-31T14:00+02:00",
        "2026-04-06T07:00+00:00",
    ]


def test_what_cannot_be_followed_is_said_and_hides_nothing(scripts: SimpleNamespace) -> None:
    found = listed(
        scripts,
        "2026-03-02",
        "2026-03-03",
        event("DTSTART:20260302T090000Z", title="Here"),
        event("DTSTART:20200101T090000Z", "RRULE:FREQ=YEARLY;BYWEEKNO=10", title="Odd"),
        event("DTSTART:whenever", title="Broken"),
        event("DTSTART:20200101T090000Z", "DURATION:P99999999999W", title="Endless"),
    )
    assert [each["title"] for each in found["events"]] == ["Here"]
    assert found["unclear"] == ["Broken", "Endless", "Odd"]


@pytest.mark.parametrize(
    ("line", "start"),
    [
        (f"DTSTART;{_OUTLOOK}:20260302T100000", "2026-03-02T10:00+01:00"),
        (f"DTSTART;{_OUTLOOK}:20260702T100000", "2026-07-02T10:00+02:00"),
        (f"DTSTART;TZID={_BERLIN}:20260702T100000", "2026-07-02T10:00+02:00"),
        ("DTSTART;TZID=Nowhere:20260302T100000", "2026-03-02T10:00"),
        ("DTSTART:20260302T100000", "2026-03-02T10:00"),
    ],
)
def test_a_time_is_in_the_zone_that_its_text_describes(
    scripts: SimpleNamespace, line: str, start: str
) -> None:
    [found] = listed(scripts, "2026-01-01", "2027-01-01", event(line))["events"]
    assert found["start"] == start


def test_a_day_is_that_of_whoever_asks(scripts: SimpleNamespace) -> None:
    given = [
        event("DTSTART:20260306T030000Z", "DTEND:20260306T040000Z", title="Evening"),
        event("DTSTART:20260305T030000Z", "DTEND:20260305T040000Z", title="Yesterday's evening"),
        event("DTSTART;VALUE=DATE:20260305", title="All day"),
        event("DTSTART;VALUE=DATE:20260306", title="All of tomorrow"),
        event("DTSTART:20260305T233000", "DTEND:20260305T234500", title="Late, wherever it is"),
    ]
    found = listed(scripts, "2026-03-05T00:00-08:00", "2026-03-06T00:00-08:00", *given)["events"]
    assert {each["title"] for each in found} == {"Evening", "All day", "Late, wherever it is"}


def test_what_the_owner_has_answered_is_said(scripts: SimpleNamespace) -> None:
    asked = ["DTSTART:20260305T100000Z", "ATTENDEE;PARTSTAT=ACCEPTED:mailto:ann@example.com"]
    given = [
        event(*asked, "ATTENDEE;PARTSTAT=DECLINED:MAILTO:Me@example.org"),
        event(*asked, "ATTENDEE;RSVP=TRUE:mailto:me@example.org"),
        event(*asked),
    ]
    found = listed(scripts, "2026-03-05", "2026-03-06", *given)["events"]
    assert [each["your_answer"] for each in found] == ["DECLINED", "NEEDS-ACTION", ""]


def test_no_other_end_of_a_line_begins_a_property(scripts: SimpleNamespace) -> None:
    """Python ends a line at more characters than calendars do."""
    for end in "\x0b\x0c\x1c\x85\u2028\u2029":
        text = event("DTSTART:20260305T100000Z", title=f"Lunch{end}DTSTART:20260401T100000Z")
        one = scripts.ical.Event(f"BEGIN:VCALENDAR\n{text}END:VCALENDAR\n")
        assert one.start.day == 5
        assert end in str(one)
