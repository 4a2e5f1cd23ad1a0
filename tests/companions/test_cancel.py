"""A run that is called off: when that is acknowledged, nothing more of it reaches the journal."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from silas.companions.models import (
    AgentActionType,
    AgentReport,
    RunOutcome,
    SagaEntry,
    SagaStatus,
    WakeJob,
    WakeRun,
)
from silas.companions.proposals import CompanionProposal, ProposedAction
from silas.queue import QueueName
from silas.queue.models import CompanionWake
from silas.testing.companion_room import Room, opened_room, restarted
from silas.testing.companions import FakeGateway, ScriptedModel
from tests.companions.test_fence import just_before_the_write

PLANS = CompanionProposal(
    actions=tuple(
        ProposedAction(
            action_type=AgentActionType.TOOL_CALL,
            tool_name="get_or_create_day_plan",
            arguments={"plan_date": f"2026-01-0{day}"},
        )
        for day in (1, 2, 3)
    )
)


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(PLANS)


@pytest.fixture
async def room(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[Room]:
    async with opened_room(tmp_path, gateway=FakeGateway(model)) as room:
        yield room


async def the_run(room: Room, agent: str) -> WakeRun:
    (run,) = await room.store.find(WakeRun, {"agent_id": agent})
    return run


@pytest.mark.parametrize("in_memory", [True, False], ids=["it hears of it", "the disk alone"])
async def test_a_write_that_has_passed_every_check_is_not_made_after_a_cancel(
    room: Room, agent: str, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    if not in_memory:
        monkeypatch.setattr(room.waking.worker, "call_off", lambda _agent=None: 0)
    told: list[int] = []

    async def call_off() -> None:
        told.append(await room.desk.cancel(agent))

    handed_over = just_before_the_write(room, monkeypatch, call_off)
    before = await room.journal.last_cursor()
    await room.desk.wake(agent)
    await room.work()
    assert (told, len(handed_over)) == ([1], 1), "it had passed every check"
    assert await room.journal.last_cursor() == before
    run = await the_run(room, agent)
    assert (run.status, run.error_code) == ("cancelled", "stopped")
    entries = await room.store.find(SagaEntry, {"agent_id": agent})
    assert {each.status for each in entries} == {SagaStatus.FAILED}
    assert "companion_run_cancelled" in room.audit.events()
    assert await room.store.find(AgentReport) == []

    # The next wake is another run, and nothing stands against it.
    monkeypatch.undo()
    await room.desk.wake(agent)
    await room.work()
    assert await room.journal.last_cursor() > before


async def test_what_the_journal_has_already_is_told_and_nothing_follows(
    room: Room, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform, calls = room.journal.perform, []

    async def then_called_off(*args: Any, **more: Any) -> Any:
        calls.append(await perform(*args, **more))
        await room.desk.cancel(agent)
        return calls[-1]

    monkeypatch.setattr(room.journal, "perform", then_called_off)
    await room.desk.wake(agent)
    await room.work()
    assert len(calls) == 1
    trace = await room.desk.trace((await the_run(room, agent)).run_key)
    assert [each.status for each in trace.tool_calls] == ["success"]
    assert await room.desk.recover() == 0


async def test_a_cancelled_run_is_not_begun_again_after_a_crash(
    room: Room, agent: str, model: ScriptedModel
) -> None:
    await room.desk.wake(agent)
    lease = await room.queue.lease(QueueName.COMPANION, consumer="companion")
    assert lease is not None
    payload = lease.message.payload
    assert isinstance(payload, CompanionWake)
    job = WakeJob.model_validate(payload.job)
    await room.store.transaction(lambda tx: room.waking.worker._begin_in(tx, job))
    assert await room.desk.cancel(agent) == 1
    before = await room.journal.last_cursor()
    fresh = await restarted(room)
    try:
        await fresh.work()
        assert (await the_run(fresh, agent)).status == "cancelled"
        assert (model.requests, await fresh.journal.last_cursor()) == ([], before)
        assert await fresh.desk.cancel(agent) == 0
    finally:
        await fresh.close()


async def test_a_run_that_was_at_its_end_leaves_no_report_after_a_cancel(
    room: Room, agent: str
) -> None:
    runs = room.waking.worker._runs

    class CalledOffAtTheEnd:
        async def run(self, *args: Any, stopping: Callable[[], bool]) -> RunOutcome:
            outcome = await runs.run(*args, stopping=stopping)
            await room.desk.cancel(agent)
            return outcome

    room.waking.worker._runs = CalledOffAtTheEnd()
    await room.desk.wake(agent)
    await room.work()
    assert (await the_run(room, agent)).status == "cancelled"
    assert await room.store.find(AgentReport) == []
    # What it had written to the journal before stands, and the log tells it.
    assert await room.desk.recover() == 3
    entries = await room.store.find(SagaEntry, {"agent_id": agent})
    assert {each.status for each in entries} == {SagaStatus.DONE}
