"""Calendars over CalDAV: requests to the one server of the account, and what it answers.

1. The broker, a proxy on loopback, adds encryption and the credential. No script sees a password.
2. Everything goes to the account's own server. A redirect is followed there, and nowhere else.
3. A calendar is found as RFC 6764 says: the well-known address, the principal, its calendars.
"""

import http.client
import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

PROXY = ("127.0.0.1", 3128)
SECONDS = 60
MAX_BYTES = 8 * 1024 * 1024
DAV, CAL = "{DAV:}", "{urn:ietf:params:xml:ns:caldav}"
_NAMESPACES = 'xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"'


class Conflict(Exception):
    """Something was changed meanwhile, or is not there. Nothing was done."""


class UnknownOutcome(Exception):
    """Nobody knows whether it was done."""


class Unavailable(Exception):
    """The account cannot be used; `kind` is the type of a `ConnectionFailure`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Calendar:
    """One calendar of the account."""

    path: str
    name: str


def account() -> dict[str, Any]:
    """Whose calendars they are, as Silas says: no secret is in it."""
    known: dict[str, Any] = json.loads(os.environ.get("SILAS_ACCOUNT") or "{}")
    return known


def _server() -> str:
    for each in account().get("endpoints", ()):
        if each["kind"] == "caldav":
            return f"{each['host']}:{each['port']}"
    raise Unavailable("unknown", "The account has no calendar server.")


def request(
    method: str, path: str, body: str = "", *, changes: bool = False, **headers: str
) -> Answer:
    """One request (rules 1 and 2). If it `changes` something, a lost answer is not a failure."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    way = http.client.HTTPConnection(*PROXY, timeout=SECONDS)
    try:
        way.request(method, f"http://{_server()}{path}", body.encode(), named)
        answer = way.getresponse()
        content = answer.read(MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        if changes:
            raise UnknownOutcome(
                "The connection broke before the server answered. Look whether it was done."
            ) from error
        raise Unavailable("service_unavailable", "The calendar server does not answer.") from error
    finally:
        way.close()
    if len(content) > MAX_BYTES:
        raise Unavailable("unknown", "The calendar server answers with more than anyone can read.")
    found = {name.lower(): value for name, value in answer.getheaders()}
    return _usable(Answer(answer.status, found, content))


def _usable(answer: Answer) -> Answer:
    if answer.status == 401:
        raise Unavailable("token_revoked", "The calendar server does not take the sign-in.")
    if answer.status in (429, 503):
        raise Unavailable("rate_limited", "The calendar server takes no more requests for now.")
    if answer.status in (502, 504):
        raise Unavailable("service_unavailable", "The calendar server cannot be reached.")
    return answer


def calendars() -> list[Calendar]:
    """The calendars of the account that hold events (rule 3)."""
    home = _property(_principal(), f"{CAL}calendar-home-set")
    asked = "<D:resourcetype/><D:displayname/><C:supported-calendar-component-set/>"
    found = []
    for path, properties in _propfind(home, asked, depth="1"):
        kind = properties.find(f"{DAV}resourcetype")
        if kind is None or kind.find(f"{CAL}calendar") is None:
            continue
        held = properties.findall(f"{CAL}supported-calendar-component-set/{CAL}comp")
        if held and not any(each.get("name") == "VEVENT" for each in held):
            continue
        name = properties.findtext(f"{DAV}displayname") or unquote(path.rstrip("/"))
        found.append(Calendar(path, name.rpartition("/")[2][:200]))
    return found


_PRINCIPALS = {"apidata.googleusercontent.com": "/caldav/v2/{user}/user"}
"""Servers whose principal is at an address of its own: they do not say where."""


def _principal() -> str:
    known = _PRINCIPALS.get(_server().rpartition(":")[0])
    if known is not None:
        return known.format(user=quote(str(account().get("username", "")), safe="@"))
    for start in ("/.well-known/caldav", "/"):
        try:
            return _property(start, f"{DAV}current-user-principal")
        except Conflict:
            continue
    raise Unavailable("unknown", "The server has no calendars for this account.")


def _property(path: str, name: str) -> str:
    """The address in a property of a resource."""
    short = "C:" if name.startswith(CAL) else "D:"
    asked = f"<{short}{name.partition('}')[2]}/>"
    for _, properties in _propfind(path, asked, depth="0"):
        found = properties.findtext(f"{name}/{DAV}href")
        if found:
            return own_path(path, found.strip())
    raise Conflict("The server does not say where the calendars are.")


def own_path(base: str, address: str) -> str:
    """The path of an address on the account's own server; raises `Unavailable` (rule 2)."""
    parts = urlsplit(urljoin(base, address))
    here = _server()
    if parts.netloc and parts.hostname != here.rpartition(":")[0]:
        raise Unavailable(
            "unknown",
            f"The calendars are on another server, {parts.hostname}. Connect that one: "
            f"`--option caldav={parts.netloc}`.",
        )
    path = quote(unquote(parts.path), safe="/@:+,;=!$&'()*~")
    return path + (f"?{parts.query}" if parts.query else "")


def _propfind(path: str, asked: str, *, depth: str) -> Iterator[tuple[str, ET.Element]]:
    body = f"<D:propfind {_NAMESPACES}><D:prop>{asked}</D:prop></D:propfind>"
    for _ in range(5):
        answer = request("PROPFIND", path, body, Depth=depth, Content_Type="application/xml")
        if answer.status not in (301, 302, 303, 307, 308):
            break
        path = own_path(path, answer.headers.get("location", "/"))
    yield from _multistatus(answer, path)


def events_between(calendar: Calendar, start: str, end: str) -> Iterator[tuple[str, str, str]]:
    """Path, etag and text of what happens in this time; the server spells repetitions out."""
    span = f'start="{start}" end="{end}"'
    body = (
        f"<C:calendar-query {_NAMESPACES}><D:prop><D:getetag/><C:calendar-data>"
        f"<C:expand {span}/></C:calendar-data></D:prop><C:filter>"
        f'<C:comp-filter name="VCALENDAR"><C:comp-filter name="VEVENT"><C:time-range {span}/>'
        "</C:comp-filter></C:comp-filter></C:filter></C:calendar-query>"
    )
    answer = request("REPORT", calendar.path, body, Depth="1", Content_Type="application/xml")
    for path, properties in _multistatus(answer, calendar.path):
        text = properties.findtext(f"{CAL}calendar-data") or ""
        etag = properties.findtext(f"{DAV}getetag") or ""
        if text and etag:
            yield path, etag, text


def _multistatus(answer: Answer, base: str) -> Iterator[tuple[str, ET.Element]]:
    if answer.status != 207:
        raise Conflict(f"The calendar server answered with {answer.status}.")
    # Entities are how a small file becomes a large one.
    if b"<!DOCTYPE" in answer.body or b"<!ENTITY" in answer.body:
        raise Unavailable("unknown", "The calendar server answers with what nobody should read.")
    try:
        root = ET.fromstring(answer.body)  # noqa: S314 - it declares nothing, see above
    except ET.ParseError as error:
        raise Unavailable("unknown", "The calendar server answers with no XML.") from error
    for response in root.iterfind(f"{DAV}response"):
        path = own_path(base, response.findtext(f"{DAV}href", "").strip())
        for part in response.iterfind(f"{DAV}propstat"):
            found = part.find(f"{DAV}prop")
            if found is not None and " 200" in part.findtext(f"{DAV}status", ""):
                yield path, found


def get(path: str) -> tuple[str, str]:
    """The text of an event and its etag; raises `Conflict` if it is not there."""
    answer = request("GET", path)
    if answer.status != 200 or "etag" not in answer.headers:
        raise Conflict("The event is not there any more.")
    return answer.body.decode("utf-8", "replace"), answer.headers["etag"]


def put(path: str, text: str, **condition: str) -> None:
    """Write an event under a condition; raises `Conflict` if it does not hold."""
    headers = {"Content_Type": "text/calendar; charset=utf-8", **condition}
    _changed(request("PUT", path, text, changes=True, **headers))


def delete(path: str, etag: str) -> None:
    """Delete an event, unless it was changed; raises `Conflict`."""
    _changed(request("DELETE", path, changes=True, If_Match=etag))


def _changed(answer: Answer) -> None:
    if answer.status in (404, 409, 410, 412):
        raise Conflict("Nothing was done. The event was changed, or something is there already.")
    if answer.status not in (200, 201, 204):
        raise Conflict(f"Nothing was done. The calendar server answered with {answer.status}.")
