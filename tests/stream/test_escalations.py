"""Executed work that does not succeed: escalations are followed, and the bus says why."""

from pathlib import Path
from typing import Any

import pytest

from silas.app.agents import Agents
from silas.kernel import TaintLevel
from silas.queue.dead_letters import LEASE_RAN_OUT
from silas.queue.models import (
    Agent,
    AgentReply,
    ErrorCode,
    ErrorPayload,
    ExecutionRequest,
    MessageKind,
    QueueMessage,
    StatusPayload,
)
from silas.stream.loops.runtime import on_dead_letter
from silas.testing import FakeClock
from silas.testing.stream import FakeProxy
from tests.stream.house import FAILING, House, open_house, plan
from tests.stream.test_flows import always_plan, planning

STUCK = f"on_stuck: help\nbudget: {{max_attempts: 1}}\n{FAILING}\n"
GATE = (
    "gates:\n  - {name: no-shell, on: on_tool_call, type: string_match, extract: tool_name,\n"
    "     allowed_values: [nothing], on_block: help}\n"
)
GATE_AFTER = GATE.replace("on_tool_call", "after_step, after_step: 0")


def escalating(action: str, more: str = STUCK) -> str:
    """A plan that cannot succeed, and says what happens then."""
    return plan("```run\ntrue\n```", more=f"{more}escalation:\n  help: {action}")


async def executed(house: House) -> None:
    await house.say("Do it")
    await house.reviews.decide(await house.card())
    await house.until(lambda: house.containing("`silas work show hello` shows everything"))
    await house.idle()


def agents(text: str) -> Agents:
    return Agents(proxy=FakeProxy(always_plan), planner=planning(text))


@pytest.mark.parametrize("more", [STUCK, f"{GATE}{FAILING}\nbudget: {{max_attempts: 1}}\n"])
async def test_a_message_is_sent_to_whoever_asked(tmp_path: Path, more: str) -> None:
    """By `on_stuck` of the plan, and by `on_block` of a gate that stopped a call."""
    text = escalating("{action: respond, message: Ask Maria about it.}", more)
    if more is not STUCK:
        text = text.replace("budget:", "on_stuck: report\nbudget:", 1)
    async with open_house(tmp_path, agents(text)) as house:
        await executed(house)
        (told,) = house.containing("Ask Maria about it.")
        assert isinstance(told.payload, AgentReply)
        assert told.payload.connection_id == "owner"
        assert await house.audited("gate_escalated")


async def test_a_repair_comes_on_a_card(tmp_path: Path) -> None:
    async with open_house(tmp_path, agents(escalating("{action: spawn_task}"))) as house:
        await executed(house)
        (card,) = await house.reviews.waiting()
        assert card.items[0].title == "Fix: Say hello"
        assert "never" in card.items[0].body


async def test_it_is_executed_again(tmp_path: Path) -> None:
    """A gate that blocks after a step, with `retry`: as often as the plan says."""
    gate = (
        "gates:\n  - {name: ready, on: after_step, after_step: 0, type: string_match,\n"
        "     extract: response, allowed_values: [never], on_block: help}\n"
        "budget: {max_attempts: 5}\non_stuck: report\n"
    )
    text = escalating("{action: retry, max_retries: 2}", gate)
    async with open_house(tmp_path, agents(text)) as house:
        await executed(house)
        assert len(await house.stream.work.context.attempts.list_of("hello")) == 3


@pytest.mark.parametrize(
    ("text", "code", "retryable"),
    [
        (escalating("{action: report}"), ErrorCode.BUDGET_EXCEEDED, False),
        (
            escalating(
                "{action: report}", GATE.replace("on_tool_call", "after_step, after_step: 0")
            ),
            ErrorCode.GATE_BLOCKED,
            False,
        ),
    ],
)
async def test_a_status_says_what_is_wrong_in_its_headers(
    tmp_path: Path, text: str, code: ErrorCode, retryable: bool
) -> None:
    sent: list[QueueMessage] = []
    async with open_house(tmp_path, agents(text)) as house:
        proxy = next(each for each in house.stream.consumers if each.name == "proxy")
        handler = proxy.handler

        async def listening(lease: Any) -> Any:
            sent.append(lease.message)
            return await handler(lease)

        object.__setattr__(proxy, "handler", listening)
        await executed(house)
    last = [each for each in sent if each.message_kind is MessageKind.EXECUTION_STATUS][-1]
    assert isinstance(last.payload, StatusPayload)
    assert (last.error_code, last.retryable) == (code, retryable)
    assert (last.origin_agent, last.attempt_number) == ("executor", 1)


def test_what_is_given_up_is_an_error_on_the_bus() -> None:
    clock = FakeClock()
    lost = QueueMessage(
        message_id="lost",
        trace_id="t",
        content="",
        sender=Agent.RUNTIME,
        message_kind=MessageKind.EXECUTION_REQUEST,
        scope_id="owner",
        taint=TaintLevel.OWNER,
        created_at=clock.now(),
        payload=ExecutionRequest(work_item_id="x", connection_id="owner"),
    )
    (said,) = on_dead_letter(clock)(lost, f"It was tried 5 times. {LEASE_RAN_OUT}", 5)
    assert isinstance(said.payload, ErrorPayload)
    assert said.payload.about["message_id"] == "lost"
    assert (said.error_code, said.retryable) == (ErrorCode.TIMEOUT, False)
    assert (said.origin_agent, said.attempt_number) == (Agent.EXECUTOR, 5)
    (said,) = on_dead_letter(clock)(lost, "It broke.", 1)
    assert said.error_code is ErrorCode.TOOL_FAILURE
