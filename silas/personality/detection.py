"""What kind of conversation a message belongs to, by its words. The list is read from the top."""

import re

_SIGNS = (
    (
        "crisis",
        r"urgent|emergency|outage|asap|right now|is down|went down|on fire|hacked|leaked|data loss",
    ),
    ("code_review", r"review|diff|pull request|merge request|refactor|lint|commit"),
    (
        "deep_research",
        r"research|compare|analy[sz]e|investigate|literature|sources|in depth|deeper",
    ),
    (
        "casual_chat",
        r"hi|hello|hey|good morning|good evening|how are you|thanks|thank you|lol|haha|joke",
    ),
)
_PATTERNS = tuple((name, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for name, words in _SIGNS)
_READ = 2000

DEFAULT = "default"


def detect(text: str, known: frozenset[str], *, hint: str | None = None) -> str:
    """The context of a message: the hint if it is known, else the first sign, else the default."""
    if hint is not None and hint in known:
        return hint
    shown = text[:_READ]
    return next(
        (name for name, pattern in _PATTERNS if name in known and pattern.search(shown)), DEFAULT
    )
