"""Exact counts: one request a turn, and estimates whenever there is no answer."""

from silas.context.models import ContextZone
from silas.context.scope import CountingLimits, CountingServer, SettlingCounter
from silas.kernel import SilasError
from silas.testing import FakeClock
from silas.testing.fakes import FakeTokenCounter
from tests.context.making import item, manager


class Words:
    """`ExactTokens` that counts letters, and can be broken."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.broken = False

    async def count(self, text: str) -> int:
        self.asked.append(text)
        if self.broken:
            raise SilasError("Nobody is there.")
        return len(text)


async def test_a_turn_is_counted_in_one_request_and_its_sum_is_exact() -> None:
    words = Words()
    context = manager(exact=words)
    for number in range(5):
        context.add("ann", item(f"m{number}", f"word number {number}"))
    assert words.asked == [], "nothing waits for a server when something is said"
    await context.enforce_budget("ann", 1)
    text = await context.render("ann", 1)
    assert words.asked == [text]
    exact = context.token_usage("ann")["chronicle"]
    assert len(text) <= exact <= len(text) + 5
    await context.enforce_budget("ann", 2)
    assert len(words.asked) == 1, "what is known is not asked again"
    context.add("ann", item("m9", "one more"))
    await context.enforce_budget("ann", 3)
    assert [asked.count("--- end ---") for asked in words.asked] == [5, 1]


async def test_the_same_text_is_counted_once_for_all_scopes() -> None:
    words = Words()
    server = CountingServer(words, clock=FakeClock())
    first, second = (SettlingCounter(server, estimate=FakeTokenCounter()) for _ in range(2))
    first.count("some words")
    assert await first.settle() == {"some words": 10}
    assert second.count("some words") == 10
    assert await second.settle() == {}


async def test_without_an_answer_the_estimate_stands_and_soon_nobody_asks() -> None:
    words, clock = Words(), FakeClock()
    words.broken = True
    limits = CountingLimits(failures=2, cool_down_seconds=60)
    server = CountingServer(words, clock=clock, limits=limits)
    counter = SettlingCounter(server, estimate=FakeTokenCounter())
    for number in range(5):
        counter.count(f"text {number}")
        assert await counter.settle() == {}
    assert len(words.asked) == 2
    words.broken = False
    clock.advance(seconds=61)
    counter.count("later")
    assert await counter.settle() == {"later": 5}


async def test_a_broken_server_does_not_stop_a_turn() -> None:
    words = Words()
    words.broken = True
    context = manager(exact=words)
    context.add("ann", item("m", "some words"))
    before = context.token_usage("ann")
    await context.enforce_budget("ann", 1)
    assert context.token_usage("ann") == before
    assert len(context.get_zone("ann", ContextZone.CHRONICLE)) == 1
