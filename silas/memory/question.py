"""What a question says: the words to look for, the kind of answer, the times that it speaks of.

1. Words (`content_words`, `match_expression`) become an expression of the full-text index. Every
   word is quoted, so nothing of the index's own language (`NEAR`, `*`, `column:`, `NOT`) can be
   said in a question. Words that stand in every sentence are left out, unless there are no others.
   Forms of English words that the index cannot tell by their endings are added: "went" is a form
   of "go".
2. How a question begins tells what kind of answer it asks for (`asked_for`, English). "When did
   Anna move?" is answered by a memory that names a time, "How many" by one that names a number.
   "Which cities has Anna visited?" asks for several things: its answers are single remarks all over
   the years, so where they stand says less about them, and whom they are about says more.
3. `fit` tells how well a moment fits the times that it speaks of (`kernel/when.py` reads those).
"""

import re
from datetime import datetime
from typing import NamedTuple

from silas.kernel.when import TimeSpan

MOST_WORDS = 32
"""How many words of a question are looked for. A longer text is searched by its longest words."""

_WORD = re.compile(r"[^\W_](?:[\w'’-]*[^\W_])?")  # noqa: RUF001 - the apostrophe that phones write
_POSSESSIVE = re.compile(r"['’]s?$|['’](?=\w)")  # noqa: RUF001
STOP_WORDS = frozenset(
    [
        "a",
        "about",
        "after",
        "again",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "aren",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "both",
        "but",
        "by",
        "can",
        "could",
        "couldn",
        "d",
        "did",
        "didn",
        "do",
        "does",
        "doesn",
        "doing",
        "don",
        "down",
        "during",
        "each",
        "few",
        "for",
        "from",
        "further",
        "had",
        "hadn",
        "has",
        "hasn",
        "have",
        "haven",
        "having",
        "he",
        "her",
        "here",
        "hers",
        "herself",
        "him",
        "himself",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "isn",
        "it",
        "its",
        "itself",
        "just",
        "ll",
        "m",
        "me",
        "more",
        "most",
        "my",
        "myself",
        "no",
        "nor",
        "not",
        "now",
        "o",
        "of",
        "off",
        "on",
        "once",
        "only",
        "or",
        "other",
        "our",
        "ours",
        "out",
        "over",
        "own",
        "re",
        "s",
        "same",
        "she",
        "should",
        "so",
        "some",
        "such",
        "t",
        "than",
        "that",
        "the",
        "their",
        "theirs",
        "them",
        "themselves",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "to",
        "too",
        "under",
        "until",
        "up",
        "ve",
        "very",
        "was",
        "wasn",
        "we",
        "were",
        "weren",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "won",
        "would",
        "you",
        "your",
        "yours",
        "yourself",
        "yourselves",
    ]
)


def content_words(question: str) -> list[str]:
    """The words of a question that say what it is about, each once, in order."""
    words = list(dict.fromkeys(_plain(found[0]) for found in _WORD.finditer(question)))
    telling = [word for word in words if word not in STOP_WORDS and len(word) > 1] or words
    if len(telling) <= MOST_WORDS:
        return telling
    kept = set(sorted(telling, key=len, reverse=True)[:MOST_WORDS])
    return [word for word in telling if word in kept]


def match_expression(words: list[str]) -> str:
    """Any of these words; the parts of a hyphenated one count as well. Empty if there are none."""
    parts = [part for word in words for part in word.split("-") if len(part) > 2]
    every = dict.fromkeys([*words, *(part for part in parts if part not in STOP_WORDS)])
    return " OR ".join(f'"{word}"' for word in every)


def _plain(word: str) -> str:
    return _POSSESSIVE.sub("", word.casefold())


