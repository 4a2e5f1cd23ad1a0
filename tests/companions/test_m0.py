"""The first whole flow: a task is finished, the Planner proposes, the owner approves, once."""

from pathlib import Path

import pytest

from silas.companions.messages import AgentMessage, RunTrace, WakeRun
from silas.companions.models import AgentMessageKind, WakeStatus
from silas.journal.operations import ItemUpdate
from silas.testing.companions import CompanionDevice, opened_device, restarted

STEPS = ("Warm up", "Three sets", "Stretch")


async def planner(device: CompanionDevice) -> str:
    return (await device.service.new("planner", category_ids=[device.categories["gym"]])).id


async def finished_task(device: CompanionDevice) -> str:
    task = await device.task("Squats", checklist_items=STEPS)
    items = (await device.journal.checklists_of(task))[0][1]
    await device.do("update_checklist_items", updates=(ItemUpdate(id=items[0].id, checked=True),))
    await device.finish(task)
    return task


async def follow_ups(device: CompanionDevice) -> list[str]:
    return [each.title for each in await device.tasks() if "follow-up" in each.title]


async def test_a_finished_task_leads_to_one_follow_up_with_the_open_steps(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        agent = await planner(device)
        source = await finished_task(device)
        assert len(await device.work()) == 1
        (waiting,) = await device.service.waiting(agent)
        assert waiting.tool_name == "create_follow_up_task"
        assert await follow_ups(device) == []

        labels = [each["label"] for each in waiting.preview["changes"]]
        assert {"Squats (follow-up)", "Three sets", "Stretch"} <= set(labels)
        assert "Warm up" not in labels

        await device.approvals.approve(waiting.operation_id)
        await device.service.decided(waiting.operation_id)
        assert await follow_ups(device) == ["Squats (follow-up)"]
        (new,) = [each for each in await device.tasks() if "follow-up" in each.title]
        ((_, items),) = await device.journal.checklists_of(new.id)
        assert [each.text for each in items] == ["Three sets", "Stretch"]
        assert new.category_id == device.categories["gym"]
        assert source != new.id
        assert await device.service.waiting(agent) == ()


async def test_deciding_again_and_waking_again_change_nothing(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        agent = await planner(device)
        await finished_task(device)
        await device.work()
        (waiting,) = await device.service.waiting(agent)
        await device.approvals.approve(waiting.operation_id)
        for _ in range(3):
            await device.service.decided(waiting.operation_id)
        await device.companions.orchestrator.catch_up()
        await device.work()
        assert await follow_ups(device) == ["Squats (follow-up)"]
        runs = await device.store.find(WakeRun, {"agent_id": agent})
        # Its own change does not wake it.
        assert [each.status for each in runs] == [WakeStatus.COMPLETED]


async def test_it_exists_once_after_a_crash_and_a_replay(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        agent = await planner(device)
        await finished_task(device)
        (key,) = await device.work()
        (waiting,) = await device.service.waiting(agent)
        await device.approvals.approve(waiting.operation_id)
        await device.service.decided(waiting.operation_id)
        device_again = await restarted(device)
        try:
            await device_again.service.decided(waiting.operation_id)
            await device_again.work()
            assert await follow_ups(device_again) == ["Squats (follow-up)"]
            replayed = await device_again.service.replay(key)
            assert replayed.matches, replayed.differences
            assert await follow_ups(device_again) == ["Squats (follow-up)"]
        finally:
            await device_again.close()


async def test_the_log_tells_the_action_the_wait_and_the_effect(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        agent = await planner(device)
        await finished_task(device)
        await device.work()
        (waiting,) = await device.service.waiting(agent)
        await device.approvals.approve(waiting.operation_id)
        await device.service.decided(waiting.operation_id)
        entries = await device.store.find(AgentMessage, {"operation_id": waiting.operation_id})
        action, first, last = entries
        assert action.kind is AgentMessageKind.ACTION
        assert action.metadata.scope_snapshot == (device.categories["gym"],)
        assert first.metadata.error_code == "confirmation_required"
        assert last.metadata.action_ref_id == action.id == first.metadata.action_ref_id
        assert last.metadata.status == "success"
        assert len(last.metadata.changed_entity_ids) >= 4
        assert "semantic_key|-|TASK" in last.metadata.changed_tokens


async def test_the_report_says_what_is_known_and_where_from(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        agent = await planner(device)
        source = await finished_task(device)
        (key,) = await device.work()
        shown = await device.service.report(agent)
        assert shown is not None
        assert shown.freshness.fresh
        (claim,) = shown.report.content["sections"][0]["claims"]
        assert "Squats" in claim["text"]
        (why,) = await device.service.why(shown.report.id, claim["id"])
        assert (why.record_id, why.label, why.exists) == (source, "Squats", True)
        trace = await device.service.trace(key)
        assert trace.persona_version_id is not None
        assert {each.check for each in trace.policy_decisions} >= {"scope", "approval", "budget"}
        assert (await device.store.get(RunTrace, key)) == trace


async def test_a_no_is_a_no(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        agent = await planner(device)
        await finished_task(device)
        await device.work()
        (waiting,) = await device.service.waiting(agent)
        device.approvals.decline(waiting.operation_id)
        await device.service.decided(waiting.operation_id)
        assert await follow_ups(device) == []
        assert await device.service.waiting(agent) == ()
        await device.approvals.approve(waiting.operation_id)
        await device.service.decided(waiting.operation_id)
        assert await follow_ups(device) == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_task_in_another_category_wakes_nobody(tmp_path: Path, when: str) -> None:
    async with opened_device(tmp_path) as device:
        await planner(device)
        task = await device.task("Taxes", "work", checklist_items=STEPS)
        if when == "after":
            await device.task("Squats")
        await device.finish(task)
        assert await device.work() == []
