"""A stop that falls between the last check and the journal's commit: the write is not made."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from silas.companions.models import SagaEntry, SagaStatus, StopScope, WaitingAction
from silas.companions.tools.models import AgentToolResult
from silas.journal.fence import FenceMoved
from silas.testing.companion_room import Room, open_room

Stop = Callable[[Room, str], Awaitable[Any]]

STOPS: dict[str, tuple[Stop, str]] = {
    "destroy": (lambda room, agent: room.desk.destroy(agent), "agent_destroyed"),
    "pause": (lambda room, agent: room.desk.pause(agent), "agent_paused"),
    "global stop": (lambda room, agent: room.desk.stop(), "stopped"),
    "its own stop": (lambda room, agent: room.desk.stop(StopScope.COMPANION, agent), "stopped"),
    "tool class stop": (
        lambda room, agent: room.desk.stop(StopScope.TOOL_CLASS, "day_plan"),
        "stopped",
    ),
    "category taken away": (
        lambda room, agent: room.desk.configure(agent, category_ids=[room.categories["work"]]),
        "out_of_scope",
    ),
}


def just_before_the_write(
    room: Room, monkeypatch: pytest.MonkeyPatch, stop: Callable[[], Awaitable[Any]]
) -> list[str]:
    """Let this happen after every check, when the write is handed to the journal."""
    perform, handed_over = room.journal.perform, []

    async def overtaken(*args: Any, **more: Any) -> Any:
        if not more["preview_only"]:
            handed_over.append(more["operation_id"])
            if len(handed_over) == 1:
                await stop()
        return await perform(*args, **more)

    monkeypatch.setattr(room.journal, "perform", overtaken)
    return handed_over


async def write(room: Room, agent: str) -> AgentToolResult:
    return await room.call(agent, "get_or_create_day_plan", plan_date="2026-01-03")


@pytest.mark.parametrize("how", STOPS)
async def test_what_is_stopped_between_the_last_check_and_the_commit_is_not_written(
    room: Room, agent: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    stop, code = STOPS[how]
    handed_over = just_before_the_write(room, monkeypatch, lambda: stop(room, agent))
    before = await room.journal.last_cursor()
    refused = await write(room, agent)
    assert (refused.error_code, refused.changed_entity_ids) == (code, ())
    assert len(handed_over) == 1, "it had passed every check"
    assert await room.journal.last_cursor() == before
    (entry,) = await room.store.find(SagaEntry, {"agent_id": agent})
    assert entry.status is SagaStatus.FAILED


async def test_a_stop_of_another_process_is_obeyed_too(
    room: Room, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await open_room(room.path, clock=room.clock, vault=room.vault, gateway=room.gateway)
    try:
        just_before_the_write(room, monkeypatch, other.desk.stop)
        assert (await write(room, agent)).error_code == "stopped"
    finally:
        await other.close()


async def test_a_stop_of_somebody_else_only_asks_once_more(
    room: Room, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await room.desk.new("planner", category_ids=[room.categories["gym"]])
    handed_over = just_before_the_write(room, monkeypatch, lambda: room.desk.destroy(other.id))
    assert (await write(room, agent)).success
    assert len(handed_over) == 2
    made = await room.journal_db.fetch_all(
        "SELECT count(*) FROM operations WHERE actor = ?", (f"companion:{agent}",)
    )
    assert made == [(1,)]


@pytest.mark.parametrize("how", ["pause", "global stop"])
async def test_what_was_approved_and_is_held_on_its_way_is_done_when_it_goes_on(
    room: Room, agent: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    await room.finish(await room.task("Squats", checklist_items=("a",)))
    await room.work()
    (waiting,) = await room.store.find(WaitingAction, {"agent_id": agent})
    await room.approvals.approve(waiting.operation_id)
    just_before_the_write(room, monkeypatch, lambda: STOPS[how][0](room, agent))
    await room.desk.decided(waiting.operation_id)
    assert len(await room.tasks()) == 1
    kept = await room.store.require(WaitingAction, waiting.operation_id)
    assert kept.status == "approved"
    await (room.desk.resume(agent) if how == "pause" else room.desk.resume_all())
    assert len(await room.tasks()) == 2


async def test_the_fence_stops_what_was_allowed_before_it_moved(room: Room) -> None:
    old = await room.journal.fence.guard()
    await room.journal.fence.move()
    with pytest.raises(FenceMoved):
        await room.journal.perform(lambda edit: {}, actor="x", guard=old)
    new = await room.journal.fence.guard()
    await room.journal.perform(lambda edit: {}, actor="x", guard=new)
