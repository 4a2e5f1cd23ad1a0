"""Nonces are used once, in their domain, until they are too old to matter."""

from datetime import timedelta

import pytest

from silas.approval import NonceUsed
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


async def test_pruning_forgets_what_is_older(desk: Desk) -> None:
    await desk.nonces.record("msg", "old")
    desk.clock.advance(minutes=10)
    await desk.nonces.record("msg", "new")
    boundary = desk.clock.now()
    assert await desk.nonces.prune_expired(boundary) == 1
    assert await desk.nonces.prune_expired(boundary) == 0
    assert not await desk.nonces.is_used("msg", "old")
    assert await desk.nonces.is_used("msg", "new"), "a record of exactly that age is kept"
    assert await desk.nonces.prune_expired(boundary + timedelta(microseconds=1)) == 1
