"""The gates `action_envelope` and `connection_permission`, alone and behind the runner."""

from typing import Any

import pytest

from silas.gates import ActionEnvelope, GateAction, GateResult, GateTrigger
from silas.gates.envelopes import is_inside
from silas.gates.providers import CustomProvider
from silas.gates.providers.builtin import (
    ACTION_ENVELOPE,
    BUILT_IN_CHECKS,
    CONNECTION_PERMISSION,
    escalation_needed,
)
from silas.gates.runner import GateRunner
from silas.testing import RecordingAudit

BLOCK, ASK, GO = GateAction.BLOCK, GateAction.REQUIRE_APPROVAL, GateAction.CONTINUE
PAY = {"tool": "pay", "constraints": {"to": {"equals": "bob"}, "amount": {"max": 50}}}
CALL = {
    "tool_name": "pay",
    "tool_args": {"to": "bob", "amount": 5},
    "contained": False,
    "changes_state": True,
    "taint": "owner",
    "taint_sources": [],
    "envelopes": [PAY],
}


async def envelope(**changes: Any) -> GateResult:
    context = {key: each for key, each in {**CALL, **changes}.items() if each != "left out"}
    return await CustomProvider(BUILT_IN_CHECKS).check(ACTION_ENVELOPE, context)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, GO),
        ({"envelopes": []}, ASK),
        ({"envelopes": "left out"}, ASK),
        ({"tool_args": {"to": "bob", "amount": 51}}, ASK),
        ({"tool_args": {"to": "eve", "amount": 5}}, ASK),
        ({"tool_args": {"to": "bob", "amount": 5, "cc": "eve"}}, ASK),
        ({"tool_args": {"to": "bob"}}, ASK),
        ({"tool_args": "left out"}, ASK),
        ({"tool_name": "pay2"}, ASK),
        ({"tool_name": "left out"}, ASK),
        ({"envelopes": [], "contained": True}, GO),
        ({"envelopes": [], "contained": 1}, ASK),
        ({"envelopes": [], "changes_state": False}, GO),
        ({"envelopes": [], "changes_state": "left out"}, ASK),
        ({"envelopes": [], "changes_state": False, "taint": "auth"}, GO),
        ({"envelopes": [], "changes_state": False, "taint": "external"}, ASK),
        ({"envelopes": [], "changes_state": False, "taint": "left out"}, ASK),
        ({"envelopes": [], "changes_state": False, "taint": "external", "tells_nobody": True}, GO),
        ({"envelopes": [], "changes_state": False, "taint": "external", "tells_nobody": 1}, ASK),
        ({"envelopes": [], "taint": "external", "tells_nobody": True}, ASK),
        ({"envelopes": [], "changes_state": False, "taint": "unheard of"}, ASK),
        ({"taint": "external"}, GO),
    ],
)
async def test_the_envelope_as_a_table(changes: dict[str, Any], wanted: GateAction) -> None:
    assert (await envelope(**changes)).action is wanted


async def test_the_result_says_where_the_foreign_content_came_from() -> None:
    result = await envelope(
        envelopes=[], changes_state=False, taint="external", taint_sources=["tool:web_search"]
    )
    assert result.taint_sources == ["tool:web_search"]
    assert "(from tool:web_search)" in result.reason


async def test_an_envelope_that_cannot_be_read_blocks_behind_the_runner() -> None:
    audit = RecordingAudit()
    runner = GateRunner({"custom": CustomProvider(BUILT_IN_CHECKS)}, audit)
    context = {**CALL, "envelopes": [{"tool": "*"}]}
    policy, _, _ = await runner.check_gates([ACTION_ENVELOPE], GateTrigger.ON_TOOL_CALL, context)
    assert policy[0].action is BLOCK
    assert audit.events() == ["gate_failed", "gate_blocked"]


async def test_the_audit_log_says_where_the_taint_came_from() -> None:
    audit = RecordingAudit()
    runner = GateRunner({"custom": CustomProvider(BUILT_IN_CHECKS)}, audit)
    foreign = {"taint": "external", "taint_sources": ["tool:read_mail"], "envelopes": []}
    await runner.check_gates([ACTION_ENVELOPE], GateTrigger.ON_TOOL_CALL, {**CALL, **foreign})
    ((event, data),) = audit.entries
    assert (event, data["taint_sources"]) == ("gate_approval_required", ["tool:read_mail"])


