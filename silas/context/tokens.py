"""Counting tokens without a tokenizer, on the safe side.

The rule of thumb is 3.5 characters to a token. Two corrections, measured against real tokenizers
(`docs/context.md` has the table):

1. Bytes of UTF-8 are counted, not characters: a Chinese, Japanese or Korean character is about a
   token, and three bytes.
2. Digits, punctuation, capitals and line breaks cost more than small letters, so code, JSON and
   tables are weighed by what they consist of. A long run without gaps (base64, hex) is nearly a
   token for each pair of characters.

The larger figure counts. What it still gets wrong is what the headroom of a profile is for.
"""

import math
import string
from collections.abc import Callable, Sequence

_BYTES_OF_A_TOKEN = 3.5
_BYTES_OF_A_TOKEN_IN_A_RUN = 1.4
_SHORTEST_RUN = 40
_GAPS_OF_A_RUN = 1 / 30
_LINE_BREAKS = b"\r\n"
_DIGITS = string.digits.encode()
_CAPITALS = string.ascii_uppercase.encode()
_MARKS = string.punctuation.encode()
_LETTERS = string.ascii_lowercase.encode()
_FOUR_BYTES = bytes(range(0xF0, 0x100))
_OTHER_BYTES = bytes(range(0x80, 0xF0))


class HeuristicTokenCounter:
    """`TokenCounter` that needs nothing but the text."""

    def count(self, text: str) -> int:
        """About as many tokens as a model will see, rather more than fewer."""
        data = text.encode("utf-8", "surrogatepass")
        size = len(data)
        if not size:
            return 0
        rest = data.translate(None, _LETTERS)
        capitals, rest = _taken(rest, _CAPITALS)
        digits, rest = _taken(rest, _DIGITS)
        marks, rest = _taken(rest, _MARKS)
        breaks, rest = _taken(rest, _LINE_BREAKS)
        weighed = (
            0.2 * (size - len(rest) - capitals - digits - marks - breaks)
            + 0.7 * capitals
            + 0.75 * digits
            + 0.65 * marks
            + 0.5 * breaks
        )
        foreign = 0
        if not text.isascii():
            emoji, rest = _taken(rest, _FOUR_BYTES)
            foreign, rest = _taken(rest, _OTHER_BYTES)
            weighed += 2.0 * emoji + 0.3 * foreign
            foreign += emoji
        weighed += 0.05 * len(rest)
        plain = size / _BYTES_OF_A_TOKEN
        gaps = marks + breaks + len(rest) + foreign
        if size >= _SHORTEST_RUN and gaps < size * _GAPS_OF_A_RUN:
            plain = size / _BYTES_OF_A_TOKEN_IN_A_RUN
        return math.ceil(max(plain, weighed))


def _taken(data: bytes, kind: bytes) -> tuple[int, bytes]:
    rest = data.translate(None, kind)
    return len(data) - len(rest), rest


class EncodingTokenCounter:
    """`TokenCounter` that asks a real tokenizer: whatever turns a text into tokens."""

    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        self._encode = encode

    def count(self, text: str) -> int:
        """Exactly as many tokens as this tokenizer makes."""
        return len(self._encode(text))
