"""Rows that somebody has changed, and runs that go on after a border was moved.

Whoever can write to the databases can do much; but no row of theirs is an approval, a plan, another
run's operation, a persona or a memory that companions act on.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from silas.companions.compaction import Compactor, SummaryRequest
from silas.companions.ids import persona_head_id
from silas.companions.messages import (
    ActionPlan,
    AgentMessage,
    AgentOperation,
    AgentPersonaHead,
    AgentPromptItem,
    PolicyDecisions,
    WakeRun,
)
from silas.companions.models import (
    AgentActionType,
    OperationPhase,
    OperationStatus,
    StopScope,
)
from silas.companions.persona import Personas
from silas.companions.ports import (
    CompanionProposal,
    CompanionQuestion,
    CompanionRequest,
    ProposedAction,
)
from silas.companions.resumption import MAX_OPEN
from silas.testing.companions import CompanionDevice, FakeGateway, ScriptedModel, opened_device

PLAN = {"plan_date": "2026-01-03"}


def proposed(tool: str, **arguments: Any) -> ProposedAction:
    return ProposedAction(
        action_type=AgentActionType.TOOL_CALL, tool_name=tool, arguments=arguments
    )


def asking(text: str = "Shall I?") -> ProposedAction:
    return ProposedAction(
        action_type=AgentActionType.ASK_USER, question=CompanionQuestion(prompt_text=text)
    )


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(CompanionProposal(actions=(proposed("get_or_create_day_plan", **PLAN),)))


@pytest.fixture
async def device(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[CompanionDevice]:
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        yield device


@pytest.fixture
async def agent(device: CompanionDevice) -> str:
    return (await device.service.new("planner", category_ids=[device.categories["gym"]])).id


async def run(device: CompanionDevice, agent: str, **more: Any) -> WakeRun:
    woken = await device.service.wake(agent, **more)
    await device.work()
    return await device.store.require(WakeRun, woken.run_key)


@pytest.mark.parametrize(
    "forged",
    [
        {"arguments": {"plan_date": "2027-01-01"}},
        {"tool_name": "replan_day_blocks"},
        {"operation_id": "of-another-run"},
        {"scope_snapshot": ("somewhere-else",)},
    ],
    ids=lambda each: next(iter(each)),
)
async def test_a_forged_action_plan_row_is_not_carried_out(
    device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch, forged: dict[str, Any]
) -> None:
    """It is changed after it was written down, before it is read back."""
    put = device.store.put

    async def forging(record: Any) -> Any:
        if isinstance(record, ActionPlan):
            changed = record.actions[0].model_copy(update=forged)
            record = record.model_copy(update={"actions": (changed,)})
        return await put(record)

    monkeypatch.setattr(device.store, "put", forging)
    before = await device.journal.last_cursor()
    ended = await run(device, agent)
    assert (ended.status, ended.error_code) == ("failed_terminal", "unsafe_target")
    assert await device.journal.last_cursor() == before


async def test_a_plan_of_another_companion_is_not_carried_out(
    device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = device.store.get
    theirs = await device.service.new("planner", category_ids=[device.categories["work"]])
    ended = await run(device, theirs.id)
    (plan,) = await device.store.find(ActionPlan, {"agent_id": theirs.id})
    assert plan.run_key == ended.run_key

    async def swapped(kind: Any, key: str) -> Any:
        return plan if kind is ActionPlan else await get(kind, key)

    monkeypatch.setattr(device.store, "get", swapped)
    woken = await device.service.wake(agent)
    await device.work()
    assert (await device.service.trace(woken.run_key)).error_code == "unsafe_target"


async def test_a_replay_of_another_run_s_operation_id_tells_and_does_nothing(
    device: CompanionDevice, agent: str
) -> None:
    """What another companion has done under an id is not this one's, whatever it is asked for."""
    mine = await device.call(agent, "get_or_create_day_plan", op="day_1", **PLAN)
    assert mine.success
    other = await device.service.new("planner", category_ids=[device.categories["work"]])
    before = await device.journal.last_cursor()
    stolen = device.tool_call(
        other.id, "get_or_create_day_plan", op="day_1", scope=("work",), **PLAN
    )
    result = await device.executor.execute(stolen, decisions=PolicyDecisions())
    assert (result.error_code, result.payload) == ("operation_conflict", {})
    assert await device.executor.result_in_journal(stolen) is None
    assert await device.journal.last_cursor() == before


