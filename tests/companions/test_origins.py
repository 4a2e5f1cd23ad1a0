"""Whose words are on a card: the owner's, or perhaps somebody else's."""

from pathlib import Path
from typing import Any

import pytest

from silas.companions.models import AgentActionType, PlannedAction
from silas.companions.origins import taint_of_action
from silas.journal.models import AccessScope
from silas.journal.operations import ItemUpdate, update_checklist_items, update_task_fields
from silas.kernel import TaintLevel
from silas.testing.companion_room import Room, opened_room


async def asked_about(room: Room, task: str) -> TaintLevel:
    """The taint of the card that the Planner asks after the task is finished."""
    await room.desk.new("planner", category_ids=[room.categories["gym"]])
    await room.finish(task)
    await room.work()
    (waiting,) = await room.desk.waiting()
    return room.approvals.taints[waiting.operation_id]


async def test_what_the_owner_typed_is_the_owners(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        await room.task("Written by somebody else", category="work")
        task = await room.task("Squats", checklist_items=("Warm up",))
        assert await asked_about(room, task) is TaintLevel.OWNER


@pytest.mark.parametrize("which", ["the task", "a step of it"])
async def test_what_a_companion_wrote_is_from_outside(tmp_path: Path, which: str) -> None:
    async with opened_room(tmp_path) as room:
        task = await room.task("Squats", checklist_items=("Warm up",))
        ((_, (item,)),) = await room.journal.checklists_of(task)
        by_other: Any = {
            "scope": AccessScope(allowed_category_ids=frozenset({room.categories["gym"]})),
            "actor": "companion:another",
        }
        if which == "the task":
            fields = {"title": "Lie"}
            await update_task_fields(room.journal, task_id=task, fields=fields, **by_other)
        else:
            changed = (ItemUpdate(id=item.id, text="Pay somebody"),)
            await update_checklist_items(room.journal, updates=changed, **by_other)
        assert await asked_about(room, task) is TaintLevel.EXTERNAL


async def test_where_nobody_can_tell_it_is_from_outside(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        agent = await room.desk.new("planner", category_ids=[room.categories["gym"]])
        task = await room.task("Squats")
        job = (await room.lifecycle.wake(agent.id)).model_copy(update={"changed_entity_ids": ()})

        async def taint(model_id: str = "offline:brain", /, **arguments: str) -> TaintLevel:
            return await taint_of_action(room.journal, job, planned(**arguments), model_id=model_id)

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
