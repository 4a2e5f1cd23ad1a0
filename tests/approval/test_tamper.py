"""A stored token with one byte changed is never accepted as it is."""

import pytest
from pydantic import ValidationError

from silas.approval import ApprovalToken
from silas.testing import FakePlan
from tests.approval.desk import YES, Desk

PLAN = FakePlan()


async def test_every_byte_of_a_stored_token(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    stored = token.model_dump_json().encode()
    for position in range(len(stored)):
        for mask in (0x01, 0x02, 0x20):
            damaged = bytearray(stored)
            damaged[position] ^= mask
            await expect_detected(desk, token, bytes(damaged))


async def expect_detected(desk: Desk, token: ApprovalToken, damaged: bytes) -> None:
    try:
        changed = ApprovalToken.model_validate_json(damaged)
    except ValidationError:
        return
    counters = {"executions_used", "execution_nonces"}
    if changed.model_dump(exclude=counters) == token.model_dump(exclude=counters):
        # Only counters or insignificant white space differ: the same token, the same rights.
        assert changed.canonical_bytes() == token.canonical_bytes()
        return
    valid, reason = await desk.engine.verify(changed, PLAN)
    assert not valid, f"accepted: {damaged!r}"
    assert reason


@pytest.mark.parametrize("column", ["token", "signature", "shown", "executions_used", "token_id"])
@pytest.mark.parametrize("value", ["7", 0, -1])
async def test_a_changed_row_never_widens_a_right(
    desk: Desk, column: str, value: str | int
) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    assert (await desk.engine.verify(token, PLAN))[0]
    await desk.database.execute(f"UPDATE approval_tokens SET {column} = ?", (value,))
    assert not (await desk.engine.verify(token, PLAN))[0]


async def test_the_plan_cannot_be_changed_byte_by_byte(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    good = PLAN.plan_bytes()

    class Tampered(FakePlan):
        def plan_bytes(self) -> bytes:
            return damaged

    for position in range(len(good)):
        damaged = good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :]
        assert not (await desk.engine.verify(token, Tampered()))[0]
    assert (await desk.engine.verify(token, PLAN))[0]
