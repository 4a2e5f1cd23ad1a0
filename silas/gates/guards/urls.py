"""The guard `urls`: links and images in outgoing text that carry data away, or lead astray.

A link preview, or the display of an image, fetches an address without a click: whoever chose the
address learns what is in it. So an image from a host that is not allowed is out, and so is a link
that has room for somebody's data in its query, path, fragment or host name. Hosts in
`allowed_hosts` may have such links (`example.com` also stands for its sub-domains).

In the mode `fix` a query or fragment that carries data is cut off, and what else is found is taken
out; in the mode `block` the text is stopped. A text with more links than can be examined in good
time is stopped in either mode.
"""

from typing import Annotated

from pydantic import AfterValidator

from silas.gates.guards.links import Link, find_links
from silas.gates.guards.models import GuardFinding, GuardOptions, GuardVerdict, Mode, verdict
from silas.gates.guards.places import Place, findings_of, replaced
from silas.gates.guards.rules import Proof, proven
from silas.gates.guards.subject import Subject
from silas.gates.guards.url_rules import RULES_IN_ORDER, TOO_MANY, UrlRule

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
            places.append(Place(link.start, link.end, rule))
            mends[link.start] = rule.mend(link)
    fixed = replaced(subject.text, places, lambda place: mends[place.start])
    return verdict(NAME, findings_of(places), mode=options.mode, fixed_text=fixed)


def _objection(link: Link, allowed_hosts: tuple[str, ...]) -> UrlRule | None:
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
