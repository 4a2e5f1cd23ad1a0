"""Ids: text order is the order of creation, whatever the clock does."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import IdFactory
from silas.testing import FakeClock

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decode(identifier: str) -> int:
    number = 0
    for char in identifier.partition("_")[2]:
        number = number * 32 + ALPHABET.index(char)
    return number


def factory_with(clock: FakeClock, *randoms: int) -> IdFactory:
    supply = iter(randoms)
    return IdFactory(clock, entropy=lambda size: next(supply).to_bytes(size))


def test_the_layout_is_milliseconds_then_randomness() -> None:
    clock = FakeClock(datetime(2026, 1, 1, 12, 0, 0, 7999, tzinfo=UTC))
    identifier = factory_with(clock, 0xABCDEF).new("tok")
    assert identifier.startswith("tok_")
    assert len(identifier) == len("tok_") + 26
    milliseconds = (clock.now() - EPOCH) // timedelta(milliseconds=1)
    assert decode(identifier) == (milliseconds << 80) | 0xABCDEF


def test_a_known_id() -> None:
    """The time is the example of the ULID specification, whose ids begin with 01ARYZ6S41."""
    clock = FakeClock(EPOCH + timedelta(milliseconds=1469918176385))
    assert factory_with(clock, 2**80 - 1).new("x") == "x_01aryz6s41zzzzzzzzzzzzzzzz"


def test_entropy_is_asked_for_ten_bytes() -> None:
    sizes: list[int] = []

    def entropy(size: int) -> bytes:
        sizes.append(size)
        return bytes(size)

    IdFactory(FakeClock(), entropy=entropy).new("x")
    assert sizes == [10]


def test_within_one_millisecond_ids_count_up_from_the_first() -> None:
    factory = factory_with(FakeClock(), 5, 900, 0)
    first, second, third = (decode(factory.new("x")) for _ in range(3))
    assert (second, third) == (first + 1, first + 2)


def test_the_next_millisecond_takes_fresh_randomness() -> None:
    clock = FakeClock()
    factory = factory_with(clock, 2**80 - 1, 3)
    first = decode(factory.new("x"))
    clock.advance(milliseconds=1)
    assert decode(factory.new("x")) == ((first >> 80) + 1 << 80) | 3


def test_a_full_millisecond_runs_over_into_the_next() -> None:
    clock = FakeClock()
    factory = factory_with(clock, 2**80 - 1, 0, 0)
    first, second = decode(factory.new("x")), decode(factory.new("x"))
    clock.advance(milliseconds=1)
    assert second == first + 1
    assert decode(factory.new("x")) == second + 1


def test_a_clock_set_back_counts_up_from_the_last_id() -> None:
    clock = FakeClock()
    factory = factory_with(clock, 8, 9)
    first = decode(factory.new("x"))
    clock.advance(days=-365)
    assert decode(factory.new("x")) == first + 1


@pytest.mark.parametrize("moment", [EPOCH, EPOCH - timedelta(days=1)])
def test_at_and_before_the_epoch(moment: datetime) -> None:
    factory = factory_with(FakeClock(moment), 0, 0)
    assert factory.new("x") == "x_" + "0" * 26
    assert factory.new("x") == "x_" + "0" * 25 + "1"


@given(st.lists(st.tuples(st.integers(-5000, 5000), st.integers(0, 2**80 - 1)), min_size=2))
def test_ids_strictly_increase_whatever_the_clock_does(steps: list[tuple[int, int]]) -> None:
    clock = FakeClock()
    factory = factory_with(clock, *(random for _, random in steps))
    made = []
    for milliseconds, _ in steps:
        clock.advance(milliseconds=milliseconds)
        made.append(factory.new("x"))
    assert made == sorted(set(made))


def test_threads_share_a_factory() -> None:
    factory = IdFactory(FakeClock())
    with ThreadPoolExecutor(8) as threads:
        batches = list(threads.map(lambda _: [factory.new("x") for _ in range(500)], range(8)))
    assert all(batch == sorted(batch) for batch in batches)
    assert len({identifier for batch in batches for identifier in batch}) == 8 * 500


def test_two_factories_differ() -> None:
    clock = FakeClock()
    assert IdFactory(clock).new("x") != IdFactory(clock).new("x")
