"""The journal in conversation: what is meant, what is refused, and whose words are told."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.journal import OWNER, dispatch
from silas.journal.conversation import (
    USUAL_LENGTH,
    JournalConversation,
    JournalOp,
    JournalReply,
    plan_blocks,
)
from silas.journal.models import Task, TaskStatus
from silas.kernel import TaintLevel
from tests.journal.place import Place

BERLIN = ZoneInfo("Europe/Berlin")
DAY = datetime(2026, 11, 16, tzinfo=UTC)


async def wish(place: Place, number: int = 0, **op: Any) -> JournalReply:
    spoken = JournalConversation(place.journal, clock=place.clock, zone=BERLIN)
    return await spoken.fulfil(
        JournalOp.model_validate(op), operation_id=f"m.journal{number}", said_at=place.clock.now()
    )


@pytest.mark.parametrize(
    "op",
    [
        {"op": "add_task"},
        {"op": "log_time", "task": "x"},
        {"op": "stop_timer", "task": "x"},
        {"op": "finish_task", "task": "x", "due": "tomorrow"},
        {"op": "delete_everything"},
        {"op": "add_task", "title": "x" * 501},
        {"op": "add_task", "title": "x", "actor": "owner"},
    ],
    ids=str,
)
def test_a_wish_is_whole_and_has_nothing_idle(op: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        JournalOp.model_validate(op)


async def test_of_two_of_one_name_the_open_one_is_meant(place: Place) -> None:
    await place.task("Squats", status=TaskStatus.DONE)
    open_one = await place.task("Squats")
    told = await wish(place, op="finish_task", task="squats")
    assert (told.done, told.changed) == (True, (open_one,))


async def test_a_closed_task_of_this_very_name_goes_before_an_open_one_that_begins_so(
    place: Place,
) -> None:
    closed = await place.task("Squats", status=TaskStatus.DONE)
    await place.task("Squats with Anna")
    await wish(place, op="log_time", task="squats", duration="30m")
    now = place.clock.now()
    [entry] = await place.journal.time_entries(now - timedelta(days=1), now + timedelta(days=1))
    assert entry.task_id == closed


async def test_whose_words_are_told(place: Place) -> None:
    spoken = JournalConversation(place.journal, clock=place.clock, zone=BERLIN)
    await place.task("Mine")
    assert (await spoken.open_tasks()).taint is TaintLevel.OWNER
    companion: Any = {"scope": OWNER, "actor": "companion:coach"}
    await dispatch.call(place.journal, "create_category", {"name": "theirs"}, **companion)
    assert (await spoken.open_tasks()).taint is TaintLevel.OWNER
    assert (await spoken.open_tasks("theirs")).taint is TaintLevel.EXTERNAL
    await dispatch.call(place.journal, "create_task", {"title": "Theirs"}, **companion)
    assert (await spoken.open_tasks()).taint is TaintLevel.EXTERNAL
    assert (await wish(place, op="finish_task", task="Theirs")).taint is TaintLevel.EXTERNAL


async def test_records_of_another_device_are_nobodys_word(place: Place) -> None:
    spoken = JournalConversation(place.journal, clock=place.clock, zone=BERLIN)
    task = await place.journal.get(Task, await place.task("Mine"))
    elsewhere = task.model_copy(update={"id": "task_elsewhere"})
    await place.do("import_records", records=[elsewhere.model_dump(mode="json")])
    assert (await spoken.open_tasks()).taint is TaintLevel.EXTERNAL


async def test_candidates_are_told_with_their_taint(place: Place) -> None:
    companion: Any = {"scope": OWNER, "actor": "companion:coach"}
    for name in ("Squats a", "Squats b"):
        await dispatch.call(place.journal, "create_task", {"title": name}, **companion)
    told = await wish(place, op="start_timer", task="Squats")
    assert (told.done, told.taint) == (False, TaintLevel.EXTERNAL)


async def test_plan_my_day(place: Place) -> None:
    now = place.clock.now()
    await place.task("Long", due_at=now.isoformat(), estimate_minutes=24 * 60)
    await place.task("Short", due_at=now.isoformat())
    told = await wish(place, op="plan_day", day="tomorrow")
    assert "09:00 to 09:30, Short." in told.text
    assert "No room before 18:00: Long." in told.text
    again = await wish(place, 1, op="plan_day", day="tomorrow")
    assert (again.done, again.changed) == (False, ())
    nothing = await wish(place, 2, op="plan_block", task="Short", begin="10", end="9")
    assert (nothing.done, nothing.text) == (False, "A block must end after it begins.")


def a_task(minutes: int | None) -> Task:
    return Task(
        id=f"task_{minutes}", title="x", estimate_minutes=minutes, created_at=DAY, updated_at=DAY
    )


@given(
    lengths=st.lists(st.one_of(st.none(), st.integers(1, 400)), max_size=12),
    taken=st.lists(st.tuples(st.integers(0, 900), st.integers(1, 200)), max_size=6),
)
def test_a_day_is_laid_out_without_overlaps(
    lengths: list[int | None], taken: list[tuple[int, int]]
) -> None:
    begin, end = DAY + timedelta(hours=3), DAY + timedelta(hours=12)
    spans = [
        (DAY + timedelta(minutes=at), DAY + timedelta(minutes=at + long)) for at, long in taken
    ]
    tasks = [a_task(each) for each in lengths]
    blocks, left = plan_blocks(tasks, spans, begin=begin, end=end)
    assert len(blocks) + len(left) == len(tasks)
    placed = [(each.start_time, each.end_time) for each in blocks]
    for number, (start, stop) in enumerate(placed):
        assert begin <= start < stop <= end
        others = [*spans, *placed[:number], *placed[number + 1 :]]
        assert all(stop <= other or until <= start for other, until in others)
    assert all(
        stop - start in {USUAL_LENGTH, *(timedelta(minutes=each) for each in lengths if each)}
        for start, stop in placed
    )
