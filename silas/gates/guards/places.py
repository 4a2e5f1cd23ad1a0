"""Places in a text that rules object to: in order, as findings, and replaced."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from silas.gates.guards.models import GuardFinding
from silas.gates.guards.rules import Rule

MOST_FINDINGS = 100
"""How many findings one verdict lists; more would tell a reader nothing new."""


class Place(NamedTuple):
    """A stretch of text, and the rule that objects to it."""

    start: int
    end: int
    rule: Rule


def without_overlaps(places: Iterable[Place]) -> list[Place]:
    """The places in the order of the text; of two that overlap, the one that begins first."""
    kept: list[Place] = []
    for place in sorted(places, key=lambda place: (place.start, -place.end)):
        if not kept or place.start >= kept[-1].end:
            kept.append(place)
    return kept


def findings_of(places: list[Place]) -> list[GuardFinding]:
    """The first places as findings."""
    return [
        GuardFinding(rule=place.rule.name, start=place.start, end=place.end, why=place.rule.why)
        for place in places[:MOST_FINDINGS]
    ]


def replaced(text: str, places: list[Place], by: Callable[[Place], str]) -> str:
    """The text with something else in each place; the places do not overlap."""
    parts, behind = [], 0
    for place in places:
        parts += [text[behind : place.start], by(place)]
        behind = place.end
    return "".join([*parts, text[behind:]])
