"""Regular expressions from outside, matched in a time that grows with the text and no faster.

Python's own engine tries one way after the other: an expression such as `(a+)+` can take a time
that doubles with every character. So expressions of plans, gates and models are compiled by RE2,
which has no such expressions.

1. What RE2 does not know is refused with a sentence: references to earlier groups, looking ahead or
   behind, atomic groups, escapes such as `\\u00e9` (write the character).
2. `\\w`, `\\d`, `\\s` and `\\b` know ASCII letters, digits and spaces alone.
3. As in Python, `$` also stands before a line feed that ends the text: what a command prints ends
   with one.
"""

import re
from functools import lru_cache
from typing import Any

import re2

_MAX_LENGTH = 1000
_MAX_MEMORY_BYTES = 8 * 1024 * 1024
_REFERENCES = re.compile(r"invalid escape sequence: \\[1-9]|invalid perl operator: \(\?(?:P|\()")
_LOOKAROUND = re.compile(
    r"invalid perl operator: \(\?<?[=!]|invalid named capture group: \(\?<[=!]"
)


class SafeExpression:
    """A compiled expression; raises `ValueError` for what `regex_problem` refuses."""

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY_BYTES
        try:
            self._compiled: Any = re2.compile(pattern, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise ValueError(_words(error)) from error

    def search(self, text: str) -> bool:
        """Whether the expression matches somewhere in the text."""
        text = _encodable(text)
        found = self._compiled.search(text) is not None
        return found or (text.endswith("\n") and self._compiled.search(text[:-1]) is not None)

    def fullmatch(self, text: str) -> bool:
        """Whether the expression matches the text from its first to its last character."""
        return self._compiled.fullmatch(_encodable(text)) is not None


@lru_cache(maxsize=256)
def compiled(pattern: str) -> SafeExpression:
    """The expression, remembered; raises `ValueError`."""
    return SafeExpression(pattern)


def regex_problem(pattern: str) -> str | None:
    """What is wrong with the expression, as a sentence that says what would be right; or None."""
    if len(pattern) > _MAX_LENGTH:
        return f"this expression is longer than {_MAX_LENGTH} characters"
    try:
        compiled(pattern)
    except ValueError as error:
        return str(error)
    return None


def _words(error: Exception) -> str:
    [reason] = error.args if len(error.args) == 1 else [str(error)]
    message = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    if _REFERENCES.match(message):
        return "references to earlier groups can take for ever; write the text out"
    if _LOOKAROUND.match(message):
        return "looking ahead or behind can take for ever; write what must be there instead"
    return f"this is not a regular expression: {message}"


def _encodable(text: str) -> str:
    """The text without halves of characters, which RE2 cannot read."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
