"""Links and images in text: Markdown, HTML and bare addresses, each taken apart.

The patterns are linear, and nothing is fetched or resolved.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from urllib.parse import unquote

from silas.gates.guards.subject import Subject

_STOPS = r"\s<>"
_ADDRESS = re.compile(
    # In small letters: a scheme with slashes, a scheme that acts by itself, or no scheme where
    # Markdown or HTML makes a link of it nevertheless. Browsers take a backslash for a slash.
    rf"https?:[/\\]{{1,3}}[^{_STOPS}]{{1,4000}}+"
    rf"|ftp:[/\\]{{1,3}}[^{_STOPS}]{{1,4000}}+"
    rf"|wss?:[/\\]{{1,3}}[^{_STOPS}]{{1,4000}}+"
    rf"|javascript:[^{_STOPS}]{{1,2000}}+"
    rf"|vbscript:[^{_STOPS}]{{1,2000}}+"
    rf"|data:[a-z]{{2,20}}/[^{_STOPS}]{{1,4000}}+"
    rf"|/(?<=[(\"'=]/)/[^{_STOPS}]{{1,4000}}+"
)
# `[https://a.example](https://b.example)` are two addresses.
_NEXT_ADDRESS = re.compile(
    r"\]\((?=[/\\]{2}|(?:https?|ftp|wss?):[/\\]|javascript:|vbscript:|data:[a-z]{2,20}/)",
    re.IGNORECASE,
)
_HINTS = ("//", ":/", ":\\", "javascript:", "vbscript:", "data:")
_PARTS = re.compile(
    r"(?:(?P<scheme>[A-Za-z]+):)?[/\\]{0,3}(?P<authority>[^/\\?#]*)(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_LOADED = re.compile(
    r"(?:\b(?:src|srcset|poster|background)\s{0,3}=|<link\b[^<>]{0,200}\bhref\s{0,3}=|\burl\()"
    r"\s{0,3}[\"']?$",
    re.IGNORECASE,
)
_DEFINITION = re.compile(r"^ {0,3}\[[^\[\]\n]{1,80}\]:\s{0,3}<?$", re.MULTILINE)
_REFERENCE_IMAGE = re.compile(r"!\[[^\[\]\n]{0,80}\](?!\()")
_BALANCED = re.compile(r"[^()]*+(?:\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)[^()]*+)*+")
_SQUARE_BRACKET = re.compile(r"[\[\]]")
_QUOTES = ('"', "'", "`")
_BRACKETS = ("()", "[]", "{}")
_TRAILING = ".,;:!?*_~|\"'`"
_LONGEST_ENDING = 20
_LONGEST_ALT = 400
_LONGEST_TAG = 240
_LONGEST_DEFINITION = 90


class Kind(StrEnum):
    """How an address gets fetched: by a click or a preview, or just by being shown."""

    LINK = "link"
    IMAGE = "image"


@dataclass(frozen=True)
class Link:
    """One address in a text. `scheme` and `host` are in small letters, the host is decoded."""

    start: int
    end: int
    address: str
    kind: Kind
    scheme: str
    user: str
    host: str
    path: str
    query: str
    fragment: str

    @property
    def without_data(self) -> str:
        """The address up to its path."""
        return re.split(r"[?#]", self.address, maxsplit=1)[0]


def find_links(subject: Subject, *, most: int) -> list[Link] | None:
    """The links of a text in order, or None if there are more than `most`."""
    text, small = subject.text, subject.small
    if not any(hint in small for hint in _HINTS):
        return []
    found = list(islice(_addresses(text, small), most + 1))
    if len(found) > most:
        return None
    by_reference = "![" in text and _REFERENCE_IMAGE.search(text) is not None
    return [_link(text, start, address, by_reference=by_reference) for start, address in found]


def _addresses(text: str, small: str) -> Iterator[tuple[int, str]]:
    """Where each address begins, and the address. The next may begin in what was cut off."""
    place = _ADDRESS.search(small)
    while place:
        address = _trimmed(
            text[slice(*place.span())], text[max(0, place.start() - 4) : place.start()]
        )
        yield place.start(), address
        place = _ADDRESS.search(small, place.start() + len(address))


def _link(text: str, start: int, address: str, *, by_reference: bool) -> Link:
    parts = _PARTS.match(address)
    named = {name: value or "" for name, value in parts.groupdict().items()} if parts else {}
    user, _, host = named["authority"].rpartition("@")
    is_image = _is_image(text, start) or (by_reference and _is_definition(text, start))
    return Link(
        start=start,
        end=start + len(address),
        address=address,
        kind=Kind.IMAGE if is_image else Kind.LINK,
        scheme=named["scheme"].lower(),
        user=user,
        host=unquote(host).partition(":")[0].lower().rstrip("."),
        path=named["path"],
        query=named["query"],
        fragment=named["fragment"],
    )


def _trimmed(address: str, before: str) -> str:
    """The address without what follows it in a sentence, or closes what it stands in.

    Whatever a reader's program would count to the address stays: data can stand behind a bracket.
    """
    if before.endswith(("](", "url(")):
        balanced = _BALANCED.match(address)
        end = balanced.end() if balanced else 0
        return address[:end] if address[end : end + 1] == ")" and end else address
    if before.endswith(_QUOTES):
        address = address.partition(before[-1])[0] or address
    address = _NEXT_ADDRESS.split(address, maxsplit=1)[0] or address
    return _without_end_of_sentence(address) or address


def _without_end_of_sentence(address: str) -> str:
    unopened = {pair[1]: address.count(pair[1]) - address.count(pair[0]) for pair in _BRACKETS}
    end, least = len(address), max(0, len(address) - _LONGEST_ENDING)
    while end > least and (address[end - 1] in _TRAILING or unopened.get(address[end - 1], 0) > 0):
        end -= 1
        if address[end] in unopened:
            unopened[address[end]] -= 1
    return address[:end]


def _is_image(text: str, start: int) -> bool:
    """Whether the address is fetched when the text is shown."""
    if _LOADED.search(text[max(0, start - _LONGEST_TAG) : start]):
        return True
    before = text[max(0, start - _LONGEST_ALT) : start].rstrip(" <\t\n")
    if not before.endswith("]("):
        return False
    depth = 0
    for bracket in reversed(list(_SQUARE_BRACKET.finditer(before))):
        depth += 1 if bracket[0] == "]" else -1
        if depth == 0:
            return before[: bracket.start()].endswith("!")
    # The beginning is too far away to be seen: better taken for an image than not.
    return True


def _is_definition(text: str, start: int) -> bool:
    return _DEFINITION.search(text[max(0, start - _LONGEST_DEFINITION) : start]) is not None
