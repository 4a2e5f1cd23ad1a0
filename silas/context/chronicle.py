"""`ChronicleStore`: what was said in each conversation, on the disk.

Every statement names one scope; only retention, which reads nothing out loud, goes by age alone.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from silas.context.models import ContextItem, ContextKind, ContextZone
from silas.kernel import TaintLevel, format_timestamp, parse_timestamp
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Reader, Row, Transaction, briefly

_COLUMNS = "entry_id, turn_number, kind, source, content, taint, created_at"
_APPEND = f"""
INSERT INTO chronicle (scope_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope_id, entry_id) DO NOTHING
"""  # noqa: S608 - names of columns only
_RECENT = f"""
SELECT {_COLUMNS} FROM (
    SELECT number, {_COLUMNS} FROM chronicle WHERE scope_id = ? ORDER BY number DESC LIMIT ?
) AS newest ORDER BY number
"""  # noqa: S608
_SINCE = f"""
SELECT {_COLUMNS} FROM chronicle WHERE scope_id = ? AND number > ? ORDER BY number LIMIT ?
"""  # noqa: S608
_TURN_OF = "SELECT turn_number FROM chronicle WHERE scope_id = ? AND entry_id = ?"
_FORGET = "DELETE FROM chronicle WHERE scope_id = ? AND entry_id = ?"
_LAST = "SELECT max(number) FROM chronicle WHERE scope_id = ?"
_OLD = f"""
SELECT number, scope_id, {_COLUMNS} FROM chronicle WHERE created_at < ?
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


class ArchiveSink(Protocol):
    """Where entries go whose retention is over. Absent: they are deleted."""

    async def write(self, entries: Sequence[ArchivedEntry]) -> None:
        """Keep these for good; what was written before a crash may come once more."""
        ...


class Place(NamedTuple):
    """Where the end of a scope's chronicle was before and after an entry was added."""

    before: int
    now: int


class ChronicleStore:
    """The chronicle of every scope."""

    def __init__(self, database: Database, *, sink: ArchiveSink | None = None) -> None:
        self._database = database
        self._sink = sink

    async def append(self, scope_id: str, item: ContextItem) -> Place:
        """Add an entry; one that is there already stays as is."""
        return await briefly(self._database, lambda tx: self.append_in(tx, scope_id, item))

    def append_in(self, tx: Transaction, scope_id: str, item: ContextItem) -> Place:
        """The same in the caller's transaction."""
        before = _end(tx, scope_id)
        added = tx.execute(_APPEND, _values(scope_id, item))
        return Place(before, _end(tx, scope_id) if added else before)

    async def get_recent(self, scope_id: str, limit: int) -> list[ContextItem]:
        """The newest entries, the oldest of them first."""
        rows = await self._database.fetch_all(_RECENT, (scope_id, limit))
        return [_item(row) for row in rows]

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
            tx.execute(_APPEND, _values(scope_id, _note_of_forgetting(max(turns), at)))
        for entry_id in entry_ids:
            tx.execute(_FORGET, (scope_id, entry_id))
        return len(turns)

    async def prune_before(self, cutoff: datetime) -> int:
        """Archive and delete entries that are older; returns how many."""
        moment, pruned = format_timestamp(cutoff), 0
        while rows := await self._database.fetch_all(_OLD, (moment, _BATCH)):
            if self._sink is not None:
                await self._sink.write([_archived(row) for row in rows])
            numbers = [row[0] for row in rows]
            marks = ", ".join("?" * len(numbers))
            pruned += await self._database.execute(
                f"DELETE FROM chronicle WHERE number IN ({marks})",  # noqa: S608 - only marks
                numbers,
            )
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
        format_timestamp(item.created_at),
    )


def _item(row: Row) -> ContextItem:
    entry_id, turn_number, kind, source, content, taint, created_at = row
    return ContextItem(
        ctx_id=entry_id,
        zone=ContextZone.CHRONICLE,
        content=content,
        created_at=parse_timestamp(created_at),
        turn_number=turn_number,
        source=source,
        taint=TaintLevel(taint),
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
