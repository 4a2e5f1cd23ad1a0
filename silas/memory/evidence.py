"""What the store holds that speaks for one memory or another, gathered in one consistent view."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain, pairwise

from silas.kernel import format_timestamp
from silas.memory.asking import Asked, asked_for
from silas.memory.dates import Stretch
from silas.memory.fusion import Evidence, Trait, Word, promising, rarity
from silas.memory.query_words import STOP_WORDS, content_words, match_expression
from silas.memory.rows import Lane, as_list
from silas.memory.word_forms import forms_of
from silas.storage import Database, Reader

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
    times: list[Stretch],
    cosines: Mapping[int, float],
    now: datetime,
) -> Evidence:
    """The words, neighbours, sessions, times, entities and links that matter to a question."""
    words = _words_of(reader, lane, question)
    best = promising(words, MOST_CANDIDATES)
    links = _links(reader, lane, [*best[:_FOLLOWED], *list(cosines)[:_FOLLOWED]])
    linked = {row for pair in links.items() for row in (pair[0], *pair[1])}
    candidates = {*best, *cosines, *linked}
    asked = asked_for(question)
    return Evidence(
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
    return sorted(entity for (entity,) in rows)


def without_names(question: str, named: Sequence[str]) -> str:
    """What a question asks, whoever it asks about; empty if nothing else is left of it."""
    names = "|".join(map(re.escape, sorted(named, key=len, reverse=True)))
    rest = re.sub(rf"\b(?:{names})\b(?:['\u2019]s\b)?", "", question, flags=re.IGNORECASE)
    telling = set(content_words(rest)) - STOP_WORDS
    return " ".join(rest.split()) if named and telling else ""


def _bare(word: str) -> str:
    return _ENDING.sub("", word).strip(_AROUND)


def _words_of(reader: Reader, lane: Lane, question: str) -> list[Word]:
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
        Word(frozenset(rows), rarity(size, max(total, size)))
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
    reader: Reader, lane: Lane, asked: Asked, candidates: Collection[int]
) -> frozenset[int]:
    if asked.told_by is None:
        return frozenset()
    texts = reader.fetch_all(_TEXTS, (as_list(list(candidates)), *lane.bounds))
    return frozenset(row for row, text in texts if asked.is_told_in(text))


def _links(reader: Reader, lane: Lane, best: Sequence[int]) -> dict[int, set[int]]:
    links: dict[int, set[int]] = {}
    params = (as_list(best), *lane.bounds, lane.scope_no)
    for row, other in reader.fetch_all(_LINKED, params):
        links.setdefault(row, set()).add(other)
    return links
