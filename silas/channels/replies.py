"""What a typed line says about a card: the text fall-back for channels without cards.

Only a whole line counts, and only these words; whatever else is said decides nothing. What is not
decided in time is declined by the card's own expiry.
"""

from enum import StrEnum

from silas.gates.risk import RiskLevel


class Reply(StrEnum):
    """What was meant."""

    YES = "yes"
    NO = "no"
    CHANGES = "changes"
    LATER = "later"


_WORDS = {
    Reply.YES: {"yes", "y", "approve", "approved", "ok", "okay", "do it"},
    Reply.NO: {"no", "n", "decline", "declined", "block", "reject", "cancel", "stop", "not now"},
    Reply.CHANGES: {"changes", "change", "edit", "revise"},
    Reply.LATER: {"later", "skip"},
}
_LOUD = "approve"
"""What has to be typed where a yes is too little: high risk, and what cannot be undone."""
_RISKY = frozenset({RiskLevel.HIGH, RiskLevel.IRREVERSIBLE})


def reply_of(text: str, *, risk: RiskLevel) -> Reply | None:
    """What the line says; None if it says nothing about the card."""
    said = " ".join(text.strip().rstrip(".!").casefold().split())
    found = next((reply for reply, words in _WORDS.items() if said in words), None)
    if found is Reply.YES and risk in _RISKY and said != _LOUD:
        return None
    return found


def question_for(risk: RiskLevel) -> str:
    """What can be typed."""
    yes = _LOUD if risk in _RISKY else "yes"
    return f"Approve exactly this? Type {yes} or no (or changes, or later)."
