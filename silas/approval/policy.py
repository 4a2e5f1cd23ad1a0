"""What the owner's configuration lets be signed: how strongly decided, for how long, how often."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from silas.approval import rules
from silas.approval.errors import DecisionRefused
from silas.approval.models import (
    ApprovalDecision,
    ApprovalScope,
    ApprovalStrength,
    ApprovalVerdict,
)
from silas.approval.ports import Approvable, ConditionCheck


@dataclass(frozen=True)
class ApprovalPolicy:
    """The limits that the owner's configuration sets."""

    default_ttl: timedelta = timedelta(minutes=30)
    standing_ttl: timedelta = timedelta(days=90)
    """For goals: an approval of one plan is used at once, a standing one is not."""
    max_executions: int = 1
    max_standing_executions: int = 100
    scope_min_strength: Mapping[ApprovalScope, ApprovalStrength] = field(default_factory=dict)
    condition_checks: Mapping[str, ConditionCheck] = field(default_factory=dict)

    def require_decision(self, decision: ApprovalDecision, scope: ApprovalScope) -> None:
        """It is a yes, and made with the check that this scope needs."""
        if decision.verdict not in {ApprovalVerdict.APPROVED, ApprovalVerdict.CONDITIONAL}:
            raise DecisionRefused(f"The owner's verdict was {decision.verdict.value}: no token.")
        minimum = self.scope_min_strength.get(scope, ApprovalStrength.TAP)
        if decision.approval_strength.rank < minimum.rank:
            raise DecisionRefused(
                f"{scope.value} needs {minimum.value}, but the decision was made with "
                f"{decision.approval_strength.value}. Decide again with the stronger check."
            )

    def conditions_of(
        self, work_item: Approvable, decision: ApprovalDecision, scope: ApprovalScope
    ) -> tuple[dict[str, Any], bytes | None]:
        """The signed conditions, and the spawn policy that a standing approval is bound to."""
        unknown = sorted(set(decision.conditions) - set(self.condition_checks))
        if unknown:
            raise DecisionRefused(f"Nothing here can enforce these conditions: {unknown}.")
        if scope is not ApprovalScope.STANDING:
            return dict(decision.conditions), None
        policy = work_item.spawn_policy_bytes()
        if not policy:
            raise DecisionRefused("A standing approval needs a goal with a spawn policy.")
        return {**decision.conditions, rules.SPAWN_POLICY_HASH: rules.digest(policy)}, policy

    def ttl_of(self, scope: ApprovalScope) -> timedelta:
        """How long an approval of this scope lives."""
        return self.standing_ttl if scope is ApprovalScope.STANDING else self.default_ttl

    def uses_of(self, scope: ApprovalScope, wanted: int | None) -> int:
        """How often an approval of this scope may be used, of which fewer can be wanted."""
        standing = scope is ApprovalScope.STANDING
        limit = self.max_standing_executions if standing else self.max_executions
        uses = limit if wanted is None else wanted
        if not 1 <= uses <= limit:
            raise DecisionRefused(f"A {scope.value} approval may be used 1 to {limit} times.")
        return uses
