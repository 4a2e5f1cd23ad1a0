"""Forgetting: what is chosen disappears everywhere, and the audit log keeps only that it happened.

Rows, word index, entities, links, counts and the versions that undo would bring back go in one
transaction, with SQLite told to overwrite
what it frees; vectors go from their table and from the matrix; links of other memories to what was
forgotten are cut. What a message said goes from the chronicle, its archive and the deliveries too
(`Traces`), and contexts that show it are made anew. Trusted memories go only with the owner's
confirmation of exactly those.

What this cannot reach: the write-ahead log until it is folded into the file (at the latest when
Silas ends), backups, and bundles that were exported before.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from silas.approval import ApprovalToken
from silas.kernel import format_timestamp
from silas.memory.changes import versions_in
from silas.memory.errors import MemoryInvalid
from silas.memory.models import MemoryItem, Traces, TrustLevel
from silas.memory.question import content_words
from silas.memory.rows import COLUMNS, Lane, as_list, chosen_records, item_from, remove_records
from silas.memory.store import MemoryStores
from silas.memory.trust import require_confirmed
from silas.storage import Durability, Reader, SqlValue, Transaction

if TYPE_CHECKING:  # importing it needs the extra `vector`
    from silas.memory.vectors import VectorIndex

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
    rows: list[int]
    items: list[MemoryItem]
    """Those of the rows, and raw records."""
    links: int
    said: int
    kept: tuple[str, ...]


class Forgetting:
    """Removes memories of one scope for good."""

    def __init__(
        self,
        memories: MemoryStores,
        scope_id: str,
        *,
        index: "VectorIndex | None" = None,
        traces: Traces | None = None,
    ) -> None:
        self._traces = traces
        self._memories = memories
        self._store = memories.of(scope_id)
        self._scope_id = scope_id
        self._index = index

    async def preview(self, selection: Selection) -> list[MemoryItem]:
        """The memories that would go."""
        lane = await self._store.lane(None)

        def look(reader: Reader) -> list[MemoryItem]:
            found = {item.memory_id: item for _, item in self._chosen(reader, lane, selection)}
            found |= {item.memory_id: item for item in self._records(reader, selection)}
            kept = {item.memory_id: item for _, item in self._versions(reader, selection, found)}
            return list((kept | found).values())

        return await self._memories.database.snapshot(look)

    async def forget(
        self, selection: Selection, *, token: ApprovalToken | None = None
    ) -> Forgotten:
        """Remove them. With a confirmation of the trusted ones, those as well."""
        if token is not None:
            trusted = [item for item in await self.preview(selection) if _is_trusted(item)]
            await require_confirmed(
                self._memories.approvals,
                token,
                action="forget",
                scope_id=self._scope_id,
                items=trusted,
            )
        lane = await self._store.lane(None)
        removed = await self._memories.database.transaction(
            lambda tx: self._remove(tx, lane, selection, confirmed=token is not None),
            durability=Durability.TRUST,
        )
        rows, said = removed.rows, removed.said
        self._memories.access.forget(rows)
        self._memories.reworded.difference_update(rows)
        vectors = await self._index.forget(rows) if self._index is not None and rows else 0
        if self._traces is not None and removed.items:
            said += await self._traces.forget_files(self._scope_id, removed.items)
        return Forgotten(len(removed.items), vectors, removed.links, said, removed.kept)

    def _remove(
        self, tx: Transaction, lane: Lane, selection: Selection, *, confirmed: bool
    ) -> _Removed:
        found = self._chosen(tx, lane, selection)
        going = [(row, item) for row, item in found if confirmed or not _is_trusted(item)]
        kept = tuple(item.memory_id for _, item in found if not confirmed and _is_trusted(item))
        records = self._records(tx, selection)
        rows, items = [row for row, _ in going], [*(item for _, item in going), *records]
        names = [item.memory_id for item in items]
        tx.execute("PRAGMA secure_delete = ON")
        remove_records(tx, self._scope_id, [item.memory_id for item in records])
        tx.execute(
            "DELETE FROM memory_items WHERE id IN (SELECT value FROM json_each(?))",
            (as_list(rows),),
        )
        old = [name for name, _ in self._versions(tx, selection, names)]
        tx.execute(
            "DELETE FROM memory_changes WHERE change_id IN (SELECT value FROM json_each(?))",
            (as_list(old),),
        )
        links = len(tx.fetch_all(f"{_CUT} RETURNING id", (as_list(names), *lane.bounds)))
        said = 0
        if self._traces is not None and items:
            said = self._traces.forget_in(tx, self._scope_id, items)
        if items or old:
            _overwrite_free_pages(tx)
        tx.execute("PRAGMA secure_delete = FAST")
        if self._memories.audit is not None and (items or old):
            data = {
                "scope_id": self._scope_id,
                "chosen_by": selection.ways(),
                "memories": len(items),
                "memory_ids": names[:_TOLD_IDS],
                "old_versions": len(old),
            }
            self._memories.audit.append(tx, "memory_forgotten", data)
        return _Removed(rows, items, links, said, kept)

    def _versions(
        self, reader: Reader, selection: Selection, going: Collection[str]
    ) -> list[tuple[str, MemoryItem]]:
        """What is kept to undo changes, of what goes and of what fits itself."""
        return [
            (name, item)
            for name, item in versions_in(reader, self._scope_id)
            if item.memory_id in going or _fits(item, selection)
        ]

    def _records(self, reader: Reader, selection: Selection) -> list[MemoryItem]:
        """What was said that fits."""
        conditions, params = _conditions(selection, number="m.number", words="chronicle_words")
        prepare = self._memories.intake.prepared
        return chosen_records(reader, self._scope_id, conditions, params, prepare=prepare)

    def _chosen(
        self, reader: Reader, lane: Lane, selection: Selection
    ) -> list[tuple[int, MemoryItem]]:
        conditions, params = _conditions(selection, number="m.id", words="memory_words")
        sql = (
            f"SELECT m.id, {COLUMNS} FROM memory_items AS m WHERE m.id BETWEEN ? AND ? {conditions}"  # noqa: S608 - names and fixed conditions only
        )
        rows = reader.fetch_all(sql, (*lane.bounds, *params))
        return [(row[0], item_from(self._scope_id, row[1:])) for row in rows]


def _fits(item: MemoryItem, selection: Selection) -> bool:
    """The same for a version that is no row any more."""
    if not selection.ways():
        return False
    words = content_words(selection.query) if selection.query else []
    text = " ".join([item.content, *item.semantic_tags]).casefold()
    return (
        (not selection.ids or item.memory_id in selection.ids)
        and all(word in text for word in words)
        and selection.source in (None, "", item.source_kind)
        and (selection.since is None or item.created_at >= selection.since)
        and (selection.until is None or item.created_at < selection.until)
    )


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


def _conditions(selection: Selection, *, number: str, words: str) -> tuple[str, list[SqlValue]]:
    """The conditions after the range of ids. All words of a query must be in the index `words`."""
    parts: list[str] = []
    params: list[SqlValue] = []
    if selection.ids:
        parts.append("AND m.memory_id IN (SELECT value FROM json_each(?))")
        params.append(as_list(selection.ids))
    if selection.query is not None:
        wanted = content_words(selection.query)
        if not wanted:
            raise MemoryInvalid("The query has no words. Name what is to be forgotten.")
        parts.append(f"AND {number} IN (SELECT rowid FROM {words} WHERE {words} MATCH ?)")  # noqa: S608
        params.append(" AND ".join(f'"{word}"' for word in wanted))
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