@pytest.mark.parametrize(
    ("constraint", "value", "source", "wanted"),
    [
        ({"from": "tool:quote"}, 5, "tool:quote", True),
        ({"from": "tool:quote"}, 5, "tool:mail", False),
        ({"from": "tool:quote"}, 5, None, False),
        ({"from": "tool:quote", "max": 10}, 5, "tool:quote", True),
        ({"from": "tool:quote", "max": 4}, 5, "tool:quote", False),
        ({"from": "owner", "matches": "[a-z]+"}, "bob", "owner", True),
        ({"from": "owner", "matches": "[a-z]+"}, "bob\n", "owner", False),
        ({"from": "owner", "under": "/data"}, 5, "owner", False),
        ({"under": "/data"}, "/data/x", None, True),
        ({"under": "/data"}, "/data/../etc", None, False),
        ({"under": "/data"}, "/data2", None, False),
        ({"prefix": "https://a.org/"}, "https://a.org/x", None, True),
        ({"prefix": "https://a.org/"}, "https://a.org/../x", None, False),
        ({"prefix": "https://a.org/b/"}, "https://a.org/b/%2e%2E/x", None, False),
        ({"prefix": "https://a.org/b/"}, "https://a.org/b/%252e%252e%252fx", None, False),
        ({"prefix": "https://a.org/b/"}, "https://a.org/b/c\\..\\..\\x", None, False),
        ({"prefix": "https://a.org/b/"}, "https://a.org/b/..;/x", None, False),
        ({"prefix": "https://a.org/b/"}, "https://a.org/b/a..b%20c", None, True),
        ({"equals": 1}, True, None, False),
        ({"equals": "1"}, 1, None, False),
        ({"one_of": [1, "b"]}, "b", None, True),
        ({"min": 0, "max": 1}, True, None, False),
        ({"min": 0}, "5", None, False),
        ({"min": 0, "max": 1}, 0, None, True),
        ({"min": 0, "max": 1}, 1, None, True),
        ({"min": 0, "max": 1}, -0.1, None, False),
        ({"min": 0, "max": 1}, 1.1, None, False),
        ({"any": True}, None, None, True),
    ],
)
def test_constraints(
    constraint: dict[str, Any], value: Any, source: str | None, wanted: bool
) -> None:
    envelope = ActionEnvelope.model_validate({"tool": "t", "constraints": {"x": constraint}})
    sources = {"x": source} if source else {}
    assert is_inside([envelope], "t", {"x": value}, sources=sources) is wanted


CONNECTION = {
    "connection": "Mail of Anna",
    "required_permissions": ["Mail.ReadWrite"],
    "permissions_granted": ["Mail.Read"],
}


async def permission(**changes: Any) -> GateResult:
    context = {key: each for key, each in {**CONNECTION, **changes}.items() if each != "left out"}
    return await CustomProvider(BUILT_IN_CHECKS).check(CONNECTION_PERMISSION, context)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, ASK),
        ({"required_permissions": ["Mail.Read"]}, GO),
        ({"required_permissions": []}, GO),
        ({"permissions_once": ["Mail.ReadWrite"]}, GO),
        ({"permissions_once": "Mail.ReadWrite"}, ASK),
        ({"required_permissions": "left out"}, BLOCK),
        ({"permissions_granted": "left out"}, BLOCK),
        ({"permissions_granted": "Mail.ReadWrite"}, BLOCK),
        ({"permissions_granted": [1]}, BLOCK),
        ({"permissions_available": ["Mail.ReadWrite"]}, ASK),
        ({"permissions_available": ["Mail.Read"]}, BLOCK),
        ({"connection": "left out"}, GO),
        ({"connection": "", "required_permissions": "left out"}, BLOCK),
    ],
)
async def test_permissions_as_a_table(changes: dict[str, Any], wanted: GateAction) -> None:
    assert (await permission(**changes)).action is wanted


async def test_the_question_names_what_is_there_and_what_is_needed() -> None:
    assert (await permission()).reason == (
        "Mail of Anna was granted Mail.Read; this needs Mail.ReadWrite (medium risk)."
    )


@pytest.mark.parametrize(
    ("granted", "required", "risk"),
    [
        (["Mail.Read"], ["Mail.ReadWrite"], "medium"),
        (["Mail.Read"], ["Calendars.Read"], "high"),
        (["Mail.Read"], ["Mail.ReadWrite", "Calendars.Read"], "high"),
        (["repo:read"], ["repo:write"], "medium"),
        (["repo:read"], ["repo"], "high"),
        ([], ["Mail.Read"], "high"),
        (["admin"], ["everything"], "high"),
    ],
)
def test_how_risky_more_permissions_are(granted: list[str], required: list[str], risk: str) -> None:
    needed = escalation_needed(granted, required)
    assert needed is not None
    assert needed.risk == risk
