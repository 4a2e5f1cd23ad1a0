"""Records, lists of tasks, whole days and changes as lines for people, in the owner's time zone.

And the record that a person means: by its id, the end of its id, or its name. Whoever wants to
change something needs exactly one record: `the_one` raises if there are several, and lists them.
Nothing is ever guessed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from silas.journal import queries
from silas.journal.errors import AmbiguousReference, RecordUnknown
from silas.journal.models import (
    OWNER,
    AccessScope,
    Category,
    Checklist,
    ChecklistItem,
    DayBlock,
    DayPlan,
    Note,
    Priority,
    Rating,
    Record,
    Task,
    TaskStatus,
    TimeEntry,
    successor_id,
)
from silas.journal.records import CONTENT, kind_of, load, may_see, read_record
from silas.journal.store import Outcome
from silas.kernel import visible
from silas.kernel.when import day_bounds
from silas.storage import Reader

SHORT = 5
"""How many letters of an id are shown; at least three of its end find it."""

_NAME = """coalesce(
    content ->> '$.title', content ->> '$.name', content ->> '$.text', content ->> '$.note', '')"""
_WORDS_FIRST = "record_words CROSS JOIN records ON number = record_words.rowid"
_LEAST = 3
_SHOWN = 8


@dataclass(frozen=True)
class Candidate:
    """A record that may be meant: 1.0 is its id or whole name, less is less certain."""

    record: Record
    confidence: float
    why: str


def short_id(record_id: str) -> str:
    """The end of an id, which is enough to name it."""
    return record_id if record_id.startswith("dayplan-") else record_id[-SHORT:]


def name_of(record: Record) -> str:
    """What people call a record."""
    match record:
        case Task() | Checklist():
            return record.title
        case Category():
            return record.name
        case ChecklistItem() | Note():
            return record.text
        case _:
            return str(getattr(record, "note", "") or record.id)


def candidates(
    reader: Reader,
    text: str,
    *,
    kinds: Collection[str],
    scope: AccessScope = OWNER,
    deleted: bool = False,
) -> list[Candidate]:
    """The records that may be meant, the likeliest first; only those that are in scope."""
    known: dict[str, Candidate] = {}
    for found in _all(reader, text.strip(), kinds, deleted=deleted):
        fits = may_see(reader, found.record, scope) and (deleted or not found.record.deleted)
        if fits and found.confidence > getattr(known.get(found.record.id), "confidence", 0):
            known[found.record.id] = found
    return sorted(known.values(), key=lambda each: (-each.confidence, each.record.id))


def the_one(
    reader: Reader,
    text: str,
    *,
    kinds: Collection[str],
    scope: AccessScope = OWNER,
    deleted: bool = False,
    likelier: Callable[[Record], bool] | None = None,
) -> Record:
    """The one record that is meant; raises `RecordUnknown` or `AmbiguousReference`.

    Of several that have this very name, the only one that is `likelier` is meant: the task that is
    still open, and not those of earlier weeks.
    """
    found = candidates(reader, text, kinds=kinds, scope=scope, deleted=deleted)
    if not found:
        what = " or ".join(kind.replace("_", " ") for kind in sorted(kinds))
        raise RecordUnknown(f"There is no {what} called {text!r}. {RecordUnknown.sentence()}")
    best = [each for each in found if each.confidence == found[0].confidence]
    # A name that is only begun, or words, must fit one record alone.
    rivals = best if found[0].confidence == 1.0 else found
    if likelier is not None and found[0].confidence == 1.0:
        rivals = [each for each in best if likelier(each.record)] or best
    if len(rivals) > 1:
        raise AmbiguousReference(
            _which(text, rivals), candidates=[_candidate_data(each) for each in rivals]
        )
    return rivals[0].record


def _all(
    reader: Reader, text: str, kinds: Collection[str], *, deleted: bool
) -> Iterator[Candidate]:
    whole = load(reader, text)
    if whole is not None and kind_of(whole) in kinds:
        yield Candidate(whole, 1.0, "its id")
    if len(text) >= _LEAST and text.isalnum():
        for record in _ending(reader, text.lower(), kinds):
            yield Candidate(record, 0.9, "the end of its id")
    for record in _named(reader, text, kinds, deleted=deleted):
        name = name_of(record).casefold()
        if name == text.casefold():
            yield Candidate(record, 1.0, "its name")
        elif text:
            yield Candidate(record, 0.8, "the beginning of its name")
    for record in queries.search(reader, text, kinds=kinds, limit=_SHOWN):
        yield Candidate(record, 0.5, "its words")


def _ending(reader: Reader, text: str, kinds: Collection[str]) -> Iterator[Record]:
    marks = ", ".join("?" * len(kinds))
    sql = f"SELECT {CONTENT} FROM records WHERE kind IN ({marks}) AND substr(id, ?) = ?"  # noqa: S608
    for row in reader.rows(sql, (*sorted(kinds), -len(text), text)):
        yield read_record(*row)


def _named(reader: Reader, text: str, kinds: Collection[str], *, deleted: bool) -> Iterator[Record]:
    """Records whose name begins like this; of those with its words, if it has any."""
    words = queries.words_expression(text)
    source = "records WHERE"
    params: list[str] = []
    if words is not None and not deleted:
        # In this order: else the words would be looked for once for each record.
        source = f"{_WORDS_FIRST} WHERE record_words MATCH ? AND"
        params = [words]
    marks = ", ".join("?" * len(kinds))
    sql = f"SELECT {CONTENT}, {_NAME} FROM {source} kind IN ({marks}) AND deleted <= ?"  # noqa: S608
    for kind, content, name in reader.rows(sql, (*params, *sorted(kinds), int(deleted))):
        if name.casefold().startswith(text.casefold()):
            yield read_record(kind, content)


def _which(text: str, rivals: list[Candidate]) -> str:
    lines = [
        f"  {short_id(each.record.id)}  {visible(name_of(each.record), keep_newlines=False)}"
        for each in rivals[:_SHOWN]
    ]
    more = f"\n  and {len(rivals) - _SHOWN} more" if len(rivals) > _SHOWN else ""
    listed = "\n".join(lines)
    return f"{len(rivals)} records fit {text!r}. Nothing was changed: name one.\n{listed}{more}"


def _candidate_data(each: Candidate) -> dict[str, str | float]:
    return {
        "id": each.record.id,
        "kind": kind_of(each.record),
        "name": name_of(each.record),
        "confidence": each.confidence,
    }


_MARKS = {
    "open": " ",
    "groomed": "·",
    "in_progress": ">",
    "blocked": "!",
    "on_hold": "-",
    "done": "x",
    "rejected": "/",
}
_NOTHING = "Nothing is planned, and nothing is due."


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


def task_line(
    task: Task, categories: Mapping[str, str], *, zone: ZoneInfo, now: datetime, ids: bool = True
) -> str:
    """One task; `ids` are for whoever types commands."""
    name = [short_id(task.id)] if ids else []
    # Almost every task has the priority that nobody chose.
    name += [task.priority] if task.priority is not Priority.P2 else []
    parts = [f"[{_MARKS[task.status]}] {'  '.join([*name, visible_line(task.title)])}"]
    if task.category_id:
        parts.append(f"({visible_line(categories.get(task.category_id, 'gone'))})")
    if task.due_at is not None:
        late = "late: " if task.due_at < now and not task.closed else ""
        parts.append(f"{late}due {when(task.due_at, zone, now)}")
    if task.repeats is not None:
        parts.append(task.repeats.in_words)
    reminder = task.reminder_after(now)
    if reminder is not None:
        parts.append(f"reminder {when(reminder, zone, now)}")
    if task.estimate_minutes:
        parts.append(duration(timedelta(minutes=task.estimate_minutes)))
    parts += [f"#{visible_line(label)}" for label in task.labels]
    return "  ".join(parts)


def reminder_line(task: Task, *, zone: ZoneInfo, now: datetime) -> str:
    """When the owner is told of a task next: `call mom, today 17:00`."""
    reminder = task.reminder_after(now)
    often = f" ({task.repeats.in_words})" if task.repeats else ""
    at = f", {when(reminder, zone, now)}" if reminder else ""
    return f"{visible_line(task.title)}{at}{often}"


def checklist_lines(checklist: Checklist, items: list[ChecklistItem]) -> list[str]:
    """A checklist with its items."""
    done = sum(item.checked for item in items)
    head = f"{short_id(checklist.id)}  {visible_line(checklist.title)}  {done}/{len(items)}"
    return [head, *(f"  {item_line(item)}" for item in items)]


def item_line(item: ChecklistItem) -> str:
    """One item."""
    return f"[{'x' if item.checked else ' '}] {short_id(item.id)}  {visible_line(item.text)}"


def time_line(
    entry: TimeEntry, names: Mapping[str, str], *, zone: ZoneInfo, now: datetime, ids: bool = True
) -> str:
    """One stretch of time; the one that runs says so."""
    end = entry.ended_at or now
    until = f"{end.astimezone(zone):%H:%M}" if entry.ended_at else "now"
    what = names.get(entry.task_id or entry.category_id or "", "")
    text = "  ".join(visible_line(each) for each in (what, entry.note) if each)
    begin = when(entry.started_at, zone, now)
    spent = duration(end - entry.started_at)
    name = f"{short_id(entry.id)}  " if ids else ""
    return f"{name}{begin} to {until}  {spent}  {text}".rstrip()


def block_line(
    block: DayBlock, names: Mapping[str, str], *, zone: ZoneInfo, ids: bool = True
) -> str:
    """One block of a plan."""
    begin, end = block.starts_at.astimezone(zone), block.ends_at.astimezone(zone)
    what = names.get(block.task_id or block.category_id or "", "")
    text = "  ".join(visible_line(each) for each in (what, block.note) if each)
    name = f"{short_id(block.id)}  " if ids else ""
    return f"{begin:%H:%M} to {end:%H:%M}  {name}{text}".rstrip()


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

    def lines(self, *, zone: ZoneInfo, now: datetime, ids: bool = True) -> list[str]:
        """The day in lines."""
        names = {each.id: name_of(each) for each in self.named.values()}
        lines = [day_name(self.day, now.astimezone(zone).date())]
        lines += [f"  {block_line(each, names, zone=zone, ids=ids)}" for each in self.blocks]
        begin, end = day_bounds(self.day, zone)
        if self.running is not None and begin <= now < end:
            line = time_line(self.running, names, zone=zone, now=now, ids=ids)
            lines.append(f"Timer: {line}")
        for head, tasks in (("Pinned:", self.pinned), ("Due:", self.due)):
            if tasks:
                lines += [head, *task_lines(tasks, names, zone=zone, now=now, ids=ids)]
        return lines if len(lines) > 1 else [*lines, _NOTHING]

    def records(self) -> list[Record]:
        """Everything that the lines tell of."""
        running = [self.running] if self.running is not None else []
        return [*self.blocks, *running, *self.pinned, *self.due, *self.named.values()]


def read_day(reader: Reader, day: date, *, zone: ZoneInfo) -> DayView:
    """The plan of a day, the timer, what is pinned and what is due."""
    _, end = day_bounds(day, zone)
    plan = queries.day_plan(reader, day)
    blocks = queries.blocks_of(reader, plan.id) if plan else []
    running = queries.running_timer(reader)
    found = [load(reader, each) for each in (plan.pinned_task_ids if plan else ())]
    pinned = [each for each in found if isinstance(each, Task) and not each.deleted]
    due = queries.tasks(reader, due_before=end)
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
    tasks: Iterable[Task],
    names: Mapping[str, str],
    *,
    zone: ZoneInfo,
    now: datetime,
    ids: bool = True,
) -> list[str]:
    """Tasks below a heading."""
    return [f"  {task_line(each, names, zone=zone, now=now, ids=ids)}" for each in tasks]


_SO_ALREADY = "It was like that already; nothing was changed."


def outcome_lines(
    outcome: Outcome, named: Mapping[str, Record], *, zone: ZoneInfo, now: datetime
) -> list[str]:
    """The change in sentences; `named` are the tasks and categories that its records belong to."""
    names = {each.id: visible_line(name_of(each)) for each in named.values()}
    done = [each for each in outcome.records if isinstance(each, Task) and each.closed]
    following = {successor_id(each.id) for each in done}
    lines = [
        _next_line(each, zone=zone, now=now)
        if isinstance(each, Task) and each.id in following
        else _line(each, names, zone=zone, now=now)
        for each in outcome.records
    ]
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


def cancelled_lines(records: Iterable[Record]) -> list[str]:
    """What became of the reminders of these tasks, in sentences."""
    tasks = [each for each in records if isinstance(each, Task)]
    return [
        f"Cancelled: {visible_line(each.title)}."
        if each.deleted
        else f"I will not remind you of it: {visible_line(each.title)}. The task stays."
        for each in tasks
    ] or [_SO_ALREADY]


def _next_line(task: Task, *, zone: ZoneInfo, now: datetime) -> str:
    due = f", due {when(task.due_at, zone, now)}" if task.due_at else ""
    return f"Next: {visible_line(task.title)}{due}."


def _task(task: Task, names: Mapping[str, str], *, zone: ZoneInfo, now: datetime) -> str | None:
    title = visible_line(task.title)
    match task.status:
        case TaskStatus.DONE:
            return f"Done: {title}."
        case TaskStatus.IN_PROGRESS:
            return None  # the timer that was started says it
        case _:
            return _written_down(task, names, zone=zone, now=now)


def _written_down(task: Task, names: Mapping[str, str], *, zone: ZoneInfo, now: datetime) -> str:
    if task.remind_at is not None and task.remind_at == task.due_at:
        return f"I will remind you: {reminder_line(task, zone=zone, now=now)}."
    category = names.get(task.category_id or "")
    place = f" ({category})" if category else ""
    due = f", due {when(task.due_at, zone, now)}" if task.due_at else ""
    often = f", {task.repeats.in_words}" if task.repeats else ""
    return f"Written down: {visible_line(task.title)}{place}{due}{often}."


def _time(entry: TimeEntry, names: Mapping[str, str]) -> str:
    what = names.get(entry.task_id or entry.category_id or "", "something")
    if entry.ended_at is None:
        return f"The timer runs: {what}."
    spent = duration(entry.ended_at - entry.started_at)
    if entry.source == "timer":
        return f"The timer is stopped: {what}, {spent}."
    return f"Time written down: {what}, {spent}."
