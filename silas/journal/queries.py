"""Every query of the journal, each on one consistent view, beside the writer.

`limit_to` and `categories` limit a result to what belongs to one of these categories; None means
all. A record without a category is only found without a limit.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date, datetime
from typing import Any, TypeVar

from silas.journal.errors import RecordUnknown
from silas.journal.models import (
    CLOSED,
    OWNER,
    AccessScope,
    Category,
    Checklist,
    ChecklistItem,
    DayBlock,
    DayPlan,
    Link,
    Note,
    Rating,
    Record,
    Task,
    TaskStatus,
    TimeEntry,
    day_plan_id,
)
from silas.journal.records import CONTENT, as_seen, category_of, load, may_see, read_record
from silas.kernel import format_timestamp, parse_timestamp
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Reader, SqlValue

R = TypeVar("R", bound=Record)
Categories = Collection[str] | None
_MOST_WORDS = 16
_WORD = re.compile(r"\w+")
_LIVE = f"SELECT {CONTENT} FROM records WHERE deleted = 0 AND "  # noqa: S608 - names only
_RUNNING = f"""
SELECT {CONTENT} FROM records INDEXED BY records_running
WHERE kind = 'time_entry' AND until IS NULL AND deleted = 0
"""  # noqa: S608
_SPENT = f"""
SELECT {CONTENT} FROM records INDEXED BY records_until
WHERE kind = 'time_entry' AND deleted = 0 AND until > ? AND at < ?
"""  # noqa: S608
_CHANGED = f"""
SELECT {CONTENT} FROM records WHERE kind = ? AND deleted = 0 AND id IN (
    SELECT h.record_id FROM batches AS b JOIN history AS h ON h.batch = b.cursor
    WHERE b.at >= ? AND b.at < ?
)
"""  # noqa: S608
_DONE = """
SELECT h.record_id, MAX(h.after ->> 'updated_at') FROM batches AS b
JOIN history AS h ON h.batch = b.cursor JOIN records AS r ON r.id = h.record_id
WHERE b.at >= ? AND r.kind = 'task' AND r.deleted = 0 AND r.status = 'done'
    AND h.after ->> 'status' = 'done' AND h.before ->> 'status' IS NOT 'done'
    AND h.after ->> 'updated_at' >= ? AND h.after ->> 'updated_at' < ?
GROUP BY h.record_id
"""
_PARTS = f"""
SELECT {CONTENT} FROM json_each(?) AS wanted CROSS JOIN records AS r
ON r.parent_id = wanted.value AND r.kind = ? AND r.deleted = 0
"""  # noqa: S608
_NEWEST = """
SELECT token.value ->> 'token_value', max(recent.cursor) FROM (
    SELECT cursor, typed_tokens FROM batches WHERE cursor > ? ORDER BY cursor DESC LIMIT ?
) AS recent, json_each(recent.typed_tokens) AS token
WHERE token.value ->> 'token_namespace' = 'category' GROUP BY 1
"""
_SEARCH = f"""
SELECT {CONTENT} FROM record_words AS w JOIN records AS r ON r.number = w.rowid
WHERE record_words MATCH ? ORDER BY w.rank, r.number DESC
"""  # noqa: S608
T = TypeVar("T")
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
        """Several queries of this module on one consistent view."""
        return await self._database.snapshot(body)

    async def newest_changes(self, after: int) -> dict[str, int]:
        """By category, the place of its newest change after this one.

        Of more than a few thousand commits only the newest are looked at.
        """
        return await self.read(lambda view: newest_changes(view, after, most=_MOST_COMMITS))

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
        return await self.read(categories)

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
            lambda reader: tasks(
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
        return await self.read(lambda reader: checklists_of(reader, task_id))

    async def running_timer(self) -> TimeEntry | None:
        """The timer that runs."""
        return await self.read(running_timer)

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
            lambda reader: time_entries(reader, since, until, limit_to=categories, task_id=task_id)
        )

    async def day_plan(
        self, day: date, *, categories: Collection[str] | None = None
    ) -> tuple[DayPlan, list[DayBlock]] | None:
        """The plan of a day with its blocks; a limited view has only its own blocks and pins."""

        def look(reader: Reader) -> tuple[DayPlan, list[DayBlock]] | None:
            plan = day_plan(reader, day)
            if plan is None:
                return None
            allowed = None if categories is None else frozenset(categories)
            shown = as_seen(reader, plan, AccessScope(allowed_category_ids=allowed)) or plan
            return shown, blocks_of(reader, plan.id, limit_to=categories)

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
            lambda reader: ratings(
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
        return await self.read(lambda reader: notes(reader, limit_to=categories, limit=limit))

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
            lambda reader: search(reader, text, limit_to=categories, kinds=kinds, limit=limit)
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
        return await self.read(lambda reader: list(everything(reader)))


def live(reader: Reader, where: str, params: tuple[SqlValue, ...], kind: type[R]) -> Iterator[R]:
    """The records of a kind that are not deleted and fit; `where` is ours, never a person's."""
    for row in reader.rows(_LIVE + where, params):
        record = read_record(*row)
        if isinstance(record, kind):
            yield record


