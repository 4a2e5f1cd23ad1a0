"""The owner's gates stand before a companion's writes as before every other call."""

from dataclasses import replace
from typing import Any

from silas.companions.messages import PolicyDecisions
from silas.companions.tools.executor import CallGates
from silas.companions.tools.registry import AgentToolResult
from silas.gates import Gate, GateAction, GateProvider, GateTrigger
from silas.gates.runner import GateRunner
from silas.testing import RecordingAudit
from silas.testing.companions import CompanionDevice
from silas.testing.fakes import FakeProvider, answer

GATE = Gate(name="rules", on=GateTrigger.ON_TOOL_CALL, provider=GateProvider.CUSTOM, check="x")


async def called(
    device: CompanionDevice, provider: FakeProvider | None, tool: str, /, **args: Any
) -> AgentToolResult:
    agent = await device.service.new("planner", category_ids=[device.categories["gym"]])
    providers = {GateProvider.CUSTOM: provider} if provider else {}
    audit = RecordingAudit()
    gates = CallGates([GATE], GateRunner(providers, audit))
    executor = replace(device.executor, gates=gates, audit=audit)
    result = await executor.execute(
        device.tool_call(agent.id, tool, **args), decisions=PolicyDecisions()
    )
    device.audit.entries += audit.entries
    return result


async def test_a_gate_that_says_no_stops_the_write(device: CompanionDevice) -> None:
    provider = FakeProvider(answer(GateAction.BLOCK, reason="not on Sundays"))
    result = await called(device, provider, "get_or_create_day_plan", plan_date="2026-01-01")
    assert result.error_code == "gate_blocked"
    assert "not on Sundays" in (result.error_message or "")
    assert await device.journal.day_plan(device.clock.now().date()) is None


async def test_a_gate_can_ask_for_a_card_where_none_was_needed(device: CompanionDevice) -> None:
    provider = FakeProvider(answer(GateAction.REQUIRE_APPROVAL))
    result = await called(device, provider, "get_or_create_day_plan", plan_date="2026-01-01")
    assert result.error_code == "confirmation_required"
    assert list(device.approvals.asked) == ["op"]


async def test_a_gate_cannot_put_other_arguments_in_their_place(device: CompanionDevice) -> None:
    other = {"tool_args": {"plan_date": "2099-01-01"}}
    provider = FakeProvider(answer(modified_context=other))
    result = await called(device, provider, "get_or_create_day_plan", plan_date="2026-01-01")
    assert result.error_code == "gate_blocked"


async def test_a_gate_that_nobody_can_evaluate_blocks(device: CompanionDevice) -> None:
    result = await called(device, None, "get_or_create_day_plan", plan_date="2026-01-01")
    assert result.error_code == "gate_blocked"


async def test_what_passes_is_written_and_in_the_audit_log(device: CompanionDevice) -> None:
    provider = FakeProvider(answer())
    result = await called(device, provider, "get_or_create_day_plan", plan_date="2026-01-01")
    assert result.success
    ((_, context),) = provider.seen
    assert (context["tool_name"], context["taint"]) == ("get_or_create_day_plan", "external")
    assert "companion_wrote" in device.audit.events()


async def test_looking_needs_no_gate(device: CompanionDevice) -> None:
    provider = FakeProvider(answer(GateAction.BLOCK))
    assert (await called(device, provider, "list_tasks_in_scope")).success
    assert provider.seen == []
