"""The owner's own records: frozen data, born ready to be merged with another device's.

1. Every record has an id, a vector clock, and is never removed: `deleted_at` makes it a tombstone.
2. `deletions` counts how often it was deleted and brought back: odd means deleted.
3. `versions` says for each field (or pair of fields that belong together) which write it is from;
   a field that is not named there is from the record's first write.
4. What identifies itself has a deterministic id: the plan of a day, a rating, a link.
"""

import datetime as dt
import hashlib
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator

from silas.kernel.models import Data, UtcDatetime
from silas.kernel.when import schedule_in_words
from silas.scheduler import CronSchedule, known_zone, last_due, next_due

MAX_TEXT = 20_000
Name = Annotated[str, Field(min_length=1, max_length=500)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
RecordId = Annotated[str, Field(min_length=1, max_length=100)]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]


class TaskStatus(StrEnum):
    """How a task stands."""

    OPEN = "open"
    GROOMED = "groomed"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    ON_HOLD = "on_hold"
    DONE = "done"
    REJECTED = "rejected"


CLOSED = frozenset({TaskStatus.DONE, TaskStatus.REJECTED})
"""Nothing more is to be done about it."""


class Priority(StrEnum):
    """How much it matters; P0 first."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


class Version(Data):
    """Which write a field is from: how many there were before it, and whose it was."""

    revision: Count
    host: str
    counter: Count


class Record(Data):
    """What all records have. `created_at` and `updated_at` are for people; nothing is decided by
    them."""

    id: RecordId
    created_at: UtcDatetime
    updated_at: UtcDatetime
    vector_clock: dict[str, Count] = Field(default_factory=dict)
    versions: dict[str, Version] = Field(default_factory=dict)
    deletions: Count = 0
    deleted_at: UtcDatetime | None = None

    @property
    def deleted(self) -> bool:
        return self.deletions % 2 == 1


class Category(Record):
    """A part of the owner's life: gym, work, home. What companions may see is bounded by it."""

    kind: Literal["category"] = "category"
    name: Name
    colour: Annotated[str, Field(pattern="^#[0-9a-f]{6}$")] | None = None


class Recurrence(Data):
    """When a task comes again: a cron expression, in the time zone in which it was said."""

    cron: Annotated[str, Field(max_length=200)]
    zone: Annotated[str, Field(max_length=100)]

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, text: str) -> str:
        return CronSchedule.parse(text).text

    @field_validator("zone")
    @classmethod
    def _is_zone(cls, name: str) -> str:
        if known_zone(name) is None:
            raise ValueError("must be the name of a time zone, such as Europe/Vienna")
        return name

    def next_after(self, moment: dt.datetime) -> dt.datetime | None:
        """The first time after a moment; None if there is none within nine years."""
        zone = known_zone(self.zone)
        return next_due(CronSchedule.parse(self.cron), moment, zone=zone) if zone else None

    def last_until(self, moment: dt.datetime) -> dt.datetime | None:
        """The last time that is not after a moment."""
        zone = known_zone(self.zone)
        return last_due(CronSchedule.parse(self.cron), moment, zone=zone) if zone else None

    @property
    def in_words(self) -> str:
        """`every Monday`; the last minute of a day stands for the day."""
        return schedule_in_words(self.cron, day_means="end")


class Task(Record):
    """Something to be done.

    One that `repeats` has one successor, which is there once it is done (`successor_id`).
    """

    kind: Literal["task"] = "task"
    title: Name
    status: TaskStatus = TaskStatus.OPEN
    priority: Priority = Priority.P2
    estimate_minutes: Annotated[int, Field(ge=1, le=60 * 24 * 365)] | None = None
    due_at: UtcDatetime | None = None
    repeats: Recurrence | None = None
    remind_at: UtcDatetime | None = None
    """When its owner is told of it; if it repeats, then as long before each of its times."""
    language: Annotated[str, Field(pattern="^[A-Za-z]{2,8}(-[A-Za-z0-9]{2,8})*$")] | None = None
    labels: tuple[Annotated[str, Field(min_length=1, max_length=60)], ...] = ()
    category_id: RecordId | None = None
    body: Text = ""

    @property
    def closed(self) -> bool:
        return self.status in CLOSED

    def reminder_after(self, moment: dt.datetime) -> dt.datetime | None:
        """The first time after a moment at which its owner is to be told of it."""
        if self.remind_at is None or self.closed:
            return None
        if self.remind_at > moment:
            return self.remind_at
        if self.repeats is None or self.due_at is None:
            return None
        before = self.due_at - self.remind_at
        following = self.repeats.next_after(max(moment + before, self.due_at))
        return following - before if following else None

    def last_reminder(self, now: dt.datetime) -> dt.datetime | None:
        """The latest time up to now at which its owner is to be told of it."""
        if self.remind_at is None or self.closed or self.remind_at > now:
            return None
        if self.repeats is None or self.due_at is None:
            return self.remind_at
        before = self.due_at - self.remind_at
        latest = self.repeats.last_until(now + before)
        return max(self.remind_at, latest - before) if latest else self.remind_at