def categories(reader: Reader) -> list[Category]:
    """All categories, by name."""
    found = live(reader, "kind = 'category'", (), Category)
    return sorted(found, key=lambda each: (each.name.casefold(), each.id))


def tasks(
    reader: Reader,
    *,
    limit_to: Categories = None,
    status: Collection[TaskStatus] | None = None,
    due_before: datetime | None = None,
    labels: Collection[str] = (),
    limit: int | None = None,
) -> list[Task]:
    """Tasks, the most pressing first; without `status` those that are not closed."""
    wanted = frozenset(TaskStatus) - CLOSED if status is None else frozenset(status)
    marks = ", ".join("?" * len(wanted))
    where, params = f"kind = 'task' AND status IN ({marks})", [str(each) for each in sorted(wanted)]
    if due_before is not None:
        where, params = f"{where} AND at < ?", [*params, format_timestamp(due_before)]
    found = [
        task
        for task in live(reader, where, tuple(params), Task)
        if (limit_to is None or task.category_id in limit_to) and set(labels) <= set(task.labels)
    ]
    return sorted(found, key=pressing)[:limit]


def with_reminder(reader: Reader) -> list[Task]:
    """The tasks that are not closed and have a reminder, by its time."""
    # In the words of the index.
    where = "kind = 'task' AND status NOT IN ('done', 'rejected')"
    found = live(reader, f"{where} AND content ->> '$.remind_at' IS NOT NULL", (), Task)
    return sorted(found, key=lambda each: (each.remind_at or each.created_at, each.id))


def pressing(task: Task) -> tuple[str, str, str]:
    """By priority, then due date, then age."""
    due = format_timestamp(task.due_at) if task.due_at else "~"
    return task.priority, due, task.id


def checklists_of(reader: Reader, task_id: str) -> list[tuple[Checklist, list[ChecklistItem]]]:
    """The checklists of a task, each with its items in their order."""
    return checklists_of_all(reader, [task_id])[task_id]


def newest_changes(reader: Reader, after: int, *, most: int) -> dict[str, int]:
    """By category, the place of its newest change after this one, among the newest of all."""
    return {str(row[0]): int(row[1]) for row in reader.fetch_all(_NEWEST, (after, most))}


def checklists_of_all(
    reader: Reader, task_ids: Collection[str]
) -> dict[str, list[tuple[Checklist, list[ChecklistItem]]]]:
    """The checklists of many tasks, by task."""
    lists = [each for each in _parts(reader, task_ids, "checklist") if isinstance(each, Checklist)]
    items: dict[str, list[ChecklistItem]] = {each.id: [] for each in lists}
    for item in _parts(reader, items.keys(), "checklist_item"):
        if isinstance(item, ChecklistItem):
            items[item.checklist_id].append(item)
    found: dict[str, list[tuple[Checklist, list[ChecklistItem]]]] = {each: [] for each in task_ids}
    for each in sorted(lists, key=_by_age):
        found[each.task_id].append((each, sorted(items[each.id], key=_by_position)))
    return found


def items_of(reader: Reader, checklist_id: str) -> list[ChecklistItem]:
    """The items of a checklist in their order."""
    where = "parent_id = ? AND kind = 'checklist_item'"
    found = live(reader, where, (checklist_id,), ChecklistItem)
    return sorted(found, key=_by_position)


def running_timer(reader: Reader) -> TimeEntry | None:
    """The timer that runs; the newest if another device has started one as well."""
    found = (read_record(*row) for row in reader.rows(_RUNNING))
    running = [each for each in found if isinstance(each, TimeEntry)]
    return max(running, key=lambda each: (each.started_at, each.id), default=None)


def time_entries(
    reader: Reader,
    since: datetime,
    until: datetime,
    *,
    limit_to: Categories = None,
    task_id: str | None = None,
) -> list[TimeEntry]:
    """What was worked on between the two, in its order; also what began before or runs on."""
    params = (format_timestamp(since), format_timestamp(until))
    rows = [*reader.fetch_all(_SPENT, params), *reader.fetch_all(_RUNNING)]
    found = [
        each
        for each in (read_record(*row) for row in rows)
        if isinstance(each, TimeEntry)
        and each.started_at < until
        and (task_id is None or each.task_id == task_id)
        and _belongs(reader, each, limit_to)
    ]
    return sorted(found, key=lambda each: (each.started_at, each.id))


def day_plan(reader: Reader, day: date) -> DayPlan | None:
    """The plan of a day."""
    found = load(reader, day_plan_id(day))
    return found if isinstance(found, DayPlan) and not found.deleted else None


