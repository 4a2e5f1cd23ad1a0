"""The plans that ship as examples are plans, and say what the documentation says about them."""

import subprocess
import sys
from pathlib import Path

import pytest

from silas.work import Plan, WorkItemType, decode_plan, parse, parse_plan
from silas.work.wording import declared_paths, plan_lines

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


def test_there_are_seven() -> None:
    assert {path.stem for path in PLANS.glob("*.md")} == {
        "hello",
        "bug-fix",
        "support-chatbot",
        "trade",
        "health-monitor",
        "deployment",
        "mail-triage",
    }


def test_the_bug_fix_is_checked_by_a_test_that_is_there_and_fails() -> None:
    task = plan("bug-fix").root
    assert task.verify[0].run.endswith("tests/test_slugify.py")
    assert task.body.startswith("# Context")
    where = PLANS / "slugify"
    command = [sys.executable, "tests/test_slugify.py"]
    ran = subprocess.run(
        command, cwd=where, env={"PYTHONPATH": "src"}, capture_output=True, check=False
    )
    assert b"FAILED (failures=1)" in ran.stderr


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.md")), ids=lambda path: path.stem)
def test_an_example_that_needs_skills_says_how_to_install_them(path: Path) -> None:
    named = {name for item in plan(path.stem).items for name in item.skills}
    connected = {"mail"}
    for name in named & connected:
        assert f"`silas connect {name} " in path.read_text()
    named -= connected
    for name in named - {"coding"}:
        assert f"`silas skills install plans/skills/{name}`" in path.read_text()
        assert (PLANS / "skills" / name / "SKILL.md").is_file()
    assert bool(named) == ("It needs the skill" in path.read_text())


def test_the_bug_fix_declares_the_one_file_that_it_changes() -> None:
    task = plan("bug-fix").root
    assert task.workspace is not None
    assert plan_lines(task)[0] == "Changes src/slugify.py"
    assert len(list(declared_paths(task.workspace.changes))) == 1


def test_the_deployment_says_what_nothing_will_show() -> None:
    tasks = {task.id.removeprefix("deploy-2-4-0-"): task for task in plan("deployment").tasks}
    assert [name for name, task in tasks.items() if task.without_proof] == ["test", "changelog"]
    assert [name for name, task in tasks.items() if task.accepts_unchecked] == ["build", "staging"]


def test_the_chatbot_runs_on_the_stream_and_opens_up_by_gates() -> None:
    goal = plan("support-chatbot").root
    assert (goal.type, goal.agent, goal.schedule) == (WorkItemType.GOAL, "stream", "always_on")
    assert goal.access_levels["customer"].requires == ["order_verified"]
    assert goal.approvals[0].constraints["order_id"].source == "tool:verify_order"
    assert [each.tool for each in goal.approvals] == ["order_status"]  # a refund is asked each time


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
