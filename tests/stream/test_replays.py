"""Whoever can write the database puts old rows back: what was approved is done once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.app.agents import Agents
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.review.cards import Card, CardStore
from silas.testing import FakeClock
from silas.testing.stream import FakeProxy
from tests.stream.database_writer import OldRows, audited
from tests.stream.house import House, standing_house, writing
from tests.stream.test_flows import always_plan, planning

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)


class Reviewed:
    """A house with the real cards, whose loops run only now and then."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.database = house.database
        assert isinstance(house.core.clock, FakeClock)
        self.clock = house.core.clock
        assert isinstance(house.stream.turns.reviews, CardStore)
        self.cards = house.stream.turns.reviews

    async def card(self) -> Card:
        """A plan was asked for, and its card waits."""
        async with self.running():
            await self.house.say("Do it")
        (card,) = await self.cards.open_cards()
        return card

    async def decide(self, card: Card) -> None:
        await self.cards.decide_with_vault(card.card_id, YES, shown=card.plan_hashes)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The loops run, until the bus is empty."""
        task = asyncio.create_task(self.house.stream.run())
        try:
            yield
            await self.house.idle()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def done(self) -> int:
        """How often something was carried out, by the log."""
        return await audited(self.database, "work_done")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[Reviewed]:
    agents = Agents(FakeProxy(always_plan), planning(writing("a.txt")))
    async with standing_house(tmp_path, agents, clock=FakeClock(), with_cards=True) as house:
        yield Reviewed(house)


async def test_a_decision_is_not_followed_again(house: Reviewed) -> None:
    card = await house.card()
    await house.decide(card)
    decided = await OldRows.of(house.database)
    async with house.running():
        pass
    assert await house.done() == 1
    for later in ({"minutes": 0}, {"minutes": 5}, {"days": 30}):
        house.clock.advance(**later)
        await decided.put_back(house.database)
        async with house.running():
            pass
    assert await house.done() == 1
    (again,) = await house.cards.open_cards()
    assert again.plan_hashes == card.plan_hashes, "what nobody knows to be done is asked again"
    assert await audited(house.database, "decision_lapsed") == 1


async def test_a_yes_that_came_too_late_is_asked_for_again(house: Reviewed) -> None:
    """Nobody tampered: Silas did not run when the owner decided, and nothing is lost."""
    card = await house.card()
    await house.decide(card)
    house.clock.advance(hours=1)
    async with house.running():
        pass
    assert await house.done() == 0
    (again,) = await house.cards.open_cards()
    assert "nothing happens before your next yes" in again.message
    await house.decide(again)
    async with house.running():
        pass
    assert await house.done() == 1


async def test_receipts_are_for_one_decision_about_one_card(house: Reviewed) -> None:
    card = await house.card()
    await house.decide(card)
    house.clock.advance(hours=1)
    async with house.running():
        pass
    (again,) = await house.cards.open_cards()
    await house.cards.decide_with_vault(again.card_id, NO)
    other = (
        "UPDATE decisions SET {0} = (SELECT {0} FROM decisions WHERE question_id = ?)"
        " WHERE question_id = ?"
    )
    for change, names in (
        (other.format("receipt"), (again.card_id, card.card_id)),
        (other.format("decided_at"), (again.card_id, card.card_id)),
        ("UPDATE decisions SET receipt = NULL WHERE question_id = ?", (card.card_id,)),
        ("UPDATE decisions SET decided_at = NULL WHERE question_id = ?", (card.card_id,)),
    ):
        await house.database.execute(change, names)
        decided = await house.cards.decision(card.card_id)
        assert decided is not None
        assert decided.decided_at is None
    await house.database.execute("UPDATE decisions SET decided_at = '2026-01-01T13:00:00.000000Z'")
    decided = await house.cards.decision(card.card_id)
    assert decided is not None
    assert decided.decided_at is None


async def test_what_is_blocked_at_the_door_is_not_said_to_be_started(house: Reviewed) -> None:
    card = await house.card()
    await house.decide(card)
    [token_id] = await house.house.core.approvals.tokens.list_ids()
    await house.house.core.approvals.revoke(token_id)
    async with house.running():
        pass
    assert await house.done() == 0
    assert house.house.containing("The owner has taken this approval back")
    assert not house.house.containing("I started")
