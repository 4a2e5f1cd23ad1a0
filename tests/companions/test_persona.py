"""Personas: versions, their differences, and the owner's approval of each."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.models import AgentPersonaHead
from silas.testing.companion_room import Room, opened_room
from silas.testing.companions import FakeGateway, ScriptedModel


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def room(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[Room]:
    async with opened_room(tmp_path, gateway=FakeGateway(model)) as room:
        yield room


@pytest.fixture
async def agent(room: Room) -> str:
    return (await room.desk.new("planner", category_ids=[room.categories["gym"]])).id


async def test_the_first_version_is_in_use_by_making_the_companion(room: Room, agent: str) -> None:
    (only,) = await room.desk.persona(agent)
    assert (only.in_use, only.version.version, only.version.status) == (True, 1, "active")
    assert only.version.approved_by == "owner"


async def test_a_proposal_is_not_in_use_until_the_owner_approves_it(
    room: Room, agent: str, model: ScriptedModel
) -> None:
    draft = await room.desk.propose_persona(agent, {"coaching_style": "Louder."})
    assert (draft.in_use, draft.version.status) == (False, "draft")
    (change,) = draft.changes
    assert (change.field, change.after) == ("coaching_style", "Louder.")
    await room.desk.wake(agent)
    await room.work()
    assert model.requests[-1].payload["persona"]["coaching_style"] != "Louder."
    approved = await room.desk.approve_persona(agent, draft.version.id)
    assert (approved.in_use, approved.version.status) == (True, "active")
    await room.desk.wake(agent)
    await room.work()
    assert model.requests[-1].payload["persona"]["coaching_style"] == "Louder."
    assert "companion_persona_approved" in room.audit.events()


async def test_every_run_says_which_version_it_used(room: Room, agent: str) -> None:
    first = await room.desk.wake(agent)
    await room.work()
    draft = await room.desk.propose_persona(agent, {"coaching_style": "Louder."})
    await room.desk.approve_persona(agent, draft.version.id)
    second = await room.desk.wake(agent)
    await room.work()
    used = [(await room.desk.trace(each.run_key)).persona_version_id for each in (first, second)]
    newest, oldest = await room.desk.persona(agent)
    assert used == [oldest.version.id, newest.version.id]
    assert oldest.version.status == "archived"


async def test_only_a_draft_of_this_companion_can_be_approved(room: Room, agent: str) -> None:
    (only,) = await room.desk.persona(agent)
    with pytest.raises(CompanionInvalid):
        await room.desk.approve_persona(agent, only.version.id)
    other = await room.desk.new("strategist", category_ids=[room.categories["gym"]])
    draft = await room.desk.propose_persona(other.id, {"coaching_style": "x"})
    with pytest.raises(CompanionUnknown):
        await room.desk.approve_persona(agent, draft.version.id)


async def test_a_persona_has_no_rights_to_change(room: Room, agent: str) -> None:
    for field in ("tools", "approved_by", "status", "version"):
        with pytest.raises(CompanionInvalid):
            await room.desk.propose_persona(agent, {field: "x"})


async def test_there_is_one_head(room: Room, agent: str) -> None:
    for style in ("a", "b", "c"):
        draft = await room.desk.propose_persona(agent, {"coaching_style": style})
        await room.desk.approve_persona(agent, draft.version.id)
    (head,) = await room.store.find(AgentPersonaHead, {"agent_id": agent})
    assert head.persona_version == 4
    active = [each for each in await room.desk.persona(agent) if each.in_use]
    assert len(active) == 1
