"""The canonical bytes that an approval is bound to.

1. `PLAN_FIELDS` are shown to the owner and hashed. `RUNTIME_FIELDS` change while work goes on and
   are not. Every field of a work item belongs to exactly one of the two.
2. The bytes are canonical JSON, so that equal plans have equal bytes and unequal ones do not.
3. `BOUND_FIELDS` tie the plan to things outside it. They are in the bytes of every plan that has
   them, and a plan without them has the bytes that the other fields alone give.
4. The spawn policy is what tasks that a goal spawns must have in common with it. It also holds the
   goal's action envelopes and what it is bound to, if there is any: a spawned task may not do more
   than its goal.
"""

from collections.abc import Iterable
from typing import Any

from silas.kernel import canonical_bytes
from silas.kernel.models import Data

PLAN_FIELDS = frozenset(
    {
        *("id", "type", "title", "parent", "spawned_by", "follow_up_of", "domain"),
        *("agent", "budget", "body", "interaction_mode", "input_artifacts_from"),
        *("verify", "gates", "skills", "access_levels", "escalation", "approvals"),
        *("schedule", "on_failure", "on_stuck", "failure_context", "tasks", "depends_on"),
        *("workspace", "skill_hashes"),
    }
)
BOUND_FIELDS = frozenset({"workspace", "skill_hashes"})
RUNTIME_FIELDS = frozenset(
    {
        *("approval_token", "needs_approval", "status", "attempts", "budget_used"),
        *("verification_results", "created_at", "version"),
    }
)


def work_item_plan_hash_bytes(item: Data) -> bytes:
    """Everything about a work item that is approved, as canonical JSON."""
    return canonical_bytes(_plan_of(item))


def work_item_spawn_policy_bytes(item: Data) -> bytes:
    """What a goal and every task spawned from it must agree in, as canonical JSON."""
    plan = _plan_of(item)
    policy: dict[str, Any] = {
        "failure_context_template": plan["failure_context"] or "",
        "skills": sorted(set(plan["skills"])),
        "gates": _sorted_json(plan["gates"]),
        "verify": _sorted_json(plan["verify"]),
        "escalation_config": _used_escalations(plan),
    }
    if plan["approvals"]:
        policy["approvals"] = _sorted_json(plan["approvals"])
    policy |= {name: plan[name] for name in BOUND_FIELDS if name in plan}
    return canonical_bytes(policy)


def _plan_of(item: Data) -> dict[str, Any]:
    plan = item.model_dump(mode="json", include=set(PLAN_FIELDS))
    return {name: value for name, value in plan.items() if value or name not in BOUND_FIELDS}


def _used_escalations(plan: dict[str, Any]) -> dict[str, Any]:
    named = {plan["on_failure"], *(gate["on_block"] for gate in plan["gates"])}
    return {name: plan["escalation"][name] for name in named & set(plan["escalation"])}


def _sorted_json(values: Iterable[Any]) -> list[str]:
    return sorted(canonical_bytes(value).decode() for value in values)
