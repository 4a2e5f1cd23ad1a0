"""The planner's research: the state machine's laws, and that it survives."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import TaintLevel
from silas.queue.models import Agent, MessageKind, PlanRequest, QueueMessage
from silas.storage import SqliteDatabase
from silas.stream.errors import ConversationMoved
from silas.stream.models import Usage
from silas.stream.ports import Finding
from silas.stream.research import (
    TOO_LATE,
    ResearchLimits,
    ResearchQuestion,
    ResearchState,
    ResearchStatus,
    ResearchStore,
    Result,
    asked,
    begin,
    digest_of,
    goes_on,
    received,
    refusal,
)
from silas.testing import FakeClock

LIMITS = ResearchLimits()
START = FakeClock().now()
DEADLINE = START + timedelta(seconds=LIMITS.seconds)


def request(**more: Any) -> QueueMessage:
    fields = {
        "message_id": "req",
        "trace_id": "t",
        "content": "Plan it.",
        "sender": Agent.PROXY,
        "message_kind": MessageKind.PLAN_REQUEST,
        "scope_id": "owner",
        "taint": TaintLevel.OWNER,
        "created_at": START,
        "payload": PlanRequest(
            connection_id="owner", interaction_register="execution", interaction_mode=""
        ),
    }
    return QueueMessage(**{**fields, **more})


def question(name: str, number: int = 1) -> ResearchQuestion:
    return ResearchQuestion(
        research_id=name,
        question=f"What about {name}?",
        digest=digest_of(f"What about {name}?"),
        round=number,
        deadline=DEADLINE,
    )


def result(name: str, *, seconds: float = 1, **more: Any) -> Result:
    finding = Finding(question="", answer=f"about {name}", ok=True, sources=[])
    fields: dict[str, Any] = {"finding": finding, "taint": TaintLevel.OWNER}
    return Result(research_id=name, at=START + timedelta(seconds=seconds), **{**fields, **more})


def waiting(*names: str) -> ResearchState:
    return asked(begin(request()), [question(name) for name in names])


def test_a_round_closes_when_the_last_answer_is_there() -> None:
    state = waiting("a", "b")
    assert state.status is ResearchStatus.AWAITING
    state = received(state, result("a"), LIMITS)
    assert state.status is ResearchStatus.AWAITING
    assert not goes_on(state, "a")
    state = received(state, result("b"), LIMITS)
    assert state.status is ResearchStatus.PLANNING
    assert goes_on(state, "b")
    assert not goes_on(state, "a"), "only the message that closed the round goes on"
    assert [each.answer for each in state.findings] == ["about a", "about b"]
    assert state.findings[0].question == "What about a?"


def test_doubled_late_and_uninvited_answers_change_nothing() -> None:
    state = received(waiting("a", "b"), result("a"), LIMITS)
    assert received(state, result("a", taint=TaintLevel.EXTERNAL), LIMITS) == state
    assert received(state, result("x"), LIMITS) == state
    closed = received(state, result("b"), LIMITS)
    assert received(closed, result("b"), LIMITS) == closed


def test_a_late_answer_counts_as_none_and_does_not_taint() -> None:
    late = result("a", seconds=LIMITS.seconds, taint=TaintLevel.EXTERNAL)
    state = received(waiting("a"), late, LIMITS)
    assert state.status is ResearchStatus.EXPIRED
    assert state.must_finish
    assert [each.answer for each in state.findings] == [TOO_LATE]
    assert state.taint is TaintLevel.OWNER


def test_one_answer_in_time_is_enough_to_go_on() -> None:
    state = received(waiting("a", "b"), result("a"), LIMITS)
    state = received(state, result("b", seconds=1000), LIMITS)
    assert state.status is ResearchStatus.PLANNING


def test_after_the_last_round_the_planner_must_finish() -> None:
    state = begin(request())
    for number in range(1, LIMITS.rounds + 1):
        assert refusal(state, "another?", more=0, limits=LIMITS) == ""
        state = asked(state, [question(f"q{number}", number)])
        state = received(state, result(f"q{number}"), LIMITS)
    assert state.status is ResearchStatus.READY
    assert "no more research" in refusal(state, "another?", more=0, limits=LIMITS)


def test_a_used_up_budget_ends_the_research() -> None:
    costly = result("a", usage=Usage(tokens=LIMITS.max_tokens))
    assert received(waiting("a"), costly, LIMITS).status is ResearchStatus.READY


def test_questions_are_few_and_asked_once() -> None:
    state = waiting("a")
    assert "asked before" in refusal(state, "  what ABOUT a? ", more=0, limits=LIMITS)
    assert "At most 3" in refusal(state, "new?", more=3, limits=LIMITS)
    assert refusal(state, "new?", more=2, limits=LIMITS) == ""


def test_what_was_found_taints_the_plan() -> None:
    state = received(waiting("a"), result("a", taint=TaintLevel.EXTERNAL), LIMITS)
    assert state.taint is TaintLevel.EXTERNAL


EVENTS = st.lists(
    st.tuples(st.sampled_from("abcdex"), st.floats(0, 240), st.sampled_from(list(TaintLevel))),
    max_size=30,
)


@given(EVENTS)
def test_whatever_comes_the_limits_hold(events: list[tuple[str, float, TaintLevel]]) -> None:
    state = waiting("a", "b", "c")
    for name, seconds, taint in sorted(events, key=lambda each: each[1]):
        before = state
        state = received(state, result(name, seconds=seconds, taint=taint), LIMITS)
        assert len(state.outstanding) <= len(before.outstanding) <= LIMITS.in_flight
        assert (state.status is ResearchStatus.AWAITING) == bool(state.outstanding)
        assert len(state.findings) + len(state.outstanding) == len(state.questions)
        if state.status is not ResearchStatus.AWAITING and not state.must_finish:
            number = state.round + 1
            if number <= LIMITS.rounds:
                state = asked(state, [question(f"{each}{number}", number) for each in "de"])
    assert state.round <= LIMITS.rounds


async def test_the_state_survives_and_versions_do_not_cross(database: SqliteDatabase) -> None:
    store = ResearchStore(database)
    state = waiting("a", "b")
    await database.transaction(lambda tx: store.save_in(tx, state, version=0))
    assert await ResearchStore(database).get("req") == (state, 1)
    with pytest.raises(ConversationMoved):
        await database.transaction(lambda tx: store.save_in(tx, state, version=7))
    found = await store.record("req", result("a"), LIMITS)
    assert found is not None
    assert found[1] == 2
    again = await store.record("req", result("a"), LIMITS)
    assert again == found, "the same result, again, is the same"
    closed = await store.record("req", result("b"), LIMITS)
    assert closed is not None
    assert goes_on(closed[0], "b")
    assert await store.overdue(DEADLINE) == []
    await database.transaction(lambda tx: store.remove_in(tx, "req", version=closed[1]))
    assert await store.record("req", result("b"), LIMITS) is None, "what comes now is late"


async def test_what_is_overdue_is_found(database: SqliteDatabase) -> None:
    store = ResearchStore(database)
    await database.transaction(lambda tx: store.save_in(tx, waiting("a", "b"), version=0))
    assert await store.overdue(DEADLINE - timedelta(seconds=1)) == []
    (found,) = await store.overdue(DEADLINE)
    assert [each.research_id for each in found.outstanding] == ["a", "b"]
