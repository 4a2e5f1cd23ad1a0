"""What kind of answer a question asks for, told by how it begins (English).

"When did Anna move?" is answered by a memory that names a time, "How many" by one that names a
number. "Which cities has Anna visited?" asks for several things: its answers are single remarks all
over the years, so where they stand says less about them, and whom they are about says more.
"""

import re
from typing import NamedTuple

_WHEN = re.compile(r"\W*(?:when\b|(?:in |on )?(?:what|which) (?:date|day|week|month|year)\b)", re.I)
_COUNT = re.compile(r"\bhow (?:many|much|long|often|old)\b", re.I)
_SEVERAL = re.compile(
    r"\W*(?:how many\b|in (?:what|which) ways\b"
    r"|(?:what|which) (?:(?:kind|type|sort)s? of\b|all\b|else\b)"
    r"|(?:what|which)\b(?:\W+\w+){0,2}?\W+(?!(?:is|was|does|has|this|his)\b)\w+[^\Ws]s\b)",
    re.I,
)
_TIME_WORDS = """
yesterday today tonight tomorrow ago last next week weeks weekend month months year years since
recently soon morning evening night monday tuesday wednesday thursday friday saturday sunday
january february march april june july august september october november december
"""
_NUMBER_WORDS = """
one two three four five six seven eight nine ten once twice dozen dozens hundred hundreds few
couple several many
"""
_TIMES = frozenset(_TIME_WORDS.split())
_NUMBERS = frozenset(_NUMBER_WORDS.split())
_LOOKED_AT = 2000
_SPACES = str.maketrans(dict.fromkeys("\n\t.,;:!?()[]\"'/-\u2019", " "))


class Asked(NamedTuple):
    """What a question asks for."""

    several: bool
    """Things in the plural."""

    told_by: frozenset[str] | None
    """A memory that tells such a thing holds one of these or a figure; None if any memory may."""

    def is_told_in(self, text: str) -> bool:
        """Whether the text holds what is asked for; of a long one, its beginning is looked at."""
        words = text[:_LOOKED_AT].lower().translate(_SPACES).split()
        known = self.told_by or frozenset()
        return not known.isdisjoint(words) or any(map(str.isdecimal, words))


def asked_for(question: str) -> Asked:
    """What kind of answer this question asks for."""
    told_by = None
    if _WHEN.match(question):
        told_by = _TIMES
    elif _COUNT.search(question):
        told_by = _NUMBERS
    return Asked(_SEVERAL.match(question) is not None, told_by)
