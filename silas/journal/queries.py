"""Asking the journal: each query runs beside the writer, on one consistent view."""

import json
from collections.abc import Callable, Collection, Sequence
from datetime import date, datetime
from typing import Any, TypeVar

from silas.journal import reading
from silas.journal.belonging import as_seen
from silas.journal.errors import RecordUnknown
from silas.journal.models import (
    OWNER,
    AccessScope,
    Category,
    Checklist,
    ChecklistItem,
    DayBlock,
    DayPlan,
    Note,
    Rating,
    Record,
    Task,
    TaskStatus,
    TimeEntry,
)
from silas.journal.rows import load
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Reader

T = TypeVar("T")
R = TypeVar("R", bound=Record)

_MOST_COMMITS = 5_000
_HISTORY = """
SELECT h.number, h.before, h.after, h.host_id, h.counter, b.actor, b.operation_id, b.at
FROM history AS h JOIN batches AS b ON b.cursor = h.batch
WHERE h.record_id = ? ORDER BY h.number
"""


class HistoryEntry(Data):
    """One write of a record."""

    number: int
    at: UtcDatetime
    actor: str
    operation_id: str | None
    host_id: str
    counter: int
    before: dict[str, Any] | None
    after: dict[str, Any]


class Queries:
    """The reading half of a journal. `categories` limits what is found; None is everything."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, body: Callable[[Reader], T]) -> T:
        """Several queries of `reading` on one consistent view."""
        return await self._database.snapshot(body)

    async def newest_changes(self, after: int) -> dict[str, int]:
        """By category, the place of its newest change after this one.

        Of more than a few thousand commits only the newest are looked at.
        """
        return await self.read(lambda view: reading.newest_changes(view, after, most=_MOST_COMMITS))

    async def find(
        self, kind: type[R], record_id: str, *, scope: AccessScope = OWNER, deleted: bool = False
    ) -> R | None:
        """The record, or None if there is none of this kind that the scope includes."""

        def look(reader: Reader) -> R | None:
            found = load(reader, record_id)
            if not isinstance(found, kind) or (found.deleted and not deleted):
                return None
            return as_seen(reader, found, scope)

        return await self.read(look)

    async def get(
        self, kind: type[R], record_id: str, *, scope: AccessScope = OWNER, deleted: bool = False
    ) -> R:
        """The record; raises `RecordUnknown`."""
        found = await self.find(kind, record_id, scope=scope, deleted=deleted)
        if found is None:
            raise RecordUnknown(record_id=record_id)
        return found

    async def get_many(
        self, record_ids: Collection[str], *, scope: AccessScope = OWNER
    ) -> list[Record]:
        """Those of these records that there are, tombstones as well, in the order asked for."""

        def look(reader: Reader) -> list[Record]:
            found = (load(reader, each) for each in dict.fromkeys(record_ids))
            seen = (as_seen(reader, each, scope) for each in found if each is not None)
            return [each for each in seen if each is not None]

        return await self.read(look)

    async def categories(self) -> list[Category]:
        """All categories, by name."""
        return await self.read(reading.categories)

    async def list_tasks(
        self,
        *,
        categories: Collection[str] | None = None,
        status: Collection[TaskStatus] | None = None,
        due_before: datetime | None = None,
        labels: Collection[str] = (),
        limit: int | None = None,
    ) -> list[Task]:
        """Tasks, the most pressing first; without `status` those that are not closed."""
        return await self.read(
            lambda reader: reading.tasks(
                reader,
                limit_to=categories,
                status=status,
                due_before=due_before,
                labels=labels,
                limit=limit,
            )
        )

    async def checklists_of(self, task_id: str) -> list[tuple[Checklist, list[ChecklistItem]]]:
        """The checklists of a task, each with its items in their order."""
        return await self.read(lambda reader: reading.checklists_of(reader, task_id))

    async def running_timer(self) -> TimeEntry | None:
        """The timer that runs."""
        return await self.read(reading.running_timer)

    async def time_entries(
        self,
        since: datetime,
        until: datetime,
        *,
        categories: Collection[str] | None = None,
        task_id: str | None = None,
    ) -> list[TimeEntry]:
        """What was worked on between the two, in its order."""
        return await self.read(
            lambda reader: reading.time_entries(
                reader, since, until, limit_to=categories, task_id=task_id
            )
        )

    async def day_plan(
        self, day: date, *, categories: Collection[str] | None = None
    ) -> tuple[DayPlan, list[DayBlock]] | None:
        """The plan of a day with its blocks; a limited view has only its own blocks and pins."""

        def look(reader: Reader) -> tuple[DayPlan, list[DayBlock]] | None:
            plan = reading.day_plan(reader, day)
            if plan is None:
                return None
            allowed = None if categories is None else frozenset(categories)
            shown = as_seen(reader, plan, AccessScope(allowed_category_ids=allowed)) or plan
            return shown, reading.blocks_of(reader, plan.id, limit_to=categories)

        return await self.read(look)

    async def ratings(
        self,
        *,
        target_id: str | None = None,
        dimension: str | None = None,
        since: datetime | None = None,
        categories: Collection[str] | None = None,
    ) -> list[Rating]:
        """Ratings, the newest first."""
        return await self.read(
            lambda reader: reading.ratings(
                reader,
                target_id=target_id,
                dimension=dimension,
                since=since,
                limit_to=categories,
            )
        )

    async def notes(
        self, *, categories: Collection[str] | None = None, limit: int | None = None
    ) -> list[Note]:
        """Notes, the newest first."""
        return await self.read(
            lambda reader: reading.notes(reader, limit_to=categories, limit=limit)
        )

    async def search(
        self,
        text: str,
        *,
        categories: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
        limit: int = 20,
    ) -> list[Record]:
        """Records with all of these words, the best first; the last word may be its beginning."""
        return await self.read(
            lambda reader: reading.search(
                reader, text, limit_to=categories, kinds=kinds, limit=limit
            )
        )

    async def history(self, record_id: str) -> list[HistoryEntry]:
        """Every write of a record, the first one first."""
        rows = await self._database.fetch_all(_HISTORY, (record_id,))
        return [
            HistoryEntry(
                number=number,
                at=datetime.fromisoformat(at),
                actor=actor,
                operation_id=operation,
                host_id=host,
                counter=counter,
                before=json.loads(before) if before else None,
                after=json.loads(after),
            )
            for number, before, after, host, counter, actor, operation, at in rows
        ]

    async def export(self) -> Sequence[Record]:
        """Every record, tombstones as well."""
        return await self.read(lambda reader: list(reading.everything(reader)))
