"""What each tool of a companion does.

Tools that only look see what lies in the caller's categories, and nothing else. Tools that write
make one operation of the journal's, within the scope; what came of it is told so that a person can
read it: which records, what became of them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from difflib import SequenceMatcher
from typing import Any, Literal

from silas.companions.tools import schemas
from silas.companions.tools.registry import Handler, ToolEffect, ToolReach
from silas.companions.tools.schemas import RecordChange, WriteOutput
from silas.journal import queries
from silas.journal.dispatch import call
from silas.journal.edit import FIRST, last_write
from silas.journal.errors import RecordOutOfScope
from silas.journal.models import DayBlock, DayPlan, Rating, Record, Task, TaskStatus, TimeEntry
from silas.journal.operations import BlockInput, By, ItemUpdate
from silas.journal.records import category_of, kind_of
from silas.journal.store import Outcome
from silas.kernel import format_timestamp
from silas.kernel.models import Data
from silas.storage import Reader

_CERTAIN = 0.85
_LEAD = 0.2
"""How far the first must be ahead of the second to be clearly the one that is meant."""
_WORTH_NAMING = 0.3
_FOLLOW_UP = "follow_up"


def effect(output: Data) -> ToolEffect:
    """The effect of looking: what was seen."""
    return ToolEffect(payload=output.model_dump(mode="json"))


async def list_allowed_categories(reach: ToolReach, _: schemas.NoArguments) -> ToolEffect:
    """The categories in reach, by name."""
    found = [
        schemas.CategoryView(id=each.id, name=each.name)
        for each in await reach.journal.categories()
        if each.id in reach.categories
    ]
    return effect(schemas.CategoryList(categories=tuple(found)))


async def list_tasks_in_scope(reach: ToolReach, asked: schemas.ListTasks) -> ToolEffect:
    """Tasks in reach, the most pressing first; those that are closed only if asked for."""
    limit_to = _limit(reach, asked.category_id)

    def look(reader: Reader) -> schemas.TaskList:
        status: Sequence[TaskStatus] | None = asked.statuses or None
        if asked.task_ids:
            status = tuple(TaskStatus)
        found = queries.tasks(reader, limit_to=limit_to, status=status)
        if asked.task_ids:
            found = [task for task in found if task.id in asked.task_ids]
        shown = found[: asked.limit]
        spent = _minutes_by_task(_entries(reader, reach, asked.days), reach.now)
        return schemas.TaskList(
            tasks=tuple(_task(reader, reach, each, spent, asked.days) for each in shown)
        )

    return effect(await reach.journal.read(look))


async def resolve_task_reference(reach: ToolReach, asked: schemas.ResolveTask) -> ToolEffect:
    """What tasks a name may mean; it changes nothing, and no write takes its word for it."""
    found = await reach.journal.list_tasks(categories=reach.categories, status=tuple(TaskStatus))
    ranked = sorted(
        ((_likeness(asked.reference, task), task) for task in found),
        key=lambda pair: (-pair[0], queries.pressing(pair[1])),
    )
    likely = [pair for pair in ranked if pair[0] >= _WORTH_NAMING][: asked.limit]
    candidates = tuple(
        schemas.TaskCandidate(
            id=task.id,
            title=task.title,
            status=task.status,
            category_id=str(task.category_id),
            score=round(score, 3),
            updated_at=task.updated_at,
        )
        for score, task in likely
    )
    scores = [score for score, _ in likely]
    return effect(schemas.TaskCandidates(candidates=candidates, ambiguous=not _clear(scores)))


async def get_time_summary(reach: ToolReach, asked: schemas.TimeSummary) -> ToolEffect:
    """Time that was spent, by category; `entries` names stretches of it, `per_day` the days."""
    names = {each.id: each.name for each in await reach.journal.categories()}

    def look(reader: Reader) -> schemas.TimeOverview:
        minutes: dict[str, float] = defaultdict(float)
        count: dict[str, int] = defaultdict(int)
        daily: dict[date, float] = defaultdict(float)
        found = _entries(reader, reach, asked.days)
        of = {entry.id: str(category_of(reader, entry)) for entry in found}
        for entry in found:
            category = of[entry.id]
            minutes[category] += _minutes(entry, reach.now)
            count[category] += 1
            daily[entry.started_at.astimezone(reach.zone).date()] += _minutes(entry, reach.now)
        views = [
            schemas.TimeView(
                category_id=each,
                name=names.get(each, each),
                minutes=round(minutes[each]),
                count=count[each],
            )
            for each in sorted(minutes)
        ]
        newest = sorted(found, key=lambda each: (each.started_at, each.id), reverse=True)
        return schemas.TimeOverview(
            days=asked.days,
            categories=tuple(views),
            entries=tuple(_stretch(each, of[each.id], reach) for each in newest[: asked.entries]),
            per_day=tuple(
                schemas.DayTimeView(date=day, minutes=round(daily[day]))
                for day in sorted(daily)
                if asked.per_day
            ),
        )

    return effect(await reach.journal.read(look))


async def get_day_plan(reach: ToolReach, asked: schemas.PlanDate) -> ToolEffect:
    """The plan of a day, as far as it is in reach."""
    found = await reach.journal.day_plan(asked.plan_date, categories=reach.categories)
    return effect(day_view(asked.plan_date, found))


async def get_ratings_summary(reach: ToolReach, asked: schemas.RatingsSummary) -> ToolEffect:
    """How things were, respect by respect."""
    since = reach.now - timedelta(days=asked.days)
    found = await reach.journal.ratings(
        dimension=asked.dimension, since=since, categories=reach.categories
    )
    grouped: dict[str, list[Rating]] = defaultdict(list)
    for rating in found:
        grouped[rating.dimension].append(rating)
    views = [
        schemas.DimensionView(
            dimension=dimension,
            average=round(sum(each.value for each in ratings) / len(ratings), 2),
            count=len(ratings),
            latest=ratings[0].value,
        )
        for dimension, ratings in sorted(grouped.items())
    ]
    return effect(schemas.RatingsOverview(days=asked.days, dimensions=tuple(views)))


async def get_rating_for_target(reach: ToolReach, asked: schemas.RatingForTarget) -> ToolEffect:
    """How one thing was."""
    found = await reach.journal.ratings(
        target_id=asked.target_id, dimension=asked.dimension, categories=reach.categories
    )
    views = [
        schemas.RatingView(
            id=each.id,
            target_id=each.target_id,
            dimension=each.dimension,
            value=each.value,
            note=each.note,
            updated_at=each.updated_at,
        )
        for each in found
        if each.target_type == asked.target_type
    ]
    return effect(schemas.TargetRatings(ratings=tuple(views)))


def day_view(day: date, found: tuple[DayPlan, list[DayBlock]] | None) -> schemas.DayPlanView:
    """The plan of a day as it is shown."""
    if found is None:
        return schemas.DayPlanView(id=None, date=day)
    plan, blocks = found
    return schemas.DayPlanView(
        id=plan.id,
        date=plan.date,
        pinned_task_ids=plan.pinned_task_ids,
        blocks=tuple(
            schemas.DayBlockView(
                id=each.id,
                category_id=each.category_id,
                task_id=each.task_id,
                starts_at=each.starts_at,
                ends_at=each.ends_at,
                note=each.note,
                updated_at=each.updated_at,
            )
            for each in blocks
        ),
        updated_at=plan.updated_at,
    )


def _stretch(entry: TimeEntry, category_id: str, reach: ToolReach) -> schemas.TimeEntryView:
    return schemas.TimeEntryView(
        id=entry.id,
        task_id=entry.task_id,
        category_id=category_id,
        starts_at=entry.started_at,
        ends_at=entry.ended_at,
        minutes=round(_minutes(entry, reach.now)),
        note=entry.note,
        updated_at=entry.updated_at,
    )


def _limit(reach: ToolReach, category_id: str | None) -> frozenset[str]:
    if category_id is None:
        return reach.categories
    if category_id not in reach.categories:
        raise RecordOutOfScope(category_id=category_id)
    return frozenset({category_id})


def _task(
    reader: Reader, reach: ToolReach, task: Task, spent: dict[str, float], days: int
) -> schemas.TaskView:
    lists = queries.checklists_of(reader, task.id)
    items = [item for _, each in lists for item in each]
    still_open = tuple(item.text for item in items if not item.checked)
    links = queries.links_of(reader, task.id, reach.scope)
    return schemas.TaskView(
        id=task.id,
        title=task.title,
        status=task.status,
        priority=task.priority,
        category_id=str(task.category_id),
        estimate_minutes=task.estimate_minutes,
        due_at=task.due_at,
        labels=task.labels,
        language=task.language,
        open_items=still_open,
        checklists=tuple(
            schemas.ChecklistView(
                id=each.id,
                title=each.title,
                items=tuple(
                    schemas.StepView(id=item.id, text=item.text, checked=item.checked)
                    for item in steps
                ),
            )
            for each, steps in lists
        ),
        open_item_count=len(still_open),
        done_item_count=len(items) - len(still_open),
        logged_minutes_last_days=round(spent.get(task.id, 0)),
        days=days,
        has_follow_up=any(
            each.relation == _FOLLOW_UP and each.from_id == task.id for each in links
        ),
        updated_at=task.updated_at,
    )


def _entries(reader: Reader, reach: ToolReach, days: int) -> list[TimeEntry]:
    since = reach.now - timedelta(days=days)
    return queries.time_entries(reader, since, reach.now, limit_to=reach.categories)


def _minutes_by_task(entries: Iterable[TimeEntry], now: datetime) -> dict[str, float]:
    spent: dict[str, float] = defaultdict(float)
    for entry in entries:
        if entry.task_id is not None:
            spent[entry.task_id] += _minutes(entry, now)
    return spent


def _minutes(entry: TimeEntry, now: datetime) -> float:
    return ((entry.ended_at or now) - entry.started_at).total_seconds() / 60


def _likeness(reference: str, task: Task) -> float:
    """1 for the same words, less the further away; a title inside the reference counts, too."""
    said, title = reference.casefold().strip(), task.title.casefold().strip()
    if said in (title, task.id):
        return 1.0
    words = SequenceMatcher(None, said, title).ratio()
    if said in title or title in said:
        words = max(words, 0.75)
    return words * (0.9 if task.closed else 1.0)


def _clear(scores: list[float]) -> bool:
    if not scores or scores[0] < _CERTAIN:
        return False
    return len(scores) == 1 or scores[0] - scores[1] >= _LEAD


_LABELS = ("title", "name", "text", "note", "date", "dimension")
_SHOWN: Mapping[str, tuple[str, ...]] = {
    "task": ("status", "priority", "estimate_minutes", "due_at", "category_id", "labels", "body"),
    "checklist_item": ("checked",),
    "time_entry": ("started_at", "ended_at", "note", "task_id"),
    "day_block": ("starts_at", "ends_at", "note", "task_id", "category_id"),
    "day_plan": ("pinned_task_ids",),
    "rating": ("value", "note", "target_id"),
    "link": ("relation",),
}

_PLACES: Mapping[str, frozenset[str]] = {
    "checklist": frozenset({"task_id"}),
    "checklist_item": frozenset({"checklist_id", "position"}),
    "time_entry": frozenset({"task_id", "category_id"}),
}
"""The fields that say where a record belongs. If nothing else is different, it has moved."""


def by(reach: ToolReach) -> By:
    """Who asks, and how far that one reaches."""
    return {
        "scope": reach.scope,
        "actor": reach.actor,
        "operation_id": reach.operation_id,
        "preview_only": reach.preview_only,
        "guard": reach.guard,
    }


def written(reach: ToolReach, outcome: Outcome) -> ToolEffect:
    """The effect of an operation."""
    changes = tuple(_change(reach, each, preview=outcome.preview) for each in outcome.records)
    output = WriteOutput(
        preview=outcome.preview,
        changes=changes,
        ids={} if outcome.preview else outcome.payload,
    )
    return ToolEffect(
        payload=output.model_dump(mode="json"),
        changed_entity_ids=() if outcome.preview else outcome.changed_entity_ids,
        changed_tokens=() if outcome.preview else outcome.changed_tokens,
    )


def _change(reach: ToolReach, record: Record, *, preview: bool) -> RecordChange:
    kind = kind_of(record)
    shown: dict[str, Any] = record.model_dump(mode="json")
    now = format_timestamp(reach.now)
    # A preview must be the same when it is made again, so that it can be compared.
    fields = {
        name: shown[name] for name in _SHOWN.get(kind, ()) if shown[name] not in (None, "", [], now)
    }
    label = next((str(shown[name]) for name in _LABELS if shown.get(name)), kind)
    new = record.created_at == record.updated_at and set(record.versions) <= {FIRST}
    return RecordChange(
        kind=kind,
        what=_what(record, new=new),
        id=None if preview and new else record.id,
        label=label[:200],
        fields=fields,
    )


def _what(record: Record, *, new: bool) -> Literal["created", "updated", "moved", "deleted"]:
    if record.deleted:
        return "deleted"
    if new:
        return "created"
    last = last_write(record)
    touched = {name for name, version in record.versions.items() if version == last}
    return "moved" if touched <= _PLACES.get(kind_of(record), frozenset()) else "updated"


Arguments = Callable[[Any], Mapping[str, Any]]
"""From what a tool is asked to what the operation of the same name takes."""


def _as_asked(asked: Any) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in type(asked).model_fields}


def operation(name: str) -> Handler:
    """A handler that makes the operation of this name."""

    async def handler(reach: ToolReach, asked: Any) -> ToolEffect:
        arguments = _ARGUMENTS.get(name, _as_asked)(asked)
        return written(reach, await call(reach.journal, name, arguments, **by(reach)))

    return handler


def _fields(asked: schemas.UpdateTaskFields) -> dict[str, Any]:
    given = asked.model_fields_set - {"task_id"}
    return {"task_id": asked.task_id, "fields": {name: getattr(asked, name) for name in given}}


def _concluded(asked: schemas.ConcludeTask) -> dict[str, Any]:
    return {
        "task_id": asked.task_id,
        "close_as": asked.close_as,
        "follow_up_title": asked.rollover_title,
    }


def _item_updates(asked: schemas.UpdateChecklistItems) -> dict[str, Any]:
    updates = (
        ItemUpdate(id=each.item_id, text=each.text, checked=each.checked) for each in asked.changes
    )
    return {"updates": tuple(updates)}


def _upserts(asked: schemas.UpsertDayBlocks) -> dict[str, Any]:
    return {
        "plan_date": asked.plan_date,
        "upserts": _blocks(asked.upserts),
        "deletes": asked.deletes,
    }


def _whole_day(asked: schemas.ReplanDay) -> dict[str, Any]:
    return {"plan_date": asked.plan_date, "blocks": _blocks(asked.blocks)}


def _blocks(drafts: tuple[schemas.DayBlockDraft, ...]) -> tuple[BlockInput, ...]:
    return tuple(BlockInput(**each.model_dump()) for each in drafts)


_ARGUMENTS: Mapping[str, Arguments] = {
    "update_task_fields": _fields,
    "conclude_task_with_rollover": _concluded,
    "update_checklist_items": _item_updates,
    "upsert_day_plan_blocks": _upserts,
    "replan_day_blocks": _whole_day,
}
"""The operations that take other arguments than their tools are asked with."""
