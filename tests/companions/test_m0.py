"""The first whole flow: a task is finished, the Planner proposes, the owner approves, once."""

from pathlib import Path

import pytest

from silas.companions.models import AgentMessage, AgentMessageKind, RunTrace, WakeRun, WakeStatus
from silas.journal.operations import ItemUpdate
from silas.testing.companion_room import Room, opened_room, restarted

STEPS = ("Warm up", "Three sets", "Stretch")


async def planner(room: Room) -> str:
    return (await room.desk.new("planner", category_ids=[room.categories["gym"]])).id


async def finished_task(room: Room) -> str:
    task = await room.task("Squats", checklist_items=STEPS)
    items = (await room.journal.checklists_of(task))[0][1]
    await room.do("update_checklist_items", updates=(ItemUpdate(id=items[0].id, checked=True),))
    await room.finish(task)
    return task


async def follow_ups(room: Room) -> list[str]:
    return [each.title for each in await room.tasks() if "follow-up" in each.title]


async def test_a_finished_task_leads_to_one_follow_up_with_the_open_steps(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        agent = await planner(room)
        source = await finished_task(room)
        assert len(await room.work()) == 1
        (waiting,) = await room.desk.waiting(agent)
        assert waiting.tool_name == "create_follow_up_task"
        assert await follow_ups(room) == []

        labels = [each["label"] for each in waiting.preview["changes"]]
        assert {"Squats (follow-up)", "Three sets", "Stretch"} <= set(labels)
        assert "Warm up" not in labels

        await room.approvals.approve(waiting.operation_id)
        await room.desk.decided(waiting.operation_id)
        assert await follow_ups(room) == ["Squats (follow-up)"]
        (new,) = [each for each in await room.tasks() if "follow-up" in each.title]
        ((_, items),) = await room.journal.checklists_of(new.id)
        assert [each.text for each in items] == ["Three sets", "Stretch"]
        assert new.category_id == room.categories["gym"]
        assert source != new.id
        assert await room.desk.waiting(agent) == ()


async def test_deciding_again_and_waking_again_change_nothing(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        agent = await planner(room)
        await finished_task(room)
        await room.work()
        (waiting,) = await room.desk.waiting(agent)
        await room.approvals.approve(waiting.operation_id)
        for _ in range(3):
            await room.desk.decided(waiting.operation_id)
        await room.waking.orchestrator.catch_up()
        await room.work()
        assert await follow_ups(room) == ["Squats (follow-up)"]
        runs = await room.store.find(WakeRun, {"agent_id": agent})
        # Its own change does not wake it.
        assert [each.status for each in runs] == [WakeStatus.COMPLETED]


async def test_it_exists_once_after_a_crash_and_a_replay(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        agent = await planner(room)
        await finished_task(room)
        (key,) = await room.work()
        (waiting,) = await room.desk.waiting(agent)
        await room.approvals.approve(waiting.operation_id)
        await room.desk.decided(waiting.operation_id)
        room_again = await restarted(room)
        try:
            await room_again.desk.decided(waiting.operation_id)
            await room_again.work()
            assert await follow_ups(room_again) == ["Squats (follow-up)"]
            replayed = await room_again.desk.replay(key)
            assert replayed.matches, replayed.differences
            assert await follow_ups(room_again) == ["Squats (follow-up)"]
        finally:
            await room_again.close()


async def test_the_log_tells_the_action_the_wait_and_the_effect(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        agent = await planner(room)
        await finished_task(room)
        await room.work()
        (waiting,) = await room.desk.waiting(agent)
        await room.approvals.approve(waiting.operation_id)
        await room.desk.decided(waiting.operation_id)
        entries = await room.store.find(AgentMessage, {"operation_id": waiting.operation_id})
        action, first, last = entries
        assert action.kind is AgentMessageKind.ACTION
        assert action.metadata.scope_snapshot == (room.categories["gym"],)
        assert first.metadata.error_code == "confirmation_required"
        assert last.metadata.action_ref_id == action.id == first.metadata.action_ref_id
        assert last.metadata.status == "success"
        assert len(last.metadata.changed_entity_ids) >= 4
        assert "semantic_key|-|TASK" in last.metadata.changed_tokens


async def test_the_report_says_what_is_known_and_where_from(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        agent = await planner(room)
        source = await finished_task(room)
        (key,) = await room.work()
        shown = await room.desk.report(agent)
        assert shown is not None
        assert shown.freshness.fresh
        (claim,) = shown.report.content["sections"][0]["claims"]
        assert "Squats" in claim["text"]
        (why,) = await room.desk.why(shown.report.id, claim["id"])
        assert (why.record_id, why.label, why.exists) == (source, "Squats", True)
        trace = await room.desk.trace(key)
        assert trace.persona_version_id is not None
        assert {each.check for each in trace.policy_decisions} >= {"scope", "approval", "budget"}
        assert (await room.store.get(RunTrace, key)) == trace


async def test_a_no_is_a_no(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        agent = await planner(room)
        await finished_task(room)
        await room.work()
        (waiting,) = await room.desk.waiting(agent)
        room.approvals.decline(waiting.operation_id)
        await room.desk.decided(waiting.operation_id)
        assert await follow_ups(room) == []
        assert await room.desk.waiting(agent) == ()
        await room.approvals.approve(waiting.operation_id)
        await room.desk.decided(waiting.operation_id)
        assert await follow_ups(room) == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_task_in_another_category_wakes_nobody(tmp_path: Path, when: str) -> None:
    async with opened_room(tmp_path) as room:
        await planner(room)
        task = await room.task("Taxes", "work", checklist_items=STEPS)
        if when == "after":
            await room.task("Squats")
        await room.finish(task)
        assert await room.work() == []
