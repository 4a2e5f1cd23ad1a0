"""What the guard `urls` objects to, in the order in which it is asked."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from silas.gates.guards.characters import LOOKALIKES
from silas.gates.guards.links import Kind, Link
from silas.gates.guards.rules import Rule

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
class UrlRule(Rule):
    """One objection to a link, and what to write in its place."""

    finds: Callable[[Link], bool]
    spares_allowed: bool = False
    """Whether it does not apply to allowed hosts."""
    mend: Callable[[Link], str] = lambda _: LINK_REMOVED


def _acts(link: Link) -> bool:
    return link.scheme in ("javascript", "vbscript") or (
        link.scheme == "data" and not _PICTURE.match(link.address)
    )


def _is_lookalike(link: Link) -> bool:
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


def _has_data_in_host(link: Link) -> bool:
    labels = link.host.split(".")
    return len(labels) > _MOST_LABELS or any(
        len(label) > _LONGEST_LABEL or _is_random(label, 24) or _is_no_name(label)
        for label in labels[:-1]
    )


def _is_no_name(label: str) -> bool:
    """Whether nobody would call a host so. Hosts know no capitals, so few changes are left."""
    return len(label) >= 24 and "-" not in label and any(map(str.isdigit, label))


def _has_data_in_path(link: Link) -> bool:
    if len(link.path) > _LONGEST_PATH:
        return True
    if _COMMIT.search(link.path):
        return False
    path = _ID.sub("", unquote(link.path))
    return any(len(part) > _LONGEST_SEGMENT for part in path.split("/")) or _has_random(path, 32)


def _has_data_behind_path(link: Link) -> bool:
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
        finds=lambda link: link.kind is Kind.IMAGE and link.scheme != "data",
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

TOO_MANY = Rule(
    name="too-many-links",
    why="There are more links in it than can be examined.",
    match=("http://a.example/ " * 501,),
    not_match=("http://a.example/ " * 500,),
)
