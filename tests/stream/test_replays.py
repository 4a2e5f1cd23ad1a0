"""Whoever can write the database puts old rows back: what was approved is done once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.app.stream import Minds
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.stream.cards import Card, CardStore
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
        assert isinstance(house.ground.clock, FakeClock)
        self.clock = house.ground.clock
        assert isinstance(house.stream.room.reviews, CardStore)
        self.cards = house.stream.room.reviews

    async def card(self) -> Card:
        """A plan was asked for, and its card waits."""
        async with self.running():
            await self.house.say("Do it")
        (card,) = await self.cards.open_cards()
        return card

    async def decide(self, card: Card) -> None:
        await self.cards.decide(card.card_id, YES, shown=card.plan_hashes)

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
    minds = Minds(FakeProxy(always_plan), planning(writing("a.txt")))
    async with standing_house(tmp_path, minds, clock=FakeClock(), with_cards=True) as house:
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
    await house.cards.decide(again.card_id, NO)
    for change in (
        "UPDATE decision_receipts SET card_id = 'x' WHERE card_id = ?",
        "DELETE FROM decision_receipts WHERE card_id = ?",
    ):
        await house.database.execute(change, (card.card_id,))
        await house.database.execute(
            "UPDATE decision_receipts SET card_id = ? WHERE card_id = ?",
            (card.card_id, again.card_id),
        )
        decided = await house.cards.decision(card.card_id)
        assert decided is not None
        assert decided.decided_at is None
    await house.database.execute(
        "UPDATE decision_receipts SET decided_at = '2026-01-01T13:00:00.000000Z'"
    )
    decided = await house.cards.decision(card.card_id)
    assert decided is not None
    assert decided.decided_at is None
