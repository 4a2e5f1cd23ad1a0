"""A memory on a fresh database, with an owner who can confirm."""

import itertools
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from silas.approval import ApprovalToken
from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem
from silas.memory.store import MemoryStore, MemoryStores
from silas.memory.trust import CONFIRMATION, MemoryClaim
from tests.approval.desk import YES, Desk, open_desk

_numbers = itertools.count(1)
_made: list[bytes] = []
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_memory(content: str = "Anna likes tea.", **fields: Any) -> MemoryItem:
    """A memory of the owner's, unless told otherwise."""
    known = {
        "memory_id": f"mem_{next(_numbers)}",
        "content": content,
        "taint": TaintLevel.OWNER,
        "created_at": NOON,
        "updated_at": NOON,
    }
    return MemoryItem(**{**known, **fields})


@dataclass
class Room:
    """What the tests of this room work with."""

    desk: Desk
    memories: MemoryStores

    @property
    def store(self) -> MemoryStore:
        return self.memories.of("owner")

    async def confirm(self, action: str, *items: MemoryItem, scope: str = "owner") -> ApprovalToken:
        """The owner looks at exactly this and says yes."""
        claim = MemoryClaim(action, scope, items)
        return await self.desk.engine.issue_token(claim, YES, CONFIRMATION)

    async def count(self, table: str) -> int:
        row = await self.desk.database.fetch_one(f"SELECT COUNT(*) FROM {table}")
        assert row is not None
        return row[0]


async def _empty_database() -> bytes:
    """A database after all migrations: made once, as that takes longer than most tests."""
    if not _made:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "silas.db"
            desk = await open_desk(path)
            await desk.database.close()
            _made.append(path.read_bytes())
    return _made[0]


async def open_room(path: Path) -> Room:
    if not path.exists():
        path.write_bytes(await _empty_database())
    desk = await open_desk(path)
    memories = MemoryStores(
        desk.database, clock=desk.clock, audit=desk.audit, approvals=desk.engine
    )
    return Room(desk, memories)
