"""Where a message leaves its text besides the memory, and how it is taken out of there.

A memory that was kept from a message is called `raw_MESSAGE.in` or `.out`, one that left the
context `ctx_ENTRY`. The chronicle, its archive and what a page was shown know the same ids. What
was delivered has an id of its own: it goes by its text.
"""

from collections.abc import Iterator, Sequence

from silas.app.ground import Ground
from silas.context.archive import FileArchive
from silas.context.chronicle import ChronicleStore
from silas.memory.models import MemoryItem
from silas.memory.rows import as_list
from silas.storage import Transaction

_RAW, _LEFT, _SAID = "raw_", "ctx_", "said_"
_ENDS = (".in", ".out")
_DELIVERED = """
DELETE FROM deliveries WHERE scope_id = ?
    AND json_extract(message, '$.content') IN (SELECT value FROM json_each(?))
"""
_TOLD = "DELETE FROM said WHERE message_id IN (SELECT value FROM json_each(?))"


class ConversationTraces:
    """`silas.memory.ports.Traces` of one data directory."""

    def __init__(self, ground: Ground) -> None:
        self._clock = ground.clock
        self._chronicle = ChronicleStore(ground.database)
        self._archive = FileArchive(ground.paths.archive, clock=ground.clock)

    def forget_in(self, tx: Transaction, scope_id: str, memories: Sequence[MemoryItem]) -> int:
        """Erase the entries, what a page was shown of them, and what was delivered."""
        entries = list(_entries(memories))
        messages = [name.removeprefix(_SAID).rpartition(".")[0] for name in entries]
        texts = [item.content for item in memories if item.memory_id.startswith(_RAW)]
        gone = tx.execute(_TOLD, (as_list(messages),))
        gone += tx.execute(_DELIVERED, (scope_id, as_list(texts)))
        return gone + self._chronicle.forget_in(tx, scope_id, entries, at=self._clock.now())

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
