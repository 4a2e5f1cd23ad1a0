"""How memories are ranked: `gather` reads what speaks for each at one moment, `scores` weighs it.

The whole formula stands here; the weighing is pure, numbers in and numbers out.

For a question with the words w, and a memory i of a lane with n memories:

    rarity(w)  = ln(1 + (n - df(w) + 1/2) / (df(w) + 1/2))        df: memories that hold w
    near(w, i) = 1 if i holds w, or if it follows a question that holds w; else BEFORE if the memory
                 before it does, AFTER if the one after it does, and half of that if it is two away
    words(i)   = sum over w of rarity(w) * near(w, i), divided by the largest such sum
    meaning(i) = cosine of the question, once as it is and once without the entities that it names,
                 and of i in its context, 0 for the last of the nearest and 1 for the first, plus
                 ECHO times that of its closer neighbour
    x(i)       = words(i) + MEANING * meaning(i), divided by the largest; a memory that follows
                 from another or led to it has at least LINK times the x of that one
    score(i)   = (x(i) + SESSION * session(i) + DATE * date(i) + ENTITY * entity(i)
                 + TELLS * tells(i))
                 * (1 + LENGTH * ln(length / mean length + 0.3)) * (1 - ASKING if i is a question)

Neighbours are the memories just before and after it in the same session. What is told goes on from
what was told before, so the one before says more about it than the one after; and an answer need
not repeat what it was asked. `session` is the mean of the three best x of its
session, divided by the largest. `date` is how well the time of the memory fits the times that the
question speaks of. `entity` is 1 if the question names one entity and the memory refers to it.
`tells` is 1 if the question asks for a time or a number and the memory holds one. The context of a
memory is the one just before it: CONTEXT times its vector is added. A question for several things
("which cities ...") has its answers all over, in other words than its own: then SESSION is halved,
ENTITY is doubled, MEANING is SEVERAL_MEANING, and every memory stands for itself, without CONTEXT.
The weights are round numbers, each picked from a few by comparison; `docs/memory.md` says on what.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

from silas.kernel import format_timestamp
from silas.kernel.when import TimeSpan
from silas.memory.question import (
    STOP_WORDS,
    AnswerKind,
    asked_for,
    content_words,
    fit,
    forms_of,
    match_expression,
)
from silas.memory.rows import Lane, as_list
from silas.storage import Database, Reader

Key = TypeVar("Key")

BEFORE = 0.6
AFTER = 0.4
MEANING = 0.5
SEVERAL_MEANING = 0.7
ECHO = 0.4
LINK = 0.6
SESSION = 0.3
DATE = 0.3
ENTITY = 0.15
TELLS = 0.2
CONTEXT = 0.5
LENGTH = 0.1
ASKING = 0.25
ENOUGH = 300
_BEST_OF_SESSION = 3
_BESIDE = ((-1, BEFORE), (1, AFTER), (-2, BEFORE / 2), (2, AFTER / 2))


class QueryWord(NamedTuple):
    """One word of the question: the memories that hold it, and how much that says."""

    rows: frozenset[int]
    rarity: float


class Trait(NamedTuple):
    """What is known of a memory apart from its words."""

    session: str | None
    created_at: str
    length: int
    asks: bool


@dataclass(frozen=True)
class RecallEvidence:
    """Everything that speaks for one memory or another."""

    words: list[QueryWord]
    traits: Mapping[int, Trait]
    """Of all candidates, and of those beside them."""

    candidates: Collection[int]
    cosines: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[int, Collection[int]] = field(default_factory=dict)
    times: list[TimeSpan] = field(default_factory=list)
    of_entity: frozenset[int] = frozenset()
    telling: frozenset[int] = frozenset()
    """Those that hold a time or a number, if that is what the question asks for."""

    several: bool = False
    """Whether the question asks for several things."""


def rarity(found: int, total: int) -> float:
    """How much it says that a memory holds a word which `found` of `total` hold."""
    missing = max(0, total - found)
    return math.log(1 + (missing + 0.5) / (found + 0.5))


def promising(words: Iterable[QueryWord], most: int) -> list[int]:
    """The memories with the largest `words`, if those with neighbouring ids are neighbours.

    Rare words come first. Once they have named enough memories, common words only add to those: a
    memory that holds nothing but common words would not be among the best. Of a word that very
    many hold, the memories beside them are not new candidates either.
    """
    sums: dict[int, float] = {}
    rarest = sorted(words, key=lambda word: -word.rarity)
    for place, (rows, weight) in enumerate(rarest):
        known: Collection[int] = sums.keys()
        if len(sums) < ENOUGH:
            near = _spread(rows) if len(rows) < ENOUGH else dict.fromkeys(rows, 1.0)
            known = known - near.keys() if len(rows) >= ENOUGH else ()
            for row, nearness in near.items():
                sums[row] = sums.get(row, 0.0) + nearness * weight
        else:
            _drop_hopeless(sums, most, sum(word.rarity for word in rarest[place:]))
        for row in known:
            if row in rows:
                sums[row] += weight
                continue
            for step, nearness in _BESIDE:
                if row + step in rows:
                    sums[row] += nearness * weight
                    break
    _drop_hopeless(sums, most, 0.0)
    return sorted(sums, key=lambda row: (sums[row], row), reverse=True)[:most]


def _drop_hopeless(sums: dict[int, float], most: int, to_come: float) -> None:
    """Take out what cannot be among the best any more, however much is still added to it."""
    if len(sums) > most:
        least = sorted(sums.values())[-most] - to_come
        for row in [row for row, value in sums.items() if value < least]:
            del sums[row]


def _spread(rows: Collection[int]) -> dict[int, float]:
    near: dict[int, float] = {}
    for step, nearness in reversed(_BESIDE):
        near.update(dict.fromkeys([row - step for row in rows], nearness))
    near.update(dict.fromkeys(rows, 1.0))
    return near


def scores(evidence: RecallEvidence) -> dict[int, float]:
    """The score of every candidate that is known."""
    known = [row for row in evidence.candidates if row in evidence.traits]
    x = _scaled({row: _words(evidence, row) for row in known})
    if evidence.cosines:
        meaning = _meaning(evidence, known)
        weight = SEVERAL_MEANING if evidence.several else MEANING
        x = _scaled({row: x[row] + weight * meaning[row] for row in known})
    x = _with_links(evidence, x)
    session = _sessions(evidence, x)
    session_weight = SESSION / 2 if evidence.several else SESSION
    mean = sum(evidence.traits[row].length for row in known) / max(1, len(known)) or 1.0
    return {
        row: (x[row] + session_weight * session.get(evidence.traits[row].session, 0.0) + hints)
        * _form(evidence.traits[row], mean)
        for row, hints in _hints(evidence, known)
    }


def _words(evidence: RecallEvidence, row: int) -> float:
    beside = _beside(evidence.traits, row)
    total = 0.0
    for rows, weight in evidence.words:
        if row in rows:
            total += weight
            continue
        for other, nearness in beside:
            if other in rows:
                total += nearness * weight
                break
    return total


def _beside(traits: Mapping[int, Trait], row: int) -> list[tuple[int, float]]:
    """The neighbours of a memory and how much they count, those that count most first."""
    session = traits[row].session
    if session is None:
        return []
    around = [(row + step, nearness, traits.get(row + step)) for step, nearness in _BESIDE]
    beside = [
        (other, nearness) for other, nearness, its in around if its and its.session == session
    ]
    if beside and beside[0][0] == row - 1 and traits[row - 1].asks:
        beside[0] = row - 1, 1.0
    return beside


def _neighbours(evidence: RecallEvidence, row: int, other: int) -> bool:
    here, there = evidence.traits[row], evidence.traits.get(other)
    return there is not None and here.session is not None and here.session == there.session


def _meaning(evidence: RecallEvidence, known: list[int]) -> dict[int, float]:
    cosines = evidence.cosines
    least, best = min(cosines.values()), max(cosines.values())
    width = (best - least) or 1.0
    own = {row: (cosine - least) / width for row, cosine in cosines.items()}

    def echo(row: int) -> float:
        sides = (row - 1, row + 1)
        return max(own.get(side, 0.0) * _neighbours(evidence, row, side) for side in sides)

    return {row: own.get(row, 0.0) + ECHO * echo(row) for row in known}


def _with_links(evidence: RecallEvidence, x: dict[int, float]) -> dict[int, float]:
    linked = dict(x)
    for row, others in evidence.links.items():
        for other in others:
            if row in x and other in x:
                linked[other] = max(linked[other], LINK * x[row])
                linked[row] = max(linked[row], LINK * x[other])
    return linked


def _sessions(evidence: RecallEvidence, x: dict[int, float]) -> dict[str | None, float]:
    by_session: defaultdict[str, list[float]] = defaultdict(list)
    for row, value in x.items():
        if (name := evidence.traits[row].session) is not None:
            by_session[name].append(value)
    strength: dict[str | None, float] = {
        name: sum(sorted(values)[-_BEST_OF_SESSION:]) / _BEST_OF_SESSION
        for name, values in by_session.items()
    }
    return _scaled(strength)


def _hints(evidence: RecallEvidence, known: list[int]) -> Iterator[tuple[int, float]]:
    """What speaks for a memory whatever its words are."""
    entity = ENTITY * 2 if evidence.several else ENTITY
    for row in known:
        hints = entity * (row in evidence.of_entity) + TELLS * (row in evidence.telling)
        if evidence.times:
            when = datetime.fromisoformat(evidence.traits[row].created_at)
            hints += DATE * fit(evidence.times, when)
        yield row, hints


def _form(trait: Trait, mean_length: float) -> float:
    """A longer memory tells more, and a question tells little."""
    length = 1 + LENGTH * math.log(trait.length / mean_length + 0.3)
    return length * (1 - ASKING * trait.asks)


def _scaled(values: dict[Key, float]) -> dict[Key, float]:
    largest = max(values.values(), default=0.0)
    return {key: value / largest for key, value in values.items()} if largest > 0 else values


MOST_CANDIDATES = 80
"""How many memories are weighed for their words. Half as many more would find hardly more."""

MOST_ROWS = 2000
"""How many memories are looked at for one word. Of a word that more of them hold, the newest."""

_HOLDING = """
SELECT rowid FROM memory_words WHERE memory_words MATCH ? AND rowid BETWEEN ? AND ?
ORDER BY rowid DESC LIMIT ?
"""
_TRAITS = """
SELECT m.id, m.session_id, m.created_at, length(m.content), rtrim(m.content) LIKE '%?'
FROM json_each(?) AS wanted JOIN memory_items AS m ON m.id = wanted.value
WHERE m.id BETWEEN ? AND ? AND (m.valid_until IS NULL OR m.valid_until > ?)
    AND (m.valid_from IS NULL OR m.valid_from <= ?)
