"""Rules about wording: concepts, each a list of words, in an order and at a distance.

A text is read once into one symbol for each word; all rules are then expressions over that short
string. A pattern is written as

    dismiss ~2 prior ~3 rules

which reads: a word of the concept `dismiss`, at most two other words, a word of `prior`, at most
three others, a word of `rules`. `a|b` is a word of either concept.
Gaps are bounded, so the time is proportional to the number of words.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

from silas.gates.guards.rules import Rule

UNKNOWN = "."
"""The symbol of every word that no rule speaks of."""

_FIRST_SYMBOL = 0x4E00
_GAP = re.compile(r"~(\d)")


@dataclass(frozen=True, kw_only=True)
class PhraseRule(Rule):
    """A rule about wording; it finds a text if one of its patterns does."""

    patterns: tuple[str, ...]


class Lexicon:
    """The words that matter: those of each concept, and some that are told apart one by one.

    A word may belong to several concepts. Words of the same concepts share a symbol unless they
    are told apart.
    """

    def __init__(self, concepts: Mapping[str, str], *, told_apart: Iterable[str] = ()) -> None:
        apart = frozenset(told_apart)
        names: dict[str, frozenset[str]] = dict.fromkeys(sorted(apart), frozenset())
        for concept, words in concepts.items():
            for word in words.split():
                names[word] = names.get(word, frozenset()) | {concept}
        kinds = {word: (names[word], word if word in apart else "") for word in names}
        symbols = {
            kind: chr(_FIRST_SYMBOL + n) for n, kind in enumerate(dict.fromkeys(kinds.values()))
        }
        self._symbol_of = {word: symbols[kind] for word, kind in kinds.items()}
        self._classes = {
            concept: "".join(symbol for (found, _), symbol in symbols.items() if concept in found)
            for concept in concepts
        }

    def symbol(self, word: str) -> str:
        """The symbol that stands for the word."""
        return self._symbol_of.get(word, UNKNOWN)

    def __contains__(self, word: object) -> bool:
        return word in self._symbol_of

    def read(self, words: Iterable[Sequence[str]]) -> str:
        """One symbol for each word; the words come in lists."""
        get = self._symbol_of.get
        return "".join(["".join(map(get, some, repeat(UNKNOWN))) for some in words])

    def phrase(self, pattern: str) -> "Phrase":
        """The pattern, ready to search; a concept that is not listed is a KeyError."""
        needed, expression = [], ""
        for part in pattern.split():
            if gap := _GAP.fullmatch(part):
                expression += f".{{0,{gap[1]}}}?"
            else:
                needed.append("".join(self._classes[concept] for concept in part.split("|")))
                expression += f"[{needed[-1]}]"
        return Phrase(tuple(map(frozenset, needed)), re.compile(expression))


class Phrase(NamedTuple):
    """A pattern over symbols, and the sets of symbols of each of which a text must hold one."""

    needed: tuple[frozenset[str], ...]
    expression: re.Pattern[str]

    def search(self, symbols: str, present: set[str]) -> tuple[int, int] | None:
        """The first and the last word of the first place; `present` are the symbols in the text."""
        if any(map(present.isdisjoint, self.needed)):
            return None
        found = self.expression.search(symbols)
        return (found.start(), found.end() - 1) if found else None
