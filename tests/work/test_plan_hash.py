"""What an approval is bound to: fixed vectors, and every field classified."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.approval import Approvable
from silas.kernel import canonical_bytes
from silas.work import (
    VerificationResult,
    WorkItem,
    spawn_task,
    work_item_plan_hash_bytes,
    work_item_spawn_policy_bytes,
)
from silas.work.models import PLAN_FIELDS, RUNTIME_FIELDS

CHECK = {"name": "up", "run": "curl -fsS http://localhost/health", "expect": {"exit_code": 0}}
GATE = {"name": "ask", "on": "on_tool_call", "type": "approval_always", "on_block": "tell"}

GOAL: dict[str, Any] = {
    "id": "goal-1",
    "type": "goal",
    "title": "Kéep it up",
    "schedule": "*/30 * * * *",
    "verify": [CHECK],
    "gates": [GATE],
    "skills": ["ops", "coding"],
    "escalation": {
        "tell": {"action": "respond", "message": "no"},
        "unused": {"action": "report"},
    },
    "on_failure": "spawn_task",
    "failure_context": "Repair: $failed_checks",
    "created_at": datetime(2026, 1, 1, tzinfo=UTC),
}

# Another value for every field that a plan consists of.
OTHER: dict[str, Any] = {
    "id": "goal-2",
    "type": "task",
    "title": "Something else",
    "parent": "p",
    "spawned_by": "s",
    "follow_up_of": "f",
    "domain": "personal",
    "agent": "stream",
    "budget": {"max_tokens": 1},
    "body": "Do it.",
    "interaction_mode": "act_and_report",
    "input_artifacts_from": ["*"],
    "verify": [],
    "gates": [],
    "skills": [],
    "access_levels": {"public": {"description": "all"}},
    "escalation": {},
    "approvals": [{"tool": "send", "constraints": {}}],
    "schedule": None,
    "on_failure": "report",
    "on_stuck": "report",
    "failure_context": None,
    "tasks": ["t"],
    "depends_on": ["d"],
    "workspace": {"path": "/srv/site"},
    "skill_hashes": {"coding": "0" * 64},
    "script": True,
    "without_proof": True,
    "accepts_unchecked": True,
    "batch": {
        "source": {"tool": "mail_search"},
        "actions": {"archive": {"tool": "mail_archive"}},
        "rules": [{"name": "old", "when": {"older_than_days": 9}, "then": "archive"}],
    },
}
OTHER_STATE: dict[str, Any] = {
    "approval_token": {
        "token_id": "tok_1",
        "plan_hash": "0" * 64,
        "work_item_id": "goal-1",
        "scope": "full_plan",
        "verdict": "approved",
        "signature": "AAAA",
        "issued_at": datetime(2026, 1, 1, tzinfo=UTC),
        "expires_at": datetime(2026, 1, 2, tzinfo=UTC),
        "nonce": "n",
        "approval_strength": "tap",
    },
    "needs_approval": False,
    "status": "running",
    "attempts": 3,
    "budget_used": {"tokens": 7},
    "verification_results": [{"name": "up", "passed": True, "reason": "ok"}],
    "created_at": datetime(2027, 1, 1, tzinfo=UTC),
    "version": 4,
}


def item(**changes: Any) -> WorkItem:
    return WorkItem.model_validate({**GOAL, **changes})


def test_every_field_is_either_approved_or_kept_by_the_runtime() -> None:
    assert set(WorkItem.model_fields) == PLAN_FIELDS | RUNTIME_FIELDS
    assert not PLAN_FIELDS & RUNTIME_FIELDS
    assert set(OTHER) == PLAN_FIELDS
    assert set(OTHER_STATE) == RUNTIME_FIELDS


@pytest.mark.parametrize("field", sorted(PLAN_FIELDS))
def test_a_field_of_the_plan_changes_the_hash(field: str) -> None:
    # Fields that only fit another type of item are changed on an item of that type.
    start: dict[str, Any] = dict(GOAL)
    if field in ("type", "tasks"):
        start |= {"schedule": None, "type": "project"}
    if field == "script":
        start |= {"schedule": None, "type": "task"}
    before = WorkItem.model_validate(start)
    after = WorkItem.model_validate({**start, field: OTHER[field]})
    assert getattr(before, field) != getattr(after, field)
    assert before.plan_hash != after.plan_hash


@pytest.mark.parametrize("field", sorted(RUNTIME_FIELDS))
def test_a_field_of_the_runtime_does_not(field: str) -> None:
    changed = item(**{field: OTHER_STATE[field]})
    assert getattr(item(), field) != getattr(changed, field)
    assert item().plan_bytes() == changed.plan_bytes()


def test_the_smallest_task_has_these_bytes() -> None:
    smallest = WorkItem(id="t", type="task", title="T")  # type: ignore[arg-type]
    assert work_item_plan_hash_bytes(smallest) == (
        b'{"access_levels":{},"agent":"ephemeral","approvals":[],"body":"","budget":'
        b'{"max_attempts":5,"max_cost_usd":2,"max_planner_calls":3,"max_tokens":200000,'
        b'"max_wall_time_seconds":1800},"depends_on":[],"domain":null,"escalation":{},'
        b'"failure_context":null,"follow_up_of":null,"gates":[],"id":"t",'
        b'"input_artifacts_from":[],"interaction_mode":"confirm_only_when_required",'
        b'"on_failure":"report","on_stuck":"consult_planner","parent":null,"schedule":null,'
        b'"skills":[],"spawned_by":null,"tasks":[],"title":"T","type":"task","verify":[]}'
    )


def test_vectors() -> None:
    assert item().plan_hash == "1bc38b61b0a29544dea9aa0fdebf0144e20a4b1e6db59d816876fc73b7c18cc6"
    assert (
        hashlib.sha256(item().spawn_policy_bytes()).hexdigest()
        == "c8e1f7b6034443445e84c87e752cac7bd14bc4b9b0947a259db9cae1bfa5aac5"
    )


def test_the_spawn_policy_is_the_projection_of_the_spec() -> None:
    def canonical_json(value: Any) -> str:
        return canonical_bytes(value).decode()

    goal = item()
    policy = json.loads(goal.spawn_policy_bytes())
    assert policy == {
        "failure_context_template": "Repair: $failed_checks",
        "skills": ["coding", "ops"],
        "gates": [canonical_json(goal.gates[0].model_dump(mode="json"))],
        "verify": [
            canonical_json(goal.verify[0].model_dump(mode="json", exclude={"influenced_by"}))
        ],
        "escalation_config": {"tell": goal.escalation["tell"].model_dump(mode="json")},
    }


def test_the_spawn_policy_ignores_order_and_what_is_not_used() -> None:
    more = [CHECK, {**CHECK, "name": "also"}]
    assert (
        item(verify=more, skills=["coding", "ops"]).spawn_policy_bytes()
        == item(verify=more[::-1]).spawn_policy_bytes()
    )
    without = {"tell": GOAL["escalation"]["tell"]}
    assert item(escalation=without).spawn_policy_bytes() == item().spawn_policy_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"failure_context": "Do as you like"},
        {"skills": ["ops", "coding", "admin"]},
        {"gates": []},
        {"verify": []},
        {"on_failure": "unused"},
        {"escalation": {"tell": {"action": "report"}}},
        {"approvals": [{"tool": "shell_exec", "constraints": {"command": {"any": True}}}]},
    ],
)
def test_what_a_task_could_gain_by_changes_the_spawn_policy(change: dict[str, Any]) -> None:
    assert item(**change).spawn_policy_bytes() != item().spawn_policy_bytes()


def test_a_spawned_task_follows_the_policy_and_belongs_to_its_goal() -> None:
    goal = item(approvals=[{"tool": "restart", "constraints": {"unit": {"equals": "web"}}}])
    failed = [VerificationResult(name="up", passed=False, reason="exit code 7", output="a\nb")]
    task = spawn_task(goal, failed, task_id="fix-1")
    assert task.spawn_policy_bytes() == goal.spawn_policy_bytes()
    assert (task.parent, task.spawned_by, task.type.value) == (goal.id, goal.id, "task")
    assert task.body == "Repair: - up: exit code 7\n      a\n      b"
    assert task.failure_context == "Repair: $failed_checks"
    assert task.plan_hash != goal.plan_hash
    assert task.approval_token is None


def test_only_goals_and_their_tasks_have_a_spawn_policy() -> None:
    alone = WorkItem(id="t", type="task", title="T")  # type: ignore[arg-type]
    assert alone.spawn_policy_bytes() == b""
    assert alone.model_copy(update={"parent": "g"}).spawn_policy_bytes() != b""
    assert work_item_spawn_policy_bytes(alone) != b""


def test_a_work_item_is_what_approval_asks_for() -> None:
    approvable: Approvable = item()
    assert approvable.id == "goal-1"
    assert approvable.parent is None
    assert hashlib.sha256(approvable.plan_bytes()).hexdigest() == item().plan_hash


@given(st.text(), st.text(min_size=1), st.integers(1, 2**53 - 1))
def test_equal_plans_have_equal_bytes_also_after_a_detour_through_json(
    body: str, contains: str, tokens: int
) -> None:
    try:
        made = item(
            body=body,
            verify=[{**CHECK, "expect": {"contains": contains}}],
            budget={"max_tokens": tokens},
        )
        first = made.plan_bytes()
    except ValueError:
        return  # a lone surrogate has no canonical form
    again = WorkItem.model_validate_json(made.model_dump_json())
    assert again.plan_bytes() == first == canonical_bytes(json.loads(first))
