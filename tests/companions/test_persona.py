"""Personas: versions, their differences, and the owner's approval of each."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.messages import AgentPersonaHead
from silas.testing.companions import CompanionDevice, FakeGateway, ScriptedModel, opened_device


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def device(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[CompanionDevice]:
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        yield device


@pytest.fixture
async def agent(device: CompanionDevice) -> str:
    return (await device.service.new("planner", category_ids=[device.categories["gym"]])).id


async def test_the_first_version_is_in_use_by_making_the_companion(
    device: CompanionDevice, agent: str
) -> None:
    (only,) = await device.service.persona(agent)
    assert (only.in_use, only.version.version, only.version.status) == (True, 1, "active")
    assert only.version.approved_by == "owner"


async def test_a_proposal_is_not_in_use_until_the_owner_approves_it(
    device: CompanionDevice, agent: str, model: ScriptedModel
) -> None:
    draft = await device.service.propose_persona(agent, {"coaching_style": "Louder."})
    assert (draft.in_use, draft.version.status) == (False, "draft")
    (change,) = draft.changes
    assert (change.field, change.after) == ("coaching_style", "Louder.")
    await device.service.wake(agent)
    await device.work()
    assert model.requests[-1].payload["persona"]["coaching_style"] != "Louder."
    approved = await device.service.approve_persona(agent, draft.version.id)
    assert (approved.in_use, approved.version.status) == (True, "active")
    await device.service.wake(agent)
    await device.work()
    assert model.requests[-1].payload["persona"]["coaching_style"] == "Louder."
    assert "companion_persona_approved" in device.audit.events()


async def test_every_run_says_which_version_it_used(device: CompanionDevice, agent: str) -> None:
    first = await device.service.wake(agent)
    await device.work()
    draft = await device.service.propose_persona(agent, {"coaching_style": "Louder."})
    await device.service.approve_persona(agent, draft.version.id)
    second = await device.service.wake(agent)
    await device.work()
    used = [
        (await device.service.trace(each.run_key)).persona_version_id for each in (first, second)
    ]
    newest, oldest = await device.service.persona(agent)
    assert used == [oldest.version.id, newest.version.id]
    assert oldest.version.status == "archived"


async def test_only_a_draft_of_this_companion_can_be_approved(
    device: CompanionDevice, agent: str
) -> None:
    (only,) = await device.service.persona(agent)
    with pytest.raises(CompanionInvalid):
        await device.service.approve_persona(agent, only.version.id)
    other = await device.service.new("strategist", category_ids=[device.categories["gym"]])
    draft = await device.service.propose_persona(other.id, {"coaching_style": "x"})
    with pytest.raises(CompanionUnknown):
        await device.service.approve_persona(agent, draft.version.id)


async def test_a_persona_has_no_rights_to_change(device: CompanionDevice, agent: str) -> None:
    for field in ("tools", "approved_by", "status", "version"):
        with pytest.raises(CompanionInvalid):
            await device.service.propose_persona(agent, {field: "x"})


async def test_there_is_one_head(device: CompanionDevice, agent: str) -> None:
    for style in ("a", "b", "c"):
        draft = await device.service.propose_persona(agent, {"coaching_style": style})
        await device.service.approve_persona(agent, draft.version.id)
    (head,) = await device.store.find(AgentPersonaHead, {"agent_id": agent})
    assert head.persona_version == 4
    active = [each for each in await device.service.persona(agent) if each.in_use]
    assert len(active) == 1
