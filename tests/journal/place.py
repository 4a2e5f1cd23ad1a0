"""A journal to try things on, and short ways to say what is done to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silas.journal import OWNER, AccessScope, Journal, NotificationBatch, Outcome, dispatch
from silas.kernel import IdFactory
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing.fakes import FakeClock, with_schema


@dataclass
class Place:
    journal: Journal
    database: SqliteDatabase
    clock: FakeClock
    heard: list[NotificationBatch]

    async def do(
        self,
        operation: str,
        /,
        *,
        scope: AccessScope = OWNER,
        operation_id: str | None = None,
        preview_only: bool = False,
        **arguments: Any,
    ) -> Outcome:
        return await dispatch.call(
            self.journal,
            operation,
            arguments,
            scope=scope,
            actor="owner",
            operation_id=operation_id,
            preview_only=preview_only,
        )

    async def category(self, name: str) -> str:
        return str((await self.do("create_category", name=name)).payload["category_id"])

    async def task(self, title: str, category_id: str | None = None, **fields: Any) -> str:
        made = await self.do("create_task", title=title, category_id=category_id, **fields)
        return str(made.payload["task_id"])

    async def told(self) -> list[NotificationBatch]:
        """What the listener has heard since it was last asked."""
        await self.journal.settled()
        heard, self.heard[:] = list(self.heard), []
        return heard


@asynccontextmanager
async def opened(path: Path, clock: FakeClock | None = None) -> AsyncIterator[Place]:
    clock = clock or FakeClock()
    database = SqliteDatabase.open(with_schema(path, "journal"))
    await migrate(database, load_migrations("journal"), clock=clock)
    journal = await Journal.open(database, clock=clock, ids=IdFactory(clock))
    heard: list[NotificationBatch] = []
    journal.subscribe(heard.append)
    try:
        yield Place(journal, database, clock, heard)
        await journal.settled()
    finally:
        await database.close()


def only(*category_ids: str) -> AccessScope:
    return AccessScope(allowed_category_ids=frozenset(category_ids))
