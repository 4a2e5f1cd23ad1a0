"""The owner's decisions as the audit log tells them: when each was asked, decided, and how.

A decision begins when its card was asked, or when the card before it was decided, whichever came
later: cards are looked at one at a time. What nobody decided in time is not a decision.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from silas.kernel import parse_timestamp

ASKED, DECIDED, EXPIRED = "card_asked", "card_decided", "card_expired"
KEPT = "undo_not_wanted"
RISKY = frozenset({"medium", "high", "irreversible"})


class Entry(Protocol):
    """One entry of the log."""

    @property
    def at(self) -> str:
        """When, in UTC."""
        ...

    @property
    def event(self) -> str:
        """What."""
        ...

    @property
    def data(self) -> Mapping[str, Any]:
        """The details."""
        ...


class Decided(NamedTuple):
    """One decision of the owner's."""

    at: datetime
    seconds: float
    risk: str
    verdict: str


def event_of(verdict: str, *, late: bool, undo: bool) -> str:
    """How the log calls the end of a card: who lets a result stand has declined nothing."""
    if undo and verdict == "declined":
        return KEPT
    return EXPIRED if late else DECIDED


def decisions(entries: Iterable[Entry]) -> Iterator[Decided]:
    """The decisions among entries that are in their order; cards asked before them are left out."""
    asked: dict[str, tuple[datetime, str]] = {}
    free: datetime | None = None
    for entry in entries:
        name, at = str(entry.data.get("card_id")), parse_timestamp(entry.at)
        if entry.event == ASKED:
            asked[name] = at, str(entry.data.get("risk"))
        elif entry.event == EXPIRED:
            asked.pop(name, None)
        elif entry.event == DECIDED and name in asked:
            since, risk = asked.pop(name)
            begun = since if free is None else max(since, free)
            seconds = max(0.0, (at - begun).total_seconds())
            yield Decided(at, seconds, risk, str(entry.data.get("verdict")))
            free = at
