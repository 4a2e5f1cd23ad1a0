"""Tasks that come again, and reminders: when, how often, and in whose time zone."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.journal import OWNER, dispatch
from silas.journal.conversation import (
    JournalConversation,
    JournalOp,
    JournalReply,
    read_recurrence,
)
from silas.journal.errors import RecordInvalid
from silas.journal.models import Recurrence, Task, TaskStatus, successor_id
from silas.journal.operations.scoped import _COMES_AGAIN
from silas.kernel import TaintLevel
from silas.kernel.errors import TimeNotUnderstood
from silas.kernel.when import schedule_in_words
from tests.journal.place import Place

BERLIN = ZoneInfo("Europe/Berlin")
MONDAYS = Recurrence(cron="59 23 * * 1", zone="Europe/Berlin")
NINE = Recurrence(cron="0 9 * * *", zone="Europe/Berlin")
TUESDAY_NOON = datetime(2026, 11, 17, 11, 0, tzinfo=UTC)


def spoken(place: Place) -> JournalConversation:
    return JournalConversation(place.journal, clock=place.clock, zone=BERLIN)


async def wish(place: Place, number: int = 0, **op: Any) -> JournalReply:
    return await spoken(place).fulfil(
        JournalOp.model_validate(op), operation_id=f"m.journal{number}", said_at=place.clock.now()
    )


async def do(place: Place, name: str, **arguments: Any) -> dict[str, Any]:
    outcome = await dispatch.call(
        place.journal, name, arguments, scope=OWNER, actor="owner", operation_id=None
    )
    return outcome.payload


async def open_tasks(place: Place) -> list[Task]:
    return await place.journal.list_tasks()


def local(moment: datetime | None) -> str:
    return f"{moment.astimezone(BERLIN):%a %Y-%m-%d %H:%M}" if moment else "never"


@pytest.fixture(autouse=True)
def _tuesday(place: Place) -> None:
    place.clock.set(TUESDAY_NOON)


# Tasks that come again.


async def test_a_task_that_repeats_is_due_at_its_first_time(place: Place) -> None:
    told = await wish(place, op="add_task", title="water the plants", every="every monday")
    assert told.text == "Written down: water the plants, due Mon 23 Nov, every Monday."


async def test_done_it_comes_again_with_its_next_date(place: Place) -> None:
    await wish(place, op="add_task", title="water the plants", every="every monday")
    told = await wish(place, 1, op="finish_task", task="water the plants")
    assert told.text.splitlines() == [
        "Done: water the plants.",
        "Next: water the plants, due Mon 30 Nov.",
    ]
    [task] = await open_tasks(place)
    assert (task.title, local(task.due_at)) == ("water the plants", "Mon 2026-11-30 23:59")


async def test_one_that_was_late_for_weeks_comes_once_and_in_the_future(place: Place) -> None:
    await do(place, "create_task", title="Bins", repeats=MONDAYS)
    place.clock.advance(days=24)
    [task] = await open_tasks(place)
    await do(place, "update_task_fields", task_id=task.id, fields={"status": "done"})
    [following] = await open_tasks(place)
    assert local(following.due_at) == "Mon 2026-12-14 23:59"


async def test_it_keeps_what_it_is_and_its_checklist_begins_anew(place: Place) -> None:
    made = await do(
        place,
        "create_task",
        title="Training",
        repeats=NINE,
        labels=("legs",),
        priority="P1",
        checklist_items=("warm up", "squats"),
    )
    [(_, items)] = await place.journal.checklists_of(made["task_id"])
    await do(place, "update_checklist_items", updates=[{"id": items[0].id, "checked": True}])
    await do(place, "update_task_fields", task_id=made["task_id"], fields={"status": "done"})
    [following] = await open_tasks(place)
    [(_, copied)] = await place.journal.checklists_of(following.id)
    assert [(each.text, each.checked) for each in copied] == [("warm up", False), ("squats", False)]
    before = await place.journal.get(Task, made["task_id"])
    kept = set(_COMES_AGAIN)
    assert following.model_dump(include=kept) == before.model_dump(include=kept)


async def test_one_that_is_rejected_or_deleted_does_not_come_again(place: Place) -> None:
    first = await do(place, "create_task", title="A", repeats=NINE)
    second = await do(place, "create_task", title="B", repeats=NINE)
    fields = {"status": "rejected"}
    await do(place, "update_task_fields", task_id=first["task_id"], fields=fields)
    await do(place, "delete_record", record_id=second["task_id"])
    assert await open_tasks(place) == []


async def test_ticked_by_mistake_the_next_one_goes_and_comes_back_once(place: Place) -> None:
    made = await do(place, "create_task", title="Bins", repeats=MONDAYS, checklist_items=("paper",))
    for _ in range(3):
        for status, shown in (("done", successor_id(made["task_id"])), ("open", made["task_id"])):
            fields = {"status": status}
            await do(place, "update_task_fields", task_id=made["task_id"], fields=fields)
            assert [each.id for each in await open_tasks(place)] == [shown]
    await do(place, "update_task_fields", task_id=made["task_id"], fields={"status": "done"})
    [following] = await open_tasks(place)
    [(_, items)] = await place.journal.checklists_of(following.id)
    assert [each.text for each in items] == ["paper"]


async def test_undoing_takes_the_next_one_back(place: Place) -> None:
    await wish(place, op="add_task", title="Bins", every="every monday")
    await wish(place, 1, op="finish_task", task="Bins")
    await do(place, "undo_change", change_id="m.journal1")
    [task] = await open_tasks(place)
    assert (task.status, local(task.due_at)) == (TaskStatus.OPEN, "Mon 2026-11-23 23:59")


async def test_other_times_are_other_dates(place: Place) -> None:
    made = await do(place, "create_task", title="Bins", repeats=MONDAYS)
    await do(place, "update_task_fields", task_id=made["task_id"], fields={"repeats": NINE})
    [task] = await open_tasks(place)
    assert local(task.due_at) == "Wed 2026-11-18 09:00"
    await do(place, "update_task_fields", task_id=made["task_id"], fields={"repeats": None})
    await do(place, "update_task_fields", task_id=made["task_id"], fields={"status": "done"})
    assert await open_tasks(place) == []


@pytest.mark.parametrize(
    "repeats",
    [
        {"cron": "every monday", "zone": "Europe/Berlin"},
        {"cron": "0 9 31 2 *", "zone": "Europe/Berlin"},
        {"cron": "0 9 * * *", "zone": "Mars/Olympus"},
    ],
    ids=str,
)
async def test_what_is_no_recurrence_is_refused(place: Place, repeats: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Recurrence.model_validate(repeats)
    with pytest.raises(RecordInvalid):
        await do(place, "create_task", title="x", repeats=repeats)


@pytest.mark.parametrize("text", ["monday", "every monday", "Mondays", "every Monday."])
def test_a_day_alone_is_enough(text: str) -> None:
    assert read_recurrence(text, BERLIN, day_means="end") == MONDAYS


@pytest.mark.parametrize("text", ["every 2 weeks", "now and then", "", "31st"])
def test_what_is_not_understood_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(TimeNotUnderstood, match="every Monday"):
        read_recurrence(text, BERLIN)


_CRONS = st.one_of(
    st.builds(
        "{1} {0} * * {2}".format,
        st.integers(0, 23),
        st.integers(0, 59),
        st.sampled_from(["*", "1-5", "0,6", "1", "2,4"]),
    ),
    st.builds("{1} {0} {2} * *".format, st.integers(0, 23), st.integers(0, 59), st.integers(1, 28)),
)
_MOMENTS = st.integers(0, 6 * 365 * 24 * 60).map(
    lambda minutes: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)
_ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])


@given(cron=_CRONS, zone=_ZONES, moment=_MOMENTS, early=st.integers(0, 600))
def test_laws_of_what_comes_again(cron: str, zone: str, moment: datetime, early: int) -> None:
    """The next is later; between two there is none; a reminder keeps its distance."""
    repeats = Recurrence(cron=cron, zone=zone)
    due = repeats.next_after(moment)
    assert due is not None
    assert due > moment
    assert repeats.last_until(due) == due
    before = repeats.last_until(due - timedelta(seconds=1))
    assert before is None or before <= moment
    assert repeats.next_after(due - timedelta(microseconds=1)) == due
    distance = timedelta(minutes=early)
    task = _task(due_at=due, remind_at=due - distance, repeats=repeats)
    following = repeats.next_after(due)
    assert following is not None
    assert task.reminder_after(due - distance) == following - distance
    assert task.last_reminder(following - distance) == following - distance
    assert task.last_reminder(due - distance - timedelta(seconds=1)) is None


@given(cron=_CRONS)
def test_what_words_say_is_read_back(cron: str) -> None:
    said = schedule_in_words(cron, day_means="end")
    assert read_recurrence(said, BERLIN, day_means="end").cron == cron


def _task(**fields: Any) -> Task:
    return Task(id="task_x", created_at=TUESDAY_NOON, updated_at=TUESDAY_NOON, title="x", **fields)


# Reminders.


@pytest.mark.parametrize(
    ("due", "told"),
    [
        ("at 5pm", "today 17:00"),
        ("at 11am", "tomorrow 11:00"),
        ("tomorrow morning", "tomorrow 09:00"),
        ("tomorrow", "tomorrow 09:00"),
        ("in 20 minutes", "today 12:20"),
        ("on friday", "Fri 20 Nov 09:00"),
        ("next monday at 10:30", "Mon 23 Nov 10:30"),
        ("tonight", "today 20:00"),
        ("at 9", "tomorrow 09:00"),
    ],
)
async def test_when_a_reminder_is_told(place: Place, due: str, told: str) -> None:
    reply = await wish(place, op="remind", title="call mom", due=due)
    assert reply.text == f"I will remind you: call mom, {told}."


@pytest.mark.parametrize("due", ["at 5", "today at 8:00", "yesterday", "someday", "2020-01-01"])
async def test_a_time_that_is_over_or_not_clear_is_refused(place: Place, due: str) -> None:
    reply = await wish(place, op="remind", title="call mom", due=due)
    assert not reply.done
    assert await open_tasks(place) == []


async def test_reminders_are_listed_the_next_first(place: Place) -> None:
    await wish(place, 1, op="remind", title="call mom", due="tomorrow at 5pm")
    await wish(place, 2, op="remind", title="water the plants", every="every monday")
    await wish(place, 3, op="remind", title="tea", due="in 5 minutes")
    assert (await spoken(place).reminders()).text.splitlines() == [
        "I will remind you:",
        "- tea, today 12:05",
        "- call mom, tomorrow 17:00",
        "- water the plants, Mon 23 Nov 09:00 (every Monday at 9:00)",
    ]


async def test_without_any_it_says_so(place: Place) -> None:
    assert (await spoken(place).reminders()).text == "You have no reminders."
    told = await wish(place, op="cancel_reminder", task="mom")
    assert (told.done, told.text) == (False, "You have no reminders.")


async def test_a_reminder_is_cancelled_by_words_of_it(place: Place) -> None:
    await wish(place, 1, op="remind", title="call mom", due="tomorrow at 5pm")
    await wish(place, 2, op="remind", title="call the bank", due="tomorrow at 5pm")
    told = await wish(place, 3, op="cancel_reminder", task="call")
    assert not told.done
    assert "Which reminder?" in told.text
    told = await wish(place, 4, op="cancel_reminder", task="mom")
    assert told.text == "Cancelled: call mom."
    told = await wish(place, 5, op="cancel_reminder")
    assert told.text == "Cancelled: call the bank."
    assert await open_tasks(place) == []


async def test_a_task_with_another_date_only_loses_its_reminder(place: Place) -> None:
    due, remind = TUESDAY_NOON + timedelta(days=2), TUESDAY_NOON + timedelta(days=1)
    await do(place, "create_task", title="Taxes", due_at=due, remind_at=remind)
    told = await wish(place, op="cancel_reminder", task="taxes")
    assert told.text == "I will not remind you of it: Taxes. The task stays."
    [task] = await open_tasks(place)
    assert (task.due_at, task.remind_at) == (due, None)


async def test_what_is_due_now_is_found_and_late_ones_say_so(place: Place) -> None:
    await wish(place, op="remind", title="call mom", due="at 5pm")
    at = datetime(2026, 11, 17, 16, 0, tzinfo=UTC)
    conversation = spoken(place)
    assert await conversation.due_reminders(at - timedelta(seconds=1)) == []
    [found] = await conversation.due_reminders(at)
    assert (found.at, found.text, found.taint) == (at, "Reminder: call mom", TaintLevel.OWNER)
    [found] = await conversation.due_reminders(at + timedelta(hours=20))
    assert found.text == "Reminder: call mom (was due yesterday 17:00)"


async def test_what_is_done_or_deleted_reminds_nobody(place: Place) -> None:
    await wish(place, 1, op="remind", title="call mom", due="at 5pm")
    await wish(place, 2, op="remind", title="call dad", due="at 5pm")
    await wish(place, 3, op="finish_task", task="call mom")
    await wish(place, 4, op="cancel_reminder", task="call dad")
    assert await spoken(place).due_reminders(TUESDAY_NOON + timedelta(days=9)) == []


async def test_a_reminder_stays_at_its_hour_when_the_clocks_change(place: Place) -> None:
    place.clock.set(datetime(2026, 3, 28, 12, 0, tzinfo=UTC))  # summer begins on the 29th
    await wish(place, op="remind", title="pill", every="every day at 8:00")
    [task] = await open_tasks(place)
    first = task.reminder_after(place.clock.now())
    assert first == datetime(2026, 3, 29, 6, 0, tzinfo=UTC)
    place.clock.set(datetime(2026, 10, 24, 12, 0, tzinfo=UTC))
    assert task.reminder_after(place.clock.now()) == datetime(2026, 10, 25, 7, 0, tzinfo=UTC)


async def test_done_early_the_reminder_of_the_next_one_is_as_long_before(place: Place) -> None:
    due = MONDAYS.next_after(TUESDAY_NOON)
    assert due is not None
    remind = due - timedelta(hours=3)
    made = await do(place, "create_task", title="Bins", repeats=MONDAYS, remind_at=remind)
    await do(place, "update_task_fields", task_id=made["task_id"], fields={"status": "done"})
    [following] = await open_tasks(place)
    assert (local(following.due_at), local(following.remind_at)) == (
        "Mon 2026-11-30 23:59",
        "Mon 2026-11-30 20:59",
    )


async def test_a_companions_task_reminds_in_a_companions_words(place: Place) -> None:
    await dispatch.call(
        place.journal,
        "create_task",
        {"title": "buy this", "remind_at": TUESDAY_NOON},
        scope=OWNER,
        actor="companion:coach",
        operation_id=None,
    )
    [found] = await spoken(place).due_reminders(TUESDAY_NOON)
    assert found.taint is TaintLevel.EXTERNAL
