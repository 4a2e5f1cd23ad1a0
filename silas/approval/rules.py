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
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta

from silas.approval.models import ApprovalScope, ApprovalToken, ApprovalVerdict
from silas.approval.ports import Approvable, ConditionCheck
from silas.approval.public_keys import PublicKeys
from silas.kernel import CanonicalError

SPAWN_POLICY_HASH = "spawn_policy_hash"
_CLOCK_TOLERANCE = timedelta(minutes=2)


class Refused(Exception):
    """Why a token does not allow this. It never leaves the room: doors answer (False, reason)."""


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
