"""Summaries by the companion's model: through the door, or not at all."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.companions.compaction.compactor import Compactor
from silas.companions.compaction.jobs import CompactionPolicy
from silas.companions.compaction.model import ModelSummariser
from silas.companions.log import MessageLog
from silas.companions.models import (
    AgentMessage,
    AgentMessageKind,
    BudgetWindow,
    CompactionJob,
    CompactionStatus,
    MessageDraft,
)
from silas.companions.ports import Destination
from silas.companions.proposals import CompanionProposal, ModelUsage
from silas.testing.companion_room import Room, opened_room
from silas.testing.companions import FakeGateway, ScriptedModel

CLOUD = Destination(provider="cloud", model="large", host="api.cloud.example")
KEY = "sk-live-0123456789abcdefghij"
POLICY = CompactionPolicy(rules_below_tokens=0)


@pytest.fixture
def model() -> ScriptedModel:
    usage = ModelUsage(tokens=100, cost_usd=0.001, seconds=0.1)
    return ScriptedModel(CompanionProposal(thought="They like squats.", usage=usage))


@pytest.fixture
def gateway(model: ScriptedModel) -> FakeGateway:
    return FakeGateway(model, CLOUD)


@pytest.fixture
async def room(tmp_path: Path, gateway: FakeGateway) -> AsyncIterator[Room]:
    async with opened_room(tmp_path, gateway=gateway) as room:
        yield room


async def remembered(room: Room, *, model_id: str | None, agree: bool) -> Compactor:
    """A companion with a thread that has ended, and who would summarise it."""
    made = await room.desk.new("planner", category_ids=[room.categories["gym"]], model_id=model_id)
    if agree:
        shown = await room.desk.disclosure(made.id)
        assert shown is not None
        await room.desk.consent(made.id, policy_version=shown.policy_version)
    texts = ["Squats on Monday.", f"The key is {KEY}.", "x" * 900]
    drafts = [
        MessageDraft(
            agent_id=made.id,
            thread_id="t",
            kind=AgentMessageKind.USER,
            content={"text": text, "private": "not for anybody"},
        )
        for text in texts
    ]
    await MessageLog(room.store).append(drafts)
    summariser = ModelSummariser(room.store, room.hands.door, definitions=room.hands.definitions)
    compactor = Compactor(room.store, summariser=summariser, policy=POLICY)
    await compactor.consider(made.id, "t", ended=True)
    return compactor


async def summary(room: Room) -> tuple[AgentMessage, str]:
    [found] = await room.store.find(AgentMessage, {"summary_depth": 1})
    content = await MessageLog(room.store).content(found)
    assert content is not None
    return found, content["text"]


async def test_the_model_summarises_and_is_told_only_what_it_needs(
    room: Room, gateway: FakeGateway
) -> None:
    compactor = await remembered(room, model_id="cloud:large", agree=True)
    assert await compactor.work() is None
    found, text = await summary(room)
    assert text == "They like squats."
    assert found.metadata.summary_contract_version == "companion.summary-1"
    [(_, request)] = gateway.sent
    assert request.prompt_id == "companion.summary"
    assert request.tools == ()
    told = str(request.payload)
    assert "Squats on Monday." in told
    assert KEY not in told
    assert "not for anybody" not in told
    assert request.payload.keys() == {"companion", "wake", "memory"}
    [window] = await room.store.find(BudgetWindow)
    assert window.total.tokens == 100


@pytest.mark.parametrize(("model_id", "agree"), [("cloud:large", False), (None, False)])
async def test_without_consent_or_model_rules_summarise_and_nothing_is_sent(
    room: Room, gateway: FakeGateway, model_id: str | None, agree: bool
) -> None:
    compactor = await remembered(room, model_id=model_id, agree=agree)
    assert await compactor.work() is None
    found, text = await summary(room)
    assert found.metadata.summary_contract_version == "rules-1"
    assert "Squats on Monday." in text
    assert gateway.sent == []


async def test_nothing_of_a_paused_companion_s_memory_is_sent(
    room: Room, gateway: FakeGateway
) -> None:
    """It is summarised all the same, by rules: they ask nobody."""
    compactor = await remembered(room, model_id="cloud:large", agree=True)
    (companion,) = await room.desk.list()
    await room.desk.pause(companion.id)
    assert await compactor.work() is None
    found, _ = await summary(room)
    assert found.metadata.summary_contract_version == "rules-1"
    assert gateway.sent == []


async def test_an_answer_that_is_none_is_tried_again(room: Room, model: ScriptedModel) -> None:
    model._answers = [CompanionProposal(fallback="The provider is down.")]
    compactor = await remembered(room, model_id="cloud:large", agree=True)
    assert await compactor.work() is not None
    [job] = await room.store.find(CompactionJob)
    assert job.status is CompactionStatus.PENDING
    assert job.last_error == "llm_failed: The provider is down."
    assert await room.store.find(AgentMessage, {"summary_depth": 1}) == []
