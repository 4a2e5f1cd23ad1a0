"""`ChronicleStore`: what was said in each conversation, on the disk.

Every statement names one scope; only retention goes by age alone, and hands what is over to
`FileArchive`: a file of lines of JSON each day.
"""

import asyncio
import json
import os
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from silas.context.models import ContextItem, ContextKind, ContextZone
from silas.kernel import (
    CanonicalError,
    Clock,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
)
from silas.kernel.ids import person_of
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Reader, Row, Transaction
from silas.storage.errors import translated
from silas.storage.files import (
    PRIVATE_FILE,
    make_private_directory,
    sync_directory,
    write_private_file,
)

_COLUMNS = "entry_id, turn_number, kind, source, content, taint, sources, created_at"
_APPEND = f"""
INSERT INTO chronicle_entries (scope_id, {_COLUMNS}, words_from, session_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope_id, entry_id) DO NOTHING
"""  # noqa: S608 - names of columns only
_RECENT = f"""
SELECT {_COLUMNS} FROM (
    SELECT number, {_COLUMNS} FROM chronicle_entries WHERE scope_id = ? AND archived = 0
    ORDER BY number DESC LIMIT ?
) AS newest ORDER BY number
"""  # noqa: S608
_SINCE = f"""
SELECT {_COLUMNS} FROM chronicle_entries WHERE scope_id = ? AND number > ? AND archived = 0
ORDER BY number LIMIT ?
"""  # noqa: S608
_TURN_OF = """
SELECT turn_number FROM chronicle_entries WHERE scope_id = ? AND entry_id = ? AND archived = 0
"""
_FORGET = "DELETE FROM chronicle_entries WHERE scope_id = ? AND entry_id = ?"
_LAST = "SELECT max(number) FROM chronicle_entries WHERE scope_id = ?"
_OLD = f"""
SELECT number, scope_id, {_COLUMNS} FROM chronicle_entries WHERE created_at < ? AND archived = 0
ORDER BY created_at, number LIMIT ?
"""  # noqa: S608
_BATCH = 500

FORGOT_ID = "forgot_"
"""What the ids of entries begin with that say that earlier ones were taken out."""

_FORGOT = "[SYSTEM] Something that was said before was forgotten, as the owner wished."


class ArchivedEntry(Data):
    """An entry whose time in the chronicle is over."""

    scope_id: str
    entry_id: str
    turn_number: int
    kind: ContextKind
    source: str
    content: str
    taint: TaintLevel
    created_at: UtcDatetime


class ChroniclePlace(NamedTuple):
    """Where the end of a scope's chronicle was before and after an entry was added."""

    before: int
    now: int


class ChronicleStore:
    """The chronicle of every scope."""

    def __init__(self, database: Database, *, sink: "FileArchive | None" = None) -> None:
        self._database = database
        self._sink = sink

    async def append(self, scope_id: str, item: ContextItem) -> ChroniclePlace:
        """Add an entry; one that is there already stays as is."""
        return await self._database.transaction(
            lambda tx: self.append_in(tx, scope_id, item), brief=True
        )

    def append_in(
        self,
        tx: Transaction,
        scope_id: str,
        item: ContextItem,
        *,
        words_from: int | None = None,
        session_id: str | None = None,
    ) -> ChroniclePlace:
        """The same in the caller's transaction.

        With `words_from`, the entry is the raw record of what was said, from that character on.
        """
        before = _end(tx, scope_id)
        first = words_from + 1 if words_from is not None else None
        added = tx.execute(_APPEND, (*_values(scope_id, item), first, session_id))
        return ChroniclePlace(before, _end(tx, scope_id) if added else before)

    async def since(self, scope_id: str, number: int, *, limit: int) -> list[ContextItem]:
        """Entries behind a place, the oldest first."""
        rows = await self._database.fetch_all(_SINCE, (scope_id, number, limit))
        return [_item(row) for row in rows]

    async def recent_and_end(self, scope_id: str, limit: int) -> tuple[list[ContextItem], int]:
        """The newest entries, and the place behind which the next ones will be."""

        def read(reader: Reader) -> tuple[list[Row], int]:
            return reader.fetch_all(_RECENT, (scope_id, limit)), _end(reader, scope_id)

        rows, end = await self._database.snapshot(read)
        return [_item(row) for row in rows], end

    def forget_in(
        self, tx: Transaction, scope_id: str, entry_ids: Sequence[str], *, at: datetime
    ) -> int:
        """Take entries out for good; returns how many.

        A note is left behind, so that every process which holds them in a context drops that.
        """
        here = [tx.fetch_one(_TURN_OF, (scope_id, entry_id)) for entry_id in entry_ids]
        turns = [row[0] for row in here if row is not None]
        if turns:
            # Before anything goes: its number has to be one that nobody has seen.
            note = _note_of_forgetting(max(turns), at)
            tx.execute(_APPEND, (*_values(scope_id, note), None, None))
        for entry_id in entry_ids:
            tx.execute(_FORGET, (scope_id, entry_id))
        return len(turns)

    async def prune_before(self, cutoff: datetime) -> int:
        """Archive entries that are older; returns how many. Raw records stay, as such alone."""
        moment, pruned = format_timestamp(cutoff), 0
        while rows := await self._database.fetch_all(_OLD, (moment, _BATCH)):
            if self._sink is not None:
                await self._sink.write([_archived(row) for row in rows])
            numbers = [row[0] for row in rows]
            marks = ", ".join("?" * len(numbers))
            named = f"number IN ({marks})"

            def leave(tx: Transaction, named: str = named, numbers: list[int] = numbers) -> None:
                gone = f"DELETE FROM chronicle_entries WHERE {named} AND words_from IS NULL"  # noqa: S608 - only marks
                tx.execute(gone, numbers)
                tx.execute(f"UPDATE chronicle_entries SET archived = 1 WHERE {named}", numbers)  # noqa: S608

            await self._database.transaction(leave)
            pruned += len(rows)
        return pruned


