"""Text made safe to show: nothing hidden is left, and the result reads in one way only."""

import json
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import canonical_bytes, visible, visible_json
from tests.kernel.json_values import same, values

# Unicode's Default_Ignorable_Code_Point: what a renderer may draw as nothing.
DEFAULT_IGNORABLE = [
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810)),
    *(*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164),
    *(*range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFF9)),
    *(*range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
]
BLANKS = "\u2800\U0001d159\u00a0\u1680\u2000\u2003\u202f\u205f\u3000\u2028\u2029"
HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

anything = st.text(alphabet=st.characters(exclude_categories=[]))
troublesome = st.text(alphabet="\\xu0{}1bn\n\t\r\x1b\u202e\u200b\ud800\U000e0001 a", max_size=8)


def is_hidden(char: str) -> bool:
    space = unicodedata.category(char) == "Zs" and char != " "
    blank = ord(char) in set(DEFAULT_IGNORABLE) or char in BLANKS
    return unicodedata.category(char) in HIDDEN_CATEGORIES or space or blank


def test_every_hidden_character_of_unicode_is_escaped_and_no_other() -> None:
    hidden = set(DEFAULT_IGNORABLE) | set(map(ord, BLANKS))
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        shown = visible(char, keep_newlines=False)
        category = unicodedata.category(char)
        if category in HIDDEN_CATEGORIES or (category == "Zs" and code != 32) or code in hidden:
            assert shown == char.encode("unicode_escape").decode()
        else:
            assert shown == ("\\\\" if char == "\\" else char)


@given(anything | troublesome)
def test_nothing_hidden_is_left(text: str) -> None:
    assert not any(is_hidden(char) for char in visible(text, keep_newlines=False))
    assert not any(is_hidden(char) for char in visible(text) if char not in "\n\t")


@given(anything | troublesome, st.booleans())
def test_the_text_can_be_read_back_so_no_two_look_alike(text: str, keep: bool) -> None:
    assert read_back(visible(text, keep_newlines=keep)) == text


def read_back(shown: str) -> str:
    """Undo `visible`, reading escapes from left to right as a person would."""
    result, rest = [], shown
    widths = {"\\": 2, "n": 2, "r": 2, "t": 2, "x": 4, "u": 6, "U": 10}
    while rest:
        width = widths[rest[1]] if rest[0] == "\\" else 1
        piece, rest = rest[:width], rest[width:]
        if width > 1:
            piece = piece.encode("ascii").decode("unicode_escape")
        result.append(piece)
    return "".join(result)


@given(
    st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="\\"))
)
def test_plain_text_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert visible(text, keep_newlines=False) == text


@pytest.mark.parametrize(
    ("text", "kept", "escaped"),
    [
        ("a\nb\tc", "a\nb\tc", "a\\nb\\tc"),
        ("a\r\nb", "a\\r\nb", "a\\r\\nb"),
        ("C:\\new", "C:\\\\new", "C:\\\\new"),
        ("é\nC:\\", "é\nC:\\\\", "é\\nC:\\\\"),
        ("\\n", "\\\\n", "\\\\n"),
        ("\x1b[31mred", "\\x1b[31mred", "\\x1b[31mred"),
        ("user\u202etxt.exe", "user\\u202etxt.exe", "user\\u202etxt.exe"),
        ("pay\u200bpal", "pay\\u200bpal", "pay\\u200bpal"),
        ("tag\U000e0041", "tag\\U000e0041", "tag\\U000e0041"),
        ("Grüße, 你好 🙂 e\u0301", "Grüße, 你好 🙂 e\u0301", "Grüße, 你好 🙂 e\u0301"),
        ("\x7f\x00", "\\x7f\\x00", "\\x7f\\x00"),
        ("é, with spaces ", "é, with spaces ", "é, with spaces "),
        ("", "", ""),
    ],
)
def test_how_it_looks(text: str, kept: str, escaped: str) -> None:
    assert visible(text) == kept
    assert visible(text, keep_newlines=True) == kept
    assert visible(text, keep_newlines=False) == escaped


@given(values | anything)
def test_json_is_shown_without_anything_hidden_and_means_the_same(value: Any) -> None:
    shown = visible_json(value)
    assert not any(is_hidden(char) for char in shown if char != "\n")
    assert same(json.loads(shown), value)


def test_how_json_looks() -> None:
    value = {"to": "a\u202eb\U000e0041\nc \u00a0é\\", "n": [1, 2.5]}
    assert visible_json(value) == (
        '{\n  "to": "a\\u202eb\\udb40\\udc41\\nc \\u00a0é\\\\",\n  "n": [\n    1,\n    2.5\n  ]\n}'
    )
    assert canonical_bytes(json.loads(visible_json(value))) == canonical_bytes(value)
