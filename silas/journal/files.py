"""The journal as a file: export and import in JSON, tasks also from todo.txt and CSV.

A file is read and checked whole before anything of it is written. Another journal's records are
counted first, then all of them are merged in one change, or none.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from silas.journal.edit import Edit
from silas.journal.errors import ImportRefused
from silas.journal.models import AnyRecord, Priority, Record, TaskStatus
from silas.journal.operations.records import TaskInput
from silas.journal.records import kind_of, load
from silas.journal.store import Journal
from silas.kernel.errors import TimeNotUnderstood
from silas.kernel.models import Data, UtcDatetime, dotted, problems_in
from silas.kernel.when import local, parse_minutes, parse_moment

_PRIORITIES = {"A": Priority.P0, "B": Priority.P1, "C": Priority.P2}
_TODO = re.compile(
    r"(?P<done>x\s+)?(?:\((?P<priority>[A-Z])\)\s+)?"
    r"(?:\d{4}-\d\d-\d\d\s+){0,2}(?P<rest>.*)"
)
_TAG = re.compile(r"(?:^|\s)([+@]\S+)")
_PAIR = re.compile(r"(?:^|\s)(due|pri|rec|t|h|id):(\S+)")
_COLUMNS = {
    "title",
    "status",
    "priority",
    "due",
    "estimate",
    "category",
    "labels",
    "body",
    "language",
}
_DAY_ENDS = time(23, 59)
_IN_A_RECORD = 2
"""How long the way to a record is in an export: `records`, and its number."""


class JournalFile(Data):
    """What an export holds."""

    format: Literal["silas-journal"] = "silas-journal"
    version: Literal[1] = 1
    host_id: str
    exported_at: UtcDatetime
    records: tuple[AnyRecord, ...]


def write_json(records: Sequence[Record], *, host_id: str, now: datetime) -> dict[str, Any]:
    """The export as JSON data."""
    return {
        "format": "silas-journal",
        "version": 1,
        "host_id": host_id,
        "exported_at": now.isoformat(),
        "records": [each.model_dump(mode="json") for each in records],
    }


def read_json(text: str) -> tuple[AnyRecord, ...]:
    """The records of an export; raises `ImportRefused`."""
    try:
        return JournalFile.model_validate_json(text).records
    except ValidationError as error:
        raise _not_an_export(error) from error


def read_todo_txt(text: str, *, zone: ZoneInfo, category: str | None) -> list[TaskInput]:
    """The tasks of a todo.txt file: `+project` and `@context` become labels."""
    return [
        _todo(line, number, zone=zone, category=category)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]


def read_csv(text: str, *, now: datetime, zone: ZoneInfo, category: str | None) -> list[TaskInput]:
    """The tasks of a table whose first line names its columns; `title` must be among them."""
    rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    columns = {(name or "").strip().lower() for name in rows.fieldnames or ()}
    if "title" not in columns or columns - _COLUMNS:
        known = ", ".join(sorted(_COLUMNS))
        raise ImportRefused(f"The first line must name the columns, title and of these: {known}.")
    return [
        _row(row, number, now=now, zone=zone, category=category)
        for number, row in enumerate(rows, start=2)
    ]


def _todo(line: str, number: int, *, zone: ZoneInfo, category: str | None) -> TaskInput:
    match = _TODO.fullmatch(line.strip())
    rest = match["rest"] if match else line
    pairs: dict[str, str] = dict(_PAIR.findall(rest))
    labels = [tag.removeprefix("+") for tag in _TAG.findall(rest)]
    title = " ".join(_TAG.sub("", _PAIR.sub("", rest)).split())
    letter = (match["priority"] if match else None) or pairs.get("pri", "").upper()
    fields = {
        "title": title,
        "status": TaskStatus.DONE if match and match["done"] else TaskStatus.OPEN,
        "priority": _PRIORITIES.get(letter, Priority.P3) if letter else Priority.P2,
        "due_at": _due_day(pairs["due"], number, zone) if "due" in pairs else None,
        "labels": tuple(dict.fromkeys(labels)),
        "category": category,
    }
    return _task(fields, number)


def _due_day(text: str, number: int, zone: ZoneInfo) -> datetime:
    try:
        return local(datetime.combine(date.fromisoformat(text), _DAY_ENDS), zone)
    except ValueError as error:
        raise ImportRefused(f"Line {number}: {text!r} is not a date.") from error


def _row(
    row: dict[str | Any, Any], number: int, *, now: datetime, zone: ZoneInfo, category: str | None
) -> TaskInput:
    if None in row or None in row.values():
        raise ImportRefused(f"Line {number} has more or fewer values than there are columns.")
    values = {name.strip().lower(): str(value).strip() for name, value in row.items()}
    said = {name: value for name, value in values.items() if value}
    fields: dict[str, Any] = {
        name: said[name] for name in ("title", "body", "language", "category") if name in said
    }
    fields.setdefault("category", category)
    if "status" in said:
        fields["status"] = said["status"].lower().replace(" ", "_")
    if "priority" in said:
        fields["priority"] = said["priority"].upper()
    if "labels" in said:
        fields["labels"] = _labels(said["labels"])
    try:
        if "due" in said:
            fields["due_at"] = parse_moment(said["due"], now=now, zone=zone, day_means="end")
        if "estimate" in said:
            fields["estimate_minutes"] = parse_minutes(said["estimate"])
    except TimeNotUnderstood as error:
        raise ImportRefused(f"Line {number}: {error.message}") from error
    return _task(fields, number)


def _labels(text: str) -> tuple[str, ...]:
    parts: Iterable[str] = (part.strip() for part in re.split("[;,]", text))
    return tuple(dict.fromkeys(part for part in parts if part))


def _task(fields: dict[str, Any], number: int) -> TaskInput:
    try:
        return TaskInput.model_validate(fields)
    except ValidationError as error:
        raise _refused(error, where=f"Line {number}: ") from error


def _not_an_export(error: ValidationError) -> ImportRefused:
    """What is wrong with an export, in one sentence: the first thing, and how many there are."""
    first, places = error.errors()[0], {each["loc"][:2] for each in error.errors()}
    if first["loc"][:1] == ("version",):
        return ImportRefused("This export is of another version of Silas. Nothing was changed.")
    if first["loc"][:1] != ("records",) or len(first["loc"]) < _IN_A_RECORD:
        return ImportRefused("This file is not an export of a journal. Nothing was changed.")
    path, text = problems_in(error)[0]
    named = dotted(path[_IN_A_RECORD:])
    reason = "its kind is not known" if first["type"].startswith("union_tag") else f"{named} {text}"
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    return ImportRefused(
        f"Record {int(first['loc'][1]) + 1} of this file cannot be read: {reason.strip()}{more}. "
        "Nothing was changed."
    )


def _refused(error: ValidationError, where: str = "") -> ImportRefused:
    problems = [f"{dotted(path)}: {text}" for path, text in problems_in(error)]
    more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
    return ImportRefused(f"{where}{'; '.join(problems[:5])}{more}. Nothing was changed.")


class CountedKind(Data):
    """How many records of one kind would be, or were, new or changed."""

    kind: str
    new: int
    changed: int


class TakenIn(Data):
    """What came of a file, or would come of it."""

    preview: bool
    records: int
    """In the file."""
    new: int
    changed: int
    kinds: tuple[CountedKind, ...]
    """Without those of which nothing is new or changed."""


async def take_in(
    journal: Journal, records: Sequence[Record], *, actor: str, preview_only: bool
) -> TakenIn:
    """Merge these records into the journal; a second time changes nothing.

    With `preview_only` it is only counted. If one record cannot be taken, none is.
    """

    def edit(made: Edit) -> dict[str, Any]:
        known = {each.id for each in records if load(made.tx, each.id) is not None}
        for record in records:
            made.merge(record)
        counted = Counter((kind_of(each), each.id in known) for each in made.changed)
        return {"kinds": [[kind, old, count] for (kind, old), count in counted.items()]}

    outcome = await journal.perform(edit, actor=actor, preview_only=preview_only)
    counted = {(kind, old): count for kind, old, count in outcome.payload["kinds"]}
    kinds = tuple(
        CountedKind(
            kind=kind, new=counted.get((kind, False), 0), changed=counted.get((kind, True), 0)
        )
        for kind in sorted({kind for kind, _ in counted})
    )
    return TakenIn(
        preview=preview_only,
        records=len({each.id for each in records}),
        new=sum(each.new for each in kinds),
        changed=sum(each.changed for each in kinds),
        kinds=kinds,
    )
