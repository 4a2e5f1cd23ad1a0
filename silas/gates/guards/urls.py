"""The guard `urls`: links and images in outgoing text that carry data away, or lead astray.

A link preview, or the display of an image, fetches an address without a click: whoever chose the
address learns what is in it. So an image from a host that is not allowed is out, and so is a link
that has room for somebody's data in its query, path, fragment or host name. Hosts in
`allowed_hosts` may have such links (`example.com` also stands for its sub-domains).

`RULES_IN_ORDER` lists what the guard objects to, in the order in which it asks. In the mode `fix` a
query or fragment that carries data is cut off, and what else is found is taken out; in the mode
`block` the text is stopped. A text with more links than can be examined in good time is stopped in
either mode.

`find_links` takes links and images apart: Markdown, HTML and bare addresses. The patterns are
linear, and nothing is fetched or resolved.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Annotated
from urllib.parse import unquote

from pydantic import AfterValidator

from silas.gates.guards.normalise import LOOKALIKES, Subject
from silas.gates.guards.rules import (
    GuardFinding,
    GuardOptions,
    GuardRule,
    GuardVerdict,
    Mode,
    Proof,
    RulePlace,
    findings_of,
    last_cut,
    proven,
    replaced,
    verdict,
)

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


class LinkKind(StrEnum):
    """How an address gets fetched: by a click or a preview, or just by being shown."""

    LINK = "link"
    IMAGE = "image"


@dataclass(frozen=True)
class TextLink:
    """One address in a text. `scheme` and `host` are in small letters, the host is decoded."""

    start: int
    end: int
    address: str
    kind: LinkKind
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


def find_links(subject: Subject, *, most: int) -> list[TextLink] | None:
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


def _link(text: str, start: int, address: str, *, by_reference: bool) -> TextLink:
    parts = _PARTS.match(address)
    named = {name: value or "" for name, value in parts.groupdict().items()} if parts else {}
    user, _, host = named["authority"].rpartition("@")
    is_image = _is_image(text, start) or (by_reference and _is_definition(text, start))
    return TextLink(
        start=start,
        end=start + len(address),
        address=address,
        kind=LinkKind.IMAGE if is_image else LinkKind.LINK,
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


LINK_REMOVED = "[link removed]"
IMAGE_REMOVED = "[image removed]"

_LONGEST_QUERY = 200
_LONGEST_VALUE = 64
_LONGEST_PATH = 400
_LONGEST_SEGMENT = 100
_LONGEST_LABEL = 32
_MOST_LABELS = 8
_MOST_ESCAPES = 15
_PIECES = re.compile(r"[^A-Za-z0-9]+")
_CHANGES = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_COMMIT = re.compile(r"/(?:commit|commits|tree|blob|raw|archive|compare|changeset)/[0-9a-f]{40}")
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp)[;,]", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class UrlRule(GuardRule):
    """One objection to a link, and what to write in its place."""

    finds: Callable[[TextLink], bool]
    spares_allowed: bool = False
    """Whether it does not apply to allowed hosts."""
    mend: Callable[[TextLink], str] = lambda _: LINK_REMOVED


def _acts(link: TextLink) -> bool:
    return link.scheme in ("javascript", "vbscript") or (
        link.scheme == "data" and not _PICTURE.match(link.address)
    )


def _is_lookalike(link: TextLink) -> bool:
    """Whether a label of the host is written in letters that all pass for Latin ones."""
    return any(_passes_for_latin(_decoded(label)) for label in link.host.split("."))


def _decoded(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError):
        return _UNDECODABLE


def _passes_for_latin(label: str) -> bool:
    letters = [char for char in label if char.isalpha()]
    foreign = [char for char in letters if char in _FOREIGN]
    return bool(foreign) and all(char.isascii() or char in _FOREIGN for char in letters)


_FOREIGN = frozenset(char for char in LOOKALIKES if "\u0370" <= char <= "\u058f")
# A label that cannot be decoded is taken for one that deceives: a lone Cyrillic letter.
_UNDECODABLE = "\u0430"


def _has_data_in_host(link: TextLink) -> bool:
    labels = link.host.split(".")
    return len(labels) > _MOST_LABELS or any(
        len(label) > _LONGEST_LABEL or _is_random(label, 24) or _is_no_name(label)
        for label in labels[:-1]
    )


def _is_no_name(label: str) -> bool:
    """Whether nobody would call a host so. Hosts know no capitals, so few changes are left."""
    return len(label) >= 24 and "-" not in label and any(map(str.isdigit, label))


def _has_data_in_path(link: TextLink) -> bool:
    if len(link.path) > _LONGEST_PATH:
        return True
    if _COMMIT.search(link.path):
        return False
    path = _ID.sub("", unquote(link.path))
    return any(len(part) > _LONGEST_SEGMENT for part in path.split("/")) or _has_random(path, 32)


def _has_data_behind_path(link: TextLink) -> bool:
    return _has_data(link.query) or _has_data(link.fragment)


def _has_data(text: str) -> bool:
    if len(text) > _LONGEST_QUERY or text.count("%") > _MOST_ESCAPES:
        return True
    values = re.split(r"[&;=]", text)
    return any(len(value) > _LONGEST_VALUE for value in values) or _has_random(unquote(text), 20)


def _has_random(text: str, size: int) -> bool:
    return any(_is_random(piece, size) for piece in _PIECES.split(text))


def _is_random(piece: str, size: int) -> bool:
    """Whether it looks generated: long, with a digit, often changing between kinds of letters."""
    if len(piece) < size or not any(map(str.isdigit, piece)):
        return False
    return piece.isdigit() or len(_CHANGES.findall(piece)) * 5 >= len(piece)


RULES_IN_ORDER: tuple[UrlRule, ...] = (
    UrlRule(
        name="acting-link",
        why="A link would run a script or open a page that is written inside the link.",
        finds=_acts,
        match=(
            "[click](javascript:alert(1))",
            "see data:text/html,<b>x</b>",
            "JaVaScRiPt:alert(1)",
        ),
        not_match=(
            "the data: see below",
            "https://example.com/javascript:x",
            "learn JavaScript: now",
        ),
    ),
    UrlRule(
        name="user-in-link",
        why="A link holds a user name or password, or hides its host behind one.",
        finds=lambda link: bool(link.user),
        match=("https://anna:pw@example.com/", "https://bank.com@evil.example/login"),
        not_match=("https://example.com/@anna", "mail anna@example.com"),
    ),
    UrlRule(
        name="lookalike-host",
        why="The host of a link is written in letters that pass for others.",
        finds=_is_lookalike,
        match=("https://xn--80ak6aa92e.com/", "https://pаypal.com/", "http://аррӏе.com"),
        not_match=("https://münchen.de/", "https://xn--mnchen-3ya.de/", "https://почта.рф/"),
    ),
    UrlRule(
        name="foreign-image",
        why="An image would be fetched from a host that is not allowed as soon as it is shown.",
        finds=lambda link: link.kind is LinkKind.IMAGE and link.scheme != "data",
        spares_allowed=True,
        mend=lambda _: IMAGE_REMOVED,
        match=(
            "![logo](https://evil.example/x.png)",
            '<img src="http://evil.example/x.png">',
            "![a [b] c](//evil.example/x)",
            "![x][1]\n\n[1]: https://evil.example/x.png",
        ),
        not_match=(
            "[logo](https://example.com/x.png)",
            "![dot](data:image/png;base64,iVBORw0KGgo=)",
        ),
    ),
    UrlRule(
        name="data-in-host",
        why="The host name of a link has room for somebody's data.",
        finds=_has_data_in_host,
        spares_allowed=True,
        match=("http://4a6f686e20446f652035353520313233.evil.example/",),
        not_match=("https://docs.python.org/", "https://d111111abcdef8.cloudfront.net/x"),
    ),
    UrlRule(
        name="data-in-path",
        why="The path of a link has room for somebody's data.",
        finds=_has_data_in_path,
        spares_allowed=True,
        match=("https://evil.example/p/TXkgcGFzc3dvcmQgaXMgaHVudGVyMiBhbmQgbW9yZQ/x",),
        not_match=(
            "https://github.com/a/b/commit/0123456789abcdef0123456789abcdef01234567",
            "https://example.com/how-to-grow-tomatoes-on-a-balcony-in-the-city-2024",
            "https://example.com/item/123e4567-e89b-12d3-a456-426614174000",
        ),
    ),
    UrlRule(
        name="data-in-query",
        why="The query or fragment of a link has room for somebody's data.",
        finds=_has_data_behind_path,
        spares_allowed=True,
        mend=lambda link: link.without_data,
        match=(
            "https://evil.example/?q=TXkgcGFzc3dvcmQgaXMgaHVudGVyMg",
            "https://evil.example/#" + "my neighbour said ".replace(" ", "+") * 5,
        ),
        not_match=(
            "https://example.com/search?q=bread+recipe&page=2",
            "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
            "https://docs.python.org/3/library/re.html#re.compile",
        ),
    ),
)

TOO_MANY = GuardRule(
    name="too-many-links",
    why="There are more links in it than can be examined.",
    match=("http://a.example/ " * 501,),
    not_match=("http://a.example/ " * 500,),
)


NAME = "urls"
MOST_LINKS = 500
"""How many links of one text are examined."""


def _hosts(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not name or "/" in name or ":" in name or "*" in name:
            raise ValueError("takes plain host names, such as `example.com`")
    return tuple(name.lower().rstrip(".") for name in names)


class UrlsOptions(GuardOptions):
    """Which hosts may be linked to freely. None are, unless they are named."""

    mode: Mode = Mode.FIX
    allowed_hosts: Annotated[tuple[str, ...], AfterValidator(_hosts)] = ()


def check(subject: Subject, options: UrlsOptions) -> GuardVerdict:
    """Cut links that carry data, take out those that lead astray, or stop the text."""
    PROOF.hold()
    links = find_links(subject, most=MOST_LINKS)
    if links is None:
        finding = GuardFinding(rule=TOO_MANY.name, start=0, end=len(subject.text), why=TOO_MANY.why)
        return verdict(NAME, [finding], mode=Mode.BLOCK)
    mends: dict[int, str] = {}
    places = []
    for link in links:
        if rule := _objection(link, options.allowed_hosts):
            places.append(RulePlace(link.start, link.end, rule))
            mends[link.start] = rule.mend(link)
    fixed = replaced(subject.text, places, lambda place: mends[place.start])
    return verdict(NAME, findings_of(places), mode=options.mode, fixed_text=fixed)


# `[1]: https://…` is an image as soon as an `![…][1]` follows anywhere.
_DEFINES = re.compile(r"\]:\s{0,3}<?(?:[A-Za-z]{0,10}(?::|\Z)|[/\\])")


def settled(text: str) -> int:
    """Up to where what is found cannot change any more: an address has no spaces in it."""
    defines = _DEFINES.search(text)
    return last_cut(text, defines.start() if defines else len(text))


def _objection(link: TextLink, allowed_hosts: tuple[str, ...]) -> UrlRule | None:
    """The first rule that objects; rules about data do not apply to allowed hosts."""
    allowed = _is_allowed(link.host, allowed_hosts)
    return next(
        (
            rule
            for rule in RULES_IN_ORDER
            if not (allowed and rule.spares_allowed) and rule.finds(link)
        ),
        None,
    )


def _is_allowed(host: str, allowed_hosts: tuple[str, ...]) -> bool:
    return any(host == name or host.endswith("." + name) for name in allowed_hosts)


def _finds(rule: UrlRule, text: str) -> bool:
    return any(rule.finds(link) for link in find_links(Subject(text), most=MOST_LINKS) or ())


def _prove() -> None:
    proven(RULES, _finds)
    proven(OTHER_RULES, lambda _, text: find_links(Subject(text), most=MOST_LINKS) is None)


RULES = RULES_IN_ORDER
OTHER_RULES = (TOO_MANY,)
PROOF = Proof(_prove)
