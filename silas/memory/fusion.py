"""How memories are ranked. Pure: numbers in, numbers out. The whole formula stands here.

For a question with the words w, and a memory i of a lane with n memories:

    rarity(w)  = ln(1 + (n - df(w) + 1/2) / (df(w) + 1/2))        df: memories that hold w
    near(w, i) = 1 if i holds w, else NEXT if a neighbour does, else NEXT / 2 if one two away does
    words(i)   = sum over w of rarity(w) * near(w, i), divided by the largest such sum
    meaning(i) = cosine of i and the question, 0 for the last of the nearest and 1 for the first,
                 plus ECHO times that of its closer neighbour
    x(i)       = words(i) + MEANING * meaning(i), divided by the largest; a memory that follows
                 from another or led to it has at least LINK times the x of that one
    score(i)   = (x(i) + SESSION * session(i) + DATE * date(i) + ENTITY * entity(i))
                 * (1 + LENGTH * ln(length / mean length + 0.3)) * (1 - ASKING if i is a question)

Neighbours are the memories just before and after it in the same session: an answer follows its
question, and both are about the same thing. `session` is the mean of the three best x of its
session, divided by the largest. `date` is how well the time of the memory fits the times that the
question speaks of. `entity` is 1 if the question names one entity and the memory refers to it.
The weights are round numbers, each picked from a few by comparison; `docs/memory.md` says on what.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from silas.memory.dates import Stretch, fit

Key = TypeVar("Key")

NEXT = 0.6
MEANING = 0.5
ECHO = 0.4
LINK = 0.6
SESSION = 0.3
DATE = 0.3
ENTITY = 0.15
LENGTH = 0.1
ASKING = 0.25
ENOUGH = 1000
_BEST_OF_SESSION = 3
_BESIDE = ((-1, NEXT), (1, NEXT), (-2, NEXT / 2), (2, NEXT / 2))


@dataclass(frozen=True)
class Word:
    """One word of the question: the memories that hold it, and how much that says."""

    rows: frozenset[int]
    rarity: float


@dataclass(frozen=True, slots=True)
class Trait:
    """What is known of a memory apart from its words."""

    session: str | None
    created_at: datetime
    length: int
    asks: bool


@dataclass(frozen=True)
class Evidence:
    """Everything that speaks for one memory or another."""

    words: list[Word]
    traits: Mapping[int, Trait]
    """Of all candidates, and of those beside them."""

    candidates: Collection[int]
    cosines: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[int, Collection[int]] = field(default_factory=dict)
    times: list[Stretch] = field(default_factory=list)
    of_entity: frozenset[int] = frozenset()


def rarity(found: int, total: int) -> float:
    """How much it says that a memory holds a word which `found` of `total` hold."""
    missing = max(0, total - found)
    return math.log(1 + (missing + 0.5) / (found + 0.5))


def promising(words: Iterable[Word], most: int) -> list[int]:
    """The memories with the largest `words`, if those with neighbouring ids are neighbours.

    Rare words come first. Once they have named enough memories, common words only add to the best
    of those: a memory that holds nothing but common words would not be among the best.
    """
    sums: defaultdict[int, float] = defaultdict(float)
    chosen: list[int] = []
    for word in sorted(words, key=lambda word: -word.rarity):
        if not chosen:
            for row, weight in _spread(word.rows).items():
                sums[row] += weight * word.rarity
            if len(sums) > ENOUGH:
                chosen = heapq.nlargest(ENOUGH, sums, key=sums.__getitem__)
        else:
            for row in chosen:
                sums[row] += _near(word.rows, row) * word.rarity
    return heapq.nlargest(most, chosen or sums, key=lambda row: (sums[row], row))


def _spread(rows: Collection[int]) -> dict[int, float]:
    near = dict.fromkeys(rows, 1.0)
    for row in rows:
        for step, weight in _BESIDE:
            if near.get(row + step, 0.0) < weight:
                near[row + step] = weight
    return near


def _near(rows: Collection[int], row: int) -> float:
    if row in rows:
        return 1.0
    if row - 1 in rows or row + 1 in rows:
        return NEXT
    return NEXT / 2 if row - 2 in rows or row + 2 in rows else 0.0


def scores(evidence: Evidence) -> dict[int, float]:
    """The score of every candidate that is known."""
    known = [row for row in evidence.candidates if row in evidence.traits]
    x = _scaled({row: _words(evidence, row) for row in known})
    meaning = _meaning(evidence, known)
    x = _scaled({row: x[row] + MEANING * meaning[row] for row in known})
    x = _with_links(evidence, x)
    session = _sessions(evidence, x)
    lengths = [evidence.traits[row].length for row in known]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    return {
        row: (x[row] + SESSION * session[row] + _hints(evidence, row))
        * _form(evidence.traits[row], mean)
        for row in known
    }


def _words(evidence: Evidence, row: int) -> float:
    beside = [
        (row + step, weight) for step, weight in _BESIDE if _neighbours(evidence, row, row + step)
    ]
    total = 0.0
    for word in evidence.words:
        if row in word.rows:
            total += word.rarity
        else:
            held = (weight for other, weight in beside if other in word.rows)
            total += word.rarity * max(held, default=0.0)
    return total


def _neighbours(evidence: Evidence, row: int, other: int) -> bool:
    here, there = evidence.traits[row], evidence.traits.get(other)
    return there is not None and here.session is not None and here.session == there.session


def _meaning(evidence: Evidence, known: list[int]) -> dict[int, float]:
    cosines = evidence.cosines
    if not cosines:
        return dict.fromkeys(known, 0.0)
    least, best = min(cosines.values()), max(cosines.values())
    width = (best - least) or 1.0
    own = {row: (cosine - least) / width for row, cosine in cosines.items()}

    def echo(row: int) -> float:
        sides = (row - 1, row + 1)
        return max(own.get(side, 0.0) * _neighbours(evidence, row, side) for side in sides)

    return {row: own.get(row, 0.0) + ECHO * echo(row) for row in known}


def _with_links(evidence: Evidence, x: dict[int, float]) -> dict[int, float]:
    linked = dict(x)
    for row, others in evidence.links.items():
        for other in others:
            if row in x and other in x:
                linked[other] = max(linked[other], LINK * x[row])
                linked[row] = max(linked[row], LINK * x[other])
    return linked


def _sessions(evidence: Evidence, x: dict[int, float]) -> dict[int, float]:
    by_session: defaultdict[str, list[float]] = defaultdict(list)
    for row, value in x.items():
        if (name := evidence.traits[row].session) is not None:
            by_session[name].append(value)
    strength = _scaled(
        {
            name: sum(heapq.nlargest(_BEST_OF_SESSION, values)) / _BEST_OF_SESSION
            for name, values in by_session.items()
        }
    )
    return {row: strength.get(evidence.traits[row].session or "", 0.0) for row in x}


def _hints(evidence: Evidence, row: int) -> float:
    date = fit(evidence.times, evidence.traits[row].created_at) if evidence.times else 0.0
    return DATE * date + ENTITY * (row in evidence.of_entity)


def _form(trait: Trait, mean_length: float) -> float:
    """A longer memory tells more, and a question tells little."""
    length = 1 + LENGTH * math.log(trait.length / mean_length + 0.3)
    return length * (1 - ASKING * trait.asks)


def _scaled(values: dict[Key, float]) -> dict[Key, float]:
    largest = max(values.values(), default=0.0)
    return {key: value / largest for key, value in values.items()} if largest > 0 else values
