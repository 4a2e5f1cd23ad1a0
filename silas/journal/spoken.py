"""The journal in conversation: a look at it, and the wishes of its owner.

1. A wish is made in the owner's name. Whoever calls this has made sure that it is the owner's.
2. A record that is named must be the only one that fits; else nothing is changed, and those that
   fit are listed. A time that could mean two things is not guessed.
3. The same `operation_id` a second time changes nothing and tells what came of it the first time,
   whatever is wished for then.
4. What is told has the taint of the records in it: others may have written them.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from silas.journal import desk, reading
from silas.journal.authors import OWNER_ACTOR, taint_of
from silas.journal.errors import AmbiguousReference, TimeNotUnderstood
from silas.journal.laying_out import lay_out
from silas.journal.lines import visible_line
from silas.journal.models import OWNER, Record, Task, TaskStatus
from silas.journal.moments import (
    day_bounds,
    local,
    understand,
    understand_day,
    understand_minutes,
)
from silas.journal.overview import named_by, read_day, task_lines
from silas.journal.references import candidates, name_of, the_one
from silas.journal.results import Outcome
from silas.journal.store import Journal
from silas.journal.telling import told
from silas.journal.wishes import JournalOp, JournalOpType
from silas.kernel import Clock, JournalError, TaintLevel, format_timestamp, join_taint
from silas.kernel.models import Data
from silas.storage import Reader

_MOST_TASKS = 50
_DAY_BEGINS, _DAY_ENDS = 9, 18
_QUARTER = timedelta(minutes=15)
_CATEGORY = frozenset({"category"})
_BARE_HOUR = re.compile(r"\d{1,2}")
_FIRST_CLEAR_HOUR = 7
"""A bare 3 could be at night or in the afternoon; a bare 9 is in the morning."""


class Told(Data):
    """An answer of the journal's."""

    text: str
    taint: TaintLevel
    done: bool = True
    """False: nothing was changed, and the text says why."""
    code: str = ""
    """Why not, without anybody's words in it."""
    changed: tuple[str, ...] = ()
    """The ids of the records that were changed."""


@dataclass(frozen=True)
class _Wish:
    op: JournalOp
    operation_id: str
    said_at: datetime


