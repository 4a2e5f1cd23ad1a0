"""Nonces are used once, in their domain, until they are too old to matter."""

from datetime import timedelta

import pytest

from silas.approval import NonceUsed
from silas.approval.store import WRONG_CLOCK
from tests.approval.desk import Desk


async def test_once(desk: Desk) -> None:
    assert not await desk.nonces.is_used("msg", "n")
    await desk.nonces.record("msg", "n")
    assert await desk.nonces.is_used("msg", "n")
    with pytest.raises(NonceUsed):
        await desk.nonces.record("msg", "n")


async def test_domains_are_apart(desk: Desk) -> None:
    await desk.nonces.record("msg", "n")
    assert not await desk.nonces.is_used("exec", "n")
    await desk.nonces.record("exec", "n")


@pytest.mark.parametrize(("domain", "longer"), [("exec", timedelta()), ("msg", WRONG_CLOCK)])
async def test_pruning_forgets_what_is_older(desk: Desk, domain: str, longer: timedelta) -> None:
    await desk.nonces.record(domain, "old")
    desk.clock.advance(minutes=10)
    await desk.nonces.record(domain, "new")
    boundary = desk.clock.now() + longer
    assert await desk.nonces.prune_expired(boundary) == 1
    assert await desk.nonces.prune_expired(boundary) == 0
    assert not await desk.nonces.is_used(domain, "old")
    assert await desk.nonces.is_used(domain, "new"), "a record of exactly that age is kept"
    assert await desk.nonces.prune_expired(boundary + timedelta(microseconds=1)) == 1
