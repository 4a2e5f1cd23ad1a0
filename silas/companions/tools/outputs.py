"""What the tools give back."""

import datetime as dt
from typing import Any, Literal

from pydantic import Field

from silas.kernel.models import Data, UtcDatetime


class CategoryView(Data):
    """A category that is in reach."""

    id: str
    name: str


class CategoryList(Data):
    """The categories in reach."""

    categories: tuple[CategoryView, ...]


class TaskView(Data):
    """A task, with what is open in it and how long was spent on it."""

    id: str
    title: str
    status: str
    priority: str
    category_id: str
    estimate_minutes: int | None = None
    due_at: UtcDatetime | None = None
    labels: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()
    open_item_count: int = 0
    done_item_count: int = 0
    logged_minutes_last_days: int = 0
    days: int
    has_follow_up: bool = False
    updated_at: UtcDatetime


class TaskList(Data):
    """Tasks, the most pressing first."""

    tasks: tuple[TaskView, ...]


class TaskCandidate(Data):
    """A task that a reference may mean."""

    id: str
    title: str
    status: str
    category_id: str
    score: float = Field(ge=0, le=1)
    updated_at: UtcDatetime


class TaskCandidates(Data):
    """What a reference may mean, the likeliest first. Writes need the id of one of them."""

    candidates: tuple[TaskCandidate, ...]
    ambiguous: bool
    """True: the first is not clearly the one that is meant."""


class TimeView(Data):
    """Time that was spent in a category."""

    category_id: str
    minutes: int
    count: int


class TimeOverview(Data):
    """Time that was spent."""

    days: int
    categories: tuple[TimeView, ...]


class DayBlockView(Data):
    """A block of a day."""

    id: str
    category_id: str | None
    task_id: str | None
    starts_at: UtcDatetime
    ends_at: UtcDatetime
    note: str
    updated_at: UtcDatetime


class DayPlanView(Data):
    """The plan of a day, as far as it is in reach; without an id there is none."""

    id: str | None
    date: dt.date
    pinned_task_ids: tuple[str, ...] = ()
    blocks: tuple[DayBlockView, ...] = ()
    updated_at: UtcDatetime | None = None


class DimensionView(Data):
    """Ratings in one respect."""

    dimension: str
    average: float
    count: int
    latest: float


class RatingsOverview(Data):
    """How things were, over some days."""

    days: int
    dimensions: tuple[DimensionView, ...]


class RatingView(Data):
    """One rating."""

    id: str
    target_id: str
    dimension: str
    value: float
    note: str
    updated_at: UtcDatetime


class TargetRatings(Data):
    """The ratings of one thing."""

    ratings: tuple[RatingView, ...]


class RecordChange(Data):
    """What became of one record, or would."""

    kind: str
    what: Literal["created", "updated", "moved", "deleted"]
    id: str | None
    """None for what a preview would create: it has no id yet."""
    label: str
    fields: dict[str, Any] = Field(default_factory=dict)


class WriteOutput(Data):
    """What a write has changed, or would change."""

    preview: bool
    changes: tuple[RecordChange, ...]
    ids: dict[str, Any] = Field(default_factory=dict)
    """The ids that the operation names; empty for a preview."""
