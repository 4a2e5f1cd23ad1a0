"""Summaries by the companion's model: through the door, or not at all."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.companions.compaction import CompactionPolicy, Compactor, ModelSummariser
from silas.companions.messages import AgentMessage, CompactionJob, MessageDraft
from silas.companions.models import AgentMessageKind, BudgetWindow, CompactionStatus
from silas.companions.ports import CompanionProposal, ModelDestination, ModelUsage
from silas.testing.companions import CompanionDevice, FakeGateway, ScriptedModel, opened_device
from tests.companions.making import ReadableLog

CLOUD = ModelDestination(provider="cloud", model="large", host="api.cloud.example")
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
async def device(tmp_path: Path, gateway: FakeGateway) -> AsyncIterator[CompanionDevice]:
    async with opened_device(tmp_path, gateway=gateway) as device:
        yield device


async def remembered(device: CompanionDevice, *, model_id: str | None, agree: bool) -> Compactor:
    """A companion with a thread that has ended, and who would summarise it."""
    made = await device.service.new(
        "planner", category_ids=[device.categories["gym"]], model_id=model_id
    )
    if agree:
        shown = await device.service.disclosure(made.id)
        assert shown is not None
        await device.service.consent(made.id, policy_version=shown.policy_version)
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
    await ReadableLog(device.store).append(drafts)
    summariser = ModelSummariser(device.store, device.companions.workflow.door)
    compactor = Compactor(device.store, summariser=summariser, policy=POLICY)
    await compactor.consider(made.id, "t", ended=True)
    return compactor


async def summary(device: CompanionDevice) -> tuple[AgentMessage, str]:
    [found] = await device.store.find(AgentMessage, {"summary_depth": 1})
    content = await ReadableLog(device.store).content(found)
    assert content is not None
    return found, content["text"]


async def test_the_model_summarises_and_is_told_only_what_it_needs(
    device: CompanionDevice, gateway: FakeGateway
) -> None:
    compactor = await remembered(device, model_id="cloud:large", agree=True)
    assert await compactor.work() is None
    found, text = await summary(device)
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
    [window] = await device.store.find(BudgetWindow)
    assert window.total.tokens == 100


@pytest.mark.parametrize(("model_id", "agree"), [("cloud:large", False), (None, False)])
async def test_without_consent_or_model_rules_summarise_and_nothing_is_sent(
    device: CompanionDevice, gateway: FakeGateway, model_id: str | None, agree: bool
) -> None:
    compactor = await remembered(device, model_id=model_id, agree=agree)
    assert await compactor.work() is None
    found, text = await summary(device)
    assert found.metadata.summary_contract_version == "rules-2"
    assert "Squats on Monday." in text
    assert gateway.sent == []


async def test_nothing_of_a_paused_companion_s_memory_is_sent(
    device: CompanionDevice, gateway: FakeGateway
) -> None:
    """It is summarised all the same, by rules: they ask nobody."""
    compactor = await remembered(device, model_id="cloud:large", agree=True)
    (companion,) = await device.service.list()
    await device.service.pause(companion.id)
    assert await compactor.work() is None
    found, _ = await summary(device)
    assert found.metadata.summary_contract_version == "rules-2"
    assert gateway.sent == []


async def test_an_answer_that_is_none_is_tried_again(
    device: CompanionDevice, model: ScriptedModel
) -> None:
    model._answers = [CompanionProposal(fallback="The provider is down.")]
    compactor = await remembered(device, model_id="cloud:large", agree=True)
    assert await compactor.work() is not None
    [job] = await device.store.find(CompactionJob)
    assert job.status is CompactionStatus.PENDING
    assert job.last_error == "llm_failed: The provider is down."
    assert await device.store.find(AgentMessage, {"summary_depth": 1}) == []
