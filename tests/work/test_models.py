"""Work items, budgets, checks and execution records: what they accept and what they promise."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.kernel import TaintLevel
from silas.kernel.models import dotted, problems_in
from silas.tools.execution import ExecutionEnvelope, ExecutionResult
from silas.work import (
    Budget,
    BudgetUsed,
    EscalationAction,
    InteractionMode,
    VerificationCheck,
    VerificationReport,
    VerificationResult,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
)
from silas.work.models import MAX_CHECK_OUTPUT_CHARS

TASK: dict[str, Any] = {"id": "fix-1", "type": "task", "title": "Fix it"}


def refused(model: Any, **fields: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(fields)
    return {dotted(path): message for path, message in problems_in(caught.value)}


def test_defaults_are_those_of_the_spec() -> None:
    item = WorkItem.model_validate(TASK)
    assert item.agent == "ephemeral"
    assert item.needs_approval is True
    assert item.approval_token is None
    assert item.interaction_mode is InteractionMode.CONFIRM_ONLY_WHEN_REQUIRED
    assert item.on_failure == "report"
    assert item.on_stuck == "consult_planner"
    assert item.status is WorkItemStatus.PENDING
    assert item.budget == Budget(
        max_tokens=200_000,
        max_cost_usd=2.0,
        max_wall_time_seconds=1800,
        max_attempts=5,
        max_planner_calls=3,
    )
    check = VerificationCheck.model_validate(
        {"name": "c", "run": "true", "expect": {"exit_code": 0}}
    )
    assert (check.timeout, check.network) == (60, ())
    assert EscalationAction(action="report").max_retries == 2


@pytest.mark.parametrize(
    ("fields", "agent"),
    [
        ({"type": "goal", "schedule": "always_on"}, "stream"),
        ({"type": "goal", "schedule": "always_on", "agent": "ephemeral"}, "ephemeral"),
        ({"type": "goal", "schedule": "*/5 * * * *"}, "ephemeral"),
        ({"type": "goal", "schedule": "*/5 * * * *", "agent": "stream"}, "stream"),
        ({"type": "goal"}, "ephemeral"),
        ({"type": "project", "tasks": ["a"]}, "ephemeral"),
    ],
)
def test_the_lane_follows_type_and_schedule(fields: dict[str, Any], agent: str) -> None:
    assert WorkItem.model_validate({**TASK, **fields}).agent == agent


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({"agent": "stream"}, "agent", "must be ephemeral"),
        ({"type": "project", "agent": "stream"}, "agent", "must be ephemeral"),
        ({"schedule": "* * * * *"}, "schedule", "goals only"),
        ({"tasks": ["a"]}, "tasks", "projects only"),
        ({"type": "goal", "tasks": ["a"]}, "tasks", "projects only"),
        ({"type": "goal", "schedule": "daily"}, "schedule", "cron expression"),
        ({"type": "goal", "schedule": ""}, "schedule", "cron expression"),
        ({"depends_on": ["fix-1"]}, "depends_on", "itself"),
        ({"depends_on": ["a", "a"]}, "depends_on[1]", "already"),
        ({"skills": ["coding", "coding"]}, "skills[1]", "already"),
        ({"skills": ["../etc"]}, "skills[0]", "lowercase letters"),
        ({"input_artifacts_from": ["*", "a"]}, "input_artifacts_from", "stand alone"),
        ({"id": "a/b"}, "id", "letters, digits"),
        ({"id": ".."}, "id", "letters, digits"),
        ({"id": "a b"}, "id", "letters, digits"),
        ({"id": "a\n"}, "id", "letters, digits"),
        ({"id": ""}, "id", "letters, digits"),
        ({"id": "x" * 129}, "id", "letters, digits"),
        ({"parent": "../x"}, "parent", "letters, digits"),
        ({"title": " "}, "title", "one line"),
        ({"title": "a\nb"}, "title", "one line"),
        ({"title": "x" * 201}, "title", "200"),
        ({"attempts": -1}, "attempts", "at least 0"),
        ({"status": "finished"}, "status", "must be one of"),
        ({"colour": "red"}, "colour", "not a known key"),
        ({"created_at": datetime(2026, 1, 1)}, "created_at", "timezone"),  # noqa: DTZ001
        ({"budget": {"max_tokens": 0}}, "budget.max_tokens", "greater than 0"),
        ({"budget": {"max_cost_usd": float("inf")}}, "budget.max_cost_usd", "finite"),
        ({"escalation": {"x": {"action": "shout"}}}, "escalation.x.action", "must be one of"),
        ({"escalation": {"x": {"action": "respond"}}}, "escalation.x.message", "needs it"),
        ({"escalation": {"x": {"action": "transfer_to_queue"}}}, "escalation.x.queue", "needs it"),
        (
            {"escalation": {"x": {"action": "suppress_and_rephrase"}}},
            "escalation.x.instruction",
            "needs it",
        ),
        ({"verify": [{"name": "c", "run": "x"}]}, "verify[0].expect", "is missing"),
    ],
)
def test_a_work_item_that_cannot_be_is_refused(
    fields: dict[str, Any], place: str, words: str
) -> None:
    found = refused(WorkItem, **{**TASK, **fields})
    assert words in found.get(place, ""), found


def test_names_of_checks_and_gates_differ() -> None:
    check = {"name": "c", "run": "true", "expect": {"exit_code": 0}}
    gate = {"name": "g", "on": "on_tool_call", "type": "approval_always"}
    found = refused(WorkItem, **TASK, verify=[check, check], gates=[gate, gate])
    assert set(found) == {"verify[1]", "gates[1]"}


def test_a_work_item_comes_back_from_json() -> None:
    item = WorkItem.model_validate(
        {
            **TASK,
            "verify": [{"name": "c", "run": "true", "expect": {"contains": "ok"}}],
            "approvals": [{"tool": "send", "constraints": {"to": {"from": "owner"}}}],
            "created_at": datetime(2026, 1, 1, tzinfo=UTC),
            "budget_used": {"tokens": 5},
        }
    )
    assert WorkItem.model_validate_json(item.model_dump_json(), strict=True) == item


LIMITS = {
    "tokens": "max_tokens",
    "cost_usd": "max_cost_usd",
    "wall_time_seconds": "max_wall_time_seconds",
    "attempts": "max_attempts",
    "planner_calls": "max_planner_calls",
}


@pytest.mark.parametrize(("used", "limit"), LIMITS.items())
def test_reaching_a_limit_exactly_is_exceeding_it(used: str, limit: str) -> None:
    budget = Budget()
    top = getattr(budget, limit)
    assert not BudgetUsed(**{used: top - 1}).exceeds(budget)
    assert BudgetUsed(**{used: top}).exceeds(budget)
    assert BudgetUsed(**{used: top + 1}).reached(budget) == (limit,)


def test_nothing_used_exceeds_nothing() -> None:
    assert not BudgetUsed().exceeds(Budget())
    assert not BudgetUsed(executor_runs=10**6).exceeds(Budget())


counts = st.integers(0, 10**9)
amounts = st.integers(0, 10**6).map(float)
used = st.builds(
    BudgetUsed,
    tokens=counts,
    cost_usd=amounts,
    wall_time_seconds=amounts,
    attempts=counts,
    planner_calls=counts,
    executor_runs=counts,
)


@given(used, used, used)
def test_merging_adds_every_field_in_any_order(a: BudgetUsed, b: BudgetUsed, c: BudgetUsed) -> None:
    merged = a.merge(b)
    for name in BudgetUsed.model_fields:
        assert getattr(merged, name) == getattr(a, name) + getattr(b, name)
    assert a.merge(b) == b.merge(a)
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(BudgetUsed()) == a


@given(used, used, st.builds(Budget))
def test_using_more_never_frees_a_budget(a: BudgetUsed, b: BudgetUsed, budget: Budget) -> None:
    assert set(a.reached(budget)) <= set(a.merge(b).reached(budget))


def test_a_report_passes_only_if_something_was_checked() -> None:
    passed = VerificationResult(name="a", passed=True, reason="exit code 0", exit_code=0)
    failed = VerificationResult(name="b", passed=False, reason="Timeout after 60s")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert VerificationReport(results=[passed], timestamp=now).all_passed
    both = VerificationReport(results=[passed, failed], timestamp=now)
    assert not both.all_passed
    assert both.failed == [failed]
    assert not VerificationReport(results=[], timestamp=now).all_passed
    assert "output" in refused(
        VerificationResult,
        name="a",
        passed=True,
        reason="",
        output="x" * (MAX_CHECK_OUTPUT_CHARS + 1),
    )


def test_a_result_is_of_work_that_has_stopped() -> None:
    for status in WorkItemStatus:
        fields = {"work_item_id": "a", "status": status, "summary": ""}
        if status in (WorkItemStatus.PENDING, WorkItemStatus.RUNNING):
            assert "status" in refused(WorkItemResult, **fields)
        else:
            assert WorkItemResult.model_validate(fields).status is status


def test_metadata_never_reaches_the_model() -> None:
    result = ExecutionResult(
        execution_id="e",
        step_index=0,
        success=True,
        return_value="seen",
        content=[{"text": "seen too"}],
        metadata={"header": "hidden", "raw": ["hidden"]},
    )
    assert "hidden" not in result.model_view().model_dump_json()
    assert "hidden" not in repr(result)
    assert result.model_view().return_value == "seen"
    assert ExecutionResult.model_validate_json(result.model_dump_json()) == result


def test_output_is_external_unless_it_is_known_to_be_otherwise() -> None:
    assert (
        ExecutionResult(execution_id="e", step_index=0, success=True).taint is TaintLevel.EXTERNAL
    )


def test_an_envelope_has_no_room_for_more_than_it_needs() -> None:
    envelope = ExecutionEnvelope(
        execution_id="e", step_index=0, task_description="do it", action="shell_exec"
    )
    assert (envelope.timeout_seconds, envelope.max_output_bytes) == (300, 100_000)
    assert envelope.sandbox_config.network_hosts == ()
    for extra in ("history", "memory", "approval_token", "context"):
        assert extra in refused(ExecutionEnvelope, **{**envelope.model_dump(), extra: "x"})
