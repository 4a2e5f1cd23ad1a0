"""How deciding goes, from the audit log alone; cues that block nothing."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from silas.app.agents import Agents
from silas.kernel import format_timestamp
from silas.review.decision_log import answered_entry, decisions
from silas.stream.cadence import CadenceWatch, cadence_of, is_crowded
from silas.stream.metrics import Metric, Signal, ux_metrics
from silas.testing import FakeClock
from silas.testing.stream import FakeProxy
from tests.stream.house import open_house, writing
from tests.stream.test_flows import always_plan, planning


class Log:
    """An audit log that a test writes."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.entries: list[Any] = []
        self.read: list[int] = []
        """How many entries each search had to look at."""

    async def log(self, event: str, /, **data: Any) -> str:
        at = format_timestamp(self.clock.now())
        seq = len(self.entries) + 1
        self.entries.append(SimpleNamespace(seq=seq, at=at, event=event, data=data))
        return ""

    async def tail(
        self, count: int, *, event: str = "*", since: Any = None, after: int = 0
    ) -> list[Any]:
        prefix, begin = event.rstrip("*"), format_timestamp(since) if since else ""
        here = [e for e in self.entries if e.seq > after]
        if event != "*":
            self.read.append(len(here))
        fitting = [e for e in here if e.event.startswith(prefix) and e.at >= begin]
        return fitting[-count:]

    async def ask(self, name: str, risk: str = "medium") -> None:
        await self.log("card_asked", card_id=name, risk=risk)

    async def decide(self, name: str, seconds: float, verdict: str = "approved") -> None:
        self.clock.advance(seconds=seconds)
        await self.log("card_decided", card_id=name, verdict=verdict)

    def named(self, name: str, days: float = 30) -> Metric:
        return {metric.name: metric for metric in ux_metrics(self.entries, days=days)}[name]


async def test_a_decision_begins_when_the_one_before_it_was_made() -> None:
    log = Log()
    for name in ("a", "b", "c"):
        await log.ask(name)
    await log.decide("a", 10)
    await log.decide("b", 4)
    await log.log("card_expired", card_id="c")
    await log.decide("c", 1, "declined")
    await log.decide("never asked", 1)
    assert [(each.seconds, each.verdict) for each in decisions(log.entries)] == [
        (10, "approved"),
        (4, "approved"),
    ]


async def test_the_figures_and_what_they_say() -> None:
    log = Log()
    for number in range(10):
        await log.ask(f"m{number}")
        verdict = "declined" if number == 0 else "edit_requested" if number == 1 else "approved"
        await log.decide(f"m{number}", 8, verdict)
    for number in range(4):
        await log.ask(f"l{number}", "low")
        await log.decide(f"l{number}", 40)
    for number in range(10):
        await log.log("work_done", work_item_id=f"task_{number}")
    await log.log("work_done", work_item_id="undo_1")
    await log.log("turn_routed")
    medium, low = log.named("decision_seconds_medium"), log.named("decision_seconds_low")
    assert (medium.value, medium.samples, medium.signal) == (8, 10, Signal.GOOD)
    assert (low.value, low.signal, low.means) == (40, Signal.HIGH, "confusion")
    assert log.named("decline_rate").value == 7.14
    assert log.named("correction_rate").value == 21.43
    assert log.named("undo_rate").signal is Signal.HIGH, "10 % are too much already"
    assert log.named("free_text_rate").value == 6.67
    assert log.named("taps_per_batch").signal is Signal.UNKNOWN
    assert log.named("fatigue_triggers").signal is Signal.GOOD


async def test_batches_of_items_count_like_every_other_decision() -> None:
    log = Log()
    for number in range(8):
        await log.log("items_decided", verdict="approve", batch=f"b{number}", taps=1)
        await log.log("items_done", batch=f"b{number}", done=10)
    await log.log("items_decided", verdict="edit_selection", batch="c", taps=4)
    await log.log("items_decided", verdict="approve", batch="c.some", chosen_from="c", taps=1)
    await log.log("items_decided", verdict="decline", batch="d", taps=1)
    for number in range(4):
        await log.log("call_undone", work_item_id="b1", call=number)
    assert log.named("decline_rate").value == 9.09, "one of eleven answers"
    assert log.named("undo_rate").value == 5.0, "four items of eighty"
    taps = log.named("taps_per_batch")
    assert (taps.value, taps.samples) == (1.0, 9)


