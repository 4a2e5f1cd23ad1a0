"""What a message tells about the manner: the context that it belongs to, praise, and feedback.

Fixed words decide, never a model: the same message always moves the same. Feedback is about how
Silas speaks (“that was too harsh”, “be more formal”), not about what something is (“the report is
too long”), so the words must say whose manner is meant, and the message must be short.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

DEFAULT = "default"
_READ = 2000
_LONGEST_REMARK = 200
_STEP = 0.05


@dataclass(frozen=True)
class Feedback:
    """One remark about the manner: what it moves, what is wanted instead, and its words."""

    axes: Mapping[str, float]
    wanted: str
    words: str


FEEDBACK: Mapping[str, Feedback] = MappingProxyType(
    {
        f"feedback_{name}": Feedback({axis: step}, wanted, words)
        for name, axis, step, wanted, words in (
            ("too_harsh", "assertiveness", -_STEP, "a gentler tone", "harsh|rude|mean|blunt"),
            ("too_soft", "assertiveness", _STEP, "a firmer tone", "soft|timid|meek|vague"),
            ("too_wordy", "verbosity", -_STEP, "shorter answers", "wordy|long|verbose|chatty"),
            ("too_brief", "verbosity", _STEP, "longer answers", "brief|short|terse|curt"),
            ("too_cold", "warmth", _STEP, "a warmer tone", "cold|cool|distant|clinical"),
            ("too_warm", "warmth", -_STEP, "a cooler tone", "warm|gushing|emotional|sweet"),
            ("too_formal", "formality", -_STEP, "a more casual tone", "formal|stiff|official"),
            ("too_casual", "formality", _STEP, "a more formal tone", "casual|chummy|informal"),
        )
    }
)
"""Every kind of feedback, by the name of its event."""

_SPEAKER = (
    r"(?:that|this|it) (?:was|is|sounds|sounded|felt)|that's|you(?:'re| are| were| sound)"
    r"|your (?:answers?|reply|replies|tone|style|messages?) (?:is|are|was|were)"
)
_REMARKS = {
    event: re.compile(
        rf"^(?:{_SPEAKER})\b[^.!?\n]{{0,20}}\btoo (?:{each.words})(?: for me)?\W*(?:$|[.!,;])",
        re.IGNORECASE,
    )
    for event, each in FEEDBACK.items()
}
_SAY = (
    r"(?:be|sound|speak|talk|answer(?: me)?|reply|write(?: to me)?|keep (?:it|your answers)"
    r"|make your answers)"
)
_WISHES = {
    f"feedback_{event}": re.compile(
        rf"^(?:please )?(?:{_SAY} (?:a (?:bit|little) )?(?:{words})"
        rf"|(?:use a )?(?:{words}) (?:tone|style|answers|replies))"
        r"(?:,? please|,? from now on|,? with me)*\W*$",
        re.IGNORECASE,
    )
    for event, words in (
        ("too_harsh", "gentler|softer|less (?:harsh|rude|blunt)|more gentle"),
        ("too_soft", "firmer|more (?:direct|firm)|less (?:soft|timid|vague)"),
        ("too_wordy", "short|shorter|brief|briefer|more (?:concise|brief)|less (?:wordy|chatty)"),
        ("too_brief", "longer|more (?:detailed|verbose|chatty)|less (?:brief|terse)"),
        ("too_cold", "warmer|friendlier|more (?:warm|friendly|personal)|less (?:cold|distant)"),
        ("too_warm", "cooler|more (?:matter-of-fact|sober)|less (?:warm|emotional|gushing)"),
        ("too_formal", "more (?:casual|relaxed|informal)|less (?:formal|stiff)"),
        ("too_casual", "formal|more (?:formal|polite)|less (?:casual|chummy)"),
    )
}
"""The same as a wish: “be more formal”, “shorter answers, please”."""
_PRAISE = re.compile(
    r"^(?:(?:thanks|thank you)[,.!]? )?(?:well done|(?:good|great|nice) (?:job|work)|perfect"
    r"|excellent|brilliant|you(?:'re| are) (?:great|amazing|awesome|the best)|i love (?:it|this)"
    r"|that(?:'s| is| was) (?:great|perfect|brilliant|excellent|awesome|very helpful))\W*$",
    re.IGNORECASE,
)


def spoken_event(text: str) -> str | None:
    """The event that a message is to the personality: feedback, praise, or None."""
    remark = text.strip()
    if len(remark) > _LONGEST_REMARK:
        return None
    for event in FEEDBACK:
        if _REMARKS[event].search(remark) or _WISHES[event].search(remark):
            return event
    return "compliment" if _PRAISE.match(remark) else None


class ContextDetector:
    """Tells the context of a message by the configured words."""

    def __init__(self, words: Mapping[str, Sequence[str]], known: frozenset[str]) -> None:
        """`words` are tried in their order; a context that is not `known` is never detected."""
        self._known = known
        self._patterns = [
            (name, re.compile(rf"\b(?:{'|'.join(map(re.escape, some))})\b", re.IGNORECASE))
            for name, some in words.items()
            if name in known and some
        ]

    def detect(self, text: str, *, hint: str | None = None) -> str:
        """The hint if it is known, else the first context with a word in the text, else default."""
        if hint is not None and hint in self._known:
            return hint
        shown = text[:_READ]
        found = (name for name, pattern in self._patterns if pattern.search(shown))
        return next(found, DEFAULT)
