"""The contract of a message: what is refused, by name; and what comes back as it was sent."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.kernel import IdFactory, TaintLevel, join_taint
from silas.queue import ORDERED, ROUTES, NoRoute, QueueName, follow, route
from silas.queue.models import (
    PAYLOADS,
    Agent,
    ErrorCode,
    ErrorPayload,
    ExecutionStatus,
    MessageKind,
    QueueMessage,
    StatusPayload,
    Urgency,
)
from silas.queue.table import DamagedMessage, envelope_of, read_message
from silas.testing import FakeClock
from tests.queue.messages import A_PLAN, FROM_TERMINAL, WHEN, message, plan_request, said

ERROR = ErrorPayload(
    error_code=ErrorCode.TIMEOUT,
    retryable=True,
    origin_agent=Agent.PLANNER,
    attempt_number=2,
    detail="It took too long.",
)
HEADERS = {
    "error_code": ErrorCode.TIMEOUT,
    "retryable": True,
    "origin_agent": Agent.PLANNER,
    "attempt_number": 2,
}
FAILED = {
    "sender": Agent.PLANNER,
    "message_kind": MessageKind.PLAN_RESULT,
    "payload": ERROR,
    **HEADERS,
}
STATUS = {
    "sender": Agent.RUNTIME,
    "message_kind": MessageKind.EXECUTION_STATUS,
    "payload": StatusPayload(status=ExecutionStatus.DONE),
}

INVALID: dict[str, dict[str, Any]] = {
    "no id": {"message_id": ""},
    "an id without end": {"message_id": "x" * 201},
    "no trace": {"trace_id": ""},
    "no scope": {"scope_id": ""},
    "an unknown sender": {"sender": "stranger"},
    "an unknown kind": {"message_kind": "conjuring"},
    "a kind that is no text": {"message_kind": [], "payload": {}},
    "an unknown taint": {"taint": "clean"},
    "an unknown urgency": {"urgency": "now"},
    "content without end": {"content": "x" * 1_000_001},
    "a plan without end": {"plan_markdown": "x" * 1_000_001},
    "a moment without time zone": {"created_at": WHEN.replace(tzinfo=None)},
    "a field that nobody knows": {"approval_token": "tok_1"},
    "a work item inside": {"work_item": {"id": "wi_1"}},
    "no payload": {"payload": None},
    "another kind's payload": {"payload": A_PLAN},
    "a payload with too much": {"payload": {**FROM_TERMINAL.model_dump(), "more": 1}},
    "a payload with too little": {"payload": {"channel": "terminal"}},
    "an error in the headers alone": {"error_code": ErrorCode.TIMEOUT},
    "an error without headers": {**FAILED, "error_code": None},
    "an error whose headers say something else": {**FAILED, "retryable": False},
    "an error from somebody else": {**FAILED, "origin_agent": Agent.EXECUTOR},
    "an error of another attempt": {**FAILED, "attempt_number": 1},
    "a status that is an error": {**STATUS, "payload": ERROR, **HEADERS},
    "a status without status": {**STATUS, "payload": {"detail": "x"}},
    "an endless cost": {
        **STATUS,
        "payload": {"status": "done", "budget_remaining_usd": float("inf")},
    },
}


@pytest.mark.parametrize("fields", INVALID.values(), ids=INVALID.keys())
def test_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        QueueMessage(**(said() | fields))


@pytest.mark.parametrize("missing", ["taint", "created_at", "trace_id", "payload", "scope_id"])
def test_nothing_that_matters_has_a_default(missing: str) -> None:
    fields = said()
    del fields[missing]
    with pytest.raises(ValidationError, match=missing):
        QueueMessage(**fields)


def test_every_kind_has_a_payload_and_a_way() -> None:
    assert set(PAYLOADS) == set(MessageKind)
    assert {kind for _, kind in ROUTES} == set(MessageKind)


def test_the_table_of_routes() -> None:
    written = {
        ("user", "user_message"): "proxy_queue",
        ("proxy", "plan_request"): "planner_queue",
        ("planner", "plan_result"): "proxy_queue",
        ("planner", "research_request"): "executor_queue",
        ("executor", "research_result"): "planner_queue",
        ("runtime", "execution_status"): "proxy_queue",
        ("runtime", "consult_planner"): "planner_queue",
        ("planner", "planner_guidance"): "runtime_queue",
        ("runtime", "replan_request"): "planner_queue",
    }
    assert {pair: ROUTES[pair] for pair in written} == written
    assert frozenset({"proxy_queue", "channel_queue", "companion_queue"}) == ORDERED


@pytest.mark.parametrize("sender", Agent)
@pytest.mark.parametrize("kind", MessageKind)
def test_what_is_not_in_the_table_goes_nowhere(sender: Agent, kind: MessageKind) -> None:
    sent = QueueMessage.model_construct(
        **{**dict(message()), "sender": sender, "message_kind": kind}
    )
    if (sender, kind) in ROUTES:
        assert route(sent) is ROUTES[sender, kind]
    else:
        with pytest.raises(NoRoute):
            route(sent)


def test_an_error_travels_like_its_kind() -> None:
    assert route(message(**FAILED)) is QueueName.PROXY


@given(
    content=st.text(max_size=50),
    urgency=st.sampled_from(Urgency),
    taint=st.sampled_from(TaintLevel),
    artifacts=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    task=st.none() | st.text(max_size=5),
)
def test_what_is_sent_is_read_again_unchanged(
    content: str, urgency: Urgency, taint: TaintLevel, artifacts: dict[str, str], task: str | None
) -> None:
    sent = message(content=content, urgency=urgency, taint=taint, artifacts=artifacts, task_id=task)
    envelope = envelope_of(sent)
    assert envelope.message == sent
    assert read_message("msg_1", "proxy_queue", envelope.body) == sent


@given(st.binary(max_size=40) | st.text(max_size=40) | st.integers() | st.none())
def test_no_text_whatever_is_read_as_anything_but_a_message(stored: Any) -> None:
    with pytest.raises(DamagedMessage):
        read_message("msg_1", "proxy_queue", stored)


@given(st.sampled_from(TaintLevel), st.none() | st.sampled_from(TaintLevel))
def test_what_follows_keeps_trace_and_scope_and_never_loses_taint(
    before: TaintLevel, seen: TaintLevel | None
) -> None:
    clock = FakeClock()
    first = message(taint=before, trace_id="trace_7", task_id="wi_1")
    second = follow(
        first,
        sender=Agent.PROXY,
        kind=MessageKind.PLAN_REQUEST,
        content="plan it",
        payload=A_PLAN,
        ids=IdFactory(clock),
        clock=clock,
        taint=seen,
        urgency=Urgency.BACKGROUND,
    )
    assert (second.trace_id, second.scope_id, second.task_id) == ("trace_7", "scope_1", "wi_1")
    assert second.taint is join_taint(before, seen or before)
    assert second.urgency is Urgency.BACKGROUND
    assert second.message_id != first.message_id


def test_moments_are_kept_in_utc() -> None:
    later = datetime.fromisoformat("2026-01-01T14:00:00+02:00")
    assert plan_request(created_at=later).created_at == WHEN