async def test_only_yes_is_rubber_stamping_and_only_no_are_bad_proposals() -> None:
    for verdict, means in (("approved", "rubber-stamping"), ("declined", "bad proposals")):
        log = Log()
        for number in range(60):
            await log.ask(f"{number}")
            await log.decide(f"{number}", 6, verdict)
        assert log.named("decline_rate").means == means


async def test_of_a_few_decisions_no_share_is_judged() -> None:
    log = Log()
    await log.ask("only")
    await log.decide("only", 6)
    rate = log.named("decline_rate")
    assert (rate.value, rate.signal, rate.means) == (0, Signal.UNKNOWN, "")


async def test_deciding_too_fast_is_noticed_once_and_blocks_nothing() -> None:
    log = Log()
    watch = CadenceWatch(log, log.clock)
    for number in range(4):
        await log.ask(f"{number}")
        await log.decide(f"{number}", 0.4)
        assert not (await watch.note()).hasty, "too few to say anything"
    for number in range(4, 8):
        await log.ask(f"{number}")
        await log.decide(f"{number}", 0.4)
        assert (await watch.note()).hasty
    assert [each.event for each in log.entries].count("approval_fatigue") == 1
    assert log.named("fatigue_triggers", days=7).signal is Signal.HIGH
    for number in range(8, 18):
        await log.ask(f"{number}")
        await log.decide(f"{number}", 6)
    assert not (await watch.now()).hasty


async def test_after_a_busy_day_only_what_is_new_is_read() -> None:
    log = Log()
    watch = CadenceWatch(log, log.clock)
    for number in range(5):
        await log.ask(f"{number}")
        await log.decide(f"{number}", 0.4)
        for _ in range(100):
            await log.log("turn_routed")
    assert (await watch.now()).samples == 5
    await log.ask("next")
    await log.decide("next", 0.4)
    assert (await watch.now()).samples == 6
    assert (await watch.now()).samples == 6
    assert log.read == [510, 2]
    log.clock.advance(days=2)
    assert (await watch.now()).samples == 0, "what is older than a day has no part in it"


async def test_a_decision_is_followed_before_anybody_looks_how_fast_it_was(tmp_path: Path) -> None:
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(writing("a.txt")))
    async with open_house(tmp_path, agents) as house:
        released = asyncio.Event()
        tail = house.core.audit.tail

        async def slow(count: int, **more: Any) -> Any:
            if more.get("event") == "card_*":
                await released.wait()
            return await tail(count, **more)

        house.core.audit.tail = slow  # type: ignore[method-assign]
        await house.say("make a file")
        card = await house.card()
        await house.reviews.decide(card)
        async with asyncio.timeout(120):
            await house.until(lambda: house.containing("Done, and checked."))
        released.set()


async def test_fast_decisions_of_low_risk_are_no_sign() -> None:
    log = Log()
    for number in range(20):
        await log.ask(f"{number}", "low")
        await log.decide(f"{number}", 0.1)
    assert cadence_of(list(decisions(log.entries))).median_seconds is None


def test_more_than_five_risky_decisions_are_a_crowd() -> None:
    assert not is_crowded(["medium"] * 5 + ["low"] * 20)
    assert is_crowded(["medium"] * 5 + ["irreversible"])


async def test_a_card_leaves_its_trace_with_the_turn_that_asks(tmp_path: Path) -> None:
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(writing("a.txt")))
    async with open_house(tmp_path, agents) as house:
        await house.say("make a file")
        card = await house.card()
        await house.idle()
        (asked,) = await house.audited("card_asked")
        assert card.card_id in asked
        assert '"risk":"medium"' in asked
        await house.reviews.decide(card)
        await house.until(lambda: house.containing("approved. I am starting."))


async def test_questions_and_calls_are_decisions_too() -> None:
    """Low risk has samples, and what is ticked through too fast is seen, whatever it is about."""
    log = Log()
    for number in range(6):
        asked = log.clock.now()
        log.clock.advance(seconds=3)
        entry = answered_entry(f"q{number}", verdict="again", risk="low", asked_at=asked)
        await log.log(entry[0], **entry[1])
    low = log.named("decision_seconds_low")
    assert (low.value, low.samples) == (3, 6)
    assert log.named("decline_rate").samples == 0, "an answer is not a verdict about a plan"
    watch = CadenceWatch(log, log.clock)
    assert (await watch.now()).samples == 0
    for number in range(6):
        asked = log.clock.now()
        log.clock.advance(seconds=0.2)
        entry = answered_entry(f"c{number}", verdict="approved", risk="high", asked_at=asked)
        await log.log(entry[0], **entry[1])
    assert (await watch.now()).hasty
