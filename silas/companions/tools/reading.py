"""The tools that only look. Each sees what lies in the caller's categories, and nothing else."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from difflib import SequenceMatcher

from silas.companions.tools import inputs, outputs
from silas.companions.tools.models import ToolEffect
from silas.companions.tools.reach import ToolReach
from silas.journal import reading
from silas.journal.belonging import category_of
from silas.journal.errors import OutOfScope
from silas.journal.models import DayBlock, DayPlan, Rating, Task, TaskStatus, TimeEntry
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


async def list_allowed_categories(reach: ToolReach, _: inputs.NoArguments) -> ToolEffect:
    """The categories in reach, by name."""
    found = [
        outputs.CategoryView(id=each.id, name=each.name)
        for each in await reach.journal.categories()
        if each.id in reach.categories
    ]
    return effect(outputs.CategoryList(categories=tuple(found)))


async def list_tasks_in_scope(reach: ToolReach, asked: inputs.ListTasks) -> ToolEffect:
    """Tasks in reach, the most pressing first; those that are closed only if asked for."""
    limit_to = _limit(reach, asked.category_id)

    def look(reader: Reader) -> outputs.TaskList:
        status: Sequence[TaskStatus] | None = asked.statuses or None
        if asked.task_ids:
            status = tuple(TaskStatus)
        found = reading.tasks(reader, limit_to=limit_to, status=status)
        if asked.task_ids:
            found = [task for task in found if task.id in asked.task_ids]
        shown = found[: asked.limit]
        spent = _minutes_by_task(_entries(reader, reach, asked.days), reach.now)
        return outputs.TaskList(
            tasks=tuple(_task(reader, reach, each, spent, asked.days) for each in shown)
        )

    return effect(await reach.journal.read(look))


async def resolve_task_reference(reach: ToolReach, asked: inputs.ResolveTask) -> ToolEffect:
    """What tasks a name may mean; it changes nothing, and no write takes its word for it."""
    found = await reach.journal.list_tasks(categories=reach.categories, status=tuple(TaskStatus))
    ranked = sorted(
        ((_likeness(asked.reference, task), task) for task in found),
        key=lambda pair: (-pair[0], reading.pressing(pair[1])),
    )
    likely = [pair for pair in ranked if pair[0] >= _WORTH_NAMING][: asked.limit]
    candidates = tuple(
        outputs.TaskCandidate(
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
    return effect(outputs.TaskCandidates(candidates=candidates, ambiguous=not _clear(scores)))


async def get_time_summary(reach: ToolReach, asked: inputs.TimeSummary) -> ToolEffect:
    """Time that was spent, category by category."""

    def look(reader: Reader) -> outputs.TimeOverview:
        minutes: dict[str, float] = defaultdict(float)
        count: dict[str, int] = defaultdict(int)
        for entry in _entries(reader, reach, asked.days):
            category = str(category_of(reader, entry))
            minutes[category] += _minutes(entry, reach.now)
            count[category] += 1
        views = [
            outputs.TimeView(category_id=each, minutes=round(minutes[each]), count=count[each])
            for each in sorted(minutes)
        ]
        return outputs.TimeOverview(days=asked.days, categories=tuple(views))

    return effect(await reach.journal.read(look))


async def get_day_plan(reach: ToolReach, asked: inputs.PlanDate) -> ToolEffect:
    """The plan of a day, as far as it is in reach."""
    found = await reach.journal.day_plan(asked.plan_date, categories=reach.categories)
    return effect(day_view(asked.plan_date, found))


async def get_ratings_summary(reach: ToolReach, asked: inputs.RatingsSummary) -> ToolEffect:
    """How things were, respect by respect."""
    since = reach.now - timedelta(days=asked.days)
    found = await reach.journal.ratings(
        dimension=asked.dimension, since=since, categories=reach.categories
    )
    grouped: dict[str, list[Rating]] = defaultdict(list)
    for rating in found:
        grouped[rating.dimension].append(rating)
    views = [
        outputs.DimensionView(
            dimension=dimension,
            average=round(sum(each.value for each in ratings) / len(ratings), 2),
            count=len(ratings),
            latest=ratings[0].value,
        )
        for dimension, ratings in sorted(grouped.items())
    ]
    return effect(outputs.RatingsOverview(days=asked.days, dimensions=tuple(views)))


async def get_rating_for_target(reach: ToolReach, asked: inputs.RatingForTarget) -> ToolEffect:
    """How one thing was."""
    found = await reach.journal.ratings(
        target_id=asked.target_id, dimension=asked.dimension, categories=reach.categories
    )
    views = [
        outputs.RatingView(
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
    return effect(outputs.TargetRatings(ratings=tuple(views)))


def day_view(day: date, found: tuple[DayPlan, list[DayBlock]] | None) -> outputs.DayPlanView:
    """The plan of a day as it is shown."""
    if found is None:
        return outputs.DayPlanView(id=None, date=day)
    plan, blocks = found
    return outputs.DayPlanView(
        id=plan.id,
        date=plan.date,
        pinned_task_ids=plan.pinned_task_ids,
        blocks=tuple(
            outputs.DayBlockView(
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


def _limit(reach: ToolReach, category_id: str | None) -> frozenset[str]:
    if category_id is None:
        return reach.categories
    if category_id not in reach.categories:
        raise OutOfScope(category_id=category_id)
    return frozenset({category_id})


def _task(
    reader: Reader, reach: ToolReach, task: Task, spent: dict[str, float], days: int
) -> outputs.TaskView:
    items = [item for _, each in reading.checklists_of(reader, task.id) for item in each]
    still_open = tuple(item.text for item in items if not item.checked)
    links = reading.links_of(reader, task.id, reach.scope)
    return outputs.TaskView(
        id=task.id,
        title=task.title,
        status=task.status,
        priority=task.priority,
        category_id=str(task.category_id),
        estimate_minutes=task.estimate_minutes,
        due_at=task.due_at,
        labels=task.labels,
        open_items=still_open,
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
    return reading.time_entries(reader, since, reach.now, limit_to=reach.categories)


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
