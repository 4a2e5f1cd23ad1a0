"""A run: what it reads, asks, plans, carries out and leaves behind; retries, sessions, replay."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from silas.companions.messages import ActionPlan, AgentMessage, RunTrace, WakeRun
from silas.companions.models import (
    AgentActionType,
    AgentInteractionType,
    AgentMessageKind,
    AgentState,
    Companion,
)
from silas.companions.ports import (
    ClaimDraft,
    CompanionProposal,
    CompanionQuestion,
    ProposedAction,
    ReportDraft,
    SectionDraft,
)
from silas.companions.run_record import PROMPT_VERSION
from silas.companions.workflow import Replayer
from silas.testing.companions import CompanionDevice, FakeGateway, ScriptedModel, opened_device


def call(tool: str, /, **arguments: Any) -> ProposedAction:
    return ProposedAction(
        action_type=AgentActionType.TOOL_CALL, tool_name=tool, arguments=arguments
    )


def asks(text: str) -> ProposedAction:
    return ProposedAction(
        action_type=AgentActionType.ASK_USER, question=CompanionQuestion(prompt_text=text)
    )


class Scripted:
    """A device whose model answers as a test says."""

    def __init__(self, device: CompanionDevice, model: ScriptedModel, agent: str) -> None:
        self.device, self.model, self.agent = device, model, agent

    async def run(self, *actions: ProposedAction, **more: Any) -> WakeRun:
        self.model._answers[:] = [
            CompanionProposal(actions=actions, **more), CompanionProposal()
        ]  # fmt: skip
        woken = await self.device.service.wake(self.agent)
        await self.device.work()
        return await self.device.store.require(WakeRun, woken.run_key)

    async def entries(self, kind: AgentMessageKind) -> list[AgentMessage]:
        return await self.device.store.find(AgentMessage, {"agent_id": self.agent, "kind": kind})


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[Scripted]:
    model = ScriptedModel(CompanionProposal())
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        yield Scripted(device, model, made.id)


async def test_action_tool_result_envelope_validation_for_every_tool_invocation(
    scripted: Scripted,
) -> None:
    await scripted.run(
        call("get_or_create_day_plan", plan_date="2026-01-01"),
        call("list_tasks_in_scope"),
        call("http_get"),
    )
    actions = await scripted.entries(AgentMessageKind.ACTION)
    results = await scripted.entries(AgentMessageKind.TOOL_RESULT)
    assert [each.metadata.tool_name for each in actions] == [
        "get_or_create_day_plan", "list_tasks_in_scope", "http_get"
    ]  # fmt: skip
    assert [each.metadata.action_ref_id for each in results] == [each.id for each in actions]
    assert [each.metadata.status for each in results] == ["success", "success", "error"]
    for each in actions:
        assert each.metadata.arguments_hash
        assert each.metadata.scope_snapshot


async def test_tool_result_changed_entity_ids_and_changed_tokens_are_stored_and_queryable(
    scripted: Scripted,
) -> None:
    ended = await scripted.run(call("get_or_create_day_plan", plan_date="2026-01-01"))
    (plan,) = await scripted.device.store.find(ActionPlan, {"agent_id": scripted.agent})
    operation = plan.actions[0].operation_id
    _, result = await scripted.device.store.find(AgentMessage, {"operation_id": operation})
    assert result.metadata.changed_entity_ids == ("dayplan-2026-01-01",)
    assert "semantic_key|-|DAY_PLAN" in result.metadata.changed_tokens
    assert ended.status == "completed"


async def test_prompt_model_provenance_is_present_and_stable_for_replay_attribution(
    scripted: Scripted,
) -> None:
    ended = await scripted.run(call("list_tasks_in_scope"))
    for each in await scripted.entries(AgentMessageKind.ACTION):
        metadata = each.metadata
        assert (metadata.prompt_id, metadata.prompt_version) == ("companion", PROMPT_VERSION)
        assert metadata.model_id == "offline:brain"
    trace = await scripted.device.service.trace(ended.run_key)
    assert (trace.model_id, trace.prompt_version) == ("offline:brain", PROMPT_VERSION)
    assert trace.persona_version_id


async def test_persisted_action_plan_reuse_prevents_ordinal_drift_on_re_execution(
    scripted: Scripted,
) -> None:
    """The worker dies after the plan was written; the next one finds it and does the same."""
    device, model = scripted.device, scripted.model
    model._answers[:] = [
        CompanionProposal(actions=(call("get_or_create_day_plan", plan_date="2026-01-01"),)),
        CompanionProposal(actions=(call("get_or_create_day_plan", plan_date="2026-01-02"),)),
    ]
    job = (await device.lifecycle.wake(scripted.agent)).model_copy()
    companion = await device.store.require(Companion, scripted.agent)
    state = await device.store.require(AgentState, companion.current_state_id)
    first = await device.companions.workflow.run(job, companion, state, stopping=lambda: False)
    again = await device.companions.workflow.run(job, companion, state, stopping=lambda: False)
    assert len(model.requests) == 1
    assert [each.message_id for each in first.drafts] == [each.message_id for each in again.drafts]
    assert await device.journal.day_plan(datetime(2026, 1, 2).date()) is None  # noqa: DTZ001
    await device.work()
    (run,) = await device.store.find(WakeRun, {"agent_id": scripted.agent})
    assert run.status == "completed"


async def test_deterministic_operation_id_derivation_from_run_key_and_action_stable_id(
    scripted: Scripted,
) -> None:
    one = call("get_or_create_day_plan", plan_date="2026-01-01")
    two = call("get_or_create_day_plan", plan_date="2026-01-02")
    from silas.companions.operations import planned_action

    ids = {planned_action("run", each, scope=("gym",)).operation_id for each in (one, two)}
    assert len(ids) == 2
    assert ids == {planned_action("run", each, scope=("gym",)).operation_id for each in (two, one)}
    other = {planned_action("run", one, scope=("work",)).operation_id}
    assert not ids & other


async def test_the_same_action_twice_is_done_once(scripted: Scripted) -> None:
    same = call("get_or_create_day_plan", plan_date="2026-01-01")
    await scripted.run(same, same)
    assert len(await scripted.entries(AgentMessageKind.ACTION)) == 1


async def test_what_was_looked_up_is_shown_in_the_next_round(scripted: Scripted) -> None:
    task = await scripted.device.task("Squats")
    await scripted.run(call("resolve_task_reference", reference="squats"))
    first, second = scripted.model.requests
    assert (first.round, second.round) == (0, 1)
    found = [each for each in second.payload["facts"] if each["kind"] == "candidate"]
    assert [each["id"] for each in found] == [task]
    assert second.payload["results"] == [
        {"tool_name": "resolve_task_reference", "status": "success", "error_code": None}
    ]


async def test_rounds_come_to_an_end(scripted: Scripted) -> None:
    scripted.model._answers[:] = [
        CompanionProposal(actions=(call("list_tasks_in_scope", limit=number + 1),))
        for number in range(10)
    ]
    await scripted.device.service.wake(scripted.agent)
    await scripted.device.work()
    assert len(scripted.model.requests) == 3


class TestQuestions:
    async def test_dependent_actions_wait_for_the_answer(self, scripted: Scripted) -> None:
        device = scripted.device
        gated = call("get_or_create_day_plan", plan_date="2026-01-01").model_copy(
            update={"after": (0,)}
        )
        await scripted.run(asks("Shall I?"), gated)
        assert await device.journal.day_plan(device.clock.now().date()) is None
        (question,) = await device.service.questions(scripted.agent)
        assert question.gates == 1
        (waiting,) = await device.service.waiting(scripted.agent)
        assert waiting.status == "blocked"
        await device.service.answer(question.id, "yes")
        assert await device.journal.day_plan(device.clock.now().date()) is not None
        assert await device.service.waiting(scripted.agent) == ()

    async def test_a_no_ends_what_waits(self, scripted: Scripted) -> None:
        device = scripted.device
        gated = call("get_or_create_day_plan", plan_date="2026-01-01").model_copy(
            update={"after": (0,)}
        )
        await scripted.run(asks("Shall I?"), gated)
        (question,) = await device.service.questions(scripted.agent)
        await device.service.answer(question.id, "no")
        assert await device.journal.day_plan(device.clock.now().date()) is None
        assert await device.service.waiting(scripted.agent) == ()

    @pytest.mark.parametrize("said", ["No", "Better not", "Later"])
    async def test_what_is_not_a_yes_is_a_no_and_is_heard(
        self, scripted: Scripted, said: str
    ) -> None:
        device = scripted.device
        gated = call("get_or_create_day_plan", plan_date="2026-01-01").model_copy(
            update={"after": (0,)}
        )
        question = CompanionQuestion(
            prompt_text="Shall I?",
            interaction_type=AgentInteractionType.MULTI_CHOICE,
            options=("No", "Better not", "Later"),
        )
        asking = ProposedAction(action_type=AgentActionType.ASK_USER, question=question)
        await scripted.run(asking, gated)
        (asked,) = await device.service.questions(scripted.agent)
        woken = await device.service.answer(asked.id, said)
        assert await device.journal.day_plan(device.clock.now().date()) is None
        assert await device.service.waiting(scripted.agent) == ()
        assert woken is not None

    async def test_the_questions_of_a_destroyed_companion_end_with_it(
        self, scripted: Scripted
    ) -> None:
        device = scripted.device
        await scripted.run(asks("Shall I?"))
        await device.service.destroy(scripted.agent)
        assert await device.service.questions() == ()
        device.clock.advance(days=8)
        # Else nothing that waits for the clock would go on for anybody.
        assert await device.service.expire() == 0

    async def test_no_answer_in_time_is_a_no(self, scripted: Scripted) -> None:
        device = scripted.device
        gated = call("get_or_create_day_plan", plan_date="2026-01-01").model_copy(
            update={"after": (0,)}
        )
        await scripted.run(asks("Shall I?"), gated)
        device.clock.advance(days=8)
        # Also where nobody has ended it yet: no server runs, or its job comes a minute later.
        assert await device.service.questions(scripted.agent) == ()
        await device.service.expire()
        assert await device.service.questions(scripted.agent) == ()
        assert await device.service.waiting(scripted.agent) == ()
        assert len(await device.tasks()) == 0

    async def test_after_something_that_is_no_question_nothing_happens(
        self, scripted: Scripted
    ) -> None:
        gated = call("get_or_create_day_plan", plan_date="2026-01-01").model_copy(
            update={"after": (7,)}
        )
        await scripted.run(gated)
        (waiting,) = await scripted.device.service.waiting(scripted.agent)
        assert waiting.status == "blocked"

    async def test_an_answer_that_gates_nothing_is_told_to_the_companion(
        self, scripted: Scripted
    ) -> None:
        device = scripted.device
        await scripted.run(asks("Did you sleep well?"))
        (question,) = await device.service.questions(scripted.agent)
        woken = await device.service.answer(question.id, "yes")
        assert woken is not None
        await device.work()
        told = scripted.model.requests[-1].payload["wake"]
        assert told["answers"] == [{"question": "Did you sleep well?", "answer": "yes"}]
        # The same answer again is the same answer: nobody is woken twice.
        again = await device.service.answer(question.id, "yes")
        assert again == woken

    @pytest.mark.parametrize("said", ["perhaps", "", "x" * 3000])
    async def test_what_is_no_answer_is_refused(self, scripted: Scripted, said: str) -> None:
        await scripted.run(asks("Shall I?"))
        (question,) = await scripted.device.service.questions(scripted.agent)
        with pytest.raises(Exception, match="yes or no"):
            await scripted.device.service.answer(question.id, said)


async def test_interactive_user_initiated_run_produces_an_action_tool_result_sequence(
    scripted: Scripted,
) -> None:
    """A conversation in one thread: what was said, what was thought, done, and came of it."""
    device, day = scripted.device, {"plan_date": "2026-01-02"}
    scripted.model._answers[:] = [
        CompanionProposal(thought="At once.", actions=(call("get_or_create_day_plan", **day),)),
        CompanionProposal(thought="It is there."),
    ]
    await device.service.wake(scripted.agent, said="Plan tomorrow!")
    await device.service.wake(scripted.agent, said="Is it there?")
    await device.work()
    messages = await device.store.find(AgentMessage, {"agent_id": scripted.agent})
    assert [each.kind for each in messages] == [
        "user", "thought", "action", "tool_result", "user", "thought"
    ]  # fmt: skip
    assert len({each.thread_id for each in messages}) == 1
    action, result = messages[2:4]
    assert result.metadata.action_ref_id == action.id
    assert (result.metadata.status, bool(result.metadata.changed_entity_ids)) == ("success", True)


async def test_interactive_runs_have_a_thread_of_their_own(scripted: Scripted) -> None:
    device = scripted.device
    scripted.model._answers[:] = [CompanionProposal(thought="Hello.")]
    await device.service.wake(scripted.agent, said="Hello!")
    await device.service.wake(scripted.agent, said="And now?")
    await device.work()
    (thread,) = {each.thread_id for each in await scripted.entries(AgentMessageKind.USER)}
    assert ":session:" in thread
    recent = scripted.model.requests[-1].payload["memory"]["recent"]
    assert {"kind": "user", "text": "Hello!"} in recent
    assert scripted.model.requests[-1].payload["wake"]["said"] == "And now?"


class TestReplay:
    async def test_deterministic_replay_of_run_traces_from_persisted_wake_inputs(
        self, scripted: Scripted
    ) -> None:
        device = scripted.device
        task = await device.task("Squats", due_at=device.clock.now())
        report = ReportDraft(
            headline="One task",
            sections=(
                SectionDraft(
                    section_id="open",
                    title="Open",
                    claims=(ClaimDraft(text="Squats is open.", sources=(f"task:{task}",)),),
                ),
            ),
        )
        ended = await scripted.run(
            call("get_or_create_day_plan", plan_date="2026-01-01"),
            asks("Shall I?"),
            call("create_task", category_id=device.categories["gym"], title="x"),
            report=report,
        )
        device.clock.advance(days=3)
        await device.finish(task)
        before = await _everything(device)
        for _ in range(2):
            replayed = await device.service.replay(ended.run_key)
            assert replayed.matches, replayed.differences
        assert await _everything(device) == before

    async def test_another_answer_is_a_difference(self, scripted: Scripted) -> None:
        ended = await scripted.run(call("get_or_create_day_plan", plan_date="2026-01-01"))
        trace = await scripted.device.store.require(RunTrace, ended.run_key)
        other = trace.model_copy(update={"proposal": {**trace.proposal, "rounds": ()}})
        compared = Replayer(scripted.device.store).replay_trace(other)
        assert not compared.matches
        assert "operations" in {each.what for each in compared.differences}

    async def test_a_change_of_what_is_shown_is_a_difference(
        self, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ended = await scripted.run(call("list_tasks_in_scope"))
        monkeypatch.setattr(
            "silas.companions.run_record.RunSetting.payload", lambda *_, **__: {"now": "other"}
        )
        compared = await scripted.device.service.replay(ended.run_key)
        assert "requests" in {each.what for each in compared.differences}

    async def test_run_traces_are_not_uploaded_to_remote_telemetry_by_default(
        self, scripted: Scripted
    ) -> None:
        """What derives from `Synced` is made for other devices; a trace does not."""
        assert "vector_clock" not in RunTrace.model_fields


async def _everything(device: CompanionDevice) -> list[Any]:
    tables = await device.agent_db.fetch_all(
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    )
    found = [await device.agent_db.fetch_all(f"SELECT * FROM {name}") for (name,) in tables]
    return [found, await device.journal.last_cursor()]
