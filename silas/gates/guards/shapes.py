"""The shape of a text: `9` for every digit, `A` for every letter, each where the original stands.

Numbers are found by their shape, all shapes in one pass: the shapes become one expression that
never has a choice between two ways on, so its time is proportional to the text.
"""

import re
from collections.abc import Iterable
from typing import Any

_DIGIT, _LETTER = ord("9"), ord("A")


def _kind(code: int) -> int:
    char = chr(code)
    if char.isdigit():
        return _DIGIT
    return _LETTER if char.isalpha() else code


_TABLE = bytes(map(_kind, range(128))) + bytes(range(128, 256))

# Numbers do not start or end inside a word, behind the first group of a bank account, or next to
# more of the same number.
_NOT_IN_A_WORD = "(?<![9A_].)"
_NOT_IN_A_NUMBER = r"(?<!A99 .)(?<![9A][-./+].)"
_BESIDE_A_WORD = "(?:" + "|".join(rf"(?<=[A?][^9A?]{{{gap}}}.)" for gap in range(1, 5)) + ")"
_NOT_BEHIND = r"(?![9A_])(?![-./+]9)"


def shape_of(text: str) -> bytes:
    """The shape, with one byte for each character of the text."""
    # No-break spaces separate the groups of a number as well as other spaces do.
    plain = text.replace("\u00a0", " ").replace("\u202f", " ")
    return plain.encode("ascii", "replace").translate(_TABLE)


def one_of(shapes: Iterable[bytes], *, beside_a_word: bool = False) -> re.Pattern[bytes]:
    """An expression for all these shapes, which prefers the longest at each place.

    Beside a word means that a word ends at most four characters before, as in `"id": "12"`.
    """
    written = [shape.decode("ascii") for shape in shapes]
    tree: dict[str, Any] = {}
    for shape in written:
        branch = tree
        for char in shape:
            branch = branch.setdefault(char, {})
        branch[""] = {}
    # The first character comes before the look behind: the engine skips to it quickly. Then most
    # numbers are left behind because they are shorter than any of the shapes.
    any_char = "".join(map(re.escape, sorted(set().union(*written))))
    is_long = f"(?=[{any_char}]{{{min(map(len, written)) - 1}}})"
    before = _NOT_IN_A_WORD + is_long + _NOT_IN_A_NUMBER
    before += _BESIDE_A_WORD if beside_a_word else ""
    ways = [re.escape(char) + before + _written(tree[char]) for char in _in_order(tree)]
    return re.compile("|".join(ways).encode("ascii"))


def _written(tree: dict[str, Any]) -> str:
    ways = [re.escape(char) + _written(tree[char]) for char in _in_order(tree)]
    if "" in tree:
        ways.append(_NOT_BEHIND)
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


def _in_order(tree: dict[str, Any]) -> list[str]:
    """The characters that go on, digits first, because they are the most frequent."""
    return sorted(filter(None, tree), key=lambda char: (char != "9", char))
