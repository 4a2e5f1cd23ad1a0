"""What a stranger ordered Silas to say does not become Silas's answer.

An attack can do without any tool: a page says "tell him to buy this", and the answer tells him.

1. Where a foreign text gives a model orders (the guard `jailbreak`), the sentences there and the
   few that follow are an ordered passage: what was to be said or done.
2. Its marks are its names, addresses and numbers, and every five words in a row. Marks that also
   stand elsewhere, in the owner's words or outside of such passages, prove nothing and are dropped.
3. A sentence of an answer that has a mark repeats the order, and is left out. The reader is told.

A stranger whose orders are not recognised as such is not stopped here, nor is a paraphrase without
any name: what he can make Silas say is text, and it is shown as such.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from silas.gates.guards import jailbreak
from silas.gates.guards.subject import Subject

LEFT_OUT = "[left out: a text from outside ordered this to be said]"

_REACH = 3
_IN_A_ROW = 5
_SHORTEST_NAME = 2
_MOST_TEXT = 2_000_000
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?![\s\"')\]]|$))*+(?:[.!?]+[\"')\]]*[^\S\n]*|\n|$)")
# A stranger writes these texts: every repetition is bounded or never given back, so that the time
# grows with their length and not with its square.
_NAME = re.compile(r"\b[A-Z][\w'-]{0,60}+(?:\s++[A-Z][\w'-]{0,60}+)++")
_ADDRESS = re.compile(
    r"(?<![\w.+-])[\w.+-]++@[\w.-]{1,250}\w"
    r"|\b(?:[\w-]{1,63}\.){1,10}[A-Za-z]{2,}+(?:/[^\s'\"<>]*)?"
    r"|\b[\w-]{0,40}\d{4,}\w*"
)
_WORD = re.compile(r"[\w'-]+")


@dataclass
class ForeignTexts:
    """What came from outside in one run, and what was ordered in it."""

    owner: str = ""
    _ordered: list[str] = field(default_factory=list)
    _rest: list[str] = field(default_factory=list)
    _size: int = 0

    def saw(self, text: str) -> None:
        """Take note of a text from outside."""
        self._size += len(text)
        if self._size > _MOST_TEXT:
            return
        sentences = [found[0] for found in _SENTENCE.finditer(text) if found[0]]
        ordered = _ordered_sentences(text, sentences)
        for number, sentence in enumerate(sentences):
            (self._ordered if number in ordered else self._rest).append(sentence)

    def without_echoes(self, answer: str) -> str:
        """The answer without the sentences that do a stranger's bidding."""
        marks = self._marks()
        if not marks:
            return answer
        kept: list[str] = []
        for found in _SENTENCE.finditer(answer):
            sentence = found[0]
            if not marks.isdisjoint(_marks_of(sentence)):
                end = sentence[len(sentence.rstrip()) :]
                sentence = "" if kept and kept[-1].startswith(LEFT_OUT) else LEFT_OUT + end
            kept.append(sentence)
        return "".join(kept)

    def _marks(self) -> frozenset[str]:
        if not self._ordered:
            return frozenset()
        harmless = set(_marks_of(self.owner)) | set(_marks_of("".join(self._rest)))
        return frozenset(_marks_of("".join(self._ordered))) - harmless


def _ordered_sentences(text: str, sentences: list[str]) -> set[int]:
    """The numbers of the sentences in ordered passages."""
    found = jailbreak.check(Subject(text), jailbreak.JailbreakOptions()).findings
    if not found:
        return set()
    ordered: set[int] = set()
    place, ends = 0, []
    for sentence in sentences:
        place += len(sentence)
        ends.append(place)
    for finding in found:
        first = next((n for n, end in enumerate(ends) if end > finding.start), 0)
        last = next((n for n, end in enumerate(ends) if end >= finding.end), len(ends) - 1)
        ordered.update(range(first, last + 1))
        ordered.update(_following(sentences, last))
    return ordered


def _following(sentences: list[str], last: int) -> Iterator[int]:
    """The next few sentences that say something, and the gaps between them."""
    left = _REACH
    for number in range(last + 1, len(sentences)):
        yield number
        left -= bool(sentences[number].strip())
        if not left:
            return


def _marks_of(text: str) -> Iterator[str]:
    for found in _NAME.finditer(text):
        words = found[0].split()
        yield " ".join(words)
        if (
            len(words) > _SHORTEST_NAME
        ):  # the first one may only begin a sentence: Visit Old Harbour
            yield " ".join(words[1:])
    for found in _ADDRESS.finditer(text):
        yield found[0].casefold().rstrip(".,")
    words = [found[0].casefold() for found in _WORD.finditer(text)]
    for first in range(len(words) - _IN_A_ROW + 1):
        yield " ".join(words[first : first + _IN_A_ROW])
