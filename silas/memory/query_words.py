"""What people ask, as an expression of the full-text index.

Every word is quoted, so nothing of the index's own language (`NEAR`, `*`, `column:`, `NOT`) can be
said in a question. Words that stand in every sentence are left out, unless there are no others.
"""

import re

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
