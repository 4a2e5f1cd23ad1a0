"""Disguised text made plain, for matching only: nobody is ever shown or sent the result.

The steps of `fold`, in order:

1. Long runs of combining marks go: they are no word, and would make step 2 slow.
2. NFKD: full-width, circled, bold and other styled letters become plain, accents come off.
3. Characters that look like a Latin letter (Cyrillic, Greek, small capitals) become that letter.
4. What is left outside ASCII goes: zero-width and tag characters, marks, other scripts.
5. Capital letters become small, digits and signs that stand for letters (`1gn0r3`) become those,
   apostrophes go, and everything else that is no letter or digit becomes a space.

Each character is folded by itself, so a place in the result can be traced back to the original
(`FoldedText`). Then words that are spelled out (`i g n o r e`, `i-g-n-o-r-e`) are put together.

`hidden_passages` gives what a reader would have to decode: base64, and letters spelled out without
gaps between the words. Only so much is decoded as keeps the time in proportion; what is decoded is
not decoded again. `Subject` holds one text with all of this, made once for several guards.
"""

import base64
import codecs
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

LOOKALIKES: dict[str, str] = dict(
    zip(
        # Cyrillic, small and capital
        "аеорсухіѕјһԁԛԝӏкмтвнѵүԍ" + "АВЕЅІЈКМНОРСТУХҺѴҮԌ"
        # Greek, small and capital
        "αβειικνορτυχηωζ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
        # Latin letters that no decomposition turns into plain ones
        "ıɑɡɩʟꜱᴀʙᴄᴅᴇꜰɢʜɪᴊᴋᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢøłđß"
        # Armenian
        "օոսցհ",
        "aeopcyxisjhdqwlkmtbhvyg" + "abesijkmhopctyxhvyg"
        "abeiiknoptuxnwz" + "abezhikmnoptyx"
        "iagilsabcdefghijkmnoprtuvwyzolds"
        "onugh",
        strict=True,
    )
)
"""Characters that a reader takes for a plain Latin letter, with that letter in small."""

SPACERS = "“”„«»‹›–—‐•·。、"
"""Marks outside ASCII that separate words."""

APOSTROPHES = "'’‘ʼ"
"""Marks inside words that are left out when words are compared."""

LEET: dict[str, str] = dict(zip("013457@$", "oieastas", strict=True))
"""Digits and signs that stand for letters in disguised words."""

NEVER_LATIN = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u1cff\u1dc0-\u1dff\u20d0-\u20ff\u2ce5-\u2dff"
    r"\u302a-\u302f\u3099\u309a\ua66f-\ua6ff\ua800-\uab2f\uabe3-\uabff\ufb1e\ufe20-\ufe2f"
    r"\U000101fd-\U0001077f\U000107c0-\U0001cfff\U0001d165-\U0001d1ad\U0001d242-\U0001d244"
    r"\U0001dfff-\U0001e94f"
)
"""All combining marks, and scripts none of whose letters is ever read as a Latin one.

It is a class for expressions. Long runs of combining marks would take the normalisation quadratic
time, so they are dropped before it.
"""


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


@dataclass(frozen=True)
class Subject:
    """One text, shared by all the guards that look at it."""

    text: str

    @cached_property
    def folded(self) -> FoldedText:
        """The text without its disguises."""
        return FoldedText(self.text)

    @cached_property
    def small(self) -> str:
        """The text in small letters, each in the place of the original."""
        # The only letter whose small form has two characters.
        return self.text.replace("\u0130", "i").lower()


_MOST_RUNS = 100
LONGEST_BASE64 = 20_000
"""How much of a run is decoded."""

_MOST_LETTERS = 4_000
_LONGEST_WORD = 16
_LEAST_LETTERS = 12
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{32,}+")
_SHORTEST_BASE64 = b"x" * 32
_BASE64_SHAPE = (
    bytes(ord("x") if chr(code).isalnum() or chr(code) in "+/" else ord(" ") for code in range(128))
    * 2
)


class Passage(NamedTuple):
    """The words of a hidden passage, and where it stands in the text."""

    words: list[str]
    start: int
    end: int


def hidden_passages(subject: Subject, known: Container[str]) -> Iterator[Passage]:
    """What the text holds in base64, or spelled out; `known` are the words to look for there."""
    yield from _spelled_out(subject.folded, known)
    yield from _in_base64(subject.text)


def base64_runs(text: str) -> Iterator[re.Match[str]]:
    """The first runs of letters that could be base64."""
    # Looking for the shape is many times faster than the expression, and mostly it is not there.
    if _SHORTEST_BASE64 in text.encode("ascii", "replace").translate(_BASE64_SHAPE):
        yield from islice(_BASE64.finditer(text), _MOST_RUNS)


def _in_base64(text: str) -> Iterator[Passage]:
    for run in base64_runs(text):
        letters = run[0][:LONGEST_BASE64]
        raw = base64.b64decode(letters[: len(letters) // 4 * 4])
        if raw.isascii():
            yield Passage(fold(raw.decode("ascii")).split(), run.start(), run.end())


def _spelled_out(folded: FoldedText, known: Container[str]) -> Iterator[Passage]:
    left = _MOST_LETTERS
    for run in folded.spelled_out:
        if _LEAST_LETTERS <= len(run.letters) <= left:
            left -= len(run.letters)
            yield Passage(_words_in(run.letters, known), *folded.original_span(run.start, run.end))


def _words_in(letters: str, known: Container[str]) -> list[str]:
    """The known words in letters that were written without gaps, always the longest that fits."""
    words, place = [], 0
    while place < len(letters):
        fits = (letters[place : place + size] for size in range(_LONGEST_WORD, 1, -1))
        word = next((word for word in fits if word in known), letters[place])
        words.append(word)
        place += len(word)
    return words
