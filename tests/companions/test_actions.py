"""Actions: what makes two of them the same, and what a run does with those that cannot be."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.companions.errors import InvalidArguments
from silas.companions.messages import WakeJob, WakeRun
from silas.companions.models import AgentActionType, AgentSlots, AgentState, WakeReason, WakeStatus
from silas.companions.operations import MAX_WAITING, make_plan, planned_action, target_refs
from silas.companions.ports import CompanionProposal, ProposedAction
from silas.companions.run_record import reduce_state
from silas.testing import FakeClock
from silas.testing.companions import FakeGateway, ScriptedModel, opened_device

CLOCK = FakeClock()
JOB = WakeJob(run_key="run", thread_id="t", agent_id="a", reason=WakeReason.MANUAL)
values = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4)
arguments = st.dictionaries(st.text("abc_id", min_size=1, max_size=4), values, max_size=4)


def action(given: dict[str, Any], tool: str = "create_task") -> ProposedAction:
    return ProposedAction(action_type=AgentActionType.TOOL_CALL, tool_name=tool, arguments=given)


@given(arguments, st.permutations(["gym", "work"]))
def test_the_stable_id_does_not_know_the_order_of_anything(
    given: dict[str, Any], scope: list[str]
) -> None:
    turned = dict(reversed(given.items()))
    one = planned_action("run", action(given), scope=("gym", "work"))
    other = planned_action("run", action(turned), scope=scope)
    assert one == other


@given(arguments, arguments)
def test_other_arguments_are_another_action(one: dict[str, Any], two: dict[str, Any]) -> None:
    first, second = (planned_action("run", action(each), scope=("gym",)) for each in (one, two))
    assert (first.operation_id == second.operation_id) == (one == two and _types(one, two))


def _types(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return all(type(one[key]) is type(two[key]) for key in one)


@given(st.lists(arguments, max_size=6), st.randoms())
def test_a_plan_holds_each_action_once_whatever_their_order(
    given: list[dict[str, Any]], random: Any
) -> None:
    actions = [action(each) for each in given]
    shuffled = [*actions, *actions[:2]]
    random.shuffle(shuffled)
    plans = [
        make_plan(
            JOB, CompanionProposal(actions=tuple(each)), number=0, scope=("gym",), at=CLOCK.now()
        )
        for each in (actions, shuffled)
    ]
    one, other = ({each.operation_id for each in plan.actions} for plan in plans)
    assert one == other
    assert len(plans[1].actions) == len(one)


def test_another_run_is_another_operation() -> None:
    ids = {planned_action(run, action({"x": 1}), scope=("gym",)).operation_id for run in ("1", "2")}
    assert len(ids) == 2


def test_targets_are_found_wherever_they_stand() -> None:
    given = {"task_id": "t", "item_ids": ["i", "j"], "changes": [{"item_id": "k"}], "note": "x"}
    assert target_refs(given) == ("i", "j", "k", "t")


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 2**80, "\ud800"])
async def test_arguments_without_a_canonical_form_end_the_run_with_a_code(
    tmp_path: Path, wrong: Any
) -> None:
    with pytest.raises(InvalidArguments):
        planned_action("run", action({"x": wrong}), scope=("gym",))
    model = ScriptedModel(CompanionProposal(actions=(action({"x": wrong}),)))
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        woken = await device.service.wake(made.id)
        await device.work()
        run = await device.store.require(WakeRun, woken.run_key)
        assert (run.status, run.error_code) == ("failed_terminal", "invalid_arguments")


async def test_nobody_is_asked_about_more_than_a_person_can_look_at(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        for number in range(MAX_WAITING + 3):
            result = await device.call(
                made.id,
                "create_task",
                op=f"op{number}",
                category_id=device.categories["gym"],
                title=f"Task {number}",
            )
            assert result.error_code == "confirmation_required"
        assert len(device.approvals.asked) == MAX_WAITING


class TestReducer:
    state = AgentState(id="s", agent_id="a", updated_at=CLOCK.now(), consecutive_failure_count=2)

    def reduced(self, status: WakeStatus, **more: Any) -> AgentState:
        return reduce_state(self.state, status=status, now=CLOCK.now(), host_id="h", **more)

    def test_a_completed_run_forgets_failures(self) -> None:
        assert self.reduced(WakeStatus.COMPLETED).consecutive_failure_count == 0
        assert self.reduced(WakeStatus.FAILED_TERMINAL).consecutive_failure_count == 3
        assert self.reduced(WakeStatus.CANCELLED).consecutive_failure_count == 2

    def test_a_slot_counts_its_writes_and_only_those(self) -> None:
        after = self.reduced(WakeStatus.COMPLETED, open_loop_ids=("b", "a"))
        assert (after.slots.open_loop_ids, after.slots.open_loop_ids_version) == (("a", "b"), 1)
        again = reduce_state(
            after,
            status=WakeStatus.COMPLETED,
            now=CLOCK.now(),
            host_id="h",
            open_loop_ids=("a", "b"),
        )
        assert again.slots == after.slots
        assert self.reduced(WakeStatus.COMPLETED).slots == AgentSlots()

    counters = st.dictionaries(st.sampled_from("ab"), st.integers(0, 9))

    @given(counters, counters)
    def test_what_was_seen_only_grows(self, one: dict[str, int], two: dict[str, int]) -> None:
        first = self.reduced(WakeStatus.COMPLETED, processed=one)
        second = reduce_state(
            first, status=WakeStatus.COMPLETED, now=CLOCK.now(), host_id="h", processed=two
        )
        for host, count in first.processed_counter_by_host.items():
            assert second.processed_counter_by_host[host] >= count
