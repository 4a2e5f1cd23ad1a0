"""Forgetting: what is chosen disappears everywhere, and the audit log keeps only that it happened.

Rows, word index, entities, links and counts go in one transaction, with SQLite told to overwrite
what it frees; vectors go from their table and from the matrix; links of other memories to what was
forgotten are cut. What a message said goes from the chronicle, its archive and the deliveries too
(`Traces`), and contexts that show it are made anew. Trusted memories go only with the owner's
confirmation of exactly those.

What this cannot reach: the write-ahead log until it is folded into the file (at the latest when
Silas ends), backups, and bundles that were exported before.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from silas.approval import ApprovalToken
from silas.kernel import format_timestamp
from silas.memory.confirmations import require_confirmed
from silas.memory.errors import MemoryInvalid
from silas.memory.models import MemoryItem, TrustLevel
from silas.memory.ports import Index, Traces
from silas.memory.query_words import content_words
from silas.memory.rows import COLUMNS, Lane, as_list, item_from
from silas.memory.store import Memories
from silas.storage import Durability, Reader, SqlValue, Transaction

_TOLD_IDS = 100
_PAGES_AT_ONCE = 1000
_MOST_PAGES = 250_000
_CUT = """
UPDATE memory_items SET
    temporal_next = CASE WHEN temporal_next IN (SELECT value FROM json_each(?1)) THEN NULL
                    ELSE temporal_next END,
    temporal_prev = CASE WHEN temporal_prev IN (SELECT value FROM json_each(?1)) THEN NULL
                    ELSE temporal_prev END,
    causal_refs = (SELECT json_group_array(value) FROM json_each(causal_refs)
                   WHERE value NOT IN (SELECT value FROM json_each(?1)))
WHERE id BETWEEN ?2 AND ?3 AND (
    temporal_next IN (SELECT value FROM json_each(?1))
    OR temporal_prev IN (SELECT value FROM json_each(?1))
    OR id IN (SELECT item FROM memory_causes WHERE cause IN (SELECT value FROM json_each(?1))))
