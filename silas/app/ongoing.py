"""The work of a conversation as its context sees it: files that are worked on, plans that ended."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from silas.app.ground import Ground
from silas.app.work import WorkStores, work_stores
from silas.context.ports import WorkFile
from silas.stream.store import ConversationStore
from silas.work.executors.read_file import ReadArguments
from silas.work.models import WorkItem, WorkItemStatus

_MOST_ITEMS = 5
_MOST_CALLS = 50
_MOST_FILES = 5
_ENDED = frozenset({WorkItemStatus.DONE, WorkItemStatus.FAILED})
_WHOLE = ReadArguments(path="any").max_lines


class ConversationWork:
    """`OngoingWork` from the stores of work and of conversations."""

    def __init__(self, conversations: ConversationStore, stores: WorkStores) -> None:
        self._conversations = conversations
        self._stores = stores

    async def files(self, scope_id: str) -> list[WorkFile]:
        """Those that plans name or calls touched, of the newest work first; not too many."""
        found: dict[WorkFile, None] = {}
        for name in await self._conversations.goes_on(scope_id, most=_MOST_ITEMS):
            item = await self._stores.items.get(name)
            if item is not None and item.workspace is not None and item.workspace.path:
                found.update(dict.fromkeys(await self._of(item, Path(item.workspace.path))))
        return list(found)[:_MOST_FILES]

    async def ended(self, work_item_ids: Sequence[str]) -> list[str]:
        """Those that are done or given up, or were removed."""
        items = [await self._stores.items.get(name) for name in work_item_ids]
        return [
            name
            for name, item in zip(work_item_ids, items, strict=True)
            if item is None or item.status in _ENDED
        ]

    async def _of(self, item: WorkItem, directory: Path) -> list[WorkFile]:
        calls = await self._stores.ledger.file_calls(item.id, item.attempts, most=_MOST_CALLS)
        touched = [_touched(item.id, directory, args) for _, args in calls]
        named = item.workspace.files if item.workspace else {}
        return [*touched, *(WorkFile(item.id, str(directory / name)) for name in named)]


def _touched(work_item_id: str, directory: Path, args: Mapping[str, Any]) -> WorkFile:
    path = str(directory / str(args.get("path", "")))
    first, many = args.get("first_line", 1), args.get("max_lines", _WHOLE)
    if first == 1 and many == _WHOLE:
        return WorkFile(work_item_id, path)
    return WorkFile(work_item_id, f"{path}:{first}-{first + many - 1}", is_range=True)


def ongoing_work(ground: Ground) -> ConversationWork:
    """The work on this ground floor."""
    return ConversationWork(ConversationStore(ground.database, ground.clock), work_stores(ground))
