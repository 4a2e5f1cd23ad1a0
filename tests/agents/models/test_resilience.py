"""The breaker and the waits, by their laws."""

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ModelQuotaExceededError
from pydantic_ai.models.function import FunctionModel

from silas.agents.models.choices import Patience
from silas.agents.models.resilience import (
    CircuitBreaker,
    CircuitOpen,
    ResilientModel,
    may_pass,
    speaks_of_health,
)
from silas.testing.fakes import FakeClock


def breaker(clock: FakeClock, *, failures: int = 3) -> CircuitBreaker:
    return CircuitBreaker(failures=failures, rest_seconds=60, clock=clock)


def test_it_opens_at_the_limit_and_lets_one_try_after_the_rest() -> None:
    clock = FakeClock()
    guard = breaker(clock)
    for _ in range(3):
        assert guard.admit()
        guard.failed()
    assert (guard.state, guard.admit()) == ("open", False)
    clock.advance(seconds=59.9)
    assert not guard.admit()
    clock.advance(seconds=0.1)
    assert guard.state == "half-open"
    assert guard.admit()
    assert not guard.admit(), "only one may try"


def test_a_failed_trial_opens_it_again_for_a_whole_rest() -> None:
    clock = FakeClock()
    guard = breaker(clock, failures=1)
    guard.failed()
    clock.advance(seconds=60)
    assert guard.admit()
    guard.failed()
    clock.advance(seconds=59)
    assert not guard.admit()
    clock.advance(seconds=1)
    assert guard.admit()


def test_a_trial_that_was_cancelled_leaves_room_for_the_next() -> None:
    clock = FakeClock()
    guard = breaker(clock, failures=1)
    guard.failed()
    clock.advance(seconds=60)
    assert guard.admit()
    guard.released()
    assert guard.admit()


def test_a_success_makes_it_as_new() -> None:
    guard = breaker(FakeClock())
    guard.failed()
    guard.failed()
    guard.succeeded()
    guard.failed()
    guard.failed()
    assert guard.state == "closed"


@given(st.lists(st.sampled_from(["ok", "bad", "wait"]), max_size=60), st.integers(1, 5))
def test_it_never_refuses_before_the_limit_and_always_tries_again(
    events: list[str], limit: int
) -> None:
    clock = FakeClock()
    guard = breaker(clock, failures=limit)
    in_a_row = 0
    for event in events:
        if event == "wait":
            clock.advance(seconds=60)
            continue
        admitted = guard.admit()
        assert admitted or in_a_row >= limit
        if not admitted:
            continue
        if event == "ok":
            guard.succeeded()
            in_a_row = 0
        else:
            guard.failed()
            in_a_row += 1
    clock.advance(seconds=60)
    assert guard.admit()


def test_what_may_pass_and_what_counts() -> None:
    def http(status: int, **headers: str) -> ModelHTTPError:
        return ModelHTTPError(status, "m", headers=headers)

    assert may_pass(http(408))
    assert may_pass(http(400, **{"x-should-retry": "true"}))
    assert not may_pass(http(408, **{"x-should-retry": "false"}))
    assert not may_pass(CircuitOpen("m", "open"))
    assert may_pass(ModelAPIError("m", "cut off"))
    assert not speaks_of_health(ModelQuotaExceededError("m", "no credit"))


@given(st.integers(0, 20), st.floats(0, 1), st.floats(0, 1e6) | st.none())
def test_no_wait_is_longer_than_patience(
    attempt: int, jitter: float, retry_after: float | None
) -> None:
    model = ResilientModel(
        FunctionModel(lambda *_: None),
        patience=Patience(longest_wait_seconds=30),
        breaker=breaker(FakeClock()),
        sleep=lambda _: None,
        jitter=lambda: jitter,
    )
    error = ModelAPIError("m", "busy", retry_after=retry_after)
    wait = model._wait(error, attempt)
    if retry_after is not None and retry_after > 30:
        assert wait is None
    else:
        assert wait is not None
        assert 0 <= wait <= 30
        assert retry_after is None or wait == retry_after
