"""The plans that ship as examples are plans, and say what the documentation says about them."""

from pathlib import Path

import pytest

from silas.work import Plan, WorkItemType, decode_plan, parse, parse_plan

PLANS = Path(__file__).parents[2] / "plans"


def plan(name: str) -> Plan:
    return parse_plan(decode_plan((PLANS / f"{name}.md").read_bytes()), known=())


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.md")), ids=lambda path: path.stem)
def test_every_example_is_a_plan(path: Path) -> None:
    text = decode_plan(path.read_bytes())
    parsed = parse_plan(text, known=())
    assert parsed.root == parse(text)
    assert len({item.plan_hash for item in parsed.items}) == len(parsed.items)
    assert all(item.needs_approval for item in parsed.items)


def test_there_are_five() -> None:
    assert {path.stem for path in PLANS.glob("*.md")} == {
        "bug-fix",
        "support-chatbot",
        "trade",
        "health-monitor",
        "deployment",
    }


def test_the_bug_fix_is_checked_by_pytest() -> None:
    task = plan("bug-fix").root
    assert "pytest" in task.verify[0].run
    assert task.verify[0].expect.regex == r"\d+ passed"
    assert task.body.startswith("# Context")


def test_the_chatbot_runs_on_the_stream_and_opens_up_by_gates() -> None:
    goal = plan("support-chatbot").root
    assert (goal.type, goal.agent, goal.schedule) == (WorkItemType.GOAL, "stream", "always_on")
    assert goal.access_levels["customer"].requires == ["order_verified"]
    assert goal.approvals[1].constraints["order_id"].source == "tool:verify_order"


def test_the_trade_has_numeric_gates() -> None:
    gates = {gate.name: gate for gate in plan("trade").root.gates}
    size = gates["order_size"]
    assert size.auto_approve is not None
    assert size.block is not None
    assert size.auto_approve.max == 50
    assert size.block.outside == (0, 500)


def test_the_monitor_is_scheduled_and_repairs() -> None:
    goal = plan("health-monitor").root
    assert goal.agent == "ephemeral"
    assert goal.on_failure == "spawn_task"
    assert "$failed_checks" in (goal.failure_context or "")
    assert all(check.expect.predicates for check in goal.verify)


def test_the_deployment_orders_its_tasks_and_hands_its_limits_down() -> None:
    parsed = plan("deployment")
    tasks = {task.id.removeprefix("deploy-2-4-0-"): task for task in parsed.tasks}
    assert list(tasks) == ["test", "changelog", "build", "staging", "production"]
    assert tasks["staging"].depends_on == ["deploy-2-4-0-build", "deploy-2-4-0-changelog"]
    for task in parsed.tasks:
        assert task.parent == parsed.root.id
        assert task.gates[0].name == "production_needs_a_person"
        assert task.domain == "business:website"
        assert "stop" in task.escalation
    assert tasks["test"].skills == ["coding", "ops"]
    assert tasks["production"].skills == ["ops"]
