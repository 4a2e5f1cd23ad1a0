"""The taint lattice: `owner` is trusted more than `auth`, `auth` more than `external`.

`Provenance` is a taint together with what it came from, in words that the owner can judge.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

MAX_SOURCES = 8
"""More than a person reads on a card."""
_MAX_SOURCE_CHARS = 300


class TaintLevel(StrEnum):
    """Where content came from, and so how far it may be trusted."""

    OWNER = "owner"
    AUTH = "auth"
    EXTERNAL = "external"


_DISTRUST = {TaintLevel.OWNER: 0, TaintLevel.AUTH: 1, TaintLevel.EXTERNAL: 2}


def join_taint(*levels: TaintLevel) -> TaintLevel:
    """The taint of something made from all of these: the least trusted of them.

    Made from nothing known means `external`: an empty provenance earns no trust.
    """
    return max(levels, key=_DISTRUST.__getitem__, default=TaintLevel.EXTERNAL)


class Provenance(NamedTuple):
    """A taint, and the strangers' texts that it comes from. Only `external` has sources."""

    taint: TaintLevel
    sources: tuple[str, ...] = ()

    def joined(self, *others: "Provenance") -> "Provenance":
        """The provenance of something made from this and from all of these."""
        parts = (self, *others)
        taint = join_taint(*(each.taint for each in parts))
        return Provenance(taint, first_sources(name for each in parts for name in each.sources))


OWNERS = Provenance(TaintLevel.OWNER)
"""What the owner has written, or what was made from nothing else."""


def external(*sources: str) -> Provenance:
    """The provenance of strangers' text."""
    return Provenance(TaintLevel.EXTERNAL, first_sources(sources))


def first_sources(sources: Iterable[str]) -> tuple[str, ...]:
    """Each source once, and not more than a card can show."""
    return tuple(dict.fromkeys(each[:_MAX_SOURCE_CHARS] for each in sources))[:MAX_SOURCES]


def read_at(what: str, when: datetime) -> str:
    """A source with the time at which it was read."""
    return f"{what[: _MAX_SOURCE_CHARS - 40]}, read at {when:%H:%M} UTC on {when:%Y-%m-%d}"
