"""The owner's hand: stop switches, pause, cancel, destroy, tokens; checked at every door."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from silas.companions.errors import AgentDestroyed, CompanionInvalid, Stopped
from silas.companions.messages import AgentMessage, AgentMessagePayload, AgentOperation, WakeRun
from silas.companions.models import (
    AgentActionType,
    AgentState,
    BudgetLimits,
    Companion,
    OperationStatus,
    StopScope,
)
from silas.companions.ports import (
    CompanionProposal,
    CompanionRequest,
    ModelDestination,
    ProposedAction,
)
from silas.gates.risk import RiskLevel
from silas.testing.companions import (
    CompanionDevice,
    FakeGateway,
    ScriptedModel,
    opened_device,
    restarted,
)


@pytest.fixture
async def waiting(device: CompanionDevice, agent: str) -> str:
    """An action that waits for its card; returns its operation id."""
    task = await device.task("Squats", checklist_items=("a", "b"))
    await device.finish(task)
    await device.work()
    (action,) = await device.service.waiting(agent)
    return action.operation_id


async def follow_ups(device: CompanionDevice) -> int:
    return sum("follow-up" in each.title for each in await device.tasks())


class TestApproval:
    async def test_high_risk_actions_are_blocked_until_approved(
        self, device: CompanionDevice, waiting: str
    ) -> None:
        await device.service.decided(waiting)
        assert await follow_ups(device) == 0
        await device.approvals.approve(waiting)
        await device.service.decided(waiting)
        assert await follow_ups(device) == 1

    async def test_changed_arguments_after_the_approval_are_refused(
        self, device: CompanionDevice, agent: str, waiting: str
    ) -> None:
        """Somebody writes other arguments into the database between the yes and the deed."""
        await device.approvals.approve(waiting)
        kept = await device.store.require(AgentOperation, waiting)
        other = {**kept.call, "arguments": {**kept.call["arguments"], "new_task_title": "Evil"}}
        await device.store.put(kept.model_copy(update={"call": other}))
        await device.service.decided(waiting)
        assert [each.title for each in await device.tasks()] == ["Squats"]
        refused = await device.store.require(AgentOperation, waiting)
        assert (refused.status, refused.last_error) == ("refused", "approval_refused")

    async def test_a_changed_card_is_refused_too(
        self, device: CompanionDevice, waiting: str
    ) -> None:
        await device.approvals.approve(waiting)
        kept = await device.store.require(AgentOperation, waiting)
        assert kept.approvable is not None
        both: dict[str, Any] = {
            "call": {**kept.call, "arguments": {**kept.call["arguments"], "new_task_title": "E"}},
            "approvable": {
                **kept.approvable,
                "arguments": {**kept.approvable["arguments"], "new_task_title": "E"},
            },
        }
        await device.store.put(kept.model_copy(update=both))
        await device.service.decided(waiting)
        assert [each.title for each in await device.tasks()] == ["Squats"]

    async def test_a_wider_scope_after_the_approval_is_refused(
        self, device: CompanionDevice, agent: str, waiting: str
    ) -> None:
        await device.approvals.approve(waiting)
        await device.service.configure(agent, category_ids=list(device.categories.values()))
        kept = await device.store.require(AgentOperation, waiting)
        wide = {"allowed_category_ids": list(device.categories.values())}
        await device.store.put(kept.model_copy(update={"call": {**kept.call, "scope": wide}}))
        await device.service.decided(waiting)
        assert await follow_ups(device) == 0

    async def test_what_would_happen_must_be_what_was_shown(
        self, device: CompanionDevice, waiting: str
    ) -> None:
        """The checklist has changed since the card: its preview is another one."""
        await device.approvals.approve(waiting)
        (task,) = await device.tasks()
        await device.do("add_multiple_checklist_items", task_id=task.id, items=("sneaked in",))
        await device.service.decided(waiting)
        assert await follow_ups(device) == 0

    async def test_a_token_for_something_else_is_refused(
        self, device: CompanionDevice, agent: str, waiting: str
    ) -> None:
        await device.approvals.approve(waiting)
        other = await device.task("Bench", checklist_items=("c",))
        await device.finish(other)
        await device.work()
        second = next(
            each.operation_id
            for each in await device.service.waiting(agent)
            if each.operation_id != waiting
        )
        device.approvals._tokens[second] = device.approvals._tokens[waiting]
        await device.service.decided(second)
        assert await follow_ups(device) == 0

    async def test_an_expired_token_is_refused(self, device: CompanionDevice, waiting: str) -> None:
        await device.approvals.approve(waiting)
        device.clock.advance(hours=2)
        await device.service.decided(waiting)
        assert await follow_ups(device) == 0

    async def test_without_approvals_nothing_that_needs_one_is_done(
        self, device: CompanionDevice
    ) -> None:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        device.executor.operations.approvals = None
        result = await device.call(
            made.id, "create_task", category_id=device.categories["gym"], title="x"
        )
        assert result.error_code == "confirmation_required"
        assert await device.store.find(AgentOperation) == []


class TestSwitches:
    async def test_the_global_switch_stops_wakes_calls_and_questions(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.service.stop(reason="enough")
        with pytest.raises(Stopped):
            await device.service.wake(agent)
        assert (await device.call(agent, "list_tasks_in_scope")).error_code == "stopped"
        task = await device.task("Squats", checklist_items=("a",))
        await device.finish(task)
        await device.work()
        (run,) = await device.store.find(WakeRun, {"agent_id": agent})
        assert run.status == "skipped_stopped"
        assert "companions_stopped" in device.audit.events()

    async def test_a_switch_survives_a_restart(self, device: CompanionDevice, agent: str) -> None:
        await device.service.stop()
        fresh = await restarted(device)
        try:
            assert (await fresh.call(agent, "list_tasks_in_scope")).error_code == "stopped"
            await fresh.service.resume_all()
            assert (await fresh.call(agent, "list_tasks_in_scope", op="2")).success
        finally:
            await fresh.close()

    async def test_one_companion_is_stopped_and_the_other_goes_on(
        self, device: CompanionDevice, agent: str
    ) -> None:
        other = await device.service.new("planner", category_ids=[device.categories["gym"]])
        await device.service.stop(StopScope.COMPANION, agent)
        assert (await device.call(agent, "list_tasks_in_scope")).error_code == "stopped"
        assert (await device.call(other.id, "list_tasks_in_scope", op="2")).success

    @pytest.mark.parametrize(
        ("tool_class", "reads", "writes"),
        [
            ("write", True, False),
            ("read", False, True),
            ("task", False, False),
            ("time", True, True),
        ],
    )
    async def test_a_class_of_tools_is_stopped(
        self, device: CompanionDevice, agent: str, tool_class: str, reads: bool, writes: bool
    ) -> None:
        await device.service.stop(StopScope.TOOL_CLASS, tool_class)
        looked = await device.call(agent, "list_tasks_in_scope", op="1")
        assert (looked.error_code != "stopped") == reads
        wrote = await device.call(
            agent, "create_task", op="2", category_id=device.categories["gym"], title="x"
        )
        assert (wrote.error_code != "stopped") == writes

    async def test_high_risk_can_be_stopped_alone(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.service.stop(StopScope.TOOL_CLASS, "high_risk")
        task = await device.task("Squats")
        ended = await device.call(agent, "conclude_task_with_rollover", task_id=task)
        assert ended.error_code == "stopped"

    async def test_asking_models_can_be_stopped_alone(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.service.stop(StopScope.TOOL_CLASS, "model")
        woken = await device.service.wake(agent)
        await device.work()
        run = await device.store.require(WakeRun, woken.run_key)
        assert (run.status, run.error_code) == ("cancelled", "stopped")

    @pytest.mark.parametrize(
        ("scope", "target"),
        [
            (StopScope.GLOBAL, "x"),
            (StopScope.COMPANION, None),
            (StopScope.TOOL_CLASS, "everything"),
        ],
    )
    async def test_a_switch_for_nothing_cannot_be_set(
        self, device: CompanionDevice, scope: StopScope, target: str | None
    ) -> None:
        with pytest.raises(CompanionInvalid):
            await device.service.stop(scope, target)

    async def test_an_approved_action_waits_until_the_switch_is_released(
        self, device: CompanionDevice, waiting: str
    ) -> None:
        await device.service.stop()
        await device.approvals.approve(waiting)
        await device.service.decided(waiting)
        assert await follow_ups(device) == 0
        await device.service.resume_all()
        assert await follow_ups(device) == 1

    async def test_a_run_in_flight_stops_at_its_next_door(self, tmp_path: Path) -> None:
        """The switch is thrown while the model thinks: nothing that it answers is done."""
        rooms: list[CompanionDevice] = []

        def stop_then_answer(_: Any) -> CompanionProposal:
            return CompanionProposal(
                actions=tuple(
                    ProposedAction(
                        action_type=AgentActionType.TOOL_CALL,
                        tool_name="get_or_create_day_plan",
                        arguments={"plan_date": f"2026-01-0{day}"},
                    )
                    for day in (1, 2, 3)
                )
            )

        async with opened_device(
            tmp_path, gateway=FakeGateway(ScriptedModel(stop_then_answer))
        ) as device:
            rooms.append(device)
            made = await device.service.new("planner", category_ids=[device.categories["gym"]])
            execute = device.executor.journal.perform
            calls = []

            async def perform(*args: Any, **more: Any) -> Any:
                calls.append(more.get("operation_id"))
                outcome = await execute(*args, **more)
                await device.service.stop()
                return outcome

            device.journal.perform = perform  # type: ignore[method-assign]
            woken = await device.service.wake(made.id)
            await device.work()
            run = await device.store.require(WakeRun, woken.run_key)
            assert (run.status, len(calls)) == ("cancelled", 1)
            told = [
                each.metadata.status
                for each in await device.store.find(AgentMessage, {"agent_id": made.id})
                if each.metadata.action_ref_id is not None
            ]
            assert told == ["success"], "what the journal has is told, and nothing follows"

    async def test_a_model_that_thinks_for_ever_is_not_waited_for(self, tmp_path: Path) -> None:
        thinking = asyncio.Event()

        class Thinker:
            async def propose(self, request: CompanionRequest) -> CompanionProposal:
                thinking.set()
                await asyncio.Event().wait()
                return CompanionProposal()

        async with opened_device(tmp_path, gateway=FakeGateway(Thinker())) as device:
            made = await device.service.new("planner", category_ids=[device.categories["gym"]])
            woken = await device.service.wake(made.id)
            working = asyncio.create_task(device.work())
            await thinking.wait()
            assert (await device.service.list())[0].health == "running"
            await device.service.stop()
            async with asyncio.timeout(120):
                await working
            run = await device.store.require(WakeRun, woken.run_key)
            assert (run.status, run.error_code) == ("cancelled", "stopped")


class TestLife:
    async def test_a_paused_companion_does_nothing_until_it_is_resumed(
        self, device: CompanionDevice, agent: str, waiting: str
    ) -> None:
        await device.service.pause(agent)
        assert (await device.call(agent, "list_tasks_in_scope")).error_code == "agent_paused"
        await device.approvals.approve(waiting)
        await device.service.decided(waiting)
        assert await follow_ups(device) == 0
        assert (await device.service.list())[0].health == "paused"
        await device.service.resume(agent)
        assert await follow_ups(device) == 1

    async def test_destroying_ends_what_waits_and_refuses_what_is_stale(
        self, device: CompanionDevice, agent: str, waiting: str
    ) -> None:
        await device.approvals.approve(waiting)
        await device.service.destroy(agent)
        await device.service.decided(waiting)
        assert await follow_ups(device) == 0
        assert (await device.call(agent, "list_tasks_in_scope")).error_code == "agent_destroyed"
        with pytest.raises(AgentDestroyed):
            await device.service.wake(agent)
        assert device.approvals.withdrawn == [agent]
        assert (await device.store.require(Companion, agent)).is_destroyed
        assert await device.service.list() == ()
        (gone,) = await device.service.list(with_destroyed=True)
        assert gone.health == "destroyed"

    async def test_what_it_said_stays_readable(
        self, device: CompanionDevice, agent: str, waiting: str
    ) -> None:
        before = await device.service.runs(agent)
        await device.service.destroy(agent)
        assert await device.service.runs(agent) == before
        assert await device.service.trace(before[0].run_key)

    async def test_a_companion_cannot_widen_itself(
        self, device: CompanionDevice, agent: str
    ) -> None:
        """No tool changes a companion, its definition, its switches or its consents."""
        names = set(device.executor.registry.tools)
        for word in ("companion", "consent", "approve", "switch", "persona", "budget", "http"):
            assert not any(word in name for name in names)

    async def test_who_is_destroyed_between_the_two_databases_leaves_nothing_half(
        self, device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        perform = device.journal.perform

        async def destroyed_meanwhile(*args: Any, **more: Any) -> Any:
            outcome = await perform(*args, **more)
            await device.service.destroy(agent)
            return outcome

        monkeypatch.setattr(device.journal, "perform", destroyed_meanwhile)
        await device.call(agent, "get_or_create_day_plan", plan_date="2026-01-03")
        monkeypatch.undo()
        before = await device.journal.last_cursor()
        await device.service.recover()
        (entry,) = await device.store.find(AgentOperation, {"agent_id": agent})
        assert entry.status is OperationStatus.DONE
        refused = await device.call(agent, "get_or_create_day_plan", plan_date="2026-01-04", op="2")
        assert refused.error_code == "agent_destroyed"
        assert await device.journal.last_cursor() == before
        assert await device.service.recover() == 0


class TestConfiguring:
    async def test_a_pause_meanwhile_stays_a_pause(
        self, device: CompanionDevice, agent: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        categories = device.journal.categories

        async def paused_meanwhile() -> Any:
            monkeypatch.undo()
            await device.service.pause(agent)
            return await categories()

        monkeypatch.setattr(device.journal, "categories", paused_meanwhile)
        await device.service.configure(agent, display_name="Other")
        kept = await device.store.require(Companion, agent)
        assert kept.display_name == "Other"
        assert kept.paused_at is not None

    @pytest.mark.parametrize(
        "wrong",
        [{"display_name": "x" * 200}, {"confirm_from": RiskLevel.IRREVERSIBLE}],
        ids=["name", "risk"],
    )
    async def test_what_cannot_be_set_is_refused_whole(
        self, device: CompanionDevice, agent: str, wrong: dict[str, Any]
    ) -> None:
        before = await device.store.require(Companion, agent)
        with pytest.raises(CompanionInvalid):
            await device.service.configure(agent, **{"budget": BudgetLimits(tokens=1), **wrong})
        assert await device.store.require(Companion, agent) == before

    async def test_a_name_that_is_too_long_makes_nobody(self, device: CompanionDevice) -> None:
        with pytest.raises(CompanionInvalid):
            await device.service.new(
                "planner", category_ids=[device.categories["gym"]], display_name="x" * 200
            )
        assert await device.service.list() == ()

    async def test_a_model_that_was_taken_away_is_not_asked_again_by_a_run(
        self, tmp_path: Path
    ) -> None:
        look = ProposedAction(
            action_type=AgentActionType.TOOL_CALL, tool_name="list_tasks_in_scope", arguments={}
        )
        cloud = ModelDestination(provider="cloud", model="large", host="api.cloud.example")
        gateway = FakeGateway(ScriptedModel(CompanionProposal(actions=(look,))), cloud)
        async with opened_device(tmp_path, gateway=gateway) as device:
            made = await device.service.new(
                "planner", category_ids=[device.categories["gym"]], model_id="cloud:large"
            )
            shown = await device.service.disclosure(made.id)
            assert shown is not None
            await device.service.consent(made.id, policy_version=shown.policy_version)
            answer = gateway.propose

            async def taken_away(*asked: Any) -> CompanionProposal:
                proposal = await answer(*asked)
                await device.service.configure(made.id, offline=True)
                return proposal

            gateway.propose = taken_away  # type: ignore[method-assign,assignment]
            woken = await device.service.wake(made.id)
            await device.work()
            assert (await device.store.require(WakeRun, woken.run_key)).status == "cancelled"
        assert len(gateway.sent) == 1


class TestMemory:
    async def test_who_loses_a_category_forgets_what_was_said_in_it(
        self, device: CompanionDevice, agent: str
    ) -> None:
        gym, other = device.categories["gym"], device.categories["work"]
        await device.service.configure(agent, category_ids=[gym, other])
        await device.service.wake(agent, said="The squats went badly")
        await device.work()
        assert await device.store.find(AgentMessage, {"agent_id": agent})
        await device.service.configure(agent, category_ids=[other])
        assert await device.store.find(AgentMessage, {"agent_id": agent}) == []
        assert await device.store.find(AgentMessagePayload, {"agent_id": agent}) == []
        state = await device.store.require(
            AgentState, (await device.store.require(Companion, agent)).current_state_id
        )
        assert (state.recent_head, state.latest_summary) == (None, None)
        await device.service.wake(agent, said="And now?")
        await device.work()
        assert await device.store.find(AgentMessage, {"agent_id": agent})

    async def test_who_gains_one_forgets_nothing(self, device: CompanionDevice, agent: str) -> None:
        await device.service.wake(agent, said="The squats went badly")
        await device.work()
        before = await device.store.find(AgentMessage, {"agent_id": agent})
        await device.service.configure(agent, category_ids=list(device.categories.values()))
        assert await device.store.find(AgentMessage, {"agent_id": agent}) == before
