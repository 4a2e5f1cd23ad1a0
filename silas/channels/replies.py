"""What a typed line says about a card: the text fall-back for channels without cards.

Only a whole line counts, and only these words; whatever else is said decides nothing. What is not
decided in time is declined by the card's own expiry.
"""

from enum import StrEnum

from silas.gates.risk import RiskLevel


class TextReply(StrEnum):
    """What was meant."""

    YES = "yes"
    NO = "no"
    CHANGES = "changes"
    LATER = "later"
    EXACT = "exact"
    """Every byte that would be signed is to be shown."""


WHICH_CHANGES = "What should be different? One line; an empty one leaves the plan as it is."
_WORDS = {
    TextReply.YES: {"yes", "y", "approve", "approved", "ok", "okay", "do it"},
    TextReply.NO: {
        "no",
        "n",
        "decline",
        "declined",
        "block",
        "reject",
        "cancel",
        "stop",
        "not now",
    },
    TextReply.CHANGES: {"changes", "change", "edit", "revise"},
    TextReply.LATER: {"later", "skip"},
    TextReply.EXACT: {"?"},
}
_LOUD = "approve"
"""What has to be typed where a yes is too little: high risk, and what cannot be undone."""
_RISKY = frozenset({RiskLevel.HIGH, RiskLevel.IRREVERSIBLE})


def reply_of(text: str, *, risk: RiskLevel) -> TextReply | None:
    """What the line says; None if it says nothing about the card."""
    said = " ".join(text.strip().rstrip(".!").casefold().split())
    found = next((reply for reply, words in _WORDS.items() if said in words), None)
    if found is TextReply.YES and risk in _RISKY and said != _LOUD:
        return None
    return found


def question_for(risk: RiskLevel) -> str:
    """What can be typed."""
    return f"Approve exactly this? {choices_for(risk, exact=True, changes=True, later=True)}"


def choices_for(
    risk: RiskLevel, *, exact: bool = False, changes: bool = False, later: bool = False
) -> str:
    """The words that count, for a question that ends with them."""
    yes = _LOUD if risk in _RISKY else "y"
    more = [
        *(["changes"] if changes else []),
        *(["later"] if later else []),
        *(["? for every byte that is signed"] if exact else []),
    ]
    return f"({', '.join([f'Type {yes} or n', *more])})"