"""


@dataclass(frozen=True)
class Selection:
    """Which memories of a scope are meant, in both lanes. All that is given must hold."""

    ids: tuple[str, ...] = ()
    query: str | None = None
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def ways(self) -> list[str]:
        """How they were chosen; the words of the query are not told."""
        return [name for name, value in vars(self).items() if value]


@dataclass(frozen=True)
class Forgotten:
    """What was removed, and what stayed because it is trusted and nobody confirmed."""

    memories: int
    vectors: int
    links: int
    said: int
    """Entries of conversations and deliveries."""
    kept: tuple[str, ...]


class _Removed(NamedTuple):
    going: list[tuple[int, MemoryItem]]
    links: int
    said: int
    kept: tuple[str, ...]


class Forgetting:
    """Removes memories of one scope for good."""

    def __init__(
        self,
        memories: Memories,
        scope_id: str,
        *,
        index: Index | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._traces = traces
        self._keeping = memories.keeping
        self._store = memories.of(scope_id)
        self._scope_id = scope_id
        self._index = index

    async def preview(self, selection: Selection) -> list[MemoryItem]:
        """The memories that would go."""
        lane = await self._store.lane(None)
        found = await self._keeping.database.snapshot(
            lambda reader: self._chosen(reader, lane, selection)
        )
        return [item for _, item in found]

    async def forget(
        self, selection: Selection, *, token: ApprovalToken | None = None
    ) -> Forgotten:
        """Remove them. With a confirmation of the trusted ones, those as well."""
        if token is not None:
            trusted = [item for item in await self.preview(selection) if _is_trusted(item)]
            await require_confirmed(
                self._keeping.approvals,
                token,
                action="forget",
                scope_id=self._scope_id,
                items=trusted,
            )
        lane = await self._store.lane(None)
        removed = await self._keeping.database.transaction(
            lambda tx: self._remove(tx, lane, selection, confirmed=token is not None),
            durability=Durability.TRUST,
        )
        rows, said = [row for row, _ in removed.going], removed.said
        self._keeping.access.forget(rows)
        self._keeping.reworded.difference_update(rows)
        vectors = await self._index.forget(rows) if self._index is not None and rows else 0
        if self._traces is not None and rows:
            going = [item for _, item in removed.going]
            said += await self._traces.forget_files(self._scope_id, going)
        return Forgotten(len(rows), vectors, removed.links, said, removed.kept)

    def _remove(
        self, tx: Transaction, lane: Lane, selection: Selection, *, confirmed: bool
    ) -> _Removed:
        found = self._chosen(tx, lane, selection)
        going = [(row, item) for row, item in found if confirmed or not _is_trusted(item)]
        kept = tuple(item.memory_id for _, item in found if not confirmed and _is_trusted(item))
        rows = [row for row, _ in going]
        names = [item.memory_id for _, item in going]
        tx.execute("PRAGMA secure_delete = ON")
        tx.execute(
            "DELETE FROM memory_items WHERE id IN (SELECT value FROM json_each(?))",
            (as_list(rows),),
        )
        links = len(tx.fetch_all(f"{_CUT} RETURNING id", (as_list(names), *lane.bounds)))
        said = 0
        if self._traces is not None and going:
            said = self._traces.forget_in(tx, self._scope_id, [item for _, item in going])
        if going:
            _overwrite_free_pages(tx)
        tx.execute("PRAGMA secure_delete = FAST")
        if self._keeping.audit is not None and rows:
            data = {
                "scope_id": self._scope_id,
                "chosen_by": selection.ways(),
                "memories": len(rows),
                "memory_ids": names[:_TOLD_IDS],
            }
            self._keeping.audit.append(tx, "memory_forgotten", data)
        return _Removed(going, links, said, kept)

    def _chosen(
        self, reader: Reader, lane: Lane, selection: Selection
    ) -> list[tuple[int, MemoryItem]]:
        conditions, params = _conditions(selection)
        sql = (
            f"SELECT m.id, {COLUMNS} FROM memory_items AS m WHERE m.id BETWEEN ? AND ? {conditions}"  # noqa: S608 - names and fixed conditions only
        )
        rows = reader.fetch_all(sql, (*lane.bounds, *params))
        return [(row[0], item_from(self._scope_id, row[1:])) for row in rows]


def _overwrite_free_pages(tx: Transaction) -> None:
    """Pages that earlier changes gave up may still hold copies: use them once, for nothing."""
    row = tx.fetch_one(
        "SELECT freelist_count, page_size FROM pragma_freelist_count, pragma_page_size"
    )
    pages, size = row or (0, 0)
    if not pages:
        return
    tx.execute("CREATE TABLE memory_overwriting (zeros BLOB)")
    for start in range(0, min(pages, _MOST_PAGES), _PAGES_AT_ONCE):
        many = min(_PAGES_AT_ONCE, pages - start)
        tx.execute("INSERT INTO memory_overwriting VALUES (zeroblob(?))", (many * (size - 4),))
    tx.execute("DROP TABLE memory_overwriting")


def _is_trusted(item: MemoryItem) -> bool:
    return item.trust_level is not TrustLevel.WORKING


def _conditions(selection: Selection) -> tuple[str, list[SqlValue]]:
    """The conditions after the range of ids. All words of a query must be there."""
    parts: list[str] = []
    params: list[SqlValue] = []
    if selection.ids:
        parts.append("AND m.memory_id IN (SELECT value FROM json_each(?))")
        params.append(as_list(selection.ids))
    if selection.query is not None:
        words = content_words(selection.query)
        if not words:
            raise MemoryInvalid("The query has no words. Name what is to be forgotten.")
        parts.append("AND m.id IN (SELECT rowid FROM memory_words WHERE memory_words MATCH ?)")
        params.append(" AND ".join(f'"{word}"' for word in words))
    if selection.source is not None:
        parts.append("AND m.source_kind = ?")
        params.append(selection.source)
    if selection.since is not None:
        parts.append("AND m.created_at >= ?")
        params.append(format_timestamp(selection.since))
    if selection.until is not None:
        parts.append("AND m.created_at < ?")
        params.append(format_timestamp(selection.until))
    if not parts:
        raise MemoryInvalid("Say what is to be forgotten: ids, a query, a source or a time.")
    return " ".join(parts), params
