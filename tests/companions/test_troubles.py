"""Nothing fails in silence: runs, health and the step that helps; no sleep that nobody wanted."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from silas.agents.companion import CompanionAgent
from silas.agents.models.choices import OutputMode, Role
from silas.companions.errors import BudgetExceeded, CompanionInvalid
from silas.companions.messages import AgentMessage, WakeRun
from silas.companions.models import AgentActionType, BudgetLimits, StopScope, WakeStatus
from silas.companions.ports import (
    CompanionProposal,
    CompanionQuestion,
    CompanionRequest,
    ModelDestination,
    ModelUsage,
    ProposedAction,
)
from silas.companions.views import CompanionHealth, CompanionView, TroubleWay
from silas.kernel import LlmError
from silas.testing.companions import CompanionDevice, FakeGateway, ScriptedModel, opened_device
from silas.testing.fakes import FakeClock
from tests.agents.script import Script
from tests.agents.test_companion import request
from tests.companions.test_workflow import Scripted, call, scripted

__all__ = ["scripted"]
CLOUD = ModelDestination(provider="cloud", model="large", host="api.cloud.example")
DOWN = "The model cannot be reached (ConnectError). Run `silas models test` to see why."


class SmallDoor:
    """`CompanionModel`: the real agent over a model that nobody should ask."""

    def __init__(self) -> None:
        self.script = Script(({"thought": "Hello."},))

    async def propose(self, asked: CompanionRequest) -> CompanionProposal:
        player = self.script.player(role=Role.PLANNER, mode=OutputMode.NATIVE)
        return await CompanionAgent(player, clock=FakeClock()).propose(asked)


async def only(device: CompanionDevice) -> CompanionView:
    (found,) = await device.service.list()
    return found


async def woken(device: CompanionDevice, agent: str) -> WakeRun:
    key = (await device.service.wake(agent)).run_key
    await device.work()
    return await device.store.require(WakeRun, key)


def sleep(until: datetime) -> ProposedAction:
    return ProposedAction(action_type=AgentActionType.LIFECYCLE_TRANSITION, sleep_until=until)


class TestAModelThatIsDown:
    async def test_the_run_fails_and_says_why_and_what_helps(self, scripted: Scripted) -> None:
        device = scripted.device
        run = await scripted.run(fallback=DOWN)
        assert (run.status, run.error_code) == (WakeStatus.FAILED_TERMINAL, "model_unavailable")
        assert run.error_message == DOWN
        shown = await only(device)
        assert shown.health is CompanionHealth.FAILING
        assert shown.consecutive_failures == 1
        assert shown.trouble is not None
        assert (shown.trouble.code, shown.trouble.text) == ("model_unavailable", DOWN)
        assert shown.trouble.way is TroubleWay.WAKE
        assert await device.service.report(scripted.agent) is None
        said = await device.store.find(AgentMessage, {"agent_id": scripted.agent})
        assert "thought" not in {each.kind for each in said}, "it is no word of the companion's"

    async def test_failures_count_and_it_rests_until_a_moment_that_is_shown(
        self, scripted: Scripted
    ) -> None:
        device = scripted.device
        for _ in range(3):
            await scripted.run(fallback=DOWN)
        shown = await only(device)
        assert shown.trouble is not None
        assert shown.trouble.failures == 3
        assert shown.trouble.until == device.clock.now() + timedelta(minutes=1)
        await device.finish(await device.task("Squats", checklist_items=("a",)))
        (key,) = set(await device.work())
        skipped = await device.store.require(WakeRun, key)
        assert (skipped.status, skipped.skip_reason) == (WakeStatus.SKIPPED_SLEEPING, "backoff")
        await scripted.run()
        assert (await only(device)).health is CompanionHealth.IDLE

    async def test_what_the_failed_question_has_cost_is_counted(self, scripted: Scripted) -> None:
        run = await scripted.run(fallback=DOWN, usage=ModelUsage(tokens=700))
        trace = await scripted.device.service.trace(run.run_key)
        assert trace.usage.tokens == 700
        assert trace.status is WakeStatus.FAILED_TERMINAL
        assert (await scripted.device.service.replay(run.run_key)).matches


class TestABudgetThatIsTooSmallForOneQuestion:
    async def test_nobody_is_asked_and_the_run_says_so(self, tmp_path: Path) -> None:
        model = SmallDoor()
        async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
            made = await device.service.new("planner", category_ids=[device.categories["gym"]])
            await device.service.configure(made.id, budget=BudgetLimits(tokens=1_000))
            run = await woken(device, made.id)
            assert (run.status, run.error_code) == (WakeStatus.FAILED_TERMINAL, "budget_exceeded")
            assert "one question needs about" in str(run.error_message).casefold()
            assert model.script.asked == []
            shown = await only(device)
            assert shown.health is CompanionHealth.FAILING
            assert shown.trouble is not None
            assert shown.trouble.way is TroubleWay.CONFIGURE
            assert shown.budget.used.tokens == 0

    async def test_the_agent_refuses_before_it_asks(self) -> None:
        asked = request()
        small = asked.allowance.model_copy(update={"tokens": 50})
        with pytest.raises(BudgetExceeded):
            await SmallDoor().propose(asked.model_copy(update={"allowance": small}))

    async def test_a_budget_that_is_nearly_used_up_warns_and_blocks_nothing(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.service.configure(agent, budget=BudgetLimits(tool_calls=10))
        for number in range(8):
            await device.call(agent, "list_tasks_in_scope", op=str(number))
        shown = await only(device)
        assert shown.health is CompanionHealth.IDLE
        assert shown.trouble is not None
        assert (shown.trouble.code, shown.trouble.blocks) == ("budget_near", False)


class TestWhatTheOwnerHasNotGiven:
    async def test_without_consent_it_is_never_ready(self, tmp_path: Path) -> None:
        gateway = FakeGateway(ScriptedModel(), CLOUD)
        async with opened_device(tmp_path, gateway=gateway) as device:
            made = await device.service.new(
                "planner", category_ids=[device.categories["gym"]], model_id="cloud:large"
            )
            assert made.health is CompanionHealth.NEEDS_CONSENT
            assert (await woken(device, made.id)).status is WakeStatus.FAILED_TERMINAL
            assert not gateway.sent
            told = await device.service.disclosure(made.id)
            assert told is not None
            await device.service.consent(made.id, policy_version=told.policy_version)
            shown = await only(device)
            assert shown.health is CompanionHealth.FAILING
            assert shown.trouble is not None
            assert shown.trouble.step == "You have agreed since. Wake it."
            await woken(device, made.id)
            assert (await only(device)).health is CompanionHealth.IDLE

    async def test_what_failed_is_carried_out_once_more_by_fixed_rules(
        self, tmp_path: Path
    ) -> None:
        gateway = FakeGateway(None, CLOUD)
        async with opened_device(tmp_path, gateway=gateway) as device:
            made = await device.service.new(
                "planner", category_ids=[device.categories["gym"]], model_id="cloud:large"
            )
            await device.finish(await device.task("Squats", checklist_items=("Stretch",)))
            (failed,) = await device.work()
            assert (await device.store.require(WakeRun, failed)).error_code is not None
            assert await device.service.waiting(made.id) == ()
            await device.service.again(failed[:12])
            again = (await device.work())[-1]
            assert (await device.store.require(WakeRun, again)).status is WakeStatus.FAILED_TERMINAL
            rules = (await device.service.again(failed, by_rules=True)).run_key
            with pytest.raises(CompanionInvalid):
                await device.service.again(rules)
            await device.work()
            assert (await device.store.require(WakeRun, rules)).status is WakeStatus.COMPLETED
            # It knows what had changed then; no model was asked, and the next run asks it again.
            (waiting,) = await device.service.waiting(made.id)
            assert waiting.tool_name == "create_follow_up_task"
            assert not gateway.sent
            assert (await woken(device, made.id)).status is WakeStatus.FAILED_TERMINAL

    async def test_a_model_that_is_not_configured_any_more_is_told(self, tmp_path: Path) -> None:
        gateway = FakeGateway(ScriptedModel(), CLOUD)
        async with opened_device(tmp_path, gateway=gateway) as device:
            await device.service.new(
                "planner", category_ids=[device.categories["gym"]], model_id="cloud:large"
            )
            gateway._known.clear()
            shown = await only(device)
            assert shown.health is CompanionHealth.FAILING
            assert shown.trouble is not None
            assert shown.trouble.way is TroubleWay.CONFIGURE

    @pytest.mark.parametrize("target", ["model", "day_plan"])
    async def test_a_stopped_class_is_seen_in_the_run_and_in_the_health(
        self, scripted: Scripted, target: str
    ) -> None:
        device = scripted.device
        await device.service.stop(StopScope.TOOL_CLASS, target)
        run = await scripted.run(call("get_or_create_day_plan", plan_date="2026-01-01"))
        assert (run.status, run.error_code) == (WakeStatus.CANCELLED, "stopped")
        assert "stop switch" in str(run.error_message)
        shown = await only(device)
        assert shown.health is CompanionHealth.HELD_BACK
        assert shown.trouble is not None
        assert (shown.trouble.way, shown.trouble.target) == (TroubleWay.RELEASE, target)
        await device.service.release(StopScope.TOOL_CLASS, target)
        assert (await only(device)).health is CompanionHealth.IDLE

    async def test_a_class_that_it_does_not_need_is_no_trouble(
        self, device: CompanionDevice, agent: str
    ) -> None:
        coach = await device.service.new("gym_coach", category_ids=[device.categories["gym"]])
        await device.service.stop(StopScope.TOOL_CLASS, "rating")
        found = {each.id: each.health for each in await device.service.list()}
        assert found == {agent: CompanionHealth.IDLE, coach.id: CompanionHealth.HELD_BACK}


class TestSleep:
    async def test_a_model_lets_its_companion_sleep_for_a_day_and_no_longer(
        self, scripted: Scripted
    ) -> None:
        device = scripted.device
        until = device.clock.now() + timedelta(hours=20)
        await scripted.run(sleep(until))
        shown = await only(device)
        assert (shown.health, shown.sleep_until) == (CompanionHealth.SLEEPING, until)
        assert shown.trouble is not None
        assert (shown.trouble.way, shown.trouble.until) == (TroubleWay.RESUME, until)

    async def test_longer_is_a_question_and_not_for_ever(self, scripted: Scripted) -> None:
        device, agent = scripted.device, scripted.agent
        await scripted.run(sleep(device.clock.now().replace(year=2099)))
        assert (await only(device)).health is CompanionHealth.IDLE
        await scripted.run(sleep(device.clock.now() + timedelta(days=9)))
        (question,) = await device.service.questions(agent)
        assert question.prompt_text.startswith("May I sleep until")
        await device.service.answer(question.id, "yes")
        shown = await only(device)
        assert shown.sleep_until == device.clock.now() + timedelta(days=31)

    async def test_after_a_no_it_is_not_asked_for_again(self, scripted: Scripted) -> None:
        device, agent = scripted.device, scripted.agent
        await scripted.run(sleep(device.clock.now() + timedelta(days=9)))
        (question,) = await device.service.questions(agent)
        await device.service.answer(question.id, "no")
        await scripted.run(sleep(device.clock.now() + timedelta(days=10)))
        assert await device.service.questions(agent) == ()
        assert (await only(device)).sleep_until is None

    @pytest.mark.parametrize("way", ["wake", "resume"])
    async def test_the_owner_ends_it_with_a_tap_and_it_hears_what_it_missed(
        self, scripted: Scripted, way: str
    ) -> None:
        device, agent = scripted.device, scripted.agent
        await scripted.run(sleep(device.clock.now() + timedelta(hours=20)))
        device.clock.advance(minutes=1)
        task = await device.task("Squats", checklist_items=("a",))
        await device.finish(task)
        (key,) = set(await device.work())
        assert (await device.store.require(WakeRun, key)).skip_reason == "sleeping"
        await getattr(device.service, way)(agent)
        assert (await only(device)).sleep_until is None
        (key,) = set(await device.work())
        made_up = await device.store.require(WakeRun, key)
        assert made_up.status is WakeStatus.COMPLETED
        assert task in made_up.job.changed_entity_ids

    async def test_who_is_woken_while_it_runs_is_not_put_to_sleep_again(
        self, scripted: Scripted
    ) -> None:
        device, agent = scripted.device, scripted.agent
        await scripted.run(sleep(device.clock.now() + timedelta(hours=20)))
        job = await device.lifecycle.say(agent, "Are you there?")

        async def meanwhile() -> None:
            await device.service.resume(agent)

        original = device.companions.worker._run

        async def run(*given: object) -> object:
            outcome = await original(*given)  # type: ignore[arg-type]
            await meanwhile()
            return outcome

        device.companions.worker._run = run  # type: ignore[assignment]
        scripted.model._answers[:] = [CompanionProposal()]
        await device.work()
        assert (await device.store.require(WakeRun, job.run_key)).status is WakeStatus.COMPLETED
        assert (await only(device)).sleep_until is None


class TestNothingIsAskedTwice:
    async def test_an_open_question_is_not_asked_again_and_its_actions_end(
        self, scripted: Scripted
    ) -> None:
        device, agent = scripted.device, scripted.agent
        asks = ProposedAction(
            action_type=AgentActionType.ASK_USER, question=CompanionQuestion(prompt_text="Move it?")
        )
        gated = call("create_task", category_id=device.categories["gym"], title="x")
        await scripted.run(asks, gated.model_copy(update={"after": (0,)}))
        again = await scripted.run(asks, gated.model_copy(update={"after": (0,)}))
        trace = await device.service.trace(again.run_key)
        codes = [each["error_code"] for each in trace.inputs["results"]]
        assert codes == ["already_asked", "answer_required"]
        (question,) = await device.service.questions(agent)
        await device.service.expire()
        (waiting,) = await device.service.waiting(agent)
        assert waiting.status == "blocked"
        await device.service.answer(question.id, "no")
        await scripted.run(asks)
        assert await device.service.questions(agent) == ()

    async def test_a_card_that_waits_or_was_declined_is_not_shown_again(
        self, scripted: Scripted
    ) -> None:
        device, agent = scripted.device, scripted.agent
        add = call("create_task", category_id=device.categories["gym"], title="Rest day")
        for _ in range(2):
            await scripted.run(add)
        (waiting,) = await device.service.waiting(agent)
        assert device.approvals.times_asked == 1
        device.approvals.decline(waiting.operation_id)
        await device.service.decided(waiting.operation_id)
        run = await scripted.run(add)
        trace = await device.service.trace(run.run_key)
        assert [each.error_code for each in trace.tool_calls] == ["already_asked"]
        assert device.approvals.times_asked == 1
        device.clock.advance(days=8)
        await scripted.run(add)
        assert device.approvals.times_asked == 2


async def test_an_error_of_the_model_outside_of_its_answer_is_a_failed_run(tmp_path: Path) -> None:
    class Broken:
        async def propose(self, asked: CompanionRequest) -> CompanionProposal:
            raise LlmError("Nobody is there.")

    async with opened_device(tmp_path, gateway=FakeGateway(Broken())) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        run = await woken(device, made.id)
        assert run.status is WakeStatus.FAILED_TERMINAL
        assert run.error_message == "Nobody is there."
        assert (await only(device)).health is CompanionHealth.FAILING
