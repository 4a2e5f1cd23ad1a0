"""A newer version of a kind for one companion, how it does, and the way back; objectives."""

from pathlib import Path
from typing import Any

import pytest

from silas.companions.errors import CompanionInvalid
from silas.companions.messages import AgentMessage, Diagnostic
from silas.companions.models import AgentMessageKind
from silas.companions.ports import CompanionProposal
from silas.gates.risk import RiskLevel
from silas.testing.companions import CompanionDevice, FakeGateway, ScriptedModel, opened_device
from tests.companions.test_workflow import call

OWN = """
kind: walker
version: {version}
display_name: Walker
summary: Walks along.
instructions: {instructions}
capabilities: [task_read, task_write]
tools: [{tools}]
report:
  headline: Walks
  sections: [{{id: open, title: Open, shows: open_tasks}}]
persona: {{voice: Calm.}}
"""


def write_kind(folder: Path, version: int, instructions: str, *more: str) -> None:
    folder.mkdir(exist_ok=True)
    tools = ", ".join(["list_tasks_in_scope", *more])
    text = OWN.format(version=version, instructions=instructions, tools=tools)
    (folder / "walker.yaml").write_text(text)


async def run(device: CompanionDevice, agent: str) -> str:
    woken = await device.service.wake(agent)
    await device.work()
    return woken.run_key


async def test_a_new_version_runs_for_one_is_compared_and_taken_back(tmp_path: Path) -> None:
    kinds = tmp_path / "kinds"
    write_kind(kinds, 1, "Walk.")
    model = ScriptedModel(CompanionProposal())
    async with opened_device(tmp_path, gateway=FakeGateway(model), kinds=kinds) as device:
        gym, service = device.categories["gym"], device.service
        canary = (await service.new("walker", category_ids=[gym])).id
        other = (await service.new("walker", category_ids=[gym])).id
        await service.configure(canary, confirm_from=RiskLevel.LOW)
        for _ in range(3):
            await run(device, canary)
        device.clock.advance(minutes=1)
        assert (await service.rollout(canary)).newer is False
        write_kind(kinds, 2, "Run, and close what you find.", "update_task_priority")
        shown = await service.rollout(canary)
        assert (shown.version, shown.newest_version, shown.newer) == (1, 2, True)
        assert shown.adds == ("update_task_priority",)
        adopted = await service.adopt_version(canary)
        assert (adopted.version, adopted.newer, adopted.can_go_back) == (2, False, True)
        assert (await service.show(canary)).confirm_from == "low", "the owner's own stays"
        assert (await service.rollout(other)).version == 1
        # The new version wants what it may not do: it is called worse, and goes with one step.
        model._answers[:] = [CompanionProposal(actions=(call("create_task", title="x"),))]
        keys = [await run(device, canary) for _ in range(3)]
        judged = await service.rollout(canary)
        assert [(each.version, each.runs, each.refused) for each in judged.versions] == [
            (2, 3, 3),
            (1, 3, 0),
        ]
        assert judged.worse
        back = await service.previous_version(canary)
        assert (back.version, back.worse) == (1, False)
        assert (await service.trace(keys[-1])).inputs["definition"]["version"] == 2
        model._answers[:] = [CompanionProposal()]
        await run(device, canary)
        assert "update_task_priority" not in (await service.show(canary)).tools
        with pytest.raises(CompanionInvalid, match="no other version"):
            await service.previous_version(other)
        with pytest.raises(CompanionInvalid, match="newest version"):
            await service.adopt_version((await service.new("walker", category_ids=[gym])).id)


async def test_what_companions_are_held_to_is_measured_and_what_was_odd_is_shown(
    device: CompanionDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = (await device.service.new("planner", category_ids=[device.categories["gym"]])).id
    assert {each.met for each in await device.service.objectives(agent)} == {None}
    await run(device, agent)
    assert {each.met for each in await device.service.objectives(agent)} == {True}

    async def fails(*args: Any, **more: Any) -> None:
        raise CompanionInvalid("It cannot.")

    monkeypatch.setattr(device.companions.workflow, "_propose", fails)
    await run(device, agent)
    success = (await device.service.objectives(agent))[0]
    assert (success.is_now, success.met) == ("50%", False)
    odd = Diagnostic(
        id="odd", agent_id=agent, kind="summary_differs", subject_id="m1",
        created_at=device.clock.now(),
    )  # fmt: skip
    await device.store.put(odd)
    (shown,) = await device.service.diagnostics(agent)
    assert (shown.kind, shown.subject_id) == ("summary_differs", "m1")


async def test_what_was_done_after_a_yes_says_which_prompt_and_model_it_came_from(
    device: CompanionDevice,
) -> None:
    agent = (await device.service.new("planner", category_ids=[device.categories["gym"]])).id
    task = await device.task("Squats", checklist_items=("Stretch",))
    await device.finish(task)
    await device.work()
    (operation,) = device.approvals.asked
    await device.approvals.approve(operation)
    await device.service.decided(operation)
    mine = {"agent_id": agent, "kind": AgentMessageKind.TOOL_RESULT}
    results = await device.store.find(AgentMessage, mine)
    assert [each.metadata.error_code for each in results] == ["confirmation_required", None]
    for each in results:
        named = (each.metadata.prompt_id, each.metadata.model_id)
        assert named == ("companion", "offline:brain")
        assert each.metadata.prompt_version
