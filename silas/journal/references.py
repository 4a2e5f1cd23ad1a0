"""Finding the record that a person means: by its id, the end of its id, or its name.

Whoever wants to change something needs exactly one record: `the_one` raises if there are several,
and lists them. Nothing is ever guessed.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from silas.journal import reading
from silas.journal.belonging import may_see
from silas.journal.errors import AmbiguousReference, RecordUnknown
from silas.journal.models import (
    OWNER,
    AccessScope,
    Category,
    Checklist,
    ChecklistItem,
    Note,
    Record,
    Task,
)
from silas.journal.rows import CONTENT, kind_of, load, read_record
from silas.kernel import visible
from silas.storage import Reader

SHORT = 5
"""How many letters of an id are shown; at least three of its end find it."""

_NAME = """coalesce(
    content ->> '$.title', content ->> '$.name', content ->> '$.text', content ->> '$.note', '')"""
_WORDS_FIRST = "record_words CROSS JOIN records ON number = record_words.rowid"
_LEAST = 3
_SHOWN = 8


@dataclass(frozen=True)
class Candidate:
    """A record that may be meant: 1.0 is its id or whole name, less is less certain."""

    record: Record
    confidence: float
    why: str


def short_id(record_id: str) -> str:
    """The end of an id, which is enough to name it."""
    return record_id if record_id.startswith("dayplan-") else record_id[-SHORT:]


def name_of(record: Record) -> str:
    """What people call a record."""
    match record:
        case Task() | Checklist():
            return record.title
        case Category():
            return record.name
        case ChecklistItem() | Note():
            return record.text
        case _:
            return str(getattr(record, "note", "") or record.id)


def candidates(
    reader: Reader,
    text: str,
    *,
    kinds: Collection[str],
    scope: AccessScope = OWNER,
    deleted: bool = False,
) -> list[Candidate]:
    """The records that may be meant, the likeliest first; only those that are in scope."""
    known: dict[str, Candidate] = {}
    for found in _all(reader, text.strip(), kinds, deleted=deleted):
        fits = may_see(reader, found.record, scope) and (deleted or not found.record.deleted)
        if fits and found.confidence > getattr(known.get(found.record.id), "confidence", 0):
            known[found.record.id] = found
    return sorted(known.values(), key=lambda each: (-each.confidence, each.record.id))


def the_one(
    reader: Reader,
    text: str,
    *,
    kinds: Collection[str],
    scope: AccessScope = OWNER,
    deleted: bool = False,
    likelier: Callable[[Record], bool] | None = None,
) -> Record:
    """The one record that is meant; raises `RecordUnknown` or `AmbiguousReference`.

    Of several that have this very name, the only one that is `likelier` is meant: the task that is
    still open, and not those of earlier weeks.
    """
    found = candidates(reader, text, kinds=kinds, scope=scope, deleted=deleted)
    if not found:
        what = " or ".join(kind.replace("_", " ") for kind in sorted(kinds))
        raise RecordUnknown(f"There is no {what} called {text!r}. {RecordUnknown.sentence()}")
    best = [each for each in found if each.confidence == found[0].confidence]
    # A name that is only begun, or words, must fit one record alone.
    rivals = best if found[0].confidence == 1.0 else found
    if likelier is not None and found[0].confidence == 1.0:
        rivals = [each for each in best if likelier(each.record)] or best
    if len(rivals) > 1:
        raise AmbiguousReference(_which(text, rivals), candidates=[_told(each) for each in rivals])
    return rivals[0].record


def _all(
    reader: Reader, text: str, kinds: Collection[str], *, deleted: bool
) -> Iterator[Candidate]:
    whole = load(reader, text)
    if whole is not None and kind_of(whole) in kinds:
        yield Candidate(whole, 1.0, "its id")
    if len(text) >= _LEAST and text.isalnum():
        for record in _ending(reader, text.lower(), kinds):
            yield Candidate(record, 0.9, "the end of its id")
    for record in _named(reader, text, kinds, deleted=deleted):
        name = name_of(record).casefold()
        if name == text.casefold():
            yield Candidate(record, 1.0, "its name")
        elif text:
            yield Candidate(record, 0.8, "the beginning of its name")
    for record in reading.search(reader, text, kinds=kinds, limit=_SHOWN):
        yield Candidate(record, 0.5, "its words")


def _ending(reader: Reader, text: str, kinds: Collection[str]) -> Iterator[Record]:
    marks = ", ".join("?" * len(kinds))
    sql = f"SELECT {CONTENT} FROM records WHERE kind IN ({marks}) AND substr(id, ?) = ?"  # noqa: S608
    for row in reader.rows(sql, (*sorted(kinds), -len(text), text)):
        yield read_record(*row)


def _named(reader: Reader, text: str, kinds: Collection[str], *, deleted: bool) -> Iterator[Record]:
    """Records whose name begins like this; of those with its words, if it has any."""
    words = reading.words_expression(text)
    source = "records WHERE"
    params: list[str] = []
    if words is not None and not deleted:
        # In this order: else the words would be looked for once for each record.
        source = f"{_WORDS_FIRST} WHERE record_words MATCH ? AND"
        params = [words]
    marks = ", ".join("?" * len(kinds))
    sql = f"SELECT {CONTENT}, {_NAME} FROM {source} kind IN ({marks}) AND deleted <= ?"  # noqa: S608
    for kind, content, name in reader.rows(sql, (*params, *sorted(kinds), int(deleted))):
        if name.casefold().startswith(text.casefold()):
            yield read_record(kind, content)


def _which(text: str, rivals: list[Candidate]) -> str:
    lines = [
        f"  {short_id(each.record.id)}  {visible(name_of(each.record), keep_newlines=False)}"
        for each in rivals[:_SHOWN]
    ]
    more = f"\n  and {len(rivals) - _SHOWN} more" if len(rivals) > _SHOWN else ""
    told = "\n".join(lines)
    return f"{len(rivals)} records fit {text!r}. Nothing was changed: name one.\n{told}{more}"


def _told(each: Candidate) -> dict[str, str | float]:
    return {
        "id": each.record.id,
        "kind": kind_of(each.record),
        "name": name_of(each.record),
        "confidence": each.confidence,
    }
