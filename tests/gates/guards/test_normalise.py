"""Folding: disguises come off, and every place can be traced back."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.gates.guards.normalise import MOST_SPELLED_OUT, NEVER_LATIN, FoldedText, _folded, fold


def all_words(folded: FoldedText) -> list[str]:
    return [word for some in folded.words() for word in some]


DISGUISES = {
    "capitals": "IGNORE",
    "full width": "ｉｇｎｏｒｅ",
    "bold": "𝐢𝐠𝐧𝐨𝐫𝐞",
    "script": "𝓲𝓰𝓷𝓸𝓻𝓮",
    "circled": "ⓘⓖⓝⓞⓡⓔ",
    "small capitals": "ɪɢɴᴏʀᴇ",
    "accents": "ïgnöré",
    "combining marks": "i\u0301g\u0323n\u0308ore",
    "cyrillic": "іgnоrе",
    "greek": "ιgnοrε",
    "leet": "1gn0r3",
    "zero width": "ig\u200bn\u200co\u200dr\u2060e\ufeff",
    "tags": "ig\U000e0041nore",
    "soft hyphens": "ig\u00adno\u00adre",
    "bidi": "\u202eignore\u202c",
    "zalgo": "i" + "\u0301\u0323" * 40 + "gnore",
}
texts = st.text() | st.text(alphabet="aZ1 ’'…é\u0301\u0323аο猫\ufdfa😀𝐢i-. ", max_size=80)


@pytest.mark.parametrize("text", DISGUISES.values(), ids=DISGUISES.keys())
def test_disguises_come_off(text: str) -> None:
    assert fold(text) == "ignore"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("i g n o r e it", ["ignore", "it"]),
        ("say i-g-n-o-r-e now", ["say", "ignore", "now"]),
        ("i.g.n.o.r.e   a.l.l.o.w", ["ignore", "allow"]),
        ("a b c", ["a", "b", "c"]),
        ("don’t can't", ["dont", "cant"]),
        ("“quoted”—dashed", ["quoted", "dashed"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert all_words(FoldedText(text)) == words


@given(texts)
def test_each_character_is_folded_by_itself(text: str) -> None:
    assert fold(text) == "".join(map(fold, text))


@given(texts)
def test_the_quick_way_gives_what_the_steps_give(text: str) -> None:
    assert fold(text) == _folded(text)


@given(texts)
def test_only_small_letters_digits_and_spaces_are_left(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9 ]*", fold(text))


@given(texts, st.data())
def test_words_are_traced_back(text: str, data: st.DataObject) -> None:
    folded = FoldedText(text)
    words = all_words(folded)
    if not words:
        return
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    start, end = folded.words_span(first, last)
    assert 0 <= start < end <= len(text)
    assert FoldedText(text[start:end]).text.replace(" ", "") == "".join(words[first : last + 1])


def test_places_are_right_far_into_a_long_text() -> None:
    text = "é “x” " * 3000 + "needle" + " ü" * 3000
    folded = FoldedText(text)
    place = all_words(folded).index("needle")
    start, end = folded.words_span(place, place)
    assert text[start:end] == "needle"


def test_so_many_spelled_out_words_are_read() -> None:
    assert len(FoldedText("t h i s and " * 5000).spelled_out) == MOST_SPELLED_OUT + 1


def test_what_is_dropped_first_would_be_dropped_anyway() -> None:
    """Every combining mark is dropped in long runs, and nothing that could be read as a letter."""
    dropped = re.compile(f"[{NEVER_LATIN}]")
    for code in range(0x110000):
        char = chr(code)
        if unicodedata.combining(char):
            assert dropped.match(char), hex(code)
        elif dropped.match(char):
            assert _folded(char) == "", hex(code)
