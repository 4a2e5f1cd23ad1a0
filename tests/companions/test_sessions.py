"""Conversations: one at a time, and they end by themselves."""

from datetime import timedelta

import pytest

from silas.companions.errors import SessionClosed
from silas.companions.ids import session_thread, user_run_key
from silas.companions.lifecycle import NewCompanion
from silas.companions.models import (
    AgentInteractionMode,
    Companion,
    InteractiveSession,
    WakeReason,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.journal.store import Journal
from silas.queue import QueueStore
from silas.testing import FakeClock
from tests.companions.making import House, ReadableLog


@pytest.fixture
async def house(store: CompanionStore, journal: Journal, queue: QueueStore) -> House:
    house = House(store, journal, queue)
    await house.lifecycle.create(
        NewCompanion(
            kind="gym_coach",
            display_name="Coach",
            allowed_category_ids=("gym",),
            mode=AgentInteractionMode.AUTONOMOUS,
            companion_id="coach",
        )
    )
    return house


async def test_interactive_user_initiated_run_has_the_thread_of_its_session(house: House) -> None:
    job = await house.lifecycle.say("coach", "How am I doing?", turn_id="turn-1")
    again = await house.lifecycle.say("coach", "How am I doing?", turn_id="turn-1")
    assert again.run_key == job.run_key == user_run_key("coach", str(job.session_id), "turn-1")
    assert job.thread_id == session_thread("coach", str(job.session_id))
    [run] = await house.work()
    assert (run.status, run.job.reason) == (WakeStatus.COMPLETED, WakeReason.USER_INITIATED)
    assert run.job.seed_input == "How am I doing?"
    second = await house.lifecycle.say("coach", "And now?")
    assert second.session_id == job.session_id
    assert second.thread_id == job.thread_id


async def test_interactive_session_inactivity_ttl_closes_session_deterministically(
    house: House, clock: FakeClock
) -> None:
    job = await house.lifecycle.say("coach", "hello")
    assert (await house.store.require(Companion, "coach")).mode is AgentInteractionMode.HYBRID
    clock.advance(minutes=10)
    await house.lifecycle.say("coach", "still there?")
    clock.advance(minutes=19)
    nearest = await house.alarms.tick()
    assert nearest == clock.now() + timedelta(minutes=1)
    session = await house.store.require(InteractiveSession, str(job.session_id))
    assert session.closed_at is None
    clock.advance(minutes=1)
    assert await house.alarms.tick() is None
    session = await house.store.require(InteractiveSession, str(job.session_id))
    assert (session.closed_at, session.close_reason) == (clock.now(), "inactivity")
    assert (await house.store.require(Companion, "coach")).mode is AgentInteractionMode.AUTONOMOUS
    log = ReadableLog(house.store)
    marks = await log.thread("coach", session.thread_id)
    assert [await log.content(mark) for mark in marks] == [
        {"event": "session_closed", "reason": "inactivity"}
    ]
    await house.sessions.close(session.id)
    assert len(await log.thread("coach", session.thread_id)) == 1


async def test_nothing_can_be_said_in_a_session_that_is_over(
    house: House, clock: FakeClock
) -> None:
    session = await house.sessions.open("coach")
    clock.advance(minutes=20)
    with pytest.raises(SessionClosed):
        await house.sessions.say(session.id, "hello", turn_id="1")
    # Also if the clock that closes it has not come to it yet, a new one is opened.
    new = await house.sessions.open("coach")
    assert new.id != session.id
    old = await house.store.require(InteractiveSession, session.id)
    assert old.close_reason == "inactivity"
    assert new.baseline_mode is AgentInteractionMode.AUTONOMOUS


async def test_destroying_ends_the_session(house: House, clock: FakeClock) -> None:
    session = await house.sessions.open("coach")
    await house.lifecycle.destroy("coach")
    ended = await house.store.require(InteractiveSession, session.id)
    assert ended.close_reason == "agent_destroyed"
    clock.advance(days=1)
    assert await house.alarms.tick() is None
