"""What the owner can have done to the journal by saying so: a few wishes, in his own words.

A wish names records and times as people do. It is read by `silas.journal.spoken`, which finds the
one record that is meant, or changes nothing.
"""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from silas.journal.models import Name
from silas.kernel.models import Data

Time = Annotated[str, Field(min_length=1, max_length=80)]


class JournalOpType(StrEnum):
    """What can be wished for."""

    ADD_TASK = "add_task"
    FINISH_TASK = "finish_task"
    START_TIMER = "start_timer"
    STOP_TIMER = "stop_timer"
    LOG_TIME = "log_time"
    PLAN_BLOCK = "plan_block"
    PLAN_DAY = "plan_day"


_REQUIRED = {
    JournalOpType.ADD_TASK: ("title",),
    JournalOpType.FINISH_TASK: ("task",),
    JournalOpType.START_TIMER: ("task",),
    JournalOpType.STOP_TIMER: (),
    JournalOpType.LOG_TIME: ("task", "duration"),
    JournalOpType.PLAN_BLOCK: ("task", "begin", "end"),
    JournalOpType.PLAN_DAY: (),
}
_OPTIONAL = {
    JournalOpType.ADD_TASK: ("category", "due"),
    JournalOpType.PLAN_BLOCK: ("day",),
    JournalOpType.PLAN_DAY: ("day",),
}


class JournalOp(Data):
    """A wish of the owner's about his journal, as an agent understood it. The runtime decides."""

    op: JournalOpType
    title: Name | None = None
    """Of the new task."""
    task: Name | None = None
    """The name of a task that is there, its beginning, or the end of its id."""
    category: Name | None = None
    due: Time | None = None
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
        return self
