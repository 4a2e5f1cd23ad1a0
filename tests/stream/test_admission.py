"""More comes in than can be worked off: who is refused, who never is, and what they are told."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from silas.app.agents import Agents
from silas.queue import Handled, Lease
from silas.queue.models import QueueName, UserMessage
from silas.queue.store import QueueStore
from silas.storage import SqliteDatabase
from silas.stream.admission import Admission
from silas.stream.errors import BusyRetry
from silas.stream.limits import LimitedPlanner, LimitedProxy, LimitedResearcher, RateLimit
from silas.stream.models import AgentTurn, RouteDecision
from silas.stream.store import ConversationStore
from silas.testing import FakeClock
from silas.testing.stream import FakeProxy, direct
from silas.work.ports import ToolCaller
from tests.stream.house import House, open_house, standing_house, writing
from tests.stream.test_cards import NO, Desk
from tests.stream.test_flows import always_plan, planning

SMALL = {
    "SILAS_BACKPRESSURE__MAX_PENDING_TURNS_PER_SCOPE": "3",
    "SILAS_BACKPRESSURE__MAX_PENDING_TURNS_TOTAL": "8",
}


async def say_hello(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
    return direct("hello")


async def fill(house: House, scopes: Iterator[str]) -> int:
    """Let strangers send until one is refused; returns how many were taken."""
    for taken, scope in enumerate(scopes):
        try:
            await house.say("hello?", connection=scope, signed=False)
        except BusyRetry:
            return taken
    raise AssertionError("nobody was refused")


async def test_strangers_are_refused_first_and_the_owner_keeps_his_places(tmp_path: Path) -> None:
    agents = Agents(proxy=FakeProxy(say_hello))
    async with standing_house(tmp_path, agents, environ=SMALL) as house:
        assert await fill(house, (f"guest{number}" for number in range(20))) == 5
        for _ in range(3):
            await house.say("I am here")
        with pytest.raises(BusyRetry) as refused:
            await house.say("and here")
        assert 1 <= refused.value.details["retry_after_seconds"] <= 60
        assert len(await house.on_the_bus()) == 8
        lease = await house.stream.queue.lease(QueueName.PROXY, consumer="test")
        assert lease is not None
        assert lease.message.scope_id == "owner", "the owner waits behind strangers"


async def test_one_conversation_cannot_take_every_place(tmp_path: Path) -> None:
    async with standing_house(tmp_path, Agents(), environ=SMALL) as house:
        assert await fill(house, iter(["guest"] * 9)) == 3
        await house.say("hello?", connection="another", signed=False)


async def test_who_was_refused_is_taken_when_there_is_room_and_nothing_of_it_was_kept(
    tmp_path: Path,
) -> None:
    agents = Agents(proxy=FakeProxy(say_hello))
    async with open_house(tmp_path, agents, environ=SMALL) as house:
        sent = await asyncio.gather(
            *(house.say(f"{n}", connection="guest", signed=False) for n in range(20)),
            return_exceptions=True,
        )
        refused = [each for each in sent if isinstance(each, BusyRetry)]
        assert len(sent) - len(refused) == 3, "callers at once take more places than there are"
        await house.idle()
        assert len(house.said) == 3
        again = await house.say("again", connection="guest", signed=False)
        assert (await house.answer_to(again)).content == "hello"


async def test_when_everything_is_full_the_owner_still_decides_and_stops(tmp_path: Path) -> None:
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(writing("a.txt")))
    async with open_house(tmp_path, agents, environ=SMALL) as house:
        await house.say("make a file")
        card = await house.card()
        await house.idle()

        async def hang(_lease: Lease) -> Handled:
            await asyncio.Event().wait()
            return Handled()

        house.stream.consumers[0].handler = hang
        await fill(house, (f"guest{number}" for number in range(50)))
        assert await fill(house, iter(["owner"] * 9)) == 3
        await house.reviews.decide(card)
        await house.until(lambda: house.containing("approved. I am starting."))
        stopped = await house.stream.work.context.control.cancel("hello")
        assert stopped or (await house.stream.turns.items.get("hello")) is not None


async def test_a_visitor_opens_only_so_many_cards_and_the_owner_any_number(tmp_path: Path) -> None:
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(writing("a.txt")))
    async with open_house(tmp_path, agents) as house:
        house.stream.turns.store.open_cards = counting = Open()  # type: ignore[method-assign]
        counting.number = 2
        asked = await house.say("a file", connection="guest", signed=False)
        await house.card()
        counting.number = 3
        refused = await house.say("another", connection="guest", signed=False)
        assert "not decided about your earlier" in (await house.answer_to(refused)).content
        assert (await house.answer_to(asked)).payload.card_id  # type: ignore[union-attr]
        mine = await house.say("mine")
        assert (await house.answer_to(mine)).payload.card_id  # type: ignore[union-attr]


class Open:
    """How many cards are open, for a test."""

    number = 0

    async def __call__(self, scope_id: str) -> int:
        return self.number


async def test_open_cards_are_counted_for_each_scope(
    database: SqliteDatabase, clock: FakeClock
) -> None:
    desk = Desk(database, clock)
    for name in ("card_1", "card_2"):
        await desk.ask(name)
    store = ConversationStore(database, clock)
    assert await store.open_cards("owner") == 2
    assert await store.open_cards("guest") == 0
    await desk.cards.decide_with_vault("card_1", NO)
    assert await store.open_cards("owner") == 1


class Nothing(QueueStore):
    def __init__(self) -> None:
        """Holds nothing."""

    async def waiting(self, queue: QueueName, scope_id: str) -> tuple[int, int]:
        return 0, 0


def said(clock: FakeClock, connection: str, sender: str) -> UserMessage:
    return UserMessage(
        channel="test", connection_id=connection, sender_id=sender, timestamp=clock.now()
    )


async def test_the_pace_of_a_conversation_and_of_a_sender_in_many() -> None:
    clock = FakeClock()
    door = Admission(
        Nothing(),
        per_scope=RateLimit(clock, 4),
        per_sender=RateLimit(clock, 2),
        owner_id="owner",
        most_per_scope=10,
        most_total=100,
    )

    async def knock(connection: str, sender: str) -> bool:
        try:
            async with door.admitted(said(clock, connection, sender)):
                return True
        except BusyRetry:
            return False

    assert [await knock("group", "ann") for _ in range(3)] == [True, True, False]
    assert not await knock("another group", "ann"), "a sender is the same in every conversation"
    assert [await knock("group", "bob") for _ in range(3)] == [True, True, False]
    assert not await knock("group", "cid"), "a conversation is the same for every sender"
    clock.advance(seconds=61)
    assert await knock("group", "ann")


def test_a_limit_says_when_to_come_again_and_many_names_free_nobody() -> None:
    clock = FakeClock()
    limit = RateLimit(clock, 1)
    assert limit.take("ann")
    clock.advance(seconds=20)
    assert not limit.take("ann")
    assert limit.wait("ann") == pytest.approx(40)
    for number in range(10_100):
        limit.take(f"name {number}")
    assert not limit.take("ann")
    clock.advance(seconds=61)
    assert limit.take("ann")
    assert Counter(limit._seen)["name 5"] == 0


async def test_a_model_is_asked_so_often_in_a_minute_for_one_conversation(tmp_path: Path) -> None:
    limit, proxy = RateLimit(FakeClock(), 2), FakeProxy(say_hello)
    agents = Agents(proxy=LimitedProxy(proxy, limit, "conversation"))
    async with open_house(tmp_path, agents) as house:
        answers = [
            (await house.answer_to(await house.say(f"{number}"))).content for number in range(3)
        ]
        assert answers[:2] == ["hello", "hello"]
        assert "Say it again in" in answers[2]
        other = await house.say("hello?", connection="guest", signed=False)
        assert (await house.answer_to(other)).content == "hello"
        assert len(proxy.turns) == 3
        assert len(await house.audited("agent_fallback")) == 1


async def test_planner_and_researcher_share_the_limit() -> None:
    limit = RateLimit(FakeClock(), 0)
    turn = AgentTurn.model_validate(
        {
            "scope_id": "owner",
            "trace_id": "t",
            "request": "plan",
            "taint": "owner",
            "max_tokens": 1,
            "max_cost_usd": 0,
        }
    )
    nobody: object = None
    planner = LimitedPlanner(nobody, limit)  # type: ignore[arg-type]
    looker = LimitedResearcher(nobody, limit)  # type: ignore[arg-type]
    planned = await planner.plan(turn, nobody, final=True)  # type: ignore[arg-type]
    assert planned.output.plan_action is None
    assert (await planner.advise(turn)).output == ""
    found = await looker.research(turn, nobody, return_format="text")  # type: ignore[arg-type]
    assert not found.output.ok
