"""Whose words are on a card: the owner's, or perhaps somebody else's."""

from pathlib import Path
from typing import Any

import pytest

from silas.companions.messages import PlannedAction
from silas.companions.models import AgentActionType
from silas.companions.workflow import taint_of_action
from silas.journal.models import AccessScope
from silas.journal.operations import ItemUpdate, update_checklist_items, update_task_fields
from silas.kernel import TaintLevel
from silas.testing.companions import CompanionDevice, opened_device


async def asked_about(device: CompanionDevice, task: str) -> TaintLevel:
    """The taint of the card that the Planner asks after the task is finished."""
    await device.service.new("planner", category_ids=[device.categories["gym"]])
    await device.finish(task)
    await device.work()
    (waiting,) = await device.service.waiting()
    return device.approvals.taints[waiting.operation_id]


async def test_what_the_owner_typed_is_the_owners(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        await device.task("Written by somebody else", category="work")
        task = await device.task("Squats", checklist_items=("Warm up",))
        assert await asked_about(device, task) is TaintLevel.OWNER


@pytest.mark.parametrize("which", ["the task", "a step of it"])
async def test_what_a_companion_wrote_is_from_outside(tmp_path: Path, which: str) -> None:
    async with opened_device(tmp_path) as device:
        task = await device.task("Squats", checklist_items=("Warm up",))
        ((_, (item,)),) = await device.journal.checklists_of(task)
        by_other: Any = {
            "scope": AccessScope(allowed_category_ids=frozenset({device.categories["gym"]})),
            "actor": "companion:another",
        }
        if which == "the task":
            fields = {"title": "Lie"}
            await update_task_fields(device.journal, task_id=task, fields=fields, **by_other)
        else:
            changed = (ItemUpdate(id=item.id, text="Pay somebody"),)
            await update_checklist_items(device.journal, updates=changed, **by_other)
        assert await asked_about(device, task) is TaintLevel.EXTERNAL


async def test_where_nobody_can_tell_it_is_from_outside(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        agent = await device.service.new("planner", category_ids=[device.categories["gym"]])
        task = await device.task("Squats")
        job = (await device.lifecycle.wake(agent.id)).model_copy(update={"changed_entity_ids": ()})

        async def taint(model_id: str = "offline:brain", /, **arguments: str) -> TaintLevel:
            return await taint_of_action(
                device.journal, job, planned(**arguments), model_id=model_id
            )

        assert await taint(task_id=task) is TaintLevel.OWNER
        assert await taint("openai:gpt", task_id=task) is TaintLevel.EXTERNAL
        assert await taint(title="names nothing") is TaintLevel.EXTERNAL
        assert await taint(task_id="nobody-knows-it") is TaintLevel.EXTERNAL


def planned(**arguments: str) -> PlannedAction:
    return PlannedAction(
        action_stable_id="stable",
        operation_id="operation",
        action_type=AgentActionType.TOOL_CALL,
        tool_name="create_follow_up_task",
        arguments=arguments,
        arguments_hash="hash",
        scope_snapshot=(),
        target_refs=(),
    )
