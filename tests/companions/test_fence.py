"""A stop that falls between the last check and the journal's commit: the write is not made."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from silas.companions.messages import AgentOperation
from silas.companions.models import OperationStatus, StopScope
from silas.companions.tools.registry import AgentToolResult
from silas.journal.store import FenceMoved
from silas.testing.companions import CompanionDevice, open_device

Stop = Callable[[CompanionDevice, str], Awaitable[Any]]

STOPS: dict[str, tuple[Stop, str]] = {
    "destroy": (lambda device, agent: device.service.destroy(agent), "agent_destroyed"),
    "pause": (lambda device, agent: device.service.pause(agent), "agent_paused"),
    "global stop": (lambda device, agent: device.service.stop(), "stopped"),
    "its own stop": (
        lambda device, agent: device.service.stop(StopScope.COMPANION, agent),
        "stopped",
    ),
    "tool class stop": (
        lambda device, agent: device.service.stop(StopScope.TOOL_CLASS, "day_plan"),
        "stopped",
    ),
    "category taken away": (
        lambda device, agent: device.service.configure(
            agent, category_ids=[device.categories["work"]]
        ),
        "out_of_scope",
    ),
}


def just_before_the_write(
    device: CompanionDevice, monkeypatch: pytest.MonkeyPatch, stop: Callable[[], Awaitable[Any]]
) -> list[str]:
    """Let this happen after every check, when the write is handed to the journal."""
    perform, handed_over = device.journal.perform, []

    async def overtaken(*args: Any, **more: Any) -> Any:
        if not more["preview_only"]:
            handed_over.append(more["operation_id"])
            if len(handed_over) == 1:
                await stop()
        return await perform(*args, **more)

    monkeypatch.setattr(device.journal, "perform", overtaken)
    return handed_over


async def write(device: CompanionDevice, agent: str) -> AgentToolResult:
    return await device.call(agent, "get_or_create_day_plan", plan_date="2026-01-03")


@pytest.mark.parametrize("how", STOPS)
async def test_what_is_stopped_between_the_last_check_and_the_commit_is_not_written(
    device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    stop, code = STOPS[how]
    handed_over = just_before_the_write(device, monkeypatch, lambda: stop(device, agent))
    before = await device.journal.last_cursor()
    refused = await write(device, agent)
    assert (refused.error_code, refused.changed_entity_ids) == (code, ())
    assert len(handed_over) == 1, "it had passed every check"
    assert await device.journal.last_cursor() == before
    entries = await device.store.find(AgentOperation, {"agent_id": agent})
    # Who loses a category forgets its actions as well: they may hold something of it.
    ended = [] if how == "category taken away" else [OperationStatus.FAILED]
    assert [each.status for each in entries] == ended


async def test_a_stop_of_another_process_is_obeyed_too(
    device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await open_device(
        device.path, clock=device.clock, vault=device.vault, gateway=device.gateway
    )
    try:
        just_before_the_write(device, monkeypatch, other.service.stop)
        assert (await write(device, agent)).error_code == "stopped"
    finally:
        await other.close()


async def test_a_stop_of_somebody_else_only_asks_once_more(
    device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await device.service.new("planner", category_ids=[device.categories["gym"]])
    handed_over = just_before_the_write(
        device, monkeypatch, lambda: device.service.destroy(other.id)
    )
    assert (await write(device, agent)).success
    assert len(handed_over) == 2
    made = await device.journal_db.fetch_all(
        "SELECT count(*) FROM operations WHERE actor = ?", (f"companion:{agent}",)
    )
    assert made == [(1,)]


@pytest.mark.parametrize("how", ["pause", "global stop"])
async def test_what_was_approved_and_is_held_on_its_way_is_done_when_it_goes_on(
    device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    await device.finish(await device.task("Squats", checklist_items=("a",)))
    await device.work()
    (waiting,) = await device.store.find(AgentOperation, {"agent_id": agent})
    await device.approvals.approve(waiting.operation_id)
    just_before_the_write(device, monkeypatch, lambda: STOPS[how][0](device, agent))
    await device.service.decided(waiting.operation_id)
    assert len(await device.tasks()) == 1
    kept = await device.store.require(AgentOperation, waiting.operation_id)
    assert (kept.phase, kept.status) == ("approved", "pending")
    await (device.service.resume(agent) if how == "pause" else device.service.resume_all())
    assert len(await device.tasks()) == 2


async def test_the_fence_stops_what_was_allowed_before_it_moved(device: CompanionDevice) -> None:
    old = await device.journal.fence.guard()
    await device.journal.fence.move()
    with pytest.raises(FenceMoved):
        await device.journal.perform(lambda edit: {}, actor="x", guard=old)
    new = await device.journal.fence.guard()
    await device.journal.perform(lambda edit: {}, actor="x", guard=new)