class SpokenJournal:
    """`silas.stream.ports.JournalRoom` over one journal."""

    def __init__(self, journal: Journal, *, clock: Clock, zone: ZoneInfo) -> None:
        self._journal = journal
        self._clock = clock
        self._zone = zone

    # Looking.

    async def day(self, text: str = "today") -> Told:
        """What a day is about."""
        now = self._clock.now()

        def look(reader: Reader) -> Told:
            wanted = understand_day(text, now=now, zone=self._zone)
            view = read_day(reader, wanted, zone=self._zone)
            lines = view.lines(zone=self._zone, now=now)
            return Told(text="\n".join(lines), taint=_taint(reader, view.records()))

        return await self._looked(look)

    async def open_tasks(self, category: str | None = None) -> Told:
        """The tasks that are not closed, of one category or of all."""
        now = self._clock.now()

        def look(reader: Reader) -> Told:
            place = None
            if category is not None:
                place = the_one(reader, category, kinds=_CATEGORY)
            limit = None if place is None else {place.id}
            tasks = reading.tasks(reader, limit_to=limit, limit=_MOST_TASKS)
            named = named_by(reader, tasks) | ({place.id: place} if place else {})
            names = {each.id: name_of(each) for each in named.values()}
            where = f" in {visible_line(name_of(place))}" if place else ""
            lines = task_lines(tasks, names, zone=self._zone, now=now)
            text = "\n".join([f"Open{where}:", *lines]) if lines else f"Nothing is open{where}."
            return Told(text=text, taint=_taint(reader, [*tasks, *named.values()]))

        return await self._looked(look)

    async def _looked(self, look: Callable[[Reader], Told]) -> Told:
        try:
            return await self._journal.read(look)
        except JournalError as error:
            return await self._refused(error)

    # Wishes.

    async def fulfil(self, op: JournalOp, *, operation_id: str, said_at: datetime) -> Told:
        """Do what is wished for, or say why not; times in words are meant as of `said_at`."""
        try:
            before = await self._journal.outcome_of(operation_id, actor=OWNER_ACTOR)
            if isinstance(before, Outcome):
                return await self._tell(before)
            wish = _Wish(op, operation_id, said_at)
            if op.op is JournalOpType.PLAN_DAY:
                return await self._plan_day(wish)
            return await self._tell(*await self._change(wish))
        except JournalError as error:
            return await self._refused(error)

    async def _change(self, wish: _Wish) -> list[Outcome]:
        op = wish.op
        arguments: dict[str, Any] = {}
        match op.op:
            case JournalOpType.ADD_TASK:
                return await self._add_task(wish)
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
                arguments = {"task_id": await self._task(op), **_just_spent(wish)}
            case _:
                name = "upsert_day_plan_blocks"
                arguments = self._block(wish, task_id=await self._task(op))
        return [await self._do(name, arguments, wish.operation_id)]

    async def _do(self, name: str, arguments: Mapping[str, Any], operation_id: str) -> Outcome:
        return await desk.call(
            self._journal,
            name,
            arguments,
            scope=OWNER,
            actor=OWNER_ACTOR,
            operation_id=operation_id,
        )

    async def _add_task(self, wish: _Wish) -> list[Outcome]:
        op = wish.op
        due = None
        if op.due is not None:
            due = self._moment(op.due, now=wish.said_at, day_means="end")
        made = await self._new_category(wish)
        category_id = made.payload["category_id"] if made else await self._category(op.category)
        task = {"title": op.title, "category_id": category_id, "due_at": due}
        done = await self._do("create_task", task, wish.operation_id)
        return [made, done] if made else [done]

    async def _new_category(self, wish: _Wish) -> Outcome | None:
        """A category that nobody has heard of is made."""
        name = wish.op.category
        if name is None:
            return None
        known = await self._journal.read(lambda reader: candidates(reader, name, kinds=_CATEGORY))
        if known:
            return None
        return await self._do("create_category", {"name": name}, f"{wish.operation_id}.category")

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

    def _block(self, wish: _Wish, *, task_id: str) -> dict[str, Any]:
        op = wish.op
        day = understand_day(op.day or "today", now=wish.said_at, zone=self._zone)
        midnight, _ = day_bounds(day, self._zone)
        block = {
            "task_id": task_id,
            "start_time": self._moment(_clock_time(op.begin or ""), now=midnight),
            "end_time": self._moment(_clock_time(op.end or ""), now=midnight),
        }
        return {"plan_date": day.isoformat(), "upserts": [block]}

    def _moment(self, text: str, *, now: datetime, day_means: Any = "start") -> str:
        return format_timestamp(understand(text, now=now, zone=self._zone, day_means=day_means))

    # A whole day.

    async def _plan_day(self, wish: _Wish) -> Told:
        day = understand_day(wish.op.day or "today", now=wish.said_at, zone=self._zone)
        begin, end = self._waking_hours(day, wish.said_at)
        view = await self._journal.read(lambda reader: read_day(reader, day, zone=self._zone))
        planned = {each.task_id for each in view.blocks}
        wanted = {each.id: each for each in (*view.pinned, *view.due) if not each.closed}
        tasks = sorted(
            (each for each in wanted.values() if each.id not in planned), key=reading.pressing
        )
        if not tasks:
            return await self._told("Nothing that is due or pinned is left to be planned.", ())
        taken = [(each.starts_at, each.ends_at) for each in view.blocks]
        blocks, left = lay_out(tasks, taken, begin=begin, end=end)
        unplanned = [f"No room before {_DAY_ENDS}:00: {visible_line(each.title)}." for each in left]
        if not blocks:
            return await self._told("\n".join(unplanned), left)
        arguments = {
            "plan_date": day.isoformat(),
            "upserts": [each.model_dump(mode="json") for each in blocks],
        }
        outcome = await self._do("upsert_day_plan_blocks", arguments, wish.operation_id)
        return await self._tell(outcome, more=unplanned, about=left)

    def _waking_hours(self, day: date, now: datetime) -> tuple[datetime, datetime]:
        """The hours of a day that are planned; of today, what is left of them."""
        midnight = datetime.combine(day, datetime.min.time())
        begin = local(midnight.replace(hour=_DAY_BEGINS), self._zone)
        begin += _QUARTER * -((begin - now) // _QUARTER) if now > begin else timedelta()
        return begin, local(midnight.replace(hour=_DAY_ENDS), self._zone)

    # What is told.

    async def _tell(
        self, *outcomes: Outcome, more: Iterable[str] = (), about: Iterable[Record] = ()
    ) -> Told:
        records = [each for outcome in outcomes for each in outcome.records]
        now = self._clock.now()

        def look(reader: Reader) -> Told:
            named = named_by(reader, records)
            whole = Outcome(records=tuple(records))
            lines = [*told(whole, named, zone=self._zone, now=now), *more]
            return Told(
                text="\n".join(lines),
                taint=_taint(reader, [*records, *named.values(), *about]),
                changed=tuple(each.id for each in records),
            )

        return await self._journal.read(look)

    async def _told(self, text: str, about: Iterable[Record]) -> Told:
        taint = await self._journal.read(lambda reader: _taint(reader, list(about)))
        return Told(text=text, taint=taint, done=False, code="nothing to plan")

    async def _refused(self, error: JournalError) -> Told:
        named: Collection[str] = ()
        if isinstance(error, AmbiguousReference):
            named = [str(each["id"]) for each in error.details.get("candidates", ())]
        taint = await self._journal.read(lambda reader: taint_of(reader, named))
        return Told(text=error.message, taint=taint, done=False, code=error.code)


def _taint(reader: Reader, records: Collection[Record]) -> TaintLevel:
    return join_taint(TaintLevel.OWNER, taint_of(reader, {each.id for each in records}))


def _is_open(record: Record) -> bool:
    return isinstance(record, Task) and not record.closed


def _just_spent(wish: _Wish) -> dict[str, str]:
    length = timedelta(minutes=understand_minutes(wish.op.duration or ""))
    return {
        "started_at": format_timestamp(wish.said_at - length),
        "ended_at": format_timestamp(wish.said_at),
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