_FORMS = """
become became|begin began begun|break broke broken|bring brought|build built|buy bought|catch caught
choose chose chosen|come came|draw drew drawn|drink drank drunk|drive drove driven|eat ate eaten
fall fell fallen|feel felt|fight fought|find found|fly flew flown|forget forgot forgotten
get got gotten|give gave given|go went gone|grow grew grown|hear heard|hide hid hidden|hold held
keep kept|know knew known|lead led|learn learnt|leave left|lend lent|lose lost|make made|mean meant
meet met|pay paid|ride rode ridden|ring rang rung|rise rose risen|run ran|say said|see saw seen
sell sold|send sent|sew sewn|shake shook shaken|show shown|sing sang sung|sit sat|sleep slept
speak spoke spoken|spend spent|stand stood|steal stole stolen|swim swam swum|take took taken
teach taught|tear tore torn|tell told|think thought|throw threw thrown|understand understood
wake woke woken|wear wore worn|win won|write wrote written|child children|man men|woman women
person people|foot feet|tooth teeth|mouse mice|wife wives|life lives|knife knives|leaf leaves
""".replace("\n", "|")
_GROUPS = [group.split() for group in _FORMS.split("|") if group]
_BY_WORD = {word: group for group in _GROUPS for word in group}


def forms_of(word: str) -> list[str]:
    """The word, and the other forms of it that are spelled in another way."""
    for stem in _stems(word):
        if group := _BY_WORD.get(stem):
            return list(dict.fromkeys([word, *group]))
    return [word]


def _stems(word: str) -> list[str]:
    """The word, and what it could be without its ending."""
    stems = [word]
    if word.endswith("s"):
        stems.append(word[:-1])
    if word.endswith("es"):
        stems.append(word[:-2])
    if word.endswith("ing"):
        bare = word[:-3]
        stems += [bare, f"{bare}e"]
        if len(bare) > 2 and bare[-1] == bare[-2]:
            stems.append(bare[:-1])
    return stems


_WHEN = re.compile(r"\W*(?:when\b|(?:in |on )?(?:what|which) (?:date|day|week|month|year)\b)", re.I)
_COUNT = re.compile(r"\bhow (?:many|much|long|often|old)\b", re.I)
_SEVERAL = re.compile(
    r"\W*(?:how many\b|in (?:what|which) ways\b"
    r"|(?:what|which) (?:(?:kind|type|sort)s? of\b|all\b|else\b)"
    r"|(?:what|which)\b(?:\W+\w+){0,2}?\W+(?!(?:is|was|does|has|this|his)\b)\w+[^\Ws]s\b)",
    re.I,
)
_TIME_WORDS = """
yesterday today tonight tomorrow ago last next week weeks weekend month months year years since
recently soon morning evening night monday tuesday wednesday thursday friday saturday sunday
january february march april june july august september october november december
"""
_NUMBER_WORDS = """
one two three four five six seven eight nine ten once twice dozen dozens hundred hundreds few
couple several many
"""
_TIMES = frozenset(_TIME_WORDS.split())
_NUMBERS = frozenset(_NUMBER_WORDS.split())
_LOOKED_AT = 2000
_SPACES = str.maketrans(dict.fromkeys("\n\t.,;:!?()[]\"'/-\u2019", " "))


class AnswerKind(NamedTuple):
    """What a question asks for."""

    several: bool
    """Things in the plural."""

    marked_by: frozenset[str] | None
    """A memory that tells such a thing holds one of these or a figure; None if any memory may."""

    def is_answered_in(self, text: str) -> bool:
        """Whether the text holds what is asked for; of a long one, its beginning is looked at."""
        words = text[:_LOOKED_AT].lower().translate(_SPACES).split()
        known = self.marked_by or frozenset()
        return not known.isdisjoint(words) or any(map(str.isdecimal, words))


def asked_for(question: str) -> AnswerKind:
    """What kind of answer this question asks for."""
    marked_by = None
    if _WHEN.match(question):
        marked_by = _TIMES
    elif _COUNT.search(question):
        marked_by = _NUMBERS
    return AnswerKind(_SEVERAL.match(question) is not None, marked_by)


def fit(spans: list[TimeSpan], moment: datetime) -> float:
    """How well a moment fits: 1 if it is meant, 0 if it is not."""
    return max((each.fit for each in spans if each.since <= moment < each.until), default=0.0)
