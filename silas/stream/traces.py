"""What a conversation leaves elsewhere, for the packages below: its texts, and its work.

`ConversationTraces` is where a message leaves its text besides the memory, and how it is taken out
of there. A memory that was kept from a message is called `raw_MESSAGE.in` or `.out`, one that left
the context `ctx_ENTRY`. The chronicle, its archive and what a page was shown know the same ids.
What was delivered has an id of its own: it goes by its text.

`ConversationWork` is the work of a conversation as its context sees it: files that are worked on,
plans that ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from silas.context.chronicle import ChronicleStore, FileArchive
from silas.context.models import PlannedWork, WorkFile
from silas.kernel import Clock, Provenance, join_taint
from silas.memory.models import MemoryItem
from silas.memory.rows import as_list
from silas.storage import Database, Transaction
from silas.stream.offers import is_undo
from silas.stream.store import ConversationStore
from silas.tools.files import ReadArguments
from silas.work import ToolLedger, WorkItemStore
from silas.work.models import ENDED_WELL, WorkItem, WorkItemStatus
from silas.work.origins import OriginStore

_MAX_ITEMS = 5
_MAX_CALLS = 50
_MAX_FILES = 5
_ENDED = ENDED_WELL | {WorkItemStatus.FAILED, WorkItemStatus.REPLACED}
_WHOLE_FILE_LINES = ReadArguments(path="any").max_lines
_RAW, _LEFT, _SAID = "raw_", "ctx_", "said_"
_ENDS = (".in", ".out")
_SCOPES = """
SELECT DISTINCT scope_id FROM chronicle_entries
WHERE substr(scope_id, 1, instr(scope_id || '#', '#') - 1) = ?
    AND entry_id IN (SELECT value FROM json_each(?))
"""
_DELIVERED = """
DELETE FROM deliveries WHERE connection_id = ?
    AND json_extract(message, '$.content') IN (SELECT value FROM json_each(?))
"""
_TOLD = "DELETE FROM said WHERE message_id IN (SELECT value FROM json_each(?))"


class ConversationTraces:
    """`silas.memory.models.Traces` of one data directory."""

    def __init__(self, database: Database, archive: FileArchive, *, clock: Clock) -> None:
        self._clock = clock
        self._chronicle = ChronicleStore(database)
        self._archive = archive

    def forget_in(self, tx: Transaction, scope_id: str, memories: Sequence[MemoryItem]) -> int:
        """Erase the entries, what a page was shown of them, and what was delivered.

        The scope is a person's: what was said in each of their conversations goes.
        """
        entries = list(_entries(memories))
        messages = [name.removeprefix(_SAID).rpartition(".")[0] for name in entries]
        texts = [item.content for item in memories if item.memory_id.startswith(_RAW)]
        gone = tx.execute(_TOLD, (as_list(messages),))
        gone += tx.execute(_DELIVERED, (scope_id, as_list(texts)))
        for (scope,) in tx.fetch_all(_SCOPES, (scope_id, as_list(entries))):
            gone += self._chronicle.forget_in(tx, scope, entries, at=self._clock.now())
        return gone

    async def forget_files(self, scope_id: str, memories: Sequence[MemoryItem]) -> int:
        """Erase the entries from the archive."""
        entries = list(_entries(memories))
        return await self._archive.forget(scope_id, entries) if entries else 0


def _entries(memories: Sequence[MemoryItem]) -> Iterator[str]:
    """The ids in the chronicle of what these memories were kept from."""
    for item in memories:
        name = item.memory_id
        if name.startswith(_RAW) and name.endswith(_ENDS):
            yield f"{_SAID}{name.removeprefix(_RAW)}"
        elif name.startswith(f"{_LEFT}{_SAID}"):
            yield name.removeprefix(_LEFT)


class ConversationWork:
    """`OngoingWork` from the stores of work and of conversations."""

    def __init__(
        self,
        conversations: ConversationStore,
        items: WorkItemStore,
        ledger: ToolLedger,
        *,
        origins: OriginStore,
    ) -> None:
        self._conversations = conversations
        self._items = items
        self._ledger = ledger
        self._origins = origins

    async def planned(self, scope_id: str) -> list[PlannedWork]:
        """The last plans with their texts; undoing something is no plan of anybody's."""
        found = []
        for name in await self._conversations.planned(scope_id, most=_MAX_ITEMS):
            item = await self._items.get(name)
            if item is not None and item.created_at is not None and not is_undo(item):
                found.append(await self._planned(item, item.created_at))
        return found

    async def _planned(self, item: WorkItem, created_at: datetime) -> PlannedWork:
        taint = await self._conversations.taint_of(item)
        known = await self._origins.of_work([item.id])
        return PlannedWork(
            item.id,
            f"id: {item.id}\ntitle: {item.title}\nstatus: {item.status.value}\n\n{item.body}",
            created_at,
            Provenance(join_taint(taint, known.taint), known.sources),
            f"{item.title}: {item.status.value}." if item.status in _ENDED else "",
        )

    async def files(self, scope_id: str) -> list[WorkFile]:
        """Those that plans name or calls touched, of the newest work first; not too many."""
        found: dict[WorkFile, None] = {}
        for name in await self._conversations.goes_on(scope_id, most=_MAX_ITEMS):
            item = await self._items.get(name)
            if item is not None and item.workspace is not None and item.workspace.path:
                found.update(dict.fromkeys(await self._of(item, Path(item.workspace.path))))
        return list(found)[:_MAX_FILES]

    async def ended(self, work_item_ids: Sequence[str]) -> list[str]:
        """Those that are done or given up, or were removed."""
        items = [await self._items.get(name) for name in work_item_ids]
        return [
            name
            for name, item in zip(work_item_ids, items, strict=True)
            if item is None or item.status in _ENDED
        ]

    async def _of(self, item: WorkItem, directory: Path) -> list[WorkFile]:
        calls = await self._ledger.file_calls(item.id, item.attempts, most=_MAX_CALLS)
        touched = [_touched(item.id, directory, args) for _, args in calls]
        named = item.workspace.files if item.workspace else {}
        return [*touched, *(WorkFile(item.id, str(directory / name)) for name in named)]


def _touched(work_item_id: str, directory: Path, args: Mapping[str, Any]) -> WorkFile:
    path = str(directory / str(args.get("path", "")))
    first, many = args.get("first_line", 1), args.get("max_lines", _WHOLE_FILE_LINES)
    if first == 1 and many == _WHOLE_FILE_LINES:
        return WorkFile(work_item_id, path)
    return WorkFile(work_item_id, f"{path}:{first}-{first + many - 1}", is_range=True)