def blocks_of(reader: Reader, plan_id: str, *, limit_to: Categories = None) -> list[DayBlock]:
    """The blocks of a plan in their order."""
    found = [
        each
        for each in live(reader, "parent_id = ? AND kind = 'day_block'", (plan_id,), DayBlock)
        if _belongs(reader, each, limit_to)
    ]
    return sorted(found, key=lambda each: (each.starts_at, each.id))


def ratings(
    reader: Reader,
    *,
    target_id: str | None = None,
    dimension: str | None = None,
    since: datetime | None = None,
    limit_to: Categories = None,
) -> list[Rating]:
    """Ratings, the newest first."""
    where = "kind = 'rating'"
    params: list[str] = []
    if target_id is not None:
        where, params = f"{where} AND parent_id = ?", [*params, target_id]
    if dimension is not None:
        where, params = f"{where} AND status = ?", [*params, dimension]
    found = [
        each
        for each in live(reader, where, tuple(params), Rating)
        if (since is None or each.updated_at >= since) and _belongs(reader, each, limit_to)
    ]
    return sorted(found, key=lambda each: (each.updated_at, each.id), reverse=True)


def notes(reader: Reader, *, limit_to: Categories = None, limit: int | None = None) -> list[Note]:
    """Notes, the newest first."""
    found = [
        each
        for each in live(reader, "kind = 'note'", (), Note)
        if limit_to is None or each.category_id in limit_to
    ]
    return sorted(found, key=lambda each: (each.created_at, each.id), reverse=True)[:limit]


def links_of(reader: Reader, record_id: str, scope: AccessScope) -> list[Link]:
    """The links from and to a record, as far as both ends may be seen."""
    where = "kind = 'link' AND (parent_id = ? OR at = ?)"
    found = live(reader, where, (record_id, record_id), Link)
    return sorted((each for each in found if may_see(reader, each, scope)), key=_by_age)


def search(
    reader: Reader,
    text: str,
    *,
    limit_to: Categories = None,
    kinds: Collection[str] | None = None,
    limit: int = 20,
) -> list[Record]:
    """Records with all of these words, the best first; the last word may be its beginning."""
    expression = words_expression(text)
    if expression is None:
        return []
    found: list[Record] = []
    for row in reader.rows(_SEARCH, (expression,)):
        if kinds is not None and row[0] not in kinds:
            continue
        record = read_record(*row)
        if _belongs(reader, record, limit_to):
            found.append(record)
        if len(found) == limit:
            break
    return found


def words_expression(text: str) -> str | None:
    """All of the words, the last one perhaps only begun; None if there are none."""
    words = _WORD.findall(text)[:_MOST_WORDS]
    # Quoted, so that nothing of the index's own language can be said.
    return " ".join(f'"{word}"' for word in words) + "*" if words else None


def parts_of(reader: Reader, parent_id: str, kind: str, *, deleted: bool) -> list[Record]:
    """What belongs to a record, of one kind, deleted or not."""
    rows = reader.fetch_all(
        f"SELECT {CONTENT} FROM records WHERE parent_id = ? AND kind = ? AND deleted = ?",  # noqa: S608
        (parent_id, kind, int(deleted)),
    )
    return [read_record(*row) for row in rows]


def everything(reader: Reader) -> Iterator[Record]:
    """Every record, tombstones as well, in the order in which they came."""
    for row in reader.rows(f"SELECT {CONTENT} FROM records ORDER BY number"):  # noqa: S608
        yield read_record(*row)


def changed_between(reader: Reader, kind: type[R], since: datetime, until: datetime) -> list[R]:
    """The records of a kind that were changed in this time, as they are now."""
    name = str(kind.model_fields["kind"].default)
    params = (name, format_timestamp(since), format_timestamp(until))
    found = (read_record(*row) for row in reader.fetch_all(_CHANGED, params))
    return [each for each in found if isinstance(each, kind)]


def tasks_done(reader: Reader, since: datetime, until: datetime) -> dict[str, datetime]:
    """The tasks that were done in this time and still are, each with the moment.

    The moment is the record's own: what was brought in from a file was done before it came.
    """
    begin = format_timestamp(since)
    rows = reader.fetch_all(_DONE, (begin, begin, format_timestamp(until)))
    return {record_id: parse_timestamp(at) for record_id, at in rows}


def _parts(reader: Reader, parents: Collection[str], kind: str) -> Iterator[Record]:
    for row in reader.rows(_PARTS, (json.dumps(list(parents)), kind)):
        yield read_record(*row)


def _by_position(item: ChecklistItem) -> tuple[int, str]:
    return item.position, item.id


def _belongs(reader: Reader, record: Record, limit_to: Categories) -> bool:
    return limit_to is None or category_of(reader, record) in limit_to


def _by_age(record: Record) -> tuple[str, str]:
    return format_timestamp(record.created_at), record.id
