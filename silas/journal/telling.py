"""What a change of the journal did, in a sentence for each record."""

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from silas.journal.lines import day_name, duration, visible_line, when
from silas.journal.models import Category, DayBlock, Record, Task, TaskStatus, TimeEntry
from silas.journal.references import name_of
from silas.journal.results import Outcome

_SO_ALREADY = "It was so already."


def told(
    outcome: Outcome, named: Mapping[str, Record], *, zone: ZoneInfo, now: datetime
) -> list[str]:
    """The change in sentences; `named` are the tasks and categories that its records belong to."""
    names = {each.id: visible_line(name_of(each)) for each in named.values()}
    lines = [_line(each, names, zone=zone, now=now) for each in outcome.records]
    return [line for line in lines if line is not None] or [_SO_ALREADY]


def _line(record: Record, names: Mapping[str, str], *, zone: ZoneInfo, now: datetime) -> str | None:
    match record:
        case Category():
            return f"New category: {visible_line(record.name)}."
        case Task():
            return _task(record, names, zone=zone, now=now)
        case TimeEntry():
            return _time(record, names)
        case DayBlock():
            begin, end = record.starts_at.astimezone(zone), record.ends_at.astimezone(zone)
            day = day_name(begin.date(), now.astimezone(zone).date())
            what = names.get(record.task_id or "", "")
            return f"Planned: {day}, {begin:%H:%M} to {end:%H:%M}, {what}."
        case _:
            return None


def _task(task: Task, names: Mapping[str, str], *, zone: ZoneInfo, now: datetime) -> str | None:
    title = visible_line(task.title)
    match task.status:
        case TaskStatus.DONE:
            return f"Done: {title}."
        case TaskStatus.IN_PROGRESS:
            return None  # the timer that was started says it
        case _:
            category = names.get(task.category_id or "")
            place = f" ({category})" if category else ""
            due = f", due {when(task.due_at, zone, now)}" if task.due_at else ""
            return f"Written down: {title}{place}{due}."


def _time(entry: TimeEntry, names: Mapping[str, str]) -> str:
    what = names.get(entry.task_id or entry.category_id or "", "something")
    if entry.ended_at is None:
        return f"The timer runs: {what}."
    spent = duration(entry.ended_at - entry.started_at)
    if entry.source == "timer":
        return f"The timer is stopped: {what}, {spent}."
    return f"Time written down: {what}, {spent}."
