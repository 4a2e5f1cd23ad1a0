"""The owner's decisions as the audit log tells them: when each was asked, decided, and how.

A decision begins when its card was asked, or when the card before it was decided, whichever came
later: cards are looked at one at a time. What nobody decided in time is not a decision. Questions
and calls are on cards too: their answers say themselves since when they waited (`answered_entry`).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from silas.audit.models import AuditEntry
from silas.kernel import format_timestamp, parse_timestamp

ASKED, DECIDED, EXPIRED = "card_asked", "card_decided", "card_expired"
ANSWERED = "card_answered"
KEPT = "undo_not_wanted"
RISKY = frozenset({"medium", "high", "irreversible"})


class Decided(NamedTuple):
    """One decision of the owner's."""

    at: datetime
    seconds: float
    risk: str
    verdict: str
    is_plan: bool = True
    """False: it was a question, or a call."""


def answered_entry(
    card_id: str, *, verdict: str, risk: str, asked_at: datetime
) -> tuple[str, dict[str, str]]:
    """What the log says of a question or of calls that were decided, for those who measure."""
    asked = format_timestamp(asked_at)
    return ANSWERED, {"card_id": card_id, "verdict": verdict, "risk": risk, "asked_at": asked}


def event_of(verdict: str, *, late: bool, undo: bool) -> str:
    """How the log calls the end of a card: who lets a result stand has declined nothing."""
    if undo and verdict == "declined":
        return KEPT
    return EXPIRED if late else DECIDED


def decisions(entries: Iterable[AuditEntry]) -> Iterator[Decided]:
    """The decisions among entries that are in their order; cards asked before them are left out."""
    asked: dict[str, tuple[datetime, str]] = {}
    free: datetime | None = None
    for entry in entries:
        name, at = str(entry.data.get("card_id")), parse_timestamp(entry.at)
        if entry.event == ASKED:
            asked[name] = at, str(entry.data.get("risk"))
        elif entry.event == EXPIRED:
            asked.pop(name, None)
        elif (entry.event == DECIDED and name in asked) or entry.event == ANSWERED:
            is_plan = entry.event == DECIDED
            since, risk = asked.pop(name) if is_plan else _said_of(entry)
            begun = since if free is None else max(since, free)
            seconds = max(0.0, (at - begun).total_seconds())
            yield Decided(at, seconds, risk, str(entry.data.get("verdict")), is_plan)
            free = at


def _said_of(entry: AuditEntry) -> tuple[datetime, str]:
    return parse_timestamp(str(entry.data["asked_at"])), str(entry.data["risk"])
