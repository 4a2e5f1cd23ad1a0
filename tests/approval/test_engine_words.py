"""How long approvals last, and what is said when there is none."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from silas.approval import ApprovalScope, DecisionRefused
from silas.approval.store import complete_token
from silas.kernel import format_timestamp
from silas.storage import Transaction
from silas.testing import FakePlan
from tests.approval.desk import YES, Desk

PLAN = FakePlan()
GOAL = FakePlan(id="goal_1", content={"watch": "disk"}, spawn_policy={"verify": ["df"]})
CARRIED_OUT = "What was approved has been carried out"


@dataclass(frozen=True)
class Raw(FakePlan):
    """A plan that gives these bytes."""

    raw: bytes = b""

    def plan_bytes(self) -> bytes:
        return self.raw


async def test_a_standing_approval_lasts_longer(desk: Desk) -> None:
    once = await desk.engine.issue_token(PLAN, YES)
    standing = await desk.engine.issue_token(GOAL, YES, ApprovalScope.STANDING)
    assert once.expires_at - once.issued_at == desk.policy.default_ttl
    assert standing.expires_at - standing.issued_at == desk.policy.standing_ttl
    assert once.token_id.startswith("tok_")


@pytest.mark.parametrize(
    ("plan", "scope", "told"),
    [
        (
            PLAN,
            ApprovalScope.STANDING,
            "A standing approval needs a goal with a spawn policy.",
        ),
        (
            Raw(raw=b'{"b":1,"a":2}'),
            ApprovalScope.FULL_PLAN,
            "What was to be approved is not in its canonical form.",
        ),
        (
            Raw(raw=b'"' + b"x" * 1_000_000 + b'"'),
            ApprovalScope.FULL_PLAN,
            (
                "This is too large to be shown whole (1000002 bytes), so it cannot be approved. "
                "Split it into smaller plans."
            ),
        ),
    ],
    ids=["no policy", "not canonical", "too large"],
)
async def test_what_cannot_be_approved(
    desk: Desk, plan: FakePlan, scope: ApprovalScope, told: str
) -> None:
    with pytest.raises(DecisionRefused) as refused:
        await desk.engine.issue_token(plan, YES, scope)
    assert refused.value.message == told


async def test_what_was_carried_out_opens_no_door(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    await desk.engine.verify(token, PLAN)
    now = format_timestamp(desk.clock.now())

    def complete(content_hash: str) -> Callable[[Transaction], None]:
        return lambda tx: complete_token(tx, token.token_id, content_hash=content_hash, now=now)

    await desk.database.transaction(complete("of something else"))
    assert await desk.engine.check(token, PLAN) == (True, "Valid")
    await desk.database.transaction(complete(token.plan_hash))
    assert await desk.engine.check(token, PLAN) == (False, CARRIED_OUT)
