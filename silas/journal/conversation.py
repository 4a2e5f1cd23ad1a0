"""The journal in conversation: looking at it, and changing it as its owner asks.

1. A change is made in the owner's name. Whoever calls this has made sure that the owner asked.
2. A record that is named must be the only one that fits; else nothing is changed, and those that
   fit are listed. A time that could mean two things is not guessed.
3. The same `operation_id` a second time changes nothing and tells what came of it the first time,
   whatever is asked for then.
4. An answer has the taint of the records in it: others may have written them.
5. A day is planned without a model: what presses most comes first, in the time that is still free.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import Field, model_validator

from silas.journal import dispatch, queries
from silas.journal.errors import AmbiguousReference, RecordUnknown
from silas.journal.lines import (
    cancelled_lines,
    candidates,
    name_of,
    named_by,
    outcome_lines,
    read_day,
    reminder_line,
    task_lines,
    the_one,
    visible_line,
    when,
)
from silas.journal.models import (
    OWNER,
    Name,
    Record,
    Recurrence,
    Task,
    TaskStatus,
)
from silas.journal.operations import BlockInput
from silas.journal.records import OWNER_ACTOR, taint_of
from silas.journal.store import Journal, Outcome
from silas.kernel import Clock, JournalError, TaintLevel, format_timestamp, join_taint
from silas.kernel.errors import TimeNotUnderstood
from silas.kernel.models import Data
from silas.kernel.when import (
    DayMeans,
    day_bounds,
    local,
    parse_day,
    parse_minutes,
    parse_moment,
    parse_schedule,
)
from silas.storage import Reader

_NO_REMINDERS = "You have no reminders."
_IN_TIME = timedelta(minutes=2)
"""A reminder that is told later than this says when it was due."""
_MORNING = time(9, 0)
_HOUR_ALONE = re.compile(
    r"\bat (?P<hour>\d{1,2})(?!\s*(?:[:.\d]|[ap]\.?m|h|o'clock))\b", re.IGNORECASE
)
USUAL_LENGTH = timedelta(minutes=30)
"""How long a task takes of which nobody has said it."""
_MOST_TASKS = 50
_DAY_BEGINS, _DAY_ENDS = 9, 18
_QUARTER = timedelta(minutes=15)
_CATEGORY = frozenset({"category"})
_BARE_HOUR = re.compile(r"\d{1,2}")
_FIRST_CLEAR_HOUR = 7
"""A bare 3 could be at night or in the afternoon; a bare 9 is in the morning."""
Time = Annotated[str, Field(min_length=1, max_length=80)]


class JournalOpType(StrEnum):
    """What can be asked for."""

    ADD_TASK = "add_task"
    FINISH_TASK = "finish_task"
    START_TIMER = "start_timer"
    STOP_TIMER = "stop_timer"
    LOG_TIME = "log_time"
    PLAN_BLOCK = "plan_block"
    PLAN_DAY = "plan_day"
    REMIND = "remind"
    CANCEL_REMINDER = "cancel_reminder"


_REQUIRED = {
    JournalOpType.ADD_TASK: ("title",),
    JournalOpType.FINISH_TASK: ("task",),
    JournalOpType.START_TIMER: ("task",),
    JournalOpType.STOP_TIMER: (),
    JournalOpType.LOG_TIME: ("task", "duration"),
    JournalOpType.PLAN_BLOCK: ("task", "begin", "end"),
    JournalOpType.PLAN_DAY: (),
    JournalOpType.REMIND: ("title",),
    JournalOpType.CANCEL_REMINDER: (),
}
_OPTIONAL = {
    JournalOpType.ADD_TASK: ("category", "due", "every"),
    JournalOpType.PLAN_BLOCK: ("day",),
    JournalOpType.PLAN_DAY: ("day",),
    JournalOpType.REMIND: ("due", "every"),
    JournalOpType.CANCEL_REMINDER: ("task",),
}


class JournalOp(Data):
    """What the owner asks of the journal, as an agent understood it. The runtime decides."""

    op: JournalOpType
    title: Name | None = None
    """Of the new task."""
    task: Name | None = None
    """The name of a task that is there, its beginning, or the end of its id."""
    category: Name | None = None
    due: Time | None = None
    """When it is due; of a reminder, when the owner is told."""
    every: Time | None = None
    """When it comes again: `every monday`, `every day at 9am`."""
    duration: Time | None = None
    begin: Time | None = None
    end: Time | None = None
    day: Time | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        given = {name for name, value in self if name != "op" and value is not None}
        missing = [name for name in _REQUIRED[self.op] if name not in given]
        if missing:
            raise ValueError(f"{self.op} needs {' and '.join(missing)}")
        idle = given.difference(_REQUIRED[self.op], _OPTIONAL.get(self.op, ()))
        if idle:
            raise ValueError(f"{self.op} has no {' and no '.join(sorted(idle))}")
        if self.op is JournalOpType.REMIND and (self.due is None) == (self.every is None):
            raise ValueError("remind needs either due or every")
        return self


class JournalReply(Data):
    """An answer of the journal's."""

    text: str
    taint: TaintLevel
    done: bool = True
    """False: nothing was changed, and the text says why."""
    code: str = ""
    """Why not, without anybody's words in it."""
    changed: tuple[str, ...] = ()
    """The ids of the records that were changed."""


