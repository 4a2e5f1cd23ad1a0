"""The guard `jailbreak`: text that talks a model out of its rules, or gives it orders from outside.

1. Rules about wording (`jailbreak_rules`) run over the text without its disguises.
2. A small trained classifier (`linear_model`) finds texts that read like jailbreak prompts.
3. What is written in base64, or spelled out letter by letter, is read as well.
4. The order to ignore earlier instructions is also known in scripts that folding does not keep.
5. The marks with which chat templates separate who is speaking are found as they stand.

What is found is stopped: there is no safe way to mend it. This guard is not the only defence:
taint, envelopes and approval hold against what it misses.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Literal

from silas.gates.guards.hidden_passages import hidden_passages
from silas.gates.guards.injection_rules import INJECTION_RULES
from silas.gates.guards.jailbreak_rules import (
    CLASSIFIER,
    OWNER_RULES,
    TEMPLATE,
    TEMPLATE_MARKS,
    TOO_MUCH_SPELLED_OUT,
)
from silas.gates.guards.jailbreak_words import CONCEPTS
from silas.gates.guards.linear_model import load_model
from silas.gates.guards.models import GuardFinding, GuardOptions, GuardVerdict, Mode, verdict
from silas.gates.guards.normalise import MOST_SPELLED_OUT, FoldedText, fold
from silas.gates.guards.other_scripts import DISMISS_ELSEWHERE, dismissal
from silas.gates.guards.phrases import Lexicon, PhraseRule
from silas.gates.guards.rules import Proof, Rule, proven
from silas.gates.guards.subject import Subject

NAME = "jailbreak"
_LONG = 100_000
_MOST_IN_A_LONG_TEXT = 3


class Origin(StrEnum):
    """Who wrote the text: the owner of this Silas, or anybody or anything else."""

    OWNER = "owner"
    EXTERNAL = "external"


class JailbreakOptions(GuardOptions):
    """Text from outside is searched for orders too. Unless told, text counts as from outside."""

    mode: Literal[Mode.BLOCK] = Mode.BLOCK
    origin: Origin = Origin.EXTERNAL


_MODEL = load_model()
_LEXICON = Lexicon(CONCEPTS, told_apart=_MODEL.weights)
_WEIGHTS = {_LEXICON.symbol(word): weight for word, weight in _MODEL.weights.items()}
_PHRASES = {
    rule.name: tuple(map(_LEXICON.phrase, rule.patterns))
    for rule in (*OWNER_RULES, *INJECTION_RULES)
}
_NONE: frozenset[str] = frozenset()


def _rules_with_symbols() -> dict[str, frozenset[str]]:
    """The rules that could apply because of a symbol: one of the rarest kind that a phrase needs.

    Most texts hold none of these for most rules, which then need not be looked at one by one.
    """
    table: dict[str, frozenset[str]] = {}
    for name, phrases in _PHRASES.items():
        for phrase in phrases:
            for symbol in min(phrase.needed, key=len):
                table[symbol] = table.get(symbol, _NONE) | {name}
    return table


_RULES_WITH = _rules_with_symbols()


def check(subject: Subject, options: JailbreakOptions) -> GuardVerdict:
    """Stop a jailbreak, and, from outside, orders to the model."""
    PROOF.hold()
    # In a long text it takes long to look for more, and the decision has fallen.
    most = _MOST_IN_A_LONG_TEXT if len(subject.text) > _LONG else None
    findings = list(islice(_findings(subject, options.origin), most))
    return verdict(NAME, findings, mode=options.mode)


def _findings(subject: Subject, origin: Origin) -> Iterator[GuardFinding]:
    rules = RULES if origin is Origin.EXTERNAL else OWNER_RULES
    folded = subject.folded
    symbols = _LEXICON.read(folded.words())
    for rule, first, last in _phrases(rules, symbols):
        yield _finding(rule, *folded.words_span(first, last))
    if window := _suspicious_window(symbols, origin):
        yield _finding(CLASSIFIER, *folded.words_span(*window))
    for passage in hidden_passages(subject, _LEXICON):
        for rule, _, _ in _phrases(rules, _LEXICON.read([passage.words])):
            yield _finding(rule, passage.start, passage.end)
    if _is_spelled_out(folded):
        yield _finding(TOO_MUCH_SPELLED_OUT, 0, len(subject.text))
    if place := dismissal(subject.text):
        yield _finding(DISMISS_ELSEWHERE, *place)
    if origin is Origin.EXTERNAL and (mark := _template_mark(subject)):
        yield _finding(TEMPLATE, *mark)


def _phrases(rules: Sequence[PhraseRule], symbols: str) -> Iterator[tuple[PhraseRule, int, int]]:
    """For each rule that applies, the first and the last word of the first place."""
    present = set(symbols)
    possible = _NONE.union(*(_RULES_WITH.get(symbol, _NONE) for symbol in present))
    for rule in rules:
        if rule.name not in possible:
            continue
        for phrase in _PHRASES[rule.name]:
            if place := phrase.search(symbols, present):
                yield rule, *place
                break


def _suspicious_window(symbols: str, origin: Origin) -> tuple[int, int] | None:
    """The first and the last word of the worst window, if the classifier finds the text."""
    if not _MODEL.can_find(_WEIGHTS.get(symbol, 0) for symbol in set(symbols)):
        return None
    scores = _MODEL.windows(symbols, _WEIGHTS)
    if not _MODEL.finds(scores, is_owners=origin is Origin.OWNER):
        return None
    first = scores.index(max(scores)) * _MODEL.block
    return first, min(first + 2 * _MODEL.block, len(symbols)) - 1


def _is_spelled_out(folded: FoldedText) -> bool:
    return len(folded.spelled_out) > MOST_SPELLED_OUT


def _template_mark(subject: Subject) -> tuple[int, int] | None:
    if "<" not in subject.text and "[/" not in subject.text:
        return None
    for mark in TEMPLATE_MARKS:
        if mark in subject.small:
            start = subject.small.index(mark)
            return start, start + len(mark)
    return None


def _finding(rule: Rule, start: int, end: int) -> GuardFinding:
    return GuardFinding(rule=rule.name, start=start, end=end, why=rule.why)


def _read(text: str) -> str:
    return _LEXICON.read([fold(text).split()])


def _prove() -> None:
    proven(RULES, lambda rule, text: any(True for _ in _phrases([rule], _read(text))))
    proven([CLASSIFIER], lambda _, text: _suspicious_window(_read(text), Origin.OWNER) is not None)
    proven([TEMPLATE], lambda _, text: _template_mark(Subject(text)) is not None)
    proven([TOO_MUCH_SPELLED_OUT], lambda _, text: _is_spelled_out(FoldedText(text)))


RULES = (*OWNER_RULES, *INJECTION_RULES)
OTHER_RULES = (CLASSIFIER, TEMPLATE, TOO_MUCH_SPELLED_OUT)
PROOF = Proof(_prove)
