"""What a guard is asked and answers, rules that prove themselves, and rules about wording.

Each rule carries texts that it must find and texts that it must not. The examples are tried when
the rule loads, or, where that takes long, before its guard looks at its first text (`Proof`). A
rule that contradicts them is not used, because a guard with a broken rule looks like protection and
is none.

A rule about wording speaks of concepts, each a list of words, in an order and at a distance. A text
is read once into one symbol for each word (`Lexicon`); all rules are then expressions over that
short string. A pattern is written as

    dismiss ~2 prior ~3 rules

which reads: a word of the concept `dismiss`, at most two other words, a word of `prior`, at most
three others, a word of `rules`. `a|b` is a word of either concept.
Gaps are bounded, so the time is proportional to the number of words.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import repeat
from threading import RLock
from typing import NamedTuple, Self, TypeVar

from pydantic import model_validator

from silas.gates.errors import GuardRuleBroken
from silas.kernel.models import Data


class GuardDecision(StrEnum):
    """What a guard decides. The order is that of strictness: pass, then fix, then block."""

    PASS = "pass"  # noqa: S105  (no password)
    FIX = "fix"
    BLOCK = "block"

    @property
    def strictness(self) -> int:
        """The higher, the stricter."""
        return list(GuardDecision).index(self)


class Mode(StrEnum):
    """What happens to a text with findings: it is mended, or it is stopped."""

    FIX = "fix"
    BLOCK = "block"


class GuardFinding(Data):
    """One place that a rule objects to. It never repeats the text, which may be a secret."""

    rule: str
    start: int
    end: int
    why: str


class GuardOptions(Data):
    """The options that every guard understands."""

    mode: Mode = Mode.BLOCK


class GuardVerdict(Data):
    """What a guard decided about one text, and why."""

    guard: str
    decision: GuardDecision
    findings: tuple[GuardFinding, ...] = ()
    fixed_text: str | None = None
    """The text to use instead, if and only if the decision is `fix`."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.fixed_text is not None) != (self.decision is GuardDecision.FIX):
            raise ValueError("a mended text comes with the decision `fix`, and only with it")
        if (self.decision is GuardDecision.PASS) != (not self.findings):
            raise ValueError("a text passes if and only if nothing was found")
        return self

    @property
    def reason(self) -> str:
        """One sentence for people: what was found, each reason once."""
        return " ".join(dict.fromkeys(finding.why for finding in self.findings))


def strictest(decisions: tuple[GuardDecision, ...]) -> GuardDecision:
    """The strictest of several decisions; nobody deciding is no permission, so none means block."""
    return max(decisions, key=lambda decision: decision.strictness, default=GuardDecision.BLOCK)


def verdict(
    guard: str, findings: list[GuardFinding], *, mode: Mode, fixed_text: str | None = None
) -> GuardVerdict:
    """The verdict that follows from the findings and the mode."""
    if not findings:
        return _passed(guard)
    if mode is Mode.BLOCK or fixed_text is None:
        return GuardVerdict(guard=guard, decision=GuardDecision.BLOCK, findings=tuple(findings))
    return GuardVerdict(
        guard=guard, decision=GuardDecision.FIX, findings=tuple(findings), fixed_text=fixed_text
    )


@cache
def _passed(guard: str) -> GuardVerdict:
    """Nothing was found: always the same, and by far the most frequent."""
    return GuardVerdict(guard=guard, decision=GuardDecision.PASS)


@dataclass(frozen=True, kw_only=True)
class GuardRule:
    """One thing that a guard objects to."""

    name: str
    why: str
    """A sentence for the person whose text was stopped or changed."""
    match: tuple[str, ...]
    not_match: tuple[str, ...]


SomeRule = TypeVar("SomeRule", bound=GuardRule)


def proven(
    rules: Iterable[SomeRule], finds: Callable[[SomeRule, str], bool]
) -> tuple[SomeRule, ...]:
    """The rules, after every example of every rule was tried with `finds`."""
    loaded = tuple(rules)
    for rule in loaded:
        _prove(rule, finds)
    if len({rule.name for rule in loaded}) < len(loaded):
        raise GuardRuleBroken("Two rules of a guard have the same name. Reinstall Silas.")
    return loaded


