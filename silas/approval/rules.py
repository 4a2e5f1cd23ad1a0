"""The rules of a token, pure: does this token, signed by these keys, cover this payload now?

1. The signature is the owner's, made by a pinned key while that key was in use.
2. The verdict is a yes, and every condition on it is known here and holds.
3. The scope is one that this door accepts.
4. The token is for this payload: same id, same hash. A standing token is for a goal; what runs
   under it is a task spawned from that goal, made after the policy that the owner saw.
5. The token's id is the one inside its signed nonce, so that a copy under a new id, with fresh
   counters, is not a token.
6. Now is between issue and expiry.

Whatever is not said to be allowed is refused. Each refusal carries its reason.

Before a token exists, `ApprovalPolicy` says what the owner's configuration lets be signed: how
strongly decided, for how long, how often; and only what can be shown to a person whole, in exactly
one way, can be approved at all (`shown_whole`).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from silas.approval.errors import DecisionRefused
from silas.approval.keys import PublicKeys
from silas.approval.models import (
    Approvable,
    ApprovalDecision,
    ApprovalScope,
    ApprovalStrength,
    ApprovalToken,
    ApprovalVerdict,
    ConditionCheck,
)
from silas.kernel import CanonicalError, canonical_bytes, strict_loads

SPAWN_POLICY_HASH = "spawn_policy_hash"
_CLOCK_TOLERANCE = timedelta(minutes=2)


class Refused(Exception):
    """Why a token does not allow this. Callers outside get it as (False, reason)."""


def digest(payload: bytes) -> str:
    """The hash that names a payload in tokens and in the audit log."""
    return hashlib.sha256(payload).hexdigest()


def require_signature(token: ApprovalToken, keys: PublicKeys) -> None:
    """Rule 1 and rule 5."""
    try:
        signer = keys.signer_of(token.canonical_bytes(), token.signature)
    except CanonicalError as error:
        raise Refused(f"The token has no canonical form: {error}") from error
    if signer is None:
        raise Refused("The signature is not the owner's")
    if not signer.in_use_at(token.issued_at):
        raise Refused("The token was signed with a key that had been retired")
    if not token.nonce.startswith(f"{token.token_id}."):
        raise Refused("The token's id is not the one that was signed")


def require_verdict(
    token: ApprovalToken, approvable: Approvable, checks: Mapping[str, ConditionCheck]
) -> None:
    """Rule 2."""
    if token.verdict not in {ApprovalVerdict.APPROVED, ApprovalVerdict.CONDITIONAL}:
        raise Refused(f"The owner's verdict was {token.verdict.value}")
    for name, value in token.conditions.items():
        if name == SPAWN_POLICY_HASH and token.scope is ApprovalScope.STANDING:
            continue  # rule 4 decides it
        check = checks.get(name)
        if check is None:
            raise Refused(f"Nothing here can enforce the condition {name!r}")
        if not check(value, approvable):
            raise Refused(f"The condition {name!r} does not hold")


def require_scope(token: ApprovalToken, accepted: frozenset[ApprovalScope]) -> None:
    """Rule 3."""
    if token.scope not in accepted:
        raise Refused(f"The token is for {token.scope.value}, which does not allow this")


def require_time(token: ApprovalToken, now: datetime) -> None:
    """Rule 6."""
    if now >= token.expires_at:
        raise Refused("The token has expired")
    if now < token.issued_at - _CLOCK_TOLERANCE:
        raise Refused("The token was issued in the future: check this machine's clock")


def is_current(decided_at: datetime, now: datetime, ttl: timedelta) -> bool:
    """Whether a decision of that time may still lead to something."""
    return decided_at - _CLOCK_TOLERANCE <= now < decided_at + ttl


def require_plan(token: ApprovalToken, approvable: Approvable) -> str:
    """Rule 4 for the payload that was shown; returns its hash."""
    if approvable.id != token.work_item_id:
        raise Refused("The token is for another work item")
    plan_hash = digest(approvable.plan_bytes())
    if plan_hash != token.plan_hash:
        raise Refused("The plan is not the one that was approved")
    return plan_hash


def require_spawned(token: ApprovalToken, task: Approvable) -> str:
    """Rule 4 for a task that runs under a standing token; returns the task's hash."""
    if task.parent != token.work_item_id:
        raise Refused("The task was not spawned by the approved goal")
    if not _follows_policy(token, task):
        raise Refused("The task does not follow the approved spawn policy")
    return digest(task.plan_bytes())


def require_policy(token: ApprovalToken, goal: Approvable) -> None:
    """Rule 4 for the goal of a standing token: its policy is still the one that was approved."""
    if not _follows_policy(token, goal):
        raise Refused("The goal's spawn policy is not the one that was approved")


def _follows_policy(token: ApprovalToken, approvable: Approvable) -> bool:
    policy = approvable.spawn_policy_bytes()
    return bool(policy) and digest(policy) == token.conditions.get(SPAWN_POLICY_HASH)


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
        minimum = self.minimum_strength(scope)
        if decision.approval_strength.rank < minimum.rank:
            raise DecisionRefused(
                f"{scope.value} needs {minimum.value}, but the decision was made with "
                f"{decision.approval_strength.value}. Decide again with the stronger check."
            )

    def minimum_strength(self, scope: ApprovalScope) -> ApprovalStrength:
        """How strongly the owner has to be recognised for this scope, whatever the risk."""
        return self.scope_min_strength.get(scope, ApprovalStrength.TAP)

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
        return {**decision.conditions, SPAWN_POLICY_HASH: digest(policy)}, policy

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


MAX_SHOWN_BYTES = 1_000_000


def shown_whole(payload: bytes) -> bytes:
    """The payload, if a person can be shown all of it in exactly one way."""
    if len(payload) > MAX_SHOWN_BYTES:
        raise DecisionRefused(
            f"This is too large to be shown whole ({len(payload)} bytes), so it cannot be approved."
            " Split it into smaller plans."
        )
    try:
        if canonical_bytes(strict_loads(payload)) == payload:
            return payload
    except CanonicalError as error:
        raise DecisionRefused(f"What was to be approved has no canonical form: {error}.") from error
    raise DecisionRefused("What was to be approved is not in its canonical form.")
