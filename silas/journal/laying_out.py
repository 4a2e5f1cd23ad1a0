"""A day plan without a model: what presses most comes first, in the time that is still free."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from silas.journal.models import Task
from silas.journal.operations import BlockInput

USUAL = timedelta(minutes=30)
"""How long a task takes of which nobody has said it."""

Span = tuple[datetime, datetime]


def lay_out(
    tasks: Iterable[Task], taken: Iterable[Span], *, begin: datetime, end: datetime
) -> tuple[list[BlockInput], list[Task]]:
    """A block for each task in its order, beside what is taken; and the tasks that found no room.

    A task is never cut in pieces: one that is too long for every gap finds no room.
    """
    spans = list(taken)
    blocks: list[BlockInput] = []
    left: list[Task] = []
    for task in tasks:
        length = timedelta(minutes=task.estimate_minutes) if task.estimate_minutes else USUAL
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
