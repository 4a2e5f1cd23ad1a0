"""What every tool takes and gives back. A field that is not known is refused; no id is guessed."""

import datetime as dt
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from silas.journal.models import Name, Priority, RecordId, TaskStatus, Text
from silas.kernel.models import Data, UtcDatetime

Label = Annotated[str, Field(min_length=1, max_length=60)]
Labels = Annotated[tuple[Label, ...], Field(max_length=20)]
Minutes = Annotated[int, Field(ge=1, le=60 * 24 * 365)]
Language = Annotated[str, Field(pattern="^[A-Za-z]{2,8}(-[A-Za-z0-9]{2,8})*$")]
Ids = Annotated[tuple[RecordId, ...], Field(min_length=1, max_length=100)]
ClosedAs = Literal[TaskStatus.DONE, TaskStatus.REJECTED]


class NoArguments(Data):
    """Nothing has to be said."""


class UndoChange(Data):
    """A change of the journal, by the id of its operation."""

    change_id: RecordId


class ListTasks(Data):
    """Which tasks to list."""

    category_id: RecordId | None = None
    statuses: Annotated[tuple[TaskStatus, ...], Field(max_length=7)] = ()
    """Empty: all that are not closed."""
    task_ids: Annotated[tuple[RecordId, ...], Field(max_length=100)] = ()
    """Exactly these, whatever their status."""
    days: Annotated[int, Field(ge=1, le=366)] = 7
    """Over how long the time that was logged is summed up."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class ResolveTask(Data):
    """What a task was called."""

    reference: Annotated[str, Field(min_length=1, max_length=500)]
    limit: Annotated[int, Field(ge=1, le=20)] = 5


class OneTask(Data):
    """A task, by its id."""

    task_id: RecordId


class SetTaskLanguage(OneTask):
    """The language that a task is written in."""

    language: Language


class UpdateTaskEstimate(OneTask):
    """How long a task will take."""

    estimate_minutes: Minutes | None


class UpdateTaskDueDate(OneTask):
    """When a task is due."""

    due_at: AwareDatetime | None


class UpdateTaskPriority(OneTask):
    """How much a task matters."""

    priority: Priority


class AssignTaskLabels(OneTask):
    """The labels to add to a task."""

    labels: Annotated[Labels, Field(min_length=1)]


class CreateTask(Data):
    """A new task."""

    category_id: RecordId
    title: Name
    body: Text = ""
    priority: Priority = Priority.P2
    estimate_minutes: Minutes | None = None
    due_at: AwareDatetime | None = None
    language: Language | None = None
    labels: Labels = ()
    checklist_items: Annotated[tuple[Name, ...], Field(max_length=100)] = ()


class UpdateTaskFields(OneTask):
    """Several fields of a task at once; what is not given stays as it is."""

    title: Name | None = None
    body: Text | None = None
    status: TaskStatus | None = None
    category_id: RecordId | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set - {"task_id"}:
            raise ValueError("names no field to change")
        return self


class CreateFollowUpTask(Data):
    """What comes after a task."""

    source_task_id: RecordId
    new_task_title: Name
    carry_over_open_checklist_items: bool = True
    close_source_task_as: ClosedAs | None = None
    preserve_category_and_labels: bool = True


class ConcludeTask(Data):
    """End a task; what is still open goes on in a new one."""

    task_id: RecordId
    close_as: ClosedAs = TaskStatus.DONE
    rollover_title: Name | None = None
    """The title of the new task; None takes that of the old one."""


class AddChecklistItems(Data):
    """New steps, for a list or for the first list of a task."""

    task_id: RecordId
    checklist_id: RecordId | None = None
    items: Annotated[tuple[Name, ...], Field(min_length=1, max_length=100)]


class ChecklistItemChange(Data):
    """A step and what it becomes."""

    item_id: RecordId
    checked: bool | None = None
    text: Name | None = None


class UpdateChecklistItems(Data):
    """Changes to steps."""

    changes: Annotated[tuple[ChecklistItemChange, ...], Field(min_length=1, max_length=100)]


class CreateChecklist(OneTask):
    """A new list of steps for a task."""

    title: Name = "Checklist"
    items: Annotated[tuple[Name, ...], Field(max_length=100)] = ()


class MoveChecklistItems(Data):
    """Steps, from one list to another."""

    item_ids: Ids
    from_checklist_id: RecordId
    to_checklist_id: RecordId
    preserve_checked_state: bool = True


class MoveItemsToNewTask(Data):
    """Steps, from one list to a new task."""

    item_ids: Ids
    from_checklist_id: RecordId
    new_task_title: Name


class RetrospectiveTimeEntry(OneTask):
    """Time that was spent on a task."""

    started_at: AwareDatetime
    ended_at: AwareDatetime
    description: Text = ""
    source_entry_id: Annotated[str, Field(max_length=100)] | None = None

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        if self.ended_at <= self.started_at:
            raise ValueError("ended_at must be after started_at")
        return self


class StopTaskTimer(Data):
    """The timer that runs; with a task, only if it runs for that one."""

    task_id: RecordId | None = None


class AnnotateTimeEntry(Data):
    """What was done in a stretch of time."""

    time_entry_id: RecordId
    note: Text


class PlanDate(Data):
    """A day."""

    plan_date: dt.date


class DayBlockDraft(Data):
    """A stretch of a day; with an id it changes the one that is there."""

    id: RecordId | None = None
    category_id: RecordId | None = None
    task_id: RecordId | None = None
    start_time: AwareDatetime
    end_time: AwareDatetime
    note: Text = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.end_time <= self.start_time:
            raise ValueError("end_time must be after start_time")
        if self.category_id is None and self.task_id is None:
            raise ValueError("a block has a category or a task")
        return self


class UpsertDayBlocks(PlanDate):
    """Blocks to make or change, and blocks to take out."""

    upserts: Annotated[tuple[DayBlockDraft, ...], Field(max_length=50)] = ()
    deletes: Annotated[tuple[RecordId, ...], Field(max_length=50)] = ()


class PinTasks(PlanDate):
    """Tasks that belong to a day."""

    task_ids: Ids


class ReplanDay(PlanDate):
    """The whole plan of a day, anew, as far as it lies in reach."""

    blocks: Annotated[tuple[DayBlockDraft, ...], Field(max_length=50)]


class TimeSummary(Data):
    """Over how long, and how many single stretches of time to name."""

    days: Annotated[int, Field(ge=1, le=366)] = 7
    entries: Annotated[int, Field(ge=0, le=50)] = 0
    """So many of the newest stretches are listed, each with its id."""
    per_day: bool = False
    """Also how much it was on each day."""


class RatingsSummary(Data):
    """Over how long, and of what."""

    days: Annotated[int, Field(ge=1, le=366)] = 7
    dimension: Label | None = None


RatingTarget = Literal["task", "time_entry", "day_block"]
"""What a companion sees and has in its categories: no notes, and no whole day."""


class RatingForTarget(Data):
    """What was rated."""

    target_type: RatingTarget
    target_id: RecordId
    dimension: Label | None = None


class CreateOrUpdateRating(Data):
    """How something was."""

    target_type: RatingTarget
    target_id: RecordId
    dimension: Label
    value: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
    note: Text = ""


class CategoryView(Data):
    """A category that is in reach."""

    id: str
    name: str


class CategoryList(Data):
    """The categories in reach."""

    categories: tuple[CategoryView, ...]


class StepView(Data):
    """A step of a checklist."""

    id: str
    text: str
    checked: bool


class ChecklistView(Data):
    """A checklist, with its steps in their order."""

    id: str
    title: str
    items: tuple[StepView, ...] = ()


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
    language: str | None = None
    open_items: tuple[str, ...] = ()
    checklists: tuple[ChecklistView, ...] = ()
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
    name: str
    minutes: int
    count: int


class DayTimeView(Data):
    """Time that was spent on a day of the owner's."""

    date: dt.date
    minutes: int


class TimeEntryView(Data):
    """One stretch of time; without an end its timer still runs."""

    id: str
    task_id: str | None
    category_id: str
    starts_at: UtcDatetime
    ends_at: UtcDatetime | None
    minutes: int
    note: str
    updated_at: UtcDatetime


class TimeOverview(Data):
    """Time that was spent."""

    days: int
    categories: tuple[TimeView, ...]
    entries: tuple[TimeEntryView, ...] = ()
    per_day: tuple[DayTimeView, ...] = ()
    """The days on which there was any, the oldest first."""


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
