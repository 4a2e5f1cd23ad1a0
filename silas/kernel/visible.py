"""Text made safe to show: what is displayed is what is there.

A terminal obeys control characters, and a reader is fooled by bidirectional overrides and
zero-width characters. `visible` writes each of them out as `\\x1b` or `\\u202e`; a backslash that
was in the text is doubled, so that the result can be read in one way only. `visible_json` shows a
JSON value in the same spirit, with JSON's own escapes: what is shown parses to the same value.
"""

import json
import unicodedata
from collections.abc import Collection, Iterator
from typing import Any

_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Drawn as empty space, or as nothing at all, although Unicode counts them as letters or marks.
_BLANK = {
    *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159",
    *map(chr, range(0xFE00, 0xFE10)),  # variation selectors
    *map(chr, range(0xE0100, 0xE01F0)),
}
_LINE_BREAKS = frozenset("\n\t")


_PREFIX = "  | "


def visible(text: str, *, keep_newlines: bool = True) -> str:
    """The text with everything invisible or active written as an escape."""
    if text.isascii() and text.isprintable():
        return text.replace("\\", "\\\\")
    return "".join(
        char if keep_newlines and char in _LINE_BREAKS else _shown(char) for char in text
    )


def without_hidden(text: str) -> str:
    """The text without everything that is invisible or active, line breaks included."""
    return "".join(char for char in text if not _is_hidden(char))


def visible_json(value: Any) -> str:
    """The value as indented JSON in which nothing is invisible or active."""
    pretty = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(
        json.dumps(char)[1:-1] if char != "\n" and _is_hidden(char) else char for char in pretty
    )


def quoted(text: str, *, width: int, marked: Collection[int] = ()) -> str:
    """Foreign text, visible, as lines that cannot be taken for lines of the runtime's own.

    Every line begins with `  | `, or with `  > ` if its number, from 1, is `marked`. A line that is
    longer than `width` goes on below `  : `, with its next word: a terminal that wraps it would
    begin at the edge.
    """
    return prefixed(visible(text).replace("\t", "\\t"), width=width, marked=marked)


def prefixed(shown: str, *, width: int, marked: Collection[int] = ()) -> str:
    """The same for a text that is visible already."""
    columns = max(20, width - len(_PREFIX) - 1)
    lines = []
    for number, line in enumerate(shown.split("\n"), 1):
        # Characters of other scripts can take two columns each.
        step = columns if line.isascii() else columns // 2
        pieces = list(_pieces(line, step))
        first = "  > " if number in marked else _PREFIX
        lines += [f"{first}{pieces[0]}", *(f"  : {piece}" for piece in pieces[1:])]
    return "\n".join(lines)


def _pieces(line: str, longest: int) -> Iterator[str]:
    """The line in parts, each ending with a word where there is one to end with."""
    while len(line) > longest:
        space = line.rfind(" ", longest // 2, longest)
        end = space + 1 if space >= 0 else longest
        yield line[:end]
        line = line[end:]
    yield line


def _shown(char: str) -> str:
    if char == "\\":
        return "\\\\"
    return char.encode("unicode_escape").decode() if _is_hidden(char) else char


def _is_hidden(char: str) -> bool:
    category = unicodedata.category(char)
    odd_space = category == "Zs" and char != " "
    return category in _HIDDEN_CATEGORIES or odd_space or char in _BLANK
