"""Disguised text made plain, for matching only: nobody is ever shown or sent the result.

The steps, in order:

1. Long runs of combining marks go: they are no word, and would make step 2 slow.
2. NFKD: full-width, circled, bold and other styled letters become plain, accents come off.
3. Characters that look like a Latin letter (Cyrillic, Greek, small capitals) become that letter.
4. What is left outside ASCII goes: zero-width and tag characters, marks, other scripts.
5. Capital letters become small, digits and signs that stand for letters (`1gn0r3`) become those,
   apostrophes go, and everything else that is no letter or digit becomes a space.

Each character is folded by itself, so a place in the result can be traced back to the original.
Then words that are spelled out (`i g n o r e`, `i-g-n-o-r-e`) are put together.
"""

import codecs
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

from silas.gates.guards.characters import APOSTROPHES, LEET, LOOKALIKES, NEVER_LATIN, SPACERS

MOST_SPELLED_OUT = 2000
"""How many spelled-out words are put together. A text with more of them is no ordinary text."""

_CHUNK = 4096
_LONG_RUN = re.compile(f"[{NEVER_LATIN}]{{9,}}")
_WORD = re.compile(r"\S+")
_SPELLED_OUT = re.compile(r" [a-z] [a-z] [a-z] [a-z]\b(?: [a-z]\b)*+")
_LETTER_SHAPE = bytes(ord("x") if chr(code).isalpha() else ord(" ") for code in range(128)) * 2
_WORD_SHAPE = bytes(ord(" " if chr(code).isspace() else "x") for code in range(256))
# Characters that NFKD turns into several, none of them a letter that matters; the first into 18.
_LONG_WINDED = ("\ufdfa", "…")

_UNDEFINED = "\ufffe"
_ASCII = "".join(map(chr, range(128)))
_KNOWN = _ASCII + "".join(LOOKALIKES) + SPACERS + APOSTROPHES[1:]
_CHARACTER_MAP = codecs.charmap_build(_KNOWN.ljust(256, _UNDEFINED))


def _plain(char: str) -> str:
    if char in LOOKALIKES or char in LEET:
        return LOOKALIKES.get(char) or LEET[char]
    return char.lower() if char.isascii() and char.isalnum() else " "


_PLAIN = "".join(map(_plain, _KNOWN)).encode("ascii").ljust(256)
_DROPPED = bytes(index for index, char in enumerate(_KNOWN) if char in APOSTROPHES)


def fold(text: str) -> str:
    """The text in small ASCII letters, digits and spaces, with its disguises taken off."""
    try:
        return _folded_western(text)
    except UnicodeEncodeError:
        return _folded(text)


def _folded(text: str) -> str:
    for char in _LONG_WINDED:
        text = text.replace(char, " ")
    decomposed = unicodedata.normalize("NFKD", _LONG_RUN.sub("", text))
    codes = codecs.charmap_encode(decomposed, "ignore", _CHARACTER_MAP)[0]
    return codes.translate(_PLAIN, _DROPPED).decode("ascii")


# Most text is ASCII with some accents and quotation marks. One table does all steps for those.
_OFTEN = map(chr, [*range(0x2010, 0x2027), *range(0xA0, 0x180)])
_WESTERN = _ASCII + "".join(char for char in _OFTEN if len(_folded(char)) < 2)[:127]
_WESTERN_MAP = codecs.charmap_build(_WESTERN.ljust(256, _UNDEFINED))
_WESTERN_PLAIN = "".join(_folded(char) or " " for char in _WESTERN).encode("ascii").ljust(256)
_WESTERN_DROPPED = bytes(index for index, char in enumerate(_WESTERN) if not _folded(char))


def _folded_western(text: str) -> str:
    codes = codecs.charmap_encode(text, "strict", _WESTERN_MAP)[0]
    return codes.translate(_WESTERN_PLAIN, _WESTERN_DROPPED).decode("ascii")


