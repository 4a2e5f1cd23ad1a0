"""The owner's hand: stop switches, pause, cancel, destroy, tokens; checked at every door."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from silas.companions.errors import AgentDestroyed, CompanionInvalid, Stopped
from silas.companions.models import (
    AgentActionType,
    AgentMessage,
    AgentMessagePayload,
    AgentState,
    BudgetLimits,
    Companion,
    SagaEntry,
    SagaStatus,
    StopScope,
    WaitingAction,
    WakeRun,
)
from silas.companions.ports import CompanionRequest, Destination
from silas.companions.proposals import CompanionProposal, ProposedAction
from silas.gates.risk import RiskLevel
from silas.testing.companion_room import Room, opened_room, restarted
from silas.testing.companions import FakeGateway, ScriptedModel


@pytest.fixture
async def waiting(room: Room, agent: str) -> str:
    """An action that waits for its card; returns its operation id."""
    task = await room.task("Squats", checklist_items=("a", "b"))
    await room.finish(task)
    await room.work()
    (action,) = await room.desk.waiting(agent)
    return action.operation_id


async def follow_ups(room: Room) -> int:
    return sum("follow-up" in each.title for each in await room.tasks())


class TestApproval:
    async def test_high_risk_actions_are_blocked_until_approved(
        self, room: Room, waiting: str
    ) -> None:
        await room.desk.decided(waiting)
        assert await follow_ups(room) == 0
        await room.approvals.approve(waiting)
        await room.desk.decided(waiting)
        assert await follow_ups(room) == 1

    async def test_changed_arguments_after_the_approval_are_refused(
        self, room: Room, agent: str, waiting: str
    ) -> None:
        """Somebody writes other arguments into the database between the yes and the deed."""
        await room.approvals.approve(waiting)
        kept = await room.store.require(WaitingAction, waiting)
        other = {**kept.call, "arguments": {**kept.call["arguments"], "new_task_title": "Evil"}}
        await room.store.put(kept.model_copy(update={"call": other}))
        await room.desk.decided(waiting)
        assert [each.title for each in await room.tasks()] == ["Squats"]
        refused = await room.store.require(WaitingAction, waiting)
        assert (refused.status, refused.last_error) == ("refused", "approval_refused")

    async def test_a_changed_card_is_refused_too(self, room: Room, waiting: str) -> None:
        await room.approvals.approve(waiting)
        kept = await room.store.require(WaitingAction, waiting)
        assert kept.approvable is not None
        both: dict[str, Any] = {
            "call": {**kept.call, "arguments": {**kept.call["arguments"], "new_task_title": "E"}},
            "approvable": {
                **kept.approvable,
                "arguments": {**kept.approvable["arguments"], "new_task_title": "E"},
            },
        }
        await room.store.put(kept.model_copy(update=both))
        await room.desk.decided(waiting)
        assert [each.title for each in await room.tasks()] == ["Squats"]

    async def test_a_wider_scope_after_the_approval_is_refused(
        self, room: Room, agent: str, waiting: str
    ) -> None:
        await room.approvals.approve(waiting)
        await room.desk.configure(agent, category_ids=list(room.categories.values()))
        kept = await room.store.require(WaitingAction, waiting)
        wide = {"allowed_category_ids": list(room.categories.values())}
        await room.store.put(kept.model_copy(update={"call": {**kept.call, "scope": wide}}))
        await room.desk.decided(waiting)
        assert await follow_ups(room) == 0

    async def test_what_would_happen_must_be_what_was_shown(self, room: Room, waiting: str) -> None:
        """The checklist has changed since the card: its preview is another one."""
        await room.approvals.approve(waiting)
        (task,) = await room.tasks()
        await room.do("add_multiple_checklist_items", task_id=task.id, items=("sneaked in",))
        await room.desk.decided(waiting)
        assert await follow_ups(room) == 0

    async def test_a_token_for_something_else_is_refused(
        self, room: Room, agent: str, waiting: str
    ) -> None:
        await room.approvals.approve(waiting)
        other = await room.task("Bench", checklist_items=("c",))
        await room.finish(other)
        await room.work()
        second = next(
            each.operation_id
            for each in await room.desk.waiting(agent)
            if each.operation_id != waiting
        )
        room.approvals._tokens[second] = room.approvals._tokens[waiting]
        await room.desk.decided(second)
        assert await follow_ups(room) == 0

    async def test_an_expired_token_is_refused(self, room: Room, waiting: str) -> None:
        await room.approvals.approve(waiting)
        room.clock.advance(hours=2)
        await room.desk.decided(waiting)
        assert await follow_ups(room) == 0

    async def test_without_approvals_nothing_that_needs_one_is_done(self, room: Room) -> None:
        made = await room.desk.new("planner", category_ids=[room.categories["gym"]])
        room.hands.waiting.approvals = None
        result = await room.call(
            made.id, "create_task", category_id=room.categories["gym"], title="x"
        )
        assert result.error_code == "confirmation_required"
        assert await room.store.find(WaitingAction) == []


class TestSwitches:
    async def test_the_global_switch_stops_wakes_calls_and_questions(
        self, room: Room, agent: str
    ) -> None:
        await room.desk.stop(reason="enough")
        with pytest.raises(Stopped):
            await room.desk.wake(agent)
        assert (await room.call(agent, "list_tasks_in_scope")).error_code == "stopped"
        task = await room.task("Squats", checklist_items=("a",))
        await room.finish(task)
        await room.work()
        (run,) = await room.store.find(WakeRun, {"agent_id": agent})
        assert run.status == "skipped_stopped"
        assert "companions_stopped" in room.audit.events()

    async def test_a_switch_survives_a_restart(self, room: Room, agent: str) -> None:
        await room.desk.stop()
        fresh = await restarted(room)
        try:
            assert (await fresh.call(agent, "list_tasks_in_scope")).error_code == "stopped"
            await fresh.desk.resume_all()
            assert (await fresh.call(agent, "list_tasks_in_scope", op="2")).success
        finally:
            await fresh.close()

    async def test_one_companion_is_stopped_and_the_other_goes_on(
        self, room: Room, agent: str
    ) -> None:
        other = await room.desk.new("planner", category_ids=[room.categories["gym"]])
        await room.desk.stop(StopScope.COMPANION, agent)
        assert (await room.call(agent, "list_tasks_in_scope")).error_code == "stopped"
        assert (await room.call(other.id, "list_tasks_in_scope", op="2")).success

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
        self, room: Room, agent: str, tool_class: str, reads: bool, writes: bool
    ) -> None:
        await room.desk.stop(StopScope.TOOL_CLASS, tool_class)
        looked = await room.call(agent, "list_tasks_in_scope", op="1")
        assert (looked.error_code != "stopped") == reads
        wrote = await room.call(
            agent, "create_task", op="2", category_id=room.categories["gym"], title="x"
        )
        assert (wrote.error_code != "stopped") == writes

    async def test_high_risk_can_be_stopped_alone(self, room: Room, agent: str) -> None:
        await room.desk.stop(StopScope.TOOL_CLASS, "high_risk")
        task = await room.task("Squats")
        ended = await room.call(agent, "conclude_task_with_rollover", task_id=task)
        assert ended.error_code == "stopped"

    async def test_asking_models_can_be_stopped_alone(self, room: Room, agent: str) -> None:
        await room.desk.stop(StopScope.TOOL_CLASS, "model")
        woken = await room.desk.wake(agent)
        await room.work()
        run = await room.store.require(WakeRun, woken.run_key)
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
        self, room: Room, scope: StopScope, target: str | None
    ) -> None:
        with pytest.raises(CompanionInvalid):
            await room.desk.stop(scope, target)

    async def test_an_approved_action_waits_until_the_switch_is_released(
        self, room: Room, waiting: str
    ) -> None:
        await room.desk.stop()
        await room.approvals.approve(waiting)
        await room.desk.decided(waiting)
        assert await follow_ups(room) == 0
        await room.desk.resume_all()
        assert await follow_ups(room) == 1

    async def test_a_run_in_flight_stops_at_its_next_door(self, tmp_path: Path) -> None:
        """The switch is thrown while the model thinks: nothing that it answers is done."""
        rooms: list[Room] = []

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

        async with opened_room(
            tmp_path, gateway=FakeGateway(ScriptedModel(stop_then_answer))
        ) as room:
            rooms.append(room)
            made = await room.desk.new("planner", category_ids=[room.categories["gym"]])
            execute = room.hands.executor.journal.perform
            calls = []

            async def perform(*args: Any, **more: Any) -> Any:
                calls.append(more.get("operation_id"))
                outcome = await execute(*args, **more)
                await room.desk.stop()
                return outcome

            room.journal.perform = perform  # type: ignore[method-assign]
            woken = await room.desk.wake(made.id)
            await room.work()
            run = await room.store.require(WakeRun, woken.run_key)
            assert (run.status, len(calls)) == ("cancelled", 1)
            told = [
                each.metadata.status
                for each in await room.store.find(AgentMessage, {"agent_id": made.id})
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

        async with opened_room(tmp_path, gateway=FakeGateway(Thinker())) as room:
            made = await room.desk.new("planner", category_ids=[room.categories["gym"]])
            woken = await room.desk.wake(made.id)
            working = asyncio.create_task(room.work())
            await thinking.wait()
            assert (await room.desk.list())[0].health == "running"
            await room.desk.stop()
            async with asyncio.timeout(120):
                await working
            run = await room.store.require(WakeRun, woken.run_key)
            assert (run.status, run.error_code) == ("cancelled", "stopped")


class TestLife:
    async def test_a_paused_companion_does_nothing_until_it_is_resumed(
        self, room: Room, agent: str, waiting: str
    ) -> None:
        await room.desk.pause(agent)
        assert (await room.call(agent, "list_tasks_in_scope")).error_code == "agent_paused"
        await room.approvals.approve(waiting)
        await room.desk.decided(waiting)
        assert await follow_ups(room) == 0
        assert (await room.desk.list())[0].health == "paused"
        await room.desk.resume(agent)
        assert await follow_ups(room) == 1

    async def test_destroying_ends_what_waits_and_refuses_what_is_stale(
        self, room: Room, agent: str, waiting: str
    ) -> None:
        await room.approvals.approve(waiting)
        await room.desk.destroy(agent)
        await room.desk.decided(waiting)
        assert await follow_ups(room) == 0
        assert (await room.call(agent, "list_tasks_in_scope")).error_code == "agent_destroyed"
        with pytest.raises(AgentDestroyed):
            await room.desk.wake(agent)
        assert room.approvals.withdrawn == [agent]
        assert (await room.store.require(Companion, agent)).is_destroyed
        assert await room.desk.list() == ()
        (gone,) = await room.desk.list(with_destroyed=True)
        assert gone.health == "destroyed"

    async def test_what_it_said_stays_readable(self, room: Room, agent: str, waiting: str) -> None:
        before = await room.desk.runs(agent)
        await room.desk.destroy(agent)
        assert await room.desk.runs(agent) == before
        assert await room.desk.trace(before[0].run_key)

    async def test_a_companion_cannot_widen_itself(self, room: Room, agent: str) -> None:
        """No tool changes a companion, its definition, its switches or its consents."""
        names = {each.name for each in room.hands.executor.registry.tools}
        for word in ("companion", "consent", "approve", "switch", "persona", "budget", "http"):
            assert not any(word in name for name in names)

    async def test_who_is_destroyed_between_the_two_databases_leaves_nothing_half(
        self, room: Room, agent: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        perform = room.journal.perform

        async def destroyed_meanwhile(*args: Any, **more: Any) -> Any:
            outcome = await perform(*args, **more)
            await room.desk.destroy(agent)
            return outcome

        monkeypatch.setattr(room.journal, "perform", destroyed_meanwhile)
        await room.call(agent, "get_or_create_day_plan", plan_date="2026-01-03")
        monkeypatch.undo()
        before = await room.journal.last_cursor()
        await room.desk.recover()
        (entry,) = await room.store.find(SagaEntry, {"agent_id": agent})
        assert entry.status is SagaStatus.DONE
        refused = await room.call(agent, "get_or_create_day_plan", plan_date="2026-01-04", op="2")
        assert refused.error_code == "agent_destroyed"
        assert await room.journal.last_cursor() == before
        assert await room.desk.recover() == 0


class TestConfiguring:
    async def test_a_pause_meanwhile_stays_a_pause(
        self, room: Room, agent: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        categories = room.journal.categories

        async def paused_meanwhile() -> Any:
            monkeypatch.undo()
            await room.desk.pause(agent)
            return await categories()

        monkeypatch.setattr(room.journal, "categories", paused_meanwhile)
        await room.desk.configure(agent, display_name="Other")
        kept = await room.store.require(Companion, agent)
        assert kept.display_name == "Other"
        assert kept.paused_at is not None

    @pytest.mark.parametrize(
        "wrong",
        [{"display_name": "x" * 200}, {"confirm_from": RiskLevel.IRREVERSIBLE}],
        ids=["name", "risk"],
    )
    async def test_what_cannot_be_set_is_refused_whole(
        self, room: Room, agent: str, wrong: dict[str, Any]
    ) -> None:
        before = await room.store.require(Companion, agent)
        with pytest.raises(CompanionInvalid):
            await room.desk.configure(agent, **{"budget": BudgetLimits(tokens=1), **wrong})
        assert await room.store.require(Companion, agent) == before

    async def test_a_name_that_is_too_long_makes_nobody(self, room: Room) -> None:
        with pytest.raises(CompanionInvalid):
            await room.desk.new(
                "planner", category_ids=[room.categories["gym"]], display_name="x" * 200
            )
        assert await room.desk.list() == ()

    async def test_a_model_that_was_taken_away_is_not_asked_again_by_a_run(
        self, tmp_path: Path
    ) -> None:
        look = ProposedAction(
            action_type=AgentActionType.TOOL_CALL, tool_name="list_tasks_in_scope", arguments={}
        )
        cloud = Destination(provider="cloud", model="large", host="api.cloud.example")
        gateway = FakeGateway(ScriptedModel(CompanionProposal(actions=(look,))), cloud)
        async with opened_room(tmp_path, gateway=gateway) as room:
            made = await room.desk.new(
                "planner", category_ids=[room.categories["gym"]], model_id="cloud:large"
            )
            shown = await room.desk.disclosure(made.id)
            assert shown is not None
            await room.desk.consent(made.id, policy_version=shown.policy_version)
            answer = gateway.propose

            async def taken_away(*asked: Any) -> CompanionProposal:
                proposal = await answer(*asked)
                await room.desk.configure(made.id, offline=True)
                return proposal

            gateway.propose = taken_away  # type: ignore[method-assign,assignment]
            woken = await room.desk.wake(made.id)
            await room.work()
            assert (await room.store.require(WakeRun, woken.run_key)).status == "cancelled"
        assert len(gateway.sent) == 1


class TestMemory:
    async def test_who_loses_a_category_forgets_what_was_said_in_it(
        self, room: Room, agent: str
    ) -> None:
        gym, other = room.categories["gym"], room.categories["work"]
        await room.desk.configure(agent, category_ids=[gym, other])
        await room.desk.wake(agent, said="The squats went badly")
        await room.work()
        assert await room.store.find(AgentMessage, {"agent_id": agent})
        await room.desk.configure(agent, category_ids=[other])
        assert await room.store.find(AgentMessage, {"agent_id": agent}) == []
        assert await room.store.find(AgentMessagePayload, {"agent_id": agent}) == []
        state = await room.store.require(
            AgentState, (await room.store.require(Companion, agent)).current_state_id
        )
        assert (state.recent_head_message_id, state.latest_summary_message_id) == (None, None)
        await room.desk.wake(agent, said="And now?")
        await room.work()
        assert await room.store.find(AgentMessage, {"agent_id": agent})

    async def test_who_gains_one_forgets_nothing(self, room: Room, agent: str) -> None:
        await room.desk.wake(agent, said="The squats went badly")
        await room.work()
        before = await room.store.find(AgentMessage, {"agent_id": agent})
        await room.desk.configure(agent, category_ids=list(room.categories.values()))
        assert await room.store.find(AgentMessage, {"agent_id": agent}) == before