class Checklist(Record):
    """A list of small steps of a task."""

    kind: Literal["checklist"] = "checklist"
    task_id: RecordId
    title: Name = "Checklist"


class ChecklistItem(Record):
    """One step."""

    kind: Literal["checklist_item"] = "checklist_item"
    checklist_id: RecordId
    text: Name
    checked: bool = False
    position: int = 0


class TimeEntry(Record):
    """Time that was spent; without an end it is the timer that runs."""

    kind: Literal["time_entry"] = "time_entry"
    task_id: RecordId | None = None
    category_id: RecordId | None = None
    """For time without a task; with one, the category is the task's."""
    started_at: UtcDatetime
    ended_at: UtcDatetime | None = None
    note: Text = ""
    source: Annotated[str, Field(max_length=100)] = "manual"
    """`timer`, `manual`, or the id of what it was told in."""


class DayPlan(Record):
    """What a day is meant to be; its id is that of its date."""

    kind: Literal["day_plan"] = "day_plan"
    date: dt.date
    pinned_task_ids: tuple[RecordId, ...] = ()


class DayBlock(Record):
    """A stretch of a planned day."""

    kind: Literal["day_block"] = "day_block"
    day_plan_id: RecordId
    category_id: RecordId | None = None
    """For a block without a task; with one, the category is the task's."""
    task_id: RecordId | None = None
    starts_at: UtcDatetime
    ends_at: UtcDatetime
    note: Text = ""


class Rating(Record):
    """How something was, in one respect; one for each target and dimension."""

    kind: Literal["rating"] = "rating"
    target_type: Literal["task", "time_entry", "day_plan", "day_block", "note"]
    target_id: RecordId
    dimension: Annotated[str, Field(min_length=1, max_length=60)]
    value: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
    note: Text = ""


class Note(Record):
    """Something written down."""

    kind: Literal["note"] = "note"
    category_id: RecordId | None = None
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    language: str | None = None


class Link(Record):
    """That two records have to do with each other."""

    kind: Literal["link"] = "link"
    from_id: RecordId
    to_id: RecordId
    relation: Annotated[str, Field(min_length=1, max_length=60)] = "related"


AnyRecord = Annotated[
    Category
    | Task
    | Checklist
    | ChecklistItem
    | TimeEntry
    | DayPlan
    | DayBlock
    | Rating
    | Note
    | Link,
    Field(discriminator="kind"),
]
KINDS: dict[str, type[Record]] = {
    "category": Category,
    "task": Task,
    "checklist": Checklist,
    "checklist_item": ChecklistItem,
    "time_entry": TimeEntry,
    "day_plan": DayPlan,
    "day_block": DayBlock,
    "rating": Rating,
    "note": Note,
    "link": Link,
}


class AccessScope(Data):
    """Which categories somebody may read and change; None is the owner, who may all of them."""

    allowed_category_ids: frozenset[str] | None

    def allows(self, category_id: str | None) -> bool:
        """What has no category is the owner's alone."""
        allowed = self.allowed_category_ids
        return allowed is None or (category_id is not None and category_id in allowed)


OWNER = AccessScope(allowed_category_ids=None)


def day_plan_id(date: dt.date) -> str:
    """The id of the plan of this day, on every device."""
    return f"dayplan-{date.isoformat()}"


def rating_id(target_id: str, dimension: str) -> str:
    """The id of the one rating of this target in this respect."""
    return f"rating-{_digest(target_id, dimension)}"


def link_id(from_id: str, to_id: str, relation: str) -> str:
    """The id of the one link of this kind between the two."""
    return f"link-{_digest(from_id, to_id, relation)}"


def successor_id(record_id: str) -> str:
    """The id of what comes after this part of a task that repeats, on every device."""
    return f"{record_id.partition('_')[0][:20]}_{_digest(record_id, 'successor')[:26]}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