class SpelledOut(NamedTuple):
    """A run of single letters in the folded text: where it is, and its letters as one word."""

    start: int
    end: int
    letters: str


@dataclass(frozen=True)
class FoldedText:
    """A text, its folded form, and the way back from places in the one to places in the other."""

    original: str

    @cached_property
    def text(self) -> str:
        """The folded text."""
        return "".join(self._chunks)

    @cached_property
    def spelled_out(self) -> list[SpelledOut]:
        """The runs of single letters, at most `MOST_SPELLED_OUT` and one more."""
        # The shape is looked for many times faster than the expression, and mostly not there.
        if b" x x x x " not in f" {self.text} ".encode("ascii").translate(_LETTER_SHAPE):
            return []
        found = islice(_SPELLED_OUT.finditer(" " + self.text), MOST_SPELLED_OUT + 1)
        return [SpelledOut(run.start(), run.end() - 1, run[0].replace(" ", "")) for run in found]

    def words(self) -> Iterator[list[str]]:
        """The words of the text, in order, with those that were spelled out as one word each.

        They come in short lists: all at once, they would not fit into the processor's cache.
        """
        return map(str.split, self._stretches)

    def words_span(self, first: int, last: int) -> tuple[int, int]:
        """Where the words from the first to the last (both counted) stand in the original."""
        start, _ = self._word(first)
        _, end = self._word(last)
        return self.original_span(self._unjoined(start), self._unjoined(end - 1) + 1)

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Where the stretch of folded text comes from."""
        return self._original_place(start), self._original_place(end - 1) + 1

    @cached_property
    def _joined(self) -> str:
        """The folded text in which each spelled-out word is one word."""
        pieces, place = [], 0
        for run in self.spelled_out:
            pieces += [self.text[place : run.start], run.letters]
            place = run.end
        return "".join([*pieces, self.text[place:]])

    @cached_property
    def _stretches(self) -> list[str]:
        """The joined text in pieces, each of which ends where a word does."""
        text, start = self._joined, 0
        pieces = []
        while start < len(text):
            end = text.find(" ", start + _CHUNK)
            end = len(text) if end < 0 else end
            pieces.append(text[start:end])
            start = end
        return pieces

    @cached_property
    def _words_up_to(self) -> list[int]:
        """How many words there are up to the end of each stretch."""
        shapes = (f" {piece}".encode("ascii").translate(_WORD_SHAPE) for piece in self._stretches)
        return list(accumulate(shape.count(b" x") for shape in shapes))

    def _word(self, number: int) -> tuple[int, int]:
        """Where the word begins and ends in the joined text."""
        stretch = bisect_right(self._words_up_to, number)
        before = self._words_up_to[stretch - 1] if stretch else 0
        start = sum(map(len, self._stretches[:stretch]))
        word = next(islice(_WORD.finditer(self._stretches[stretch]), number - before, None))
        return start + word.start(), start + word.end()

    def _unjoined(self, place: int) -> int:
        """The place in the folded text that belongs to a place in the joined one."""
        for run in self.spelled_out:
            if place < run.start:
                break
            # Each letter but the last is followed by one separator.
            place += min(place - run.start, len(run.letters) - 1)
        return place

    @cached_property
    def _chunks(self) -> list[str]:
        starts = range(0, len(self.original), _CHUNK)
        return [fold(self.original[start : start + _CHUNK]) for start in starts]

    @cached_property
    def _chunk_ends(self) -> list[int]:
        return list(accumulate(map(len, self._chunks)))

    def _original_place(self, place: int) -> int:
        """The character of the original that the one at this place was made from."""
        number = bisect_right(self._chunk_ends, place)
        place -= self._chunk_ends[number - 1] if number else 0
        start = number * _CHUNK
        chunk = self.original[start : start + _CHUNK]
        return start + bisect_right(
            range(len(chunk) - 1), place, key=lambda index: len(fold(chunk[: index + 1]))
        )
