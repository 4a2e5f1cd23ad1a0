"""Reminders are told at their time, once, whatever dies in between."""

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from silas.journal import OWNER, dispatch
from silas.kernel import TaintLevel
from silas.queue.models import AgentReply, Urgency
from silas.stream.activity import ActivityTitles, sentence_of
from silas.stream.delivery import Deliveries
from silas.testing.stream import FakeContext
from tests.chaos import FORKED
from tests.stream.reminding import NOON, reminding, tell_or_die


async def test_it_is_told_at_its_time_and_once(tmp_path: Path) -> None:
    async with reminding(tmp_path) as here:
        await here.wish(op="remind", title="call mom", due="at 5pm")
        assert await here.look() == 0
        here.clock.set(datetime(2026, 11, 17, 16, 0, tzinfo=UTC))
        assert await here.look() == 1
        assert await here.look() == 0
        here.clock.advance(days=3)
        assert await here.look() == 0
        assert await here.told() == ["Reminder: call mom"]


async def test_it_comes_into_the_conversation_with_something_to_tap(tmp_path: Path) -> None:
    async with reminding(tmp_path, context=FakeContext()) as here:
        await here.wish(op="remind", title="call mom", due="in 5 minutes")
        here.clock.advance(minutes=5)
        await here.look()
        [delivery] = await Deliveries(here.house.database, here.clock).after("owner", 0)
        reply = delivery.message.payload
        assert isinstance(reply, AgentReply)
        assert (reply.surface, reply.chips) == ("stream", ["Done with call mom"])
        assert delivery.message.urgency is Urgency.NEEDS_ATTENTION
        assert delivery.message.taint is TaintLevel.OWNER
        [entry] = await here.house.core.audit.tail(1)
        named = await ActivityTitles(here.house.database).named(entry)
        assert named is not None
        assert sentence_of(named) == "I reminded you: call mom."
        context: Any = here.house.stream.turns.context
        assert "Silas: Reminder: call mom" in await context.render("owner", 1)


async def test_what_was_missed_is_told_once_with_its_time(tmp_path: Path) -> None:
    async with reminding(tmp_path) as here:
        await here.wish(1, op="remind", title="call mom", due="at 5pm")
        await here.wish(2, op="remind", title="pill", every="every day at 8:00")
    async with reminding(tmp_path, at=NOON + timedelta(days=3)) as here:
        assert await here.look() == 2
        assert await here.look() == 0
        assert sorted(await here.told()) == [
            "Reminder: call mom (was due Tue 17 Nov 17:00)",
            "Reminder: pill (was due today 08:00)",
        ]


async def test_one_that_repeats_is_told_each_time_also_if_nobody_ticks_it(tmp_path: Path) -> None:
    async with reminding(tmp_path) as here:
        await here.wish(op="remind", title="pill", every="every day at 13:00")
        for _ in range(3):
            here.clock.advance(hours=1)
            assert await here.look() == 1
            here.clock.advance(hours=23)
            assert await here.look() == 0
        assert await here.told() == ["Reminder: pill"] * 3


async def test_another_time_is_told_again(tmp_path: Path) -> None:
    async with reminding(tmp_path) as here:
        await here.wish(op="remind", title="call mom", due="in 5 minutes")
        here.clock.advance(minutes=5)
        assert await here.look() == 1
        [task] = await here.journal.list_tasks()
        fields = {"remind_at": (here.clock.now() + timedelta(minutes=10)).isoformat()}
        by: Any = {"scope": OWNER, "actor": "owner"}
        await dispatch.call(
            here.journal, "update_task_fields", {"task_id": task.id, "fields": fields}, **by
        )
        assert await here.look() == 0
        here.clock.advance(minutes=10)
        assert await here.look() == 1


class Died(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("place", ["in the transaction", "after it"])
async def test_a_crash_tells_nothing_twice_and_leaves_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def die(*_args: object, **_more: object) -> None:
        raise Died

    async with reminding(tmp_path) as here:
        await here.wish(op="remind", title="call mom", due="in 1 minute")
        here.clock.advance(minutes=1)
        house = here.house
        target = (
            (house.core.audit, "append")
            if place != "after it"
            else (
                house.stream.queue.bus,
                "notify_of",
            )
        )
        with monkeypatch.context() as patched:
            patched.setattr(*target, die)
            with pytest.raises(Died):
                await here.look()
        assert await here.told() == ([] if place != "after it" else ["Reminder: call mom"])
    async with reminding(tmp_path, at=NOON + timedelta(minutes=2)) as here:
        await here.look()
        await here.look()
        assert await here.told() == ["Reminder: call mom"]


async def test_two_that_look_at_once_tell_it_once(tmp_path: Path) -> None:
    async with reminding(tmp_path) as here:
        await here.wish(op="remind", title="call mom", due="in 1 minute")
        here.clock.advance(minutes=1)
        [due] = await here.spoken.due_reminders(here.clock.now())
        clockwork = here.house.stream.clockwork
        # Both have seen that it was not told before either tells it.
        name = f"reminder.{due.task_id}"
        first = await here.house.database.transaction(
            lambda tx: clockwork.services.store.first_told(tx, name, due.at)
        )
        again = await here.house.database.transaction(
            lambda tx: clockwork.services.store.first_told(tx, name, due.at)
        )
        assert (first, again) == (True, False)


@pytest.mark.slow
@pytest.mark.parametrize("deaths", [["audit"], ["notify"], ["audit", "notify", "audit"]])
def test_killed_for_good_in_the_middle(tmp_path: Path, deaths: list[str]) -> None:
    for number, death in enumerate([*deaths, "none", "none"]):
        ended, told = _process(tmp_path, death, first=number == 0)
        wanted = 0 if death == "none" else -signal.SIGKILL
        # Once it is told, there is nothing more to die in.
        assert ended in (wanted, 0)
    assert told == ["Reminder: call mom"]


def _process(root: Path, death: str, *, first: bool) -> tuple[int | None, list[str]]:
    """How a process ended that tells reminders, and what all of them have told."""
    ours, theirs = FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=tell_or_die, args=(root, death, first, theirs))
    process.start()
    theirs.close()
    try:
        told = ours.recv() if ours.poll(180) else []
    except EOFError:
        told = []
    process.join(180)
    ours.close()
    return process.exitcode, told
