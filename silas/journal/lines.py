"""Records of the journal as lines for people, in the owner's time zone."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from silas.journal.models import Checklist, ChecklistItem, DayBlock, Rating, Record, Task, TimeEntry
from silas.journal.references import name_of, short_id
from silas.journal.rows import kind_of
from silas.kernel import visible

_MARKS = {
    "open": " ",
    "groomed": "·",
    "in_progress": ">",
    "blocked": "!",
    "on_hold": "-",
    "done": "x",
    "rejected": "/",
}


def when(moment: datetime, zone: ZoneInfo, now: datetime) -> str:
    """A moment as people say it: `today 17:00`, `Fri 20 Nov 09:00`."""
    local = moment.astimezone(zone)
    today = now.astimezone(zone).date()
    days = {
        today: "today",
        today + timedelta(days=1): "tomorrow",
        today - timedelta(days=1): "yesterday",
    }
    day = days.get(local.date()) or day_name(local.date(), today)
    # The last minute of a day stands for the day.
    return day if local.strftime("%H:%M") == "23:59" else f"{day} {local:%H:%M}"


def day_name(day: date, today: date) -> str:
    """`Fri 20 Nov`, with the year if it is another one."""
    return f"{day:%a %-d %b}" if day.year == today.year else f"{day:%a %-d %b %Y}"


def task_line(task: Task, categories: Mapping[str, str], *, zone: ZoneInfo, now: datetime) -> str:
    """One task."""
    parts = [
        f"[{_MARKS[task.status]}] {short_id(task.id)}  {task.priority}  {visible_line(task.title)}"
    ]
    if task.category_id:
        parts.append(f"({visible_line(categories.get(task.category_id, 'gone'))})")
    if task.due_at is not None:
        late = "late: " if task.due_at < now and not task.closed else ""
        parts.append(f"{late}due {when(task.due_at, zone, now)}")
    if task.estimate_minutes:
        parts.append(duration(timedelta(minutes=task.estimate_minutes)))
    parts += [f"#{visible_line(label)}" for label in task.labels]
    return "  ".join(parts)


def checklist_lines(checklist: Checklist, items: list[ChecklistItem]) -> list[str]:
    """A checklist with its items."""
    done = sum(item.checked for item in items)
    head = f"{short_id(checklist.id)}  {visible_line(checklist.title)}  {done}/{len(items)}"
    return [head, *(f"  {item_line(item)}" for item in items)]


def item_line(item: ChecklistItem) -> str:
    """One item."""
    return f"[{'x' if item.checked else ' '}] {short_id(item.id)}  {visible_line(item.text)}"


def time_line(entry: TimeEntry, names: Mapping[str, str], *, zone: ZoneInfo, now: datetime) -> str:
    """One stretch of time; the one that runs says so."""
    end = entry.ended_at or now
    until = f"{end.astimezone(zone):%H:%M}" if entry.ended_at else "now"
    what = names.get(entry.task_id or entry.category_id or "", "")
    told = "  ".join(visible_line(each) for each in (what, entry.note) if each)
    begin = when(entry.started_at, zone, now)
    spent = duration(end - entry.started_at)
    return f"{short_id(entry.id)}  {begin} to {until}  {spent}  {told}".rstrip()


def block_line(block: DayBlock, names: Mapping[str, str], *, zone: ZoneInfo) -> str:
    """One block of a plan."""
    begin, end = block.starts_at.astimezone(zone), block.ends_at.astimezone(zone)
    what = names.get(block.task_id or block.category_id or "", "")
    told = "  ".join(visible_line(each) for each in (what, block.note) if each)
    return f"{begin:%H:%M} to {end:%H:%M}  {short_id(block.id)}  {told}".rstrip()


def rating_line(rating: Rating, names: Mapping[str, str]) -> str:
    """One rating."""
    what = visible_line(names.get(rating.target_id, rating.target_id))
    note = f"  {visible_line(rating.note)}" if rating.note else ""
    return f"{visible_line(rating.dimension)} {rating.value:g}  {what}{note}"


def record_line(record: Record) -> str:
    """Any record, in short."""
    kind = kind_of(record).replace("_", " ")
    gone = "  (deleted)" if record.deleted else ""
    return f"{short_id(record.id)}  {kind}  {visible_line(name_of(record))}{gone}"


def duration(length: timedelta) -> str:
    """`1 h 30`, `25 min`."""
    minutes = max(0, round(length.total_seconds() / 60))
    return f"{minutes // 60} h {minutes % 60:02}" if minutes >= 60 else f"{minutes} min"


def visible_line(text: str) -> str:
    """Text of a record on one line, with nothing invisible in it."""
    return visible(text, keep_newlines=False)
