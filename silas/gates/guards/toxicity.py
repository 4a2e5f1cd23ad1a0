"""The guard `toxicity`: slurs, threats and harassment; sexual words and swearing if asked for.

The lists are short on purpose. They hold words that have hardly another use, so that ordinary talk,
also about violence or illness, passes; irony, quotation and veiled contempt are beyond word lists.
Disguises are taken off first: `k1ll y0urself`, `f*ck`, `d i e`, `fuuuck` are found as well.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated

from pydantic import AfterValidator, Field

from silas.gates.guards.normalise import FoldedText, Subject
from silas.gates.guards.rules import (
    MOST_FINDINGS,
    GuardOptions,
    GuardRule,
    GuardVerdict,
    Lexicon,
    Mode,
    RulePlace,
    findings_of,
    proven,
    replaced,
    verdict,
    without_overlaps,
)

NAME = "toxicity"


@dataclass(frozen=True, kw_only=True)
class ToxicityRule(GuardRule):
    """A kind of toxic text: single words, and patterns over the concepts below."""

    words: str = ""
    patterns: tuple[str, ...] = ()


_CONCEPTS = {
    "i": "i we",
    "will": "will gonna shall ill",
    "going": "going gonna want",
    "to": "to",
    "hurt": "kill murder stab shoot strangle behead rape slaughter lynch",
    "you": "you u ya yourself",
    "yours": "your ur",
    "people": "family kids children wife mother daughter son parents",
    "kill": "kill",
    "self": "yourself yourselves urself",
    "go": "go please",
    "should": "should must",
    "die": "die",
    "deserve": "deserve hope",
}
RULES_BY_NAME: dict[str, ToxicityRule] = {
    rule.name: rule
    for rule in (
        ToxicityRule(
            name="slur",
            why="It holds a slur against a group of people.",
            words=(
                "nigger niggers nigga niggas faggot faggots tranny trannies kike kikes gook gooks"
                " spics wetback wetbacks raghead ragheads towelhead towelheads sandnigger darkie"
                " darkies paki pakis retard retards shemale shemales beaner beaners golliwog"
                " untermensch kaffir kaffirs gyppo gyppos"
            ),
            match=("you n1gger", "f a g g o t", "what a r3tard", "fаggot"),
            not_match=("the Niger river", "a retardant coating", "a gooseberry", "spice"),
        ),
        ToxicityRule(
            name="threat",
            why="It threatens somebody with violence.",
            patterns=(
                "i will hurt you|yours",
                "i ~1 going to hurt you|yours",
                "i ~1 going hurt you|yours",
            ),
            match=("I will kill you", "I am gonna k1ll y0u", "we are going to murder your family"),
            not_match=("This heat will kill me", "We will shoot at noon", "I will not kill you"),
        ),
        ToxicityRule(
            name="harassment",
            why="It tells somebody to hurt themselves, or that they should be dead.",
            words="kys",
            patterns=(
                "kill self",
                "go ~1 die",
                "you should die",
                "deserve ~1 to die",
            ),
            match=("kill yourself", "go and die", "you deserve to die", "k i l l yourself"),
            not_match=(
                "Spammers must die",
                "batteries die quickly",
                "enough rope to hang yourself",
            ),
        ),
        ToxicityRule(
            name="sexual",
            why="It is sexually explicit.",
            words=(
                "blowjob handjob cumshot gangbang deepthroat bukkake creampie fleshlight"
                " cunnilingus fellatio rimjob dildo dildos milf hentai"
            ),
            match=("a bl0wj0b",),
            not_match=("a hand job application", "sex education", "breast cancer screening"),
        ),
        ToxicityRule(
            name="profanity",
            why="It swears.",
            words=(
                "fuck fucks fucking fucked fucker fuckers motherfucker motherfuckers shit shits"
                " shitty bullshit bitch bitches cunt cunts asshole assholes bastard bastards"
                " dickhead wanker wankers twat twats prick pricks slut sluts whore whores"
            ),
            match=("what the f*ck", "fuuuuuck", "sh1t", "b.i.t.c.h"),
            not_match=("Scunthorpe", "a shiitake mushroom", "cocktail", "class assignment"),
        ),
    )
}


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    if any(name not in RULES_BY_NAME for name in names):
        raise ValueError(f"names an unknown category; there are: {', '.join(RULES_BY_NAME)}")
    return names


class ToxicityOptions(GuardOptions):
    """Which categories count."""

    categories: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_known)] = (
        "slur",
        "threat",
        "harassment",
    )


_CATEGORY = {word: rule.name for rule in RULES_BY_NAME.values() for word in rule.words.split()}
# The same words without doubled letters, to compare with words that were stretched.
_DOUBLED = re.compile(r"(.)\1+")
_SQUEEZED = {_DOUBLED.sub(r"\1", word): name for word, name in _CATEGORY.items()}
_LEXICON = Lexicon(_CONCEPTS, single_words=_CATEGORY)
_CATEGORY_OF_SYMBOL = {_LEXICON.symbol(word): name for word, name in _CATEGORY.items()}
_BAD = re.compile(f"[{''.join(_CATEGORY_OF_SYMBOL)}]")
_PHRASES = {
    rule.name: tuple(map(_LEXICON.phrase, rule.patterns)) for rule in RULES_BY_NAME.values()
}
# Asterisks are rare and found quickly; the word around them is looked at only then.
_ASTERISKS = re.compile(r"\*(?<=[a-z].)\*{0,2}+(?=[a-z])")
_LONGEST_PART = 12
_MASKED = re.compile(r"(?<![a-z*])[a-z]{1,12}\*{1,3}[a-z]{1,12}(?![a-z*])")
_IS_NO_LETTER = bytes(not chr(code).isalpha() for code in range(128)).ljust(256)
_TWICE = b"\0\0"
_MOST_MASKED = 500
_MOST_STRETCHED = 500
_LONGEST_WORD = 40
_MASK = "[removed]"


def check(subject: Subject, options: ToxicityOptions) -> GuardVerdict:
    """Stop toxic text, or take the toxic words out."""
    places = without_overlaps(
        place for place in _places(subject) if place.rule.name in options.categories
    )
    # What was not looked at cannot be mended.
    mends = options.mode is Mode.FIX and len(places) < MOST_FINDINGS
    fixed = replaced(subject.text, places, lambda _: _MASK) if mends else None
    return verdict(NAME, findings_of(places), mode=options.mode, fixed_text=fixed)


def _places(subject: Subject) -> Iterator[RulePlace]:
    folded = subject.folded
    symbols = _LEXICON.read(folded.words())
    for index, name in islice(_bad_words(folded, symbols), MOST_FINDINGS):
        yield RulePlace(*folded.words_span(index, index), RULES_BY_NAME[name])
    yield from _phrase_places(folded, symbols)
    if "*" in subject.text:
        yield from _masked_places(subject)


def _bad_words(folded: FoldedText, symbols: str) -> Iterator[tuple[int, str]]:
    """The words that are on a list, as they stand or stretched: their number, their category."""
    yield from ((place.start(), _CATEGORY_OF_SYMBOL[place[0]]) for place in _BAD.finditer(symbols))
    stretched = {
        word: name
        for word in islice(_stretched_words(folded.text), _MOST_STRETCHED)
        if (name := _SQUEEZED.get(_DOUBLED.sub(r"\1", word)))
    }
    words = chain.from_iterable(folded.words()) if stretched else ()
    yield from ((index, stretched[word]) for index, word in enumerate(words) if word in stretched)


def _stretched_words(text: str) -> Iterator[str]:
    """Words in which a letter stands three times in a row."""
    repeated = _repeated_letters(text)
    place = repeated.find(_TWICE)
    while place >= 0:
        start, end = text.rfind(" ", 0, place) + 1, text.find(" ", place)
        end = len(text) if end < 0 else end
        yield text[start : min(end, start + _LONGEST_WORD)]
        place = repeated.find(_TWICE, end)


def _repeated_letters(text: str) -> bytes:
    """One byte for each character of a folded text: zero if it is a letter like the one before."""
    # As one long number, because that compares all characters in a few steps.
    raw = text.encode("ascii")
    number, no_letters = int.from_bytes(raw), int.from_bytes(raw.translate(_IS_NO_LETTER))
    return (number ^ number >> 8 | no_letters).to_bytes(len(raw))


def _phrase_places(folded: FoldedText, symbols: str) -> Iterator[RulePlace]:
    present = set(symbols)
    for name, phrases in _PHRASES.items():
        for phrase in phrases:
            if place := phrase.search(symbols, present):
                yield RulePlace(*folded.words_span(*place), RULES_BY_NAME[name])


def _masked_places(subject: Subject) -> Iterator[RulePlace]:
    """Words in which letters were replaced by asterisks."""
    small = subject.small
    for asterisks in islice(_ASTERISKS.finditer(small), _MOST_MASKED):
        masked = _MASKED.search(
            small, max(0, asterisks.start() - _LONGEST_PART), asterisks.end() + _LONGEST_PART + 1
        )
        if masked is None:
            continue
        letters = masked[0].replace("*", "")
        if len(letters) < 3:
            continue
        form = re.compile(masked[0].replace("*", "[a-z]"))
        name = next((name for word, name in _CATEGORY.items() if form.fullmatch(word)), None)
        if name:
            yield RulePlace(*masked.span(), RULES_BY_NAME[name])


RULES = proven(
    RULES_BY_NAME.values(),
    lambda rule, text: any(place.rule is rule for place in _places(Subject(text))),
)