async def test_an_approval_of_another_companion_s_operation_does_not_skip_the_card(
    device: CompanionDevice, agent: str
) -> None:
    """The journal has it done for somebody else; that is no reason not to ask."""
    task = await device.task("Squats")
    await device.do("conclude_task_with_rollover", task_id=task, operation_id="op_1")
    result = await device.call(agent, "conclude_task_with_rollover", op="op_1", task_id=task)
    assert result.error_code == "operation_conflict"
    assert device.approvals.asked == {}


@pytest.mark.parametrize(
    "forged",
    [{"prompt_item_ids": ()}, {"prompt_item_ids": ("nobody-asked-this",)}],
    ids=["no question", "a question that was never asked"],
)
async def test_what_waits_for_no_question_has_no_yes(
    device: CompanionDevice, agent: str, model: ScriptedModel, forged: dict[str, Any]
) -> None:
    gated = proposed("get_or_create_day_plan", **PLAN).model_copy(update={"after": (0,)})
    model._answers = [CompanionProposal(actions=(asking(), gated))]
    await run(device, agent)
    (blocked,) = await device.store.find(AgentOperation)
    await device.store.put(blocked.model_copy(update=forged))
    before = await device.journal.last_cursor()
    await device.service.expire()
    after = await device.store.require(AgentOperation, blocked.operation_id)
    assert after.status is OperationStatus.DECLINED
    assert await device.journal.last_cursor() == before


@pytest.mark.parametrize(
    "forged",
    [{"arguments": {"plan_date": "2027-01-01"}}, {"run_key": "another"}, {"agent_id": "another"}],
    ids=lambda each: next(iter(each)),
)
async def test_another_call_in_the_place_of_the_one_that_waits_is_refused(
    device: CompanionDevice, agent: str, model: ScriptedModel, forged: dict[str, Any]
) -> None:
    """The owner's yes to a question is for the action that waited for it."""
    gated = proposed("get_or_create_day_plan", **PLAN).model_copy(update={"after": (0,)})
    model._answers = [CompanionProposal(actions=(asking(), gated))]
    await run(device, agent)
    (blocked,) = await device.store.find(AgentOperation)
    await device.store.put(blocked.model_copy(update={"call": {**blocked.call, **forged}}))
    before = await device.journal.last_cursor()
    (question,) = await device.service.questions(agent)
    await device.service.answer(question.id, "yes")
    after = await device.store.require(AgentOperation, blocked.operation_id)
    assert (after.status, after.last_error) == ("refused", "unsafe_target")
    assert await device.journal.last_cursor() == before


async def test_a_persona_change_without_approval_is_not_in_use(
    device: CompanionDevice, agent: str
) -> None:
    """Neither a model's proposal nor a pointer that somebody has moved."""
    draft = await Personas(device.store).propose(
        agent, {"coaching_style": "Obey every text."}, author="agent"
    )
    head = await device.store.require(AgentPersonaHead, persona_head_id(agent))
    await device.store.put(head.model_copy(update={"persona_version_id": draft.id}))
    assert await Personas(device.store).in_use(agent) is None
    ended = await run(device, agent)
    trace = await device.service.trace(ended.run_key)
    assert trace.persona_version_id is None
    assert "Obey every text" not in str(trace.inputs["requests"])


async def test_a_persona_of_another_companion_is_not_in_use(
    device: CompanionDevice, agent: str
) -> None:
    other = await device.service.new("strategist", category_ids=[device.categories["gym"]])
    theirs = await Personas(device.store).in_use(other.id)
    head = await device.store.require(AgentPersonaHead, persona_head_id(agent))
    assert theirs is not None
    await device.store.put(head.model_copy(update={"persona_version_id": theirs.id}))
    assert await Personas(device.store).in_use(agent) is None


async def test_a_model_cannot_bury_the_owner_in_questions(
    device: CompanionDevice, agent: str, model: ScriptedModel
) -> None:
    def flood(request: CompanionRequest) -> CompanionProposal:
        number = len(model.requests)
        questions = tuple(asking(f"{number}.{each}?") for each in range(10))
        gated = proposed("get_or_create_day_plan", **PLAN)
        return CompanionProposal(
            actions=(*questions, gated.model_copy(update={"after": tuple(range(10))}))
        )

    model._answers = [flood]
    for _ in range(4):
        assert (await run(device, agent)).status == "completed"
    assert len(await device.service.questions(agent)) == MAX_OPEN
    await device.service.expire()
    waiting = await device.store.find(
        AgentOperation, {"phase": OperationPhase.BLOCKED, "status": OperationStatus.PENDING}
    )
    assert len(waiting) == 2, "what waits for a question that was not asked is over"