"""
_TOTAL = "SELECT next_active FROM memory_scopes WHERE scope_no = ?"
_NAMED = """
SELECT asked.value FROM json_each(?) AS asked WHERE EXISTS (
    SELECT 1 FROM memory_entities AS e WHERE e.entity = asked.value AND e.item BETWEEN ? AND ?)
"""
# `CROSS JOIN` keeps the order: one look-up for each candidate, not all that refer to an entity.
_REFERRING = """
SELECT e.item FROM json_each(?) AS candidate
CROSS JOIN memory_entities AS e ON e.entity = ? AND e.item = candidate.value
"""
# From a memory to those that name it as a cause, and to those that it names.
_LINKED = """
SELECT here.id, c.item FROM json_each(?1) AS best JOIN memory_items AS here ON here.id = best.value
JOIN memory_causes AS c ON c.cause = here.memory_id AND c.item BETWEEN ?2 AND ?3
UNION
SELECT c.item, there.id FROM json_each(?1) AS best JOIN memory_causes AS c ON c.item = best.value
JOIN memory_items AS there ON there.scope_no = ?4 AND there.memory_id = c.cause
    AND there.id BETWEEN ?2 AND ?3
"""
_TEXTS = """
SELECT m.id, m.content FROM json_each(?) AS candidate
JOIN memory_items AS m ON m.id = candidate.value WHERE m.id BETWEEN ? AND ?
"""
_FOLLOWED = 20
_AROUND = ".,;:!?\"'()"
_ENDING = re.compile(r"['\u2019]s\b.*$")


def gather(
    reader: Reader,
    lane: Lane,
    question: str,
    *,
    named: Sequence[str],
    times: list[TimeSpan],
    cosines: Mapping[int, float],
    now: datetime,
) -> RecallEvidence:
    """The words, neighbours, sessions, times, entities and links that matter to a question."""
    words = _words_of(reader, lane, question)
    best = promising(words, MOST_CANDIDATES)
    links = _links(reader, lane, [*best[:_FOLLOWED], *list(cosines)[:_FOLLOWED]])
    linked = {row for pair in links.items() for row in (pair[0], *pair[1])}
    candidates = {*best, *cosines, *linked}
    asked = asked_for(question)
    return RecallEvidence(
        words=words,
        traits=_traits(reader, lane, candidates, now),
        candidates=candidates,
        cosines=cosines,
        links=links,
        times=times,
        of_entity=_of_entity(reader, named, candidates),
        telling=_telling(reader, lane, asked, candidates),
        several=asked.several,
    )


async def entities_named(database: Database, lane: Lane, question: str) -> list[str]:
    """The entities of this lane that a question names."""
    bare = [_bare(word) for word in question.split()]
    pairs = [f"{first} {second}" for first, second in pairwise(bare)]
    spelled = {form for name in (*bare, *pairs) for form in (name, name.lower(), name.title())}
    rows = await database.fetch_all(_NAMED, (as_list(sorted(spelled - {""})), *lane.bounds))
    found = sorted(entity for (entity,) in rows)
    # Who asks about "Anna Berg" asks about one entity, not about every Anna and every Berg.
    parts = {part.lower() for entity in found if " " in entity for part in entity.split()}
    return [entity for entity in found if entity.lower() not in parts]


def without_names(question: str, named: Sequence[str]) -> str:
    """What a question asks, whoever it asks about; empty if nothing else is left of it."""
    names = "|".join(map(re.escape, sorted(named, key=len, reverse=True)))
    rest = re.sub(rf"\b(?:{names})\b(?:['\u2019]s\b)?", "", question, flags=re.IGNORECASE)
    telling = set(content_words(rest)) - STOP_WORDS
    return " ".join(rest.split()) if named and telling else ""


def _bare(word: str) -> str:
    return _ENDING.sub("", word).strip(_AROUND)


def _words_of(reader: Reader, lane: Lane, question: str) -> list[QueryWord]:
    """Each word with the memories that hold it."""
    row = reader.fetch_one(_TOTAL, (lane.scope_no,))
    total = row[0] - 1 if row else 0
    holding: dict[str, set[int]] = {}
    for word in content_words(question):
        expression = match_expression(forms_of(word))
        found = reader.fetch_all(_HOLDING, (expression, *lane.bounds, MOST_ROWS))
        if found:
            holding[expression] = set(chain.from_iterable(found))
    sizes = [len(rows) for rows in holding.values()]
    if len(holding) > 1 and min(sizes) == MOST_ROWS:
        _add_older(reader, lane, holding)
    return [
        QueryWord(frozenset(rows), rarity(size, max(total, size)))
        for rows, size in zip(holding.values(), sizes, strict=True)
    ]


def _add_older(reader: Reader, lane: Lane, holding: dict[str, set[int]]) -> None:
    """If all words are common, add older memories that hold several of them at once.

    First those that hold all; if they are few, those that hold all but the last, and so on. To rank
    everything that holds one of the words would take as long as the memory is large.
    """
    words, found = list(holding), 0
    for many in range(len(words), 1, -1):
        every = " AND ".join(f"({word})" for word in words[:many])
        rows = reader.fetch_all(_HOLDING, (every, *lane.bounds, MOST_CANDIDATES))
        for word in words[:many]:
            holding[word].update(chain.from_iterable(rows))
        found += len(rows)
        if found >= MOST_CANDIDATES:
            return


def _traits(
    reader: Reader, lane: Lane, candidates: Collection[int], now: datetime
) -> dict[int, Trait]:
    wanted = {row + step for row in candidates for step in range(-2, 3)}
    moment = format_timestamp(now)
    rows = reader.fetch_all(_TRAITS, (as_list(sorted(wanted)), *lane.bounds, moment, moment))
    return {
        row: Trait(session, created, length, bool(asks))
        for row, session, created, length, asks in rows
    }


def _of_entity(reader: Reader, named: Sequence[str], candidates: Collection[int]) -> frozenset[int]:
    if len(named) != 1:
        return frozenset()
    rows = reader.fetch_all(_REFERRING, (as_list(sorted(candidates)), named[0]))
    return frozenset(row for (row,) in rows)


def _telling(
    reader: Reader, lane: Lane, asked: AnswerKind, candidates: Collection[int]
) -> frozenset[int]:
    if asked.marked_by is None:
        return frozenset()
    texts = reader.fetch_all(_TEXTS, (as_list(list(candidates)), *lane.bounds))
    return frozenset(row for row, text in texts if asked.is_answered_in(text))


def _links(reader: Reader, lane: Lane, best: Sequence[int]) -> dict[int, set[int]]:
    links: dict[int, set[int]] = {}
    params = (as_list(best), *lane.bounds, lane.scope_no)
    for row, other in reader.fetch_all(_LINKED, params):
        links.setdefault(row, set()).add(other)
    return links
