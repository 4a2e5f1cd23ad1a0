"""Secrets as people tell them in a sentence: "my wifi password is hunter2pass". Pure.

`silas.kernel.redaction` knows what secrets look like. Here the words around one give it away, in
the languages of `silas.kernel.secret_wordings`:

1. A kind of secret ("password", "API key", "Türcode"), then "is", ":" or "=", then a value. What
   no secret would be ("is wrong", "ist im Tresor") is none, nor is a question.
2. The sentence tells something: it begins with "remember that", with "my" or "the", or with hardly
   anything before the kind. A request ("run …", "create a file …") is none of these, and what it
   names is needed to do it.
3. A sentence that several languages could have is told in those whose words begin it, and each of
   them must find a value in it.
4. A text in a known format is a secret whatever it is called, in a sentence that tells something,
   or where nothing else stands in the message.
5. From the value on, the rest of the line is taken out: too much is a nuisance, too little a leak.

The name under which the vault would keep it is made from the words before it, never from it.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from silas.kernel.redaction import REDACTED, redact_text
from silas.kernel.secret_wordings import ENGLISH, WORDINGS, Wording

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[^\W_]+")
_THAT = re.compile(r"\b(?:dass|daß|das|dat)\b", re.IGNORECASE)
_SIGNS = re.compile(r"[:=]")
_SMALL_WORDS = frozenset().union(*(each.small_words for each in WORDINGS))
_MAX_NAME_WORDS = 5
_MAX_NAME_CHARS = 100
_MAX_WORDS_BEFORE = 2
_MAX_WORDS_INSIDE = 6
_MIN_PHRASE_WORDS = 3
_MIN_ARTICLE_CHARS = 3
_MAX_CHARS = 4_000
"""Longer texts are files, not sentences; known formats are taken out of them all the same."""


@dataclass(frozen=True)
class ToldSecret:
    """A secret that somebody has told: what it is called, and the text without it."""

    label: str
    """In words: "wifi password"."""
    text: str

    @property
    def name(self) -> str:
        """The name that the vault would keep it under."""
        return secret_name(self.label)


class _Patterns(NamedTuple):
    """The expressions of one language."""

    told: re.Pattern[str]
    closed: re.Pattern[str]
    opening: re.Pattern[str]
    question: re.Pattern[str]
    orders: re.Pattern[str]
    asks: re.Pattern[str]
    phrase: re.Pattern[str]
    endings: re.Pattern[str]


class _Reading(NamedTuple):
    """A sentence as one language understands it."""

    wording: Wording
    found: re.Match[str]
    opening: re.Match[str]

    @property
    def is_begun(self) -> bool:
        """Whether words of the language begin the sentence."""
        return bool(self.opening["asks"] or self.opening["whose"])


@cache
def _patterns(wording: Wording) -> _Patterns:
    named = r"[^\s.!?:=]+(?:[ \t]+[^\s.!?:=]+){0,3}?"
    about = rf"(?:{wording.about}){named}"
    if wording.has_bare_names:
        about = rf"{about}|(?!(?:{wording.equals})(?:\s|$))[^\s.!?:=,]+"
    kind = rf"\b(?P<kind>{wording.kinds})\b(?P<about>[ \t]+(?:{about}))?"
    after = r"[\w.'\u2019 -]{1,60}"
    asked = (
        rf"(?:{wording.about}){after}|{after}"
        if wording.has_bare_names
        else rf"(?:{wording.about}){after}"
    )
    return _Patterns(
        told=_compiled(
            rf"{kind}[ \t]*(?P<verb>{wording.equals}|[:=])[ \t]*[:=]?[ \t]*(?P<value>\S[^\n]*)"
        ),
        closed=_compiled(
            rf"{kind}[ \t]+(?P<value>\S.*?)[ \t]+(?P<verb>{wording.closes})\s*[.!]*\Z"
        ),
        opening=_compiled(
            rf"{wording.greets}(?P<asks>{wording.asks})?[\s,:]*(?P<whose>{wording.whose})?\s*"
            r"(?P<rest>.*)"
        ),
        question=_compiled(
            rf"{wording.greets}{wording.wants}"
            rf"(?P<what>(?:[\w.'\u2019-]+\s+){{0,5}}?(?:{wording.kinds}))"
            rf"(?P<about>\s+(?:{asked}))?\s*[?.!]*"
        ),
        orders=_compiled(wording.orders),
        asks=_compiled(wording.questions),
        phrase=_compiled(wording.phrase_kinds),
        endings=_compiled(wording.endings),
    )


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.DOTALL)


def told_secret(text: str) -> ToldSecret | None:
    """The secret that this text tells, if it tells one (rules 1 to 4)."""
    told = _in_words_of(text)
    if told is None:
        return _in_a_format(text)
    return ToldSecret(told.label, without_told_secrets(told.text))


def without_told_secrets(text: str) -> str:
    """The text without what its words tell; the rest of each line goes with it (rule 5)."""
    while (told := _in_words_of(text)) is not None:
        text = told.text
    return text


def asked_secret(text: str) -> str | None:
    """What a question asks for ("what is my wifi password?"), if that is a kind of secret."""
    for wording in _languages_of(text):
        found = _patterns(wording).question.fullmatch(text.strip())
        if found is not None:
            return _label(wording, found["about"], "", found["what"])
    return None


def secret_name(label: str) -> str:
    """The name in the vault for a secret that people call so."""
    plain = unicodedata.normalize("NFKD", label.lower().replace("ß", "ss"))
    return "-".join(re.findall(r"[a-z0-9]+", _without_marks(plain)))[:_MAX_NAME_CHARS] or "secret"


def _without_marks(text: str) -> str:
    return "".join(each for each in text if not unicodedata.combining(each))


def _languages_of(text: str) -> list[Wording]:
    """Those in which the text may tell or ask for a secret."""
    if len(text) > _MAX_CHARS:
        return []
    plain = text.lower()
    return [each for each in WORDINGS if any(hint in plain for hint in each.hints)]


def _in_words_of(text: str) -> ToldSecret | None:
    """Rules 1 to 3."""
    languages = _languages_of(text)
    for start, sentence in _sentences(text) if languages else ():
        readings = [each for each in (_read(lang, sentence) for lang in languages) if each]
        readings = [each for each in readings if each.is_begun] or readings
        if readings and all(_has_value(each, sentence) for each in readings):
            first = readings[0]
            label = _label(
                first.wording, first.found["about"], first.opening["rest"], first.found["kind"]
            )
            return ToldSecret(label, _clean(text, start + first.found.start("value")))
    return None


def _sentences(text: str) -> list[tuple[int, str]]:
    """The sentences with the places where they begin. A value with a full stop stays whole: the
    line is taken out from it on."""
    found, start = [], 0
    for gap in _SENTENCE.finditer(text):
        found.append((start, text[start : gap.start()]))
        start = gap.end()
    return [*found, (start, text[start:])]


def _read(wording: Wording, sentence: str) -> _Reading | None:
    """How a language understands the sentence, if it tells something in it (rule 2)."""
    patterns = _patterns(wording)
    found = _closed(patterns, sentence) or patterns.told.search(sentence)
    if found is None or "--" in sentence[: found.start()][-2:] or not _is_its_own(wording, found):
        return None
    before = sentence[: found.start()]
    opening = patterns.opening.fullmatch(before)
    if opening is None:
        return None
    reading = _Reading(wording, found, opening)
    if reading.is_begun:
        return reading
    short = len(opening["rest"].split()) <= _MAX_WORDS_BEFORE
    ordered = any(_patterns(each).orders.match(before.strip()) for each in WORDINGS)
    return reading if short and not ordered else None


def _closed(patterns: _Patterns, sentence: str) -> re.Match[str] | None:
    """What a language tells that puts the verb last, after "that"."""
    found = patterns.closed.search(sentence)
    if found is None or _THAT.search(sentence[: found.start()]) is None:
        return None
    return found if len(found["value"].split()) <= _MAX_WORDS_INSIDE else None


def _is_its_own(wording: Wording, found: re.Match[str]) -> bool:
    """Whether the kind or the verb is of this language: "login:" alone is of none but English."""
    if wording is ENGLISH or _SIGNS.match(found["verb"]) is None:
        return True
    return _patterns(ENGLISH).told.fullmatch(f"{found['kind']}: x") is None


def _has_value(reading: _Reading, sentence: str) -> bool:
    """Rule 1."""
    patterns, value = _patterns(reading.wording), reading.found["value"]
    if sentence.rstrip().endswith("?") and patterns.asks.match(sentence.strip()) is not None:
        return False
    words = value.split()
    first = words[0].strip(".,;!?\"'`“”„«»()").casefold()
    if REDACTED in words[0]:
        return False
    if words[0][0] in "\"'`“„«":
        return bool(first) or len(words) > 1
    known = (
        bool(first)
        and first not in reading.wording.no_values
        and patterns.endings.fullmatch(first) is None
    )
    is_phrase = patterns.phrase.fullmatch(reading.found["kind"]) is not None
    return known or (is_phrase and len(words) >= _MIN_PHRASE_WORDS)


def _label(wording: Wording, about: str | None, before: str, kind: str) -> str:
    """The telling words of what a secret is called, in the order of the language."""
    parts = [before, kind, about] if wording.has_bare_names else [about, before, kind]
    text = " ".join(each for each in parts if each).replace("\u2019", "'")
    words = [word for word in _WORD.findall(text) if len(word) > 1]
    kept = [word for word in words if word.casefold() not in _SMALL_WORDS]
    return " ".join(word.lower() for word in kept[-_MAX_NAME_WORDS:]) or "secret"


def _clean(text: str, begin: int) -> str:
    end = text.find("\n", begin)
    rest = "" if end < 0 else text[end:]
    return redact_text(f"{text[:begin]}{REDACTED}{rest}")


def _in_a_format(text: str) -> ToldSecret | None:
    """Rule 4."""
    clean = redact_text(text)
    if clean == text or (
        len(text.split()) > 1 and not any(_begins(each, text) for each in WORDINGS)
    ):
        return None
    for wording in WORDINGS:
        kind = re.search(rf"(?:[\w-]+\s+)?(?:{wording.kinds})\b", clean, re.IGNORECASE)
        if kind is not None:
            return ToldSecret(_label(wording, None, "", kind[0]), clean)
    return ToldSecret("secret", clean)


def _begins(wording: Wording, text: str) -> bool:
    """Whether the text begins as one that tells something; an English "a" is no Portuguese one."""
    opening = _patterns(wording).opening.fullmatch(text)
    if opening is None:
        return False
    whose = opening["whose"] or ""
    return bool(opening["asks"]) or len(whose) >= (1 if wording is ENGLISH else _MIN_ARTICLE_CHARS)
