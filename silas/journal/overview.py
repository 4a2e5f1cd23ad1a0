"""A day of the journal and lists of tasks, as people read them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from silas.journal import reading
from silas.journal.lines import block_line, day_name, task_line, time_line
from silas.journal.models import Category, DayBlock, DayPlan, Record, Task, TimeEntry
from silas.journal.moments import day_bounds
from silas.journal.references import name_of
from silas.journal.rows import load
from silas.storage import Reader

_NOTHING = "Nothing is planned, and nothing is due."


@dataclass(frozen=True)
class DayView:
    """What a day is about."""

    day: date
    plan: DayPlan | None
    blocks: list[DayBlock]
    running: TimeEntry | None
    pinned: list[Task]
    due: list[Task]
    named: Mapping[str, Record]
    """The tasks and categories that these belong to, by id."""

    def lines(self, *, zone: ZoneInfo, now: datetime) -> list[str]:
        """The day in lines."""
        names = {each.id: name_of(each) for each in self.named.values()}
        lines = [day_name(self.day, now.astimezone(zone).date())]
        lines += [f"  {block_line(each, names, zone=zone)}" for each in self.blocks]
        begin, end = day_bounds(self.day, zone)
        if self.running is not None and begin <= now < end:
            lines.append(f"Timer: {time_line(self.running, names, zone=zone, now=now)}")
        for head, tasks in (("Pinned:", self.pinned), ("Due:", self.due)):
            if tasks:
                lines += [head, *task_lines(tasks, names, zone=zone, now=now)]
        return lines if len(lines) > 1 else [*lines, _NOTHING]

    def records(self) -> list[Record]:
        """Everything that the lines tell of."""
        running = [self.running] if self.running is not None else []
        return [*self.blocks, *running, *self.pinned, *self.due, *self.named.values()]


def read_day(reader: Reader, day: date, *, zone: ZoneInfo) -> DayView:
    """The plan of a day, the timer, what is pinned and what is due."""
    _, end = day_bounds(day, zone)
    plan = reading.day_plan(reader, day)
    blocks = reading.blocks_of(reader, plan.id) if plan else []
    running = reading.running_timer(reader)
    found = [load(reader, each) for each in (plan.pinned_task_ids if plan else ())]
    pinned = [each for each in found if isinstance(each, Task) and not each.deleted]
    due = reading.tasks(reader, due_before=end)
    shown = [*blocks, *([running] if running else []), *pinned, *due]
    return DayView(day, plan, blocks, running, pinned, due, named_by(reader, shown))


def named_by(reader: Reader, records: Iterable[Record]) -> dict[str, Record]:
    """The tasks and categories that these records belong to, by id."""
    wanted = {
        name
        for each in records
        for name in (getattr(each, "task_id", None), getattr(each, "category_id", None))
        if name
    }
    found = (load(reader, each) for each in sorted(wanted))
    return {each.id: each for each in found if isinstance(each, Task | Category)}


def task_lines(
    tasks: Iterable[Task], names: Mapping[str, str], *, zone: ZoneInfo, now: datetime
) -> list[str]:
    """Tasks below a heading."""
    return [f"  {task_line(each, names, zone=zone, now=now)}" for each in tasks]
