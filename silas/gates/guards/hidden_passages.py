"""Passages that a reader would have to decode: base64, and letters spelled out without word gaps.

Only so much is decoded as keeps the time in proportion; what is decoded is not decoded again.
"""

import base64
import re
from collections.abc import Container, Iterator
from itertools import islice
from typing import NamedTuple

from silas.gates.guards.normalise import FoldedText, fold
from silas.gates.guards.subject import Subject

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