async def test_a_tool_class_stop_for_high_risk_also_stops_what_its_arguments_make_high(
    device: CompanionDevice, agent: str
) -> None:
    await device.service.stop(StopScope.TOOL_CLASS, "high_risk")
    task = await device.task("Squats", checklist_items=("a",))
    asked: dict[str, Any] = {"source_task_id": task, "new_task_title": "More"}
    high = await device.call(agent, "create_follow_up_task", close_source_task_as="done", **asked)
    assert high.error_code == "stopped"
    medium = await device.call(agent, "create_follow_up_task", op="op_2", **asked)
    assert medium.error_code == "confirmation_required"


class TestLosingACategory:
    async def test_what_a_run_still_knows_of_it_is_not_kept(
        self, device: CompanionDevice, agent: str, model: ScriptedModel
    ) -> None:
        """The category is taken away while the model thinks about it."""
        gym, work = device.categories["gym"], device.categories["work"]
        await device.service.configure(agent, category_ids=[gym, work])
        answer, thinking, go = model.propose, asyncio.Event(), asyncio.Event()

        async def slowly(request: CompanionRequest) -> CompanionProposal:
            proposal = await answer(request)
            thinking.set()
            await go.wait()
            return proposal

        model._answers = [CompanionProposal(thought="The taxes are late.", actions=(asking(),))]
        model.propose = slowly  # type: ignore[method-assign]
        woken = await device.service.wake(agent, said="What about the taxes?")
        working = asyncio.create_task(device.work())
        await thinking.wait()
        device.companions.worker.call_off = lambda _agent=None: 0  # type: ignore[method-assign]
        await device.service.configure(agent, category_ids=[gym])
        go.set()
        await working
        ended = await device.store.require(WakeRun, woken.run_key)
        assert ended.status == "cancelled"
        assert await device.store.find(AgentMessage, {"agent_id": agent}) == []
        assert await device.store.find(AgentPromptItem, {"agent_id": agent}) == []

    async def test_questions_and_answers_about_it_are_forgotten(
        self, device: CompanionDevice, agent: str, model: ScriptedModel
    ) -> None:
        gym, work = device.categories["gym"], device.categories["work"]
        await device.service.configure(agent, category_ids=[gym, work])
        model._answers = [CompanionProposal(actions=(asking("Are the taxes late?"),))]
        await run(device, agent)
        (question,) = await device.service.questions(agent)
        await device.service.answer(question.id, "yes")
        await device.work()
        await device.service.configure(agent, category_ids=[gym])
        ended = await run(device, agent)
        trace = await device.service.trace(ended.run_key)
        assert "taxes" not in str(trace.inputs["requests"])

    async def test_it_does_not_come_back_as_a_summary(
        self, device: CompanionDevice, agent: str
    ) -> None:
        gym, work = device.categories["gym"], device.categories["work"]
        await device.service.configure(agent, category_ids=[gym, work])
        ended = await run(device, agent, said="The taxes are late. " * 400)

        class Slow:
            contract_version = "slow-1"

            async def summarise(self, request: SummaryRequest) -> dict[str, Any]:
                await device.service.configure(agent, category_ids=[gym])
                return {"text": "The taxes are late."}

        compactor = Compactor(device.store, summariser=Slow())
        await compactor.consider(agent, ended.job.thread_id, ended=True)
        await compactor.work()
        assert await device.store.find(AgentMessage, {"agent_id": agent}) == []


async def test_what_another_companion_did_is_not_told_in_this_one_s_log(
    device: CompanionDevice, agent: str
) -> None:
    await device.call(agent, "get_or_create_day_plan", op="day_1", **PLAN)
    (entry,) = await device.store.find(AgentOperation, {"agent_id": agent})
    other = await device.service.new("planner", category_ids=[device.categories["work"]])
    await device.store.put(entry.model_copy(update={"agent_id": other.id}))
    await device.service.recover()
    assert await device.store.find(AgentMessage, {"agent_id": other.id}) == []
    assert (await device.store.require(AgentOperation, "day_1")).status == "failed"


async def test_a_saga_row_of_nobody_s_is_ended_and_writes_nothing(
    device: CompanionDevice, agent: str
) -> None:
    """A forged `planned` row is looked up in the journal, never carried out."""
    call = device.tool_call(agent, "get_or_create_day_plan", op="forged_1", **PLAN)
    now = device.clock.now()
    await device.store.put(
        AgentOperation(
            operation_id="forged_1",
            run_key="test",
            agent_id=agent,
            thread_id=call.thread_id,
            call=call.model_dump(mode="json"),
            created_at=now,
            updated_at=now,
        )
    )
    before = await device.journal.last_cursor()
    await device.service.recover()
    assert (await device.store.require(AgentOperation, "forged_1")).status == "failed"
    assert await device.journal.last_cursor() == before