class Proof:
    """The proof of a guard's rules: held once, before the guard says anything about a text."""

    def __init__(self, prove: Callable[[], object]) -> None:
        self._prove = prove
        self._lock = RLock()
        self._is_trying = False
        self._is_held = False

    def hold(self) -> None:
        """Try the examples, unless they were; raises `GuardRuleBroken`, and then every time."""
        if not self._is_held:
            with self._lock:
                self._try()

    def _try(self) -> None:
        if self._is_held or self._is_trying:  # the second: the examples ask the guard itself
            return
        self._is_trying = True
        try:
            self._prove()
            self._is_held = True
        finally:
            self._is_trying = False


def _prove(rule: SomeRule, finds: Callable[[SomeRule, str], bool]) -> None:
    if not rule.match or not rule.not_match:
        raise GuardRuleBroken(f"The rule `{rule.name}` has no examples. Reinstall Silas.")
    for text in rule.match:
        if not finds(rule, text):
            raise GuardRuleBroken(f"The rule `{rule.name}` misses its own example: {text!r}.")
    for text in rule.not_match:
        if finds(rule, text):
            raise GuardRuleBroken(f"The rule `{rule.name}` finds what it must not: {text!r}.")


MOST_FINDINGS = 100
"""How many findings one verdict lists; more would tell a reader nothing new."""


class RulePlace(NamedTuple):
    """A stretch of text, and the rule that objects to it."""

    start: int
    end: int
    rule: GuardRule


def without_overlaps(places: Iterable[RulePlace]) -> list[RulePlace]:
    """The places in the order of the text; of two that overlap, the one that begins first."""
    kept: list[RulePlace] = []
    for place in sorted(places, key=lambda place: (place.start, -place.end)):
        if not kept or place.start >= kept[-1].end:
            kept.append(place)
    return kept


def findings_of(places: list[RulePlace]) -> list[GuardFinding]:
    """The first places as findings."""
    return [
        GuardFinding(rule=place.rule.name, start=place.start, end=place.end, why=place.rule.why)
        for place in places[:MOST_FINDINGS]
    ]


def replaced(text: str, places: list[RulePlace], by: Callable[[RulePlace], str]) -> str:
    """The text with something else in each place; the places do not overlap."""
    parts, behind = [], 0
    for place in places:
        parts += [text[behind : place.start], by(place)]
        behind = place.end
    return "".join([*parts, text[behind:]])


# Behind a line, or behind a sentence whose last word has letters: no number goes on from there.
_CUT = re.compile(r"\n|[^\W\d_]{2}[.!?…]+[\"'”’)\]*_]*\s")


def last_cut(text: str, end: int, allows: Callable[[int], bool] = lambda _: True) -> int:
    """The last place up to `end` where the text can be cut between lines or sentences; or 0."""
    cuts = [found.end() for found in _CUT.finditer(text, 0, end)]
    return next((place for place in reversed(cuts) if allows(place)), 0)


UNKNOWN = "."
"""The symbol of every word that no rule speaks of."""

_FIRST_SYMBOL = 0x4E00
_GAP = re.compile(r"~(\d)")


@dataclass(frozen=True, kw_only=True)
class PhraseRule(GuardRule):
    """A rule about wording; it finds a text if one of its patterns does."""

    patterns: tuple[str, ...]


class Lexicon:
    """The words that matter: those of each concept, and some that are told apart one by one.

    A word may belong to several concepts. Words of the same concepts share a symbol unless they
    are told apart.
    """

    def __init__(self, concepts: Mapping[str, str], *, single_words: Iterable[str] = ()) -> None:
        apart = frozenset(single_words)
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

    def phrase(self, pattern: str) -> "SymbolPhrase":
        """The pattern, ready to search; a concept that is not listed is a KeyError."""
        needed, expression = [], ""
        for part in pattern.split():
            if gap := _GAP.fullmatch(part):
                expression += f".{{0,{gap[1]}}}?"
            else:
                needed.append("".join(self._classes[concept] for concept in part.split("|")))
                expression += f"[{needed[-1]}]"
        return SymbolPhrase(tuple(map(frozenset, needed)), re.compile(expression))


class SymbolPhrase(NamedTuple):
    """A pattern over symbols, and the sets of symbols of each of which a text must hold one."""

    needed: tuple[frozenset[str], ...]
    expression: re.Pattern[str]

    def search(self, symbols: str, present: set[str]) -> tuple[int, int] | None:
        """The first and the last word of the first place; `present` are the symbols in the text."""
        if any(map(present.isdisjoint, self.needed)):
            return None
        found = self.expression.search(symbols)
        return (found.start(), found.end() - 1) if found else None