def _note_of_forgetting(turn_number: int, at: datetime) -> ContextItem:
    return ContextItem(
        ctx_id=f"{FORGOT_ID}{format_timestamp(at)}",
        zone=ContextZone.CHRONICLE,
        content=_FORGOT,
        created_at=at,
        turn_number=turn_number,
        source="runtime",
        taint=TaintLevel.OWNER,
        kind=ContextKind.SYSTEM,
    )


def _end(reader: Reader, scope_id: str) -> int:
    row = reader.fetch_one(_LAST, (scope_id,))
    return int(row[0]) if row and row[0] is not None else 0


def _values(scope_id: str, item: ContextItem) -> tuple[str | int, ...]:
    return (
        scope_id,
        item.ctx_id,
        item.turn_number,
        item.kind.value,
        item.source,
        item.content,
        item.taint.value,
        json.dumps(item.sources),
        format_timestamp(item.created_at),
    )


def _item(row: Row) -> ContextItem:
    entry_id, turn_number, kind, source, content, taint, sources, created_at = row
    return ContextItem(
        ctx_id=entry_id,
        zone=ContextZone.CHRONICLE,
        content=content,
        created_at=parse_timestamp(created_at),
        turn_number=turn_number,
        source=source,
        taint=TaintLevel(taint),
        sources=tuple(json.loads(sources)),
        kind=ContextKind(kind),
    )


def _archived(row: Row) -> ArchivedEntry:
    _, scope_id, *rest = row
    item = _item(tuple(rest))
    return ArchivedEntry(
        scope_id=scope_id,
        entry_id=item.ctx_id,
        turn_number=item.turn_number,
        kind=item.kind,
        source=item.source,
        content=item.content,
        taint=item.taint,
        created_at=item.created_at,
    )


_APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class FileArchive:
    """Entries whose retention is over, as lines of JSON, one file a day, for the owner alone."""

    def __init__(self, directory: Path, *, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    async def write(self, entries: Sequence[ArchivedEntry]) -> None:
        """Append these, and return when they are on the disk."""
        lines = b"".join(
            canonical_bytes(entry.model_dump(mode="json")) + b"\n" for entry in entries
        )
        path = self._directory / f"chronicle-{self._clock.now():%Y-%m-%d}.jsonl"
        await asyncio.to_thread(_append, path, lines)

    async def forget(self, scope_id: str, entry_ids: Collection[str]) -> int:
        """Take entries of a person's conversations out of all files for good; returns how many."""
        names = frozenset(entry_ids)

        def goes(entry: dict[str, object]) -> bool:
            mine = person_of(str(entry.get("scope_id"))) == scope_id
            return mine and entry.get("entry_id") in names

        return await asyncio.to_thread(_without, self._directory, goes)

    async def forget_scope(self, scope_id: str) -> int:
        """Take a whole conversation out of all files for good; returns how many entries it had."""
        return await asyncio.to_thread(
            _without, self._directory, lambda entry: entry.get("scope_id") == scope_id
        )


def _without(directory: Path, goes: Callable[[dict[str, object]], bool]) -> int:
    gone = 0
    for path in sorted(directory.glob("chronicle-*.jsonl")):
        with translated(str(path)):
            lines = path.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if not _is_one(line, goes)]
            if len(kept) < len(lines):
                write_private_file(path, b"".join(kept))
        gone += len(lines) - len(kept)
    return gone


def _is_one(line: bytes, goes: Callable[[dict[str, object]], bool]) -> bool:
    try:
        entry = strict_loads(line)
    except (CanonicalError, ValueError):
        return False  # what cannot be read is left to the owner's eyes
    return isinstance(entry, dict) and goes(entry)


def _append(path: Path, lines: bytes) -> None:
    with translated(str(path)):
        make_private_directory(path.parent)
        with os.fdopen(os.open(path, _APPEND_FLAGS, PRIVATE_FILE), "ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
