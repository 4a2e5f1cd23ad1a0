"""Text as the pieces of words that BERT models know, by the rules of their `uncased` vocabulary."""

import hashlib
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources

from silas.memory.errors import EmbedderRefused

VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_LONGEST_WORD = 100
_REMEMBERED = 20_000
_IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))


def load_vocabulary() -> dict[str, int]:
    """The pieces and their numbers; raises if the file is not the one that was shipped."""
    raw = resources.files("silas.memory.minilm").joinpath("vocab.txt").read_bytes()
    if hashlib.sha256(raw).hexdigest() != VOCABULARY_SHA256:
        raise EmbedderRefused("The vocabulary of the embedded model was changed. Reinstall Silas.")
    return {piece: number for number, piece in enumerate(raw.decode().splitlines())}


class WordPieces:
    """Splits text into the numbers of word pieces."""

    def __init__(self, *, longest: int = 256) -> None:
        self._numbers = load_vocabulary()
        self._unknown = self._numbers["[UNK]"]
        self._first, self._last = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self._longest = longest
        self._split = lru_cache(_REMEMBERED)(self._pieces_of)

    def numbers(self, text: str) -> list[int]:
        """The pieces of a text, cut to the length that the model reads."""
        found = [self._first]
        for word in _words(text):
            found += self._split(word)
            if len(found) >= self._longest:
                break
        return [*found[: self._longest - 1], self._last]

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        """The longest known piece at each place; a word with an unknown part is unknown."""
        if len(word) > _LONGEST_WORD:
            return (self._unknown,)
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end = len(word)
            mark = "##" if start else ""
            while end > start and mark + word[start:end] not in self._numbers:
                end -= 1
            if end == start:
                return (self._unknown,)
            pieces.append(self._numbers[mark + word[start:end]])
            start = end
        return tuple(pieces)


def _words(text: str) -> Iterator[str]:
    """Words and punctuation marks, in small letters and without accents."""
    plain = unicodedata.normalize("NFD", "".join(map(_spaced, text)).lower())
    for word in plain.split():
        start = 0
        letters = "".join(char for char in word if unicodedata.category(char) != "Mn")
        for place, char in enumerate(letters):
            if _is_punctuation(char):
                if start < place:
                    yield letters[start:place]
                yield char
                start = place + 1
        if start < len(letters):
            yield letters[start:]


def _spaced(char: str) -> str:
    if char.isascii() and char.isprintable():
        return char
    code = ord(char)
    if any(first <= code <= last for first, last in _IDEOGRAPHS):
        return f" {char} "
    if char in "\t\n\r" or unicodedata.category(char) == "Zs":
        return " "
    return "" if unicodedata.category(char)[0] == "C" or code == 0xFFFD else char


def _is_punctuation(char: str) -> bool:
    if char.isascii():
        return not char.isalnum() and char.isprintable() and char != " "
    return unicodedata.category(char)[0] == "P"
