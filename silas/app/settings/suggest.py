"""The nearest word that exists, for a person who mistyped one."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """A question to append to a message, or nothing if no option is near."""
    found = difflib.get_close_matches(word[:100], list(options), n=1, cutoff=0.6)
    return f"; did you mean `{found[0]}`?" if found else ""