class DueReminder(Data):
    """A task that its owner is to be told of, since a moment."""

    task_id: str
    title: str
    at: datetime
    text: str
    """What is said."""
    taint: TaintLevel


@dataclass(frozen=True)
class _JournalRequest:
    op: JournalOp
    operation_id: str
    said_at: datetime


class JournalConversation:
    """One journal, as conversations use it.

    It does what it is told: whoever calls it has made sure that the owner wishes it.
    """

    def __init__(self, journal: Journal, *, clock: Clock, zone: ZoneInfo) -> None:
        self._journal = journal
        self._clock = clock
        self._zone = zone

    # Looking.

    async def day(self, text: str = "today") -> JournalReply:
        """What a day is about."""
        now = self._clock.now()

        def look(reader: Reader) -> JournalReply:
            wanted = parse_day(text, now=now, zone=self._zone)
            view = read_day(reader, wanted, zone=self._zone)
            lines = view.lines(zone=self._zone, now=now, ids=False)
            return JournalReply(text="\n".join(lines), taint=_taint(reader, view.records()))

        return await self._looked(look)

    async def open_tasks(self, category: str | None = None) -> JournalReply:
        """The tasks that are not closed, of one category or of all."""
        now = self._clock.now()

        def look(reader: Reader) -> JournalReply:
            place = None
            if category is not None:
                place = the_one(reader, category, kinds=_CATEGORY)
            limit = None if place is None else {place.id}
            tasks = queries.tasks(reader, limit_to=limit, limit=_MOST_TASKS)
            named = named_by(reader, tasks) | ({place.id: place} if place else {})
            names = {each.id: name_of(each) for each in named.values()}
            where = f" in {visible_line(name_of(place))}" if place else ""
            lines = task_lines(tasks, names, zone=self._zone, now=now, ids=False)
            text = "\n".join([f"Open{where}:", *lines]) if lines else f"Nothing is open{where}."
            return JournalReply(text=text, taint=_taint(reader, [*tasks, *named.values()]))

        return await self._looked(look)

    async def reminders(self) -> JournalReply:
        """What the owner will be reminded of, the next first."""

        def look(reader: Reader) -> JournalReply:
            now = self._clock.now()
            tasks = _reminded_of(reader, now)
            lines = [f"- {reminder_line(each, zone=self._zone, now=now)}" for each in tasks]
            text = "\n".join(["I will remind you:", *lines]) if lines else _NO_REMINDERS
            return JournalReply(text=text, taint=_taint(reader, tasks))

        return await self._looked(look)

    async def due_reminders(self, now: datetime) -> list[DueReminder]:
        """The reminders whose time has come; whoever tells them knows which were told before."""

        def look(reader: Reader) -> list[DueReminder]:
            found = [(each, each.last_reminder(now)) for each in queries.with_reminder(reader)]
            return [
                DueReminder(
                    task_id=task.id,
                    title=task.title,
                    at=at,
                    text=self._reminder_text(task, at, now),
                    taint=_taint(reader, [task]),
                )
                for task, at in found
                if at is not None
            ]

        return await self._journal.read(look)

    def _reminder_text(self, task: Task, at: datetime, now: datetime) -> str:
        late = f" (was due {when(at, self._zone, now)})" if now - at > _IN_TIME else ""
        return f"Reminder: {visible_line(task.title)}{late}"

    async def _looked(self, look: Callable[[Reader], JournalReply]) -> JournalReply:
        try:
            return await self._journal.read(look)
        except JournalError as error:
            return await self._refused(error)

    # Changing.

    async def fulfil(self, op: JournalOp, *, operation_id: str, said_at: datetime) -> JournalReply:
        """Do what is asked for, or say why not; times in words are meant as of `said_at`."""
        try:
            before = await self._journal.outcome_of(operation_id, actor=OWNER_ACTOR)
            if isinstance(before, Outcome):
                return await self._tell(before, op=op)
            request = _JournalRequest(op, operation_id, said_at)
            if op.op is JournalOpType.PLAN_DAY:
                return await self._plan_day(request)
            return await self._tell(*await self._change(request), op=op)
        except JournalError as error:
            return await self._refused(error)

    async def was_done(self, operation_id: str) -> bool:
        """Whether something was done under this id already (rule 3)."""
        before = await self._journal.outcome_of(operation_id, actor=OWNER_ACTOR)
        return isinstance(before, Outcome)

    async def _change(self, request: _JournalRequest) -> list[Outcome]:
        op = request.op
        arguments: dict[str, Any] = {}
        match op.op:
            case JournalOpType.ADD_TASK | JournalOpType.REMIND:
                return await self._add_task(request)
            case JournalOpType.CANCEL_REMINDER:
                name, arguments = await self._cancelling(op)
            case JournalOpType.STOP_TIMER:
                name = "stop_task_timer"
            case JournalOpType.START_TIMER:
                name, arguments = "start_task_timer", {"task_id": await self._task(op)}
            case JournalOpType.FINISH_TASK:
                name = "update_task_fields"
                fields = {"status": TaskStatus.DONE}
                arguments = {"task_id": await self._task(op), "fields": fields}
            case JournalOpType.LOG_TIME:
                name = "create_retrospective_time_entry"
                arguments = {"task_id": await self._task(op), **_just_spent(request)}
            case _:
                name = "upsert_day_plan_blocks"
                arguments = self._block(request, task_id=await self._task(op))
        return [await self._do(name, arguments, request.operation_id)]

    async def _do(self, name: str, arguments: Mapping[str, Any], operation_id: str) -> Outcome:
        return await dispatch.call(
            self._journal,
            name,
            arguments,
            scope=OWNER,
            actor=OWNER_ACTOR,
            operation_id=operation_id,
        )

    async def _add_task(self, request: _JournalRequest) -> list[Outcome]:
        op = request.op
        times = self._times(request)
        made = await self._new_category(request)
        category_id = made.payload["category_id"] if made else await self._category(op.category)
        task = {"title": op.title, "category_id": category_id, **times}
        done = await self._do("create_task", task, request.operation_id)
        return [made, done] if made else [done]

    def _times(self, request: _JournalRequest) -> dict[str, Any]:
        """When a new task is due, comes again and is told of."""
        op, now = request.op, request.said_at
        if op.op is JournalOpType.REMIND:
            repeats = read_recurrence(_clear(op.every), self._zone) if op.every else None
            first = (
                repeats.next_after(now)
                if repeats
                else reminder_moment(op.due or "", now=now, zone=self._zone)
            )
            at = format_timestamp(first) if first else None
            return {"due_at": at, "remind_at": at, "repeats": repeats}
        repeats = read_recurrence(op.every, self._zone, day_means="end") if op.every else None
        due = self._moment(op.due, now=now, day_means="end") if op.due else None
        return {"due_at": due, "repeats": repeats}

    async def _cancelling(self, op: JournalOp) -> tuple[str, dict[str, Any]]:
        """A task that is there for its reminder goes; another one only loses its reminder."""
        now = self._clock.now()
        tasks = await self._journal.read(lambda reader: _reminded_of(reader, now))
        task = self._meant_reminder(op.task, tasks)
        if task.remind_at == task.due_at:
            return "delete_record", {"record_id": task.id}
        return "update_task_fields", {"task_id": task.id, "fields": {"remind_at": None}}

    def _meant_reminder(self, text: str | None, tasks: Sequence[Task]) -> Task:
        said = (text or "").casefold()
        found = [each for each in tasks if each.id == said or each.title.casefold() == said]
        found = found or [each for each in tasks if said in each.title.casefold()]
        if len(found) == 1:
            return found[0]
        if not tasks:
            raise RecordUnknown(_NO_REMINDERS)
        now = self._clock.now()
        listed = [f"- {reminder_line(each, zone=self._zone, now=now)}" for each in found or tasks]
        which = "Which reminder?" if found else "There is no such reminder. These there are:"
        raise AmbiguousReference(
            "\n".join([which, *listed]), candidates=[{"id": each.id} for each in found or tasks]
        )

    async def _new_category(self, request: _JournalRequest) -> Outcome | None:
        """A category that nobody has heard of is made."""
        name = request.op.category
        if name is None:
            return None
        known = await self._journal.read(lambda reader: candidates(reader, name, kinds=_CATEGORY))
        if known:
            return None
        return await self._do("create_category", {"name": name}, f"{request.operation_id}.category")

    async def _category(self, text: str | None) -> str | None:
        if text is None:
            return None
        found = await self._journal.read(lambda reader: the_one(reader, text, kinds=_CATEGORY))
        return found.id

    async def _task(self, op: JournalOp) -> str:
        text = op.task or ""
        found = await self._journal.read(
            lambda reader: the_one(reader, text, kinds={"task"}, likelier=_is_open)
        )
        return found.id

    def _block(self, request: _JournalRequest, *, task_id: str) -> dict[str, Any]:
        op = request.op
        day = parse_day(op.day or "today", now=request.said_at, zone=self._zone)
        midnight, _ = day_bounds(day, self._zone)
        block = {
            "task_id": task_id,
            "start_time": self._moment(_clock_time(op.begin or ""), now=midnight),
            "end_time": self._moment(_clock_time(op.end or ""), now=midnight),
        }
        return {"plan_date": day.isoformat(), "upserts": [block]}

    def _moment(self, text: str, *, now: datetime, day_means: Any = "start") -> str:
        return format_timestamp(parse_moment(text, now=now, zone=self._zone, day_means=day_means))

    # A whole day.

    async def _plan_day(self, request: _JournalRequest) -> JournalReply:
        day = parse_day(request.op.day or "today", now=request.said_at, zone=self._zone)
        begin, end = self._waking_hours(day, request.said_at)
        view = await self._journal.read(lambda reader: read_day(reader, day, zone=self._zone))
        planned = {each.task_id for each in view.blocks}
        wanted = {each.id: each for each in (*view.pinned, *view.due) if not each.closed}
        tasks = sorted(
            (each for each in wanted.values() if each.id not in planned), key=queries.pressing
        )
        if not tasks:
            return await self._reply("Nothing that is due or pinned is left to be planned.", ())
        taken = [(each.starts_at, each.ends_at) for each in view.blocks]
        blocks, left = plan_blocks(tasks, taken, begin=begin, end=end)
        unplanned = [f"No room before {_DAY_ENDS}:00: {visible_line(each.title)}." for each in left]
        if not blocks:
            return await self._reply("\n".join(unplanned), left)
        arguments = {
            "plan_date": day.isoformat(),
            "upserts": [each.model_dump(mode="json") for each in blocks],
        }
        outcome = await self._do("upsert_day_plan_blocks", arguments, request.operation_id)
        return await self._tell(outcome, more=unplanned, about=left)

    def _waking_hours(self, day: date, now: datetime) -> tuple[datetime, datetime]:
        """The hours of a day that are planned; of today, what is left of them."""
        midnight = datetime.combine(day, datetime.min.time())
        begin = local(midnight.replace(hour=_DAY_BEGINS), self._zone)
        begin += _QUARTER * -((begin - now) // _QUARTER) if now > begin else timedelta()
        return begin, local(midnight.replace(hour=_DAY_ENDS), self._zone)

    # Replies.

    async def _tell(
        self,
        *outcomes: Outcome,
        op: JournalOp | None = None,
        more: Iterable[str] = (),
        about: Iterable[Record] = (),
    ) -> JournalReply:
        records = [each for outcome in outcomes for each in outcome.records]
        now = self._clock.now()
        cancelled = op is not None and op.op is JournalOpType.CANCEL_REMINDER

        def look(reader: Reader) -> JournalReply:
            named = named_by(reader, records)
            whole = Outcome(records=tuple(records))
            told = outcome_lines(whole, named, zone=self._zone, now=now)
            lines = [*(cancelled_lines(records) if cancelled else told), *more]
            return JournalReply(
                text="\n".join(lines),
                taint=_taint(reader, [*records, *named.values(), *about]),
                changed=tuple(each.id for each in records),
            )

        return await self._journal.read(look)

    async def _reply(self, text: str, about: Iterable[Record]) -> JournalReply:
        taint = await self._journal.read(lambda reader: _taint(reader, list(about)))
        return JournalReply(text=text, taint=taint, done=False, code="nothing to plan")

    async def _refused(self, error: JournalError) -> JournalReply:
        named: Collection[str] = ()
        if isinstance(error, AmbiguousReference):
            named = [str(each["id"]) for each in error.details.get("candidates", ())]
        taint = await self._journal.read(lambda reader: taint_of(reader, named))
        return JournalReply(text=error.message, taint=taint, done=False, code=error.code)


Span = tuple[datetime, datetime]


def plan_blocks(
    tasks: Iterable[Task], taken: Iterable[Span], *, begin: datetime, end: datetime
) -> tuple[list[BlockInput], list[Task]]:
    """A block for each task in its order, beside what is taken; and the tasks that found no room.

    A task is never cut in pieces: one that is too long for every gap finds no room.
    """
    spans = list(taken)
    blocks: list[BlockInput] = []
    left: list[Task] = []
    for task in tasks:
        length = timedelta(minutes=task.estimate_minutes) if task.estimate_minutes else USUAL_LENGTH
        start = _first_gap(spans, length, begin=begin, end=end)
        if start is None:
            left.append(task)
            continue
        spans.append((start, start + length))
        blocks.append(BlockInput(task_id=task.id, start_time=start, end_time=start + length))
    return blocks, left


def _first_gap(
    spans: Sequence[Span], length: timedelta, *, begin: datetime, end: datetime
) -> datetime | None:
    start = begin
    for taken_from, taken_to in sorted(spans):
        if start + length <= taken_from:
            break
        start = max(start, taken_to)
    return start if start + length <= end else None


def _taint(reader: Reader, records: Collection[Record]) -> TaintLevel:
    return join_taint(TaintLevel.OWNER, taint_of(reader, {each.id for each in records}))


def _reminded_of(reader: Reader, now: datetime) -> list[Task]:
    """The tasks whose reminder is still to come, the next first."""
    times = [(task.reminder_after(now), task) for task in queries.with_reminder(reader)]
    return [task for at, task in sorted(times, key=lambda each: (str(each[0]), each[1].id)) if at]


def reminder_moment(text: str, *, now: datetime, zone: ZoneInfo) -> datetime:
    """When the owner wishes to be reminded; a day alone means its morning. It is still to come."""
    words = _clear(text)
    begin = parse_moment(words, now=now, zone=zone)
    if begin != parse_moment(words, now=now, zone=zone, day_means="end"):
        begin = local(datetime.combine(begin.astimezone(zone).date(), _MORNING), zone)
    if begin <= now:
        raise TimeNotUnderstood(f"{text!r} is over already. Say a time that is still to come.")
    return begin


def read_recurrence(text: str, zone: ZoneInfo, *, day_means: DayMeans = "start") -> Recurrence:
    """When something comes again, in words: `every monday`, or `monday` alone."""
    cron = parse_schedule(text, day_means=day_means)
    cron = cron or parse_schedule(f"every {text}", day_means=day_means)
    if cron is None:
        raise TimeNotUnderstood(
            f"{text!r} is not a repetition that Silas understands. Say every day, every Monday and "
            "Thursday, every weekday at 9am, every month on the 1st, or every year on 5 May."
        )
    return Recurrence(cron=cron, zone=zone.key)


def _clear(text: str) -> str:
    """The words about a time, with an hour that can mean one thing only."""
    bare = _HOUR_ALONE.search(text)
    if bare is None:
        return text
    return text[: bare.start("hour")] + _clock_time(bare["hour"]) + text[bare.end("hour") :]


def _is_open(record: Record) -> bool:
    return isinstance(record, Task) and not record.closed


def _just_spent(request: _JournalRequest) -> dict[str, str]:
    length = timedelta(minutes=parse_minutes(request.op.duration or ""))
    return {
        "started_at": format_timestamp(request.said_at - length),
        "ended_at": format_timestamp(request.said_at),
    }


def _clock_time(text: str) -> str:
    """A time of day; a bare hour only if it can mean one thing."""
    if _BARE_HOUR.fullmatch(text) is None:
        return text
    if not _FIRST_CLEAR_HOUR <= int(text) < 24:
        raise TimeNotUnderstood(
            f"{text!r} could be in the night or in the afternoon: say {text}pm."
        )
    return f"{text}:00"
