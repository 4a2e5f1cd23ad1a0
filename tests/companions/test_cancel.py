"""A run that is called off: when that is acknowledged, nothing more of it reaches the journal."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from silas.companions.messages import AgentOperation, AgentReport, RunOutcome, WakeJob, WakeRun
from silas.companions.models import AgentActionType, OperationStatus
from silas.companions.ports import CompanionProposal, ProposedAction
from silas.queue import QueueName
from silas.queue.models import CompanionWake
from silas.testing.companions import (
    CompanionDevice,
    FakeGateway,
    ScriptedModel,
    opened_device,
    restarted,
)
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
async def device(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[CompanionDevice]:
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        yield device


async def the_run(device: CompanionDevice, agent: str) -> WakeRun:
    (run,) = await device.store.find(WakeRun, {"agent_id": agent})
    return run


@pytest.mark.parametrize("in_memory", [True, False], ids=["it hears of it", "the disk alone"])
async def test_a_write_that_has_passed_every_check_is_not_made_after_a_cancel(
    device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    if not in_memory:
        monkeypatch.setattr(device.companions.worker, "call_off", lambda _agent=None: 0)
    told: list[int] = []

    async def call_off() -> None:
        told.append(await device.service.cancel(agent))

    handed_over = just_before_the_write(device, monkeypatch, call_off)
    before = await device.journal.last_cursor()
    await device.service.wake(agent)
    await device.work()
    assert (told, len(handed_over)) == ([1], 1), "it had passed every check"
    assert await device.journal.last_cursor() == before
    run = await the_run(device, agent)
    assert (run.status, run.error_code) == ("cancelled", "stopped")
    entries = await device.store.find(AgentOperation, {"agent_id": agent})
    assert {each.status for each in entries} == {OperationStatus.FAILED}
    assert "companion_run_cancelled" in device.audit.events()
    assert await device.store.find(AgentReport) == []

    # The next wake is another run, and nothing stands against it.
    monkeypatch.undo()
    await device.service.wake(agent)
    await device.work()
    assert await device.journal.last_cursor() > before


async def test_what_the_journal_has_already_is_told_and_nothing_follows(
    device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform, calls = device.journal.perform, []

    async def then_called_off(*args: Any, **more: Any) -> Any:
        calls.append(await perform(*args, **more))
        await device.service.cancel(agent)
        return calls[-1]

    monkeypatch.setattr(device.journal, "perform", then_called_off)
    await device.service.wake(agent)
    await device.work()
    assert len(calls) == 1
    trace = await device.service.trace((await the_run(device, agent)).run_key)
    assert [each.status for each in trace.tool_calls] == ["success"]
    assert await device.service.recover() == 0


async def test_a_cancelled_run_is_not_begun_again_after_a_crash(
    device: CompanionDevice, agent: str, model: ScriptedModel
) -> None:
    await device.service.wake(agent)
    lease = await device.queue.lease(QueueName.COMPANION, consumer="companion")
    assert lease is not None
    payload = lease.message.payload
    assert isinstance(payload, CompanionWake)
    job = WakeJob.model_validate(payload.job)
    await device.store.transaction(lambda tx: device.companions.worker._begin_in(tx, job))
    assert await device.service.cancel(agent) == 1
    before = await device.journal.last_cursor()
    fresh = await restarted(device)
    try:
        await fresh.work()
        assert (await the_run(fresh, agent)).status == "cancelled"
        assert (model.requests, await fresh.journal.last_cursor()) == ([], before)
        assert await fresh.service.cancel(agent) == 0
    finally:
        await fresh.close()


async def test_a_run_that_was_at_its_end_leaves_no_report_after_a_cancel(
    device: CompanionDevice, agent: str
) -> None:
    run = device.companions.worker._run

    async def called_off_at_the_end(*args: Any) -> RunOutcome:
        outcome = await run(*args)
        await device.service.cancel(agent)
        return outcome

    device.companions.worker._run = called_off_at_the_end
    await device.service.wake(agent)
    await device.work()
    assert (await the_run(device, agent)).status == "cancelled"
    assert await device.store.find(AgentReport) == []
    # What it had written to the journal before stands, and the log tells it.
    assert await device.service.recover() == 3
    entries = await device.store.find(AgentOperation, {"agent_id": agent})
    assert {each.status for each in entries} == {OperationStatus.DONE}
