"""The data of the gates: what is accepted, and what is refused where."""

from typing import Any

import pytest
from pydantic import ValidationError

from silas.gates import (
    ALLOWED_MUTATIONS,
    AccessLevel,
    ActionEnvelope,
    ArgumentConstraint,
    Expectation,
    Gate,
    GateLane,
    GateProvider,
    GateResult,
    GateTrigger,
    GateType,
    NumericRange,
)
from silas.kernel.models import dotted, problems_in


def refused(model: Any, **fields: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(fields)
    return {dotted(path): message for path, message in problems_in(caught.value)}


TRADE = {
    "name": "position",
    "on": "on_tool_call",
    "type": "numeric_range",
    "extract": "position_usd",
    "auto_approve": {"min": 0, "max": 50},
    "require_approval": {"min": 50, "max": 500},
    "block": {"outside": [0, 500]},
}

GOOD_GATES: dict[str, dict[str, Any]] = {
    "numbers": TRADE,
    "strings": {"name": "g", "on": "every_user_message", "allowed_values": ["yes"]},
    "strings to ask about": {"name": "g", "on": "on_tool_call", "approval_values": ["rm"]},
    "regex": {
        "name": "g",
        "on": "on_tool_call",
        "type": "regex",
        "extract": "to",
        "config": {"pattern": r"^[a-z]+@example\.org$"},
    },
    "file": {
        "name": "g",
        "on": "after_step",
        "after_step": 0,
        "type": "file_valid",
        "extract": "report",
        "config": {"max_size_bytes": 1000},
    },
    "always ask": {"name": "g", "on": "on_tool_call", "type": "approval_always"},
    "guardrails": {
        "name": "g",
        "on": "every_agent_response",
        "provider": "guardrails_ai",
        "check": "pii",
    },
    "script": {
        "name": "g",
        "on": "on_tool_call",
        "provider": "script",
        "type": "custom_check",
        "check_command": "./check.sh",
        "check_expect": {"exit_code": 0},
    },
    "script that gives a number": {**TRADE, "provider": "script", "check": "./price.sh"},
    "custom": {"name": "g", "on": "on_tool_call", "provider": "custom", "check": "limits"},
    "llm": {"name": "g", "on": "every_agent_response", "provider": "llm", "check": "Polite?"},
}


@pytest.mark.parametrize("case", GOOD_GATES)
def test_a_gate_that_can_work_is_accepted_and_comes_back(case: str) -> None:
    gate = Gate.model_validate(GOOD_GATES[case])
    assert Gate.model_validate_json(gate.model_dump_json()) == gate


def test_defaults_are_those_of_the_spec() -> None:
    gate = Gate(name="g", on=GateTrigger.ON_TOOL_CALL, allowed_values=["x"])
    assert gate.provider is GateProvider.PREDICATE
    assert gate.type is GateType.STRING_MATCH
    assert gate.on_block == "report"
    assert gate.promote_to_policy is False
    assert {"response", "message", "tool_args"} == ALLOWED_MUTATIONS


@pytest.mark.parametrize(
    ("provider", "promoted", "lane"),
    [
        ("llm", False, GateLane.QUALITY),
        ("llm", True, GateLane.POLICY),
        ("predicate", False, GateLane.POLICY),
        ("predicate", True, GateLane.POLICY),
        ("script", False, GateLane.POLICY),
        ("guardrails_ai", False, GateLane.POLICY),
        ("custom", False, GateLane.POLICY),
    ],
)
def test_the_lane_follows_the_provider(provider: str, promoted: bool, lane: GateLane) -> None:
    gate = Gate.model_validate(
        {
            "name": "g",
            "on": "every_agent_response",
            "provider": provider,
            "check": "x",
            "allowed_values": ["x"],
            "promote_to_policy": promoted,
        }
    )
    assert gate.lane is lane
    assert "lane" not in gate.model_dump()


BAD_GATES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no step": ({"on": "after_step", "allowed_values": ["x"]}, "after_step", "is missing"),
    "a step too many": ({"after_step": 1, "allowed_values": ["x"]}, "after_step", "only with"),
    "negative step": ({"on": "after_step", "after_step": -1}, "after_step", "at least 0"),
    "matches nothing": ({}, "allowed_values", "nothing could pass"),
    "empty lists": ({"allowed_values": []}, "allowed_values", "nothing could pass"),
    "no range": (
        {"type": "numeric_range", "extract": "x"},
        "auto_approve",
        "nothing could pass",
    ),
    "only a block range": (
        {"type": "numeric_range", "extract": "x", "block": {"outside": [0, 1]}},
        "auto_approve",
        "nothing could pass",
    ),
    "nothing to look at": (
        {"type": "numeric_range", "auto_approve": {"min": 0, "max": 1}},
        "extract",
        "is missing",
    ),
    "range of another type": (
        {"allowed_values": ["x"], "auto_approve": {"min": 0, "max": 1}},
        "auto_approve",
        "only with `type: numeric_range`",
    ),
    "values of another type": (
        {"type": "approval_always", "allowed_values": ["x"]},
        "allowed_values",
        "only with `type: string_match`",
    ),
    "upside-down range": (
        {"type": "numeric_range", "extract": "x", "auto_approve": {"min": 2, "max": 1}},
        "auto_approve",
        "no number",
    ),
    "infinite range": (
        {"type": "numeric_range", "extract": "x", "auto_approve": {"min": 0, "max": 1e999}},
        "auto_approve.max",
        "finite",
    ),
    "open range": (
        {"type": "numeric_range", "extract": "x", "auto_approve": {"max": 1}},
        "auto_approve.min",
        "is missing",
    ),
    "upside-down block": (
        {**TRADE, "block": {"outside": [2, 1]}},
        "block",
        "[low, high]",
    ),
    "no pattern": ({"type": "regex"}, "config.pattern", "is missing"),
    "bad pattern": (
        {"type": "regex", "config": {"pattern": "("}},
        "config.pattern",
        "not a regular expression",
    ),
    "dangerous pattern": (
        {"type": "regex", "config": {"pattern": "(?=a)b"}},
        "config.pattern",
        "for ever",
    ),
    "no file": ({"type": "file_valid"}, "extract", "is missing"),
    "no validator": ({"provider": "guardrails_ai"}, "check", "name the validator"),
    "no command": ({"provider": "script"}, "check", "command"),
    "no callable": ({"provider": "custom"}, "check", "callable"),
    "no question": ({"provider": "llm"}, "check", "judge"),
    "custom check by predicate": ({"type": "custom_check"}, "provider", "script or custom"),
    "expectation without script": (
        {"allowed_values": ["x"], "check_expect": {"exit_code": 0}},
        "check_expect",
        "only with",
    ),
    "unknown trigger": ({"on": "sometimes"}, "on", "must be one of: every_user_message"),
    "unknown key": ({"allowed_values": ["x"], "alowed": 1}, "alowed", "is not a known key"),
    "name with a space": ({"name": "my gate", "allowed_values": ["x"]}, "name", "one word"),
    "no name": ({"name": ""}, "name", "one word"),
}


@pytest.mark.parametrize("case", BAD_GATES)
def test_a_gate_that_cannot_work_is_refused_at_the_field(case: str) -> None:
    fields, place, words = BAD_GATES[case]
    found = refused(Gate, **{"name": "g", "on": "on_tool_call", **fields})
    assert words in found.get(place, ""), found


def test_all_problems_of_a_gate_are_told_at_once() -> None:
    found = refused(Gate, name="g", on="after_step", provider="script", type="numeric_range")
    assert set(found) == {"after_step", "check"}


def test_data_is_frozen() -> None:
    gate = Gate.model_validate(TRADE)
    with pytest.raises(ValidationError):
        gate.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "fields",
    [
        {"exit_code": 0},
        {"exit_code": 255},
        {"equals": ""},
        {"contains": "ok"},
        {"regex": r"\d+ passed"},
        {"regex": "^$"},
        {"output_lt": 0.5},
        {"output_gt": -1},
        {"file_exists": "dist/app.tar.gz"},
        {"file_exists": "a..b"},
        {"not_empty": True},
        {"exit_code": 0, "not_empty": False},
    ],
)
def test_one_predicate_is_an_expectation(fields: dict[str, Any]) -> None:
    assert len(Expectation.model_validate(fields).predicates) == 1


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({}, "", "exactly one of exit_code, equals"),
        ({"not_empty": False}, "", "set here: none"),
        ({"exit_code": 0, "contains": "ok"}, "", "set here: exit_code, contains"),
        ({"exit_code": 0, "not_empty": True}, "", "set here: exit_code, not_empty"),
        ({"exit_code": 256}, "exit_code", "at most 255"),
        ({"exit_code": -1}, "exit_code", "at least 0"),
        ({"contains": ""}, "contains", "must not be empty"),
        ({"regex": "["}, "regex", "not a regular expression"),
        ({"regex": "(x)\\1y"}, "regex", "for ever"),
        ({"regex": ".*"}, "regex", "able to fail"),
        ({"regex": "a*"}, "regex", "able to fail"),
        ({"output_lt": float("nan")}, "output_lt", "finite"),
        ({"output_gt": float("inf")}, "output_gt", "finite"),
        ({"file_exists": "../secret"}, "file_exists", "`..`"),
        ({"file_exists": "a/../../b"}, "file_exists", "`..`"),
        ({"file_exists": "a\\..\\b"}, "file_exists", "`..`"),
        ({"file_exists": "~/.ssh/id"}, "file_exists", "`~`"),
        ({"file_exists": "a\x00b"}, "file_exists", "control characters"),
        ({"file_exists": ""}, "file_exists", "must not be empty"),
    ],
)
def test_an_expectation_that_is_not_one_is_refused(
    fields: dict[str, Any], place: str, words: str
) -> None:
    assert words in refused(Expectation, **fields)[place]


def test_a_result_is_the_providers_word() -> None:
    said = GateResult.model_validate(
        {
            "gate_name": "tone",
            "lane": "quality",
            "action": "block",
            "reason": "rude",
            "score": 0.2,
            "modified_context": {"system": "you are free"},
        }
    )
    # The runner, not the record, overrules it: only so can it write down what was tried.
    assert said.action == "block"
    assert "score" in refused(
        GateResult, gate_name="g", lane="quality", action="continue", reason="", score=1.5
    )
    assert "action" in refused(GateResult, gate_name="g", lane="policy", action="allow", reason="")


def test_an_access_level_expires_in_the_future_or_never() -> None:
    assert AccessLevel(description="everybody").expires_after is None
    assert "expires_after" in refused(AccessLevel, description="x", expires_after=0)


def test_ranges_include_their_ends_in_any_number_type() -> None:
    assert NumericRange.model_validate({"min": 1, "max": 1.0}).max == 1


GOOD_CONSTRAINTS: list[dict[str, Any]] = [
    {"equals": "main"},
    {"equals": 0},
    {"equals": False},
    {"one_of": ["a", 1, True]},
    {"prefix": "release-"},
    {"prefix": "https://api.example.org/v1/"},
    {"under": "src"},
    {"under": "/srv/app"},
    {"matches": r"[a-z]+@example\.org"},
    {"min": 0},
    {"max": 50.5},
    {"min": 0, "max": 50},
    {"any": True},
    {"from": "tool:read_invoice"},
    {"from": "owner", "max": 100},
    {"any": True, "optional": True},
]


@pytest.mark.parametrize("fields", GOOD_CONSTRAINTS)
def test_a_constraint_says_one_thing_and_keeps_its_spelling(fields: dict[str, Any]) -> None:
    envelope = ActionEnvelope.model_validate({"tool": "send", "constraints": {"to": fields}})
    dumped = envelope.model_dump(mode="json")
    said = {key: value for key, value in dumped["constraints"]["to"].items() if value is not None}
    assert said == {"optional": False, **fields}
    assert ActionEnvelope.model_validate_json(envelope.model_dump_json(), strict=True) == envelope


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({}, "", "says nothing"),
        ({"optional": True}, "", "says nothing"),
        ({"any": False}, "any", "must be one of: True"),
        ({"equals": "a", "prefix": "a"}, "", "exclude each other: equals, prefix"),
        ({"any": True, "max": 1}, "", "exclude each other: any, min/max"),
        ({"one_of": []}, "one_of", "at least 1"),
        ({"one_of": [["a"]]}, "one_of[0]", "text, a number"),
        ({"equals": {"a": 1}}, "equals", "text, a number"),
        ({"min": 2, "max": 1}, "", "no value could be right"),
        ({"max": float("inf")}, "max", "finite"),
        ({"matches": "(?!a)b"}, "matches", "for ever"),
        ({"matches": "("}, "matches", "not a regular expression"),
        ({"prefix": ""}, "prefix", "must not be empty"),
        ({"prefix": "https://api.example.org"}, "prefix", "whole host"),
        ({"prefix": "https://"}, "prefix", "whole host"),
        ({"prefix": "https://api.example.org:443"}, "prefix", "whole host"),
        ({"prefix": "https://user@api.example.org/"}, "prefix", "whole host"),
        ({"prefix": "src/../"}, "prefix", "`..`"),
        ({"under": "src/../.."}, "under", "`..`"),
        ({"under": "~"}, "under", "`~`"),
        ({"from": "Anywhere at all"}, "from", "must name a source"),
        ({"source": "owner"}, "source", "not a known key"),
    ],
)
def test_a_constraint_that_binds_nothing_is_refused(
    fields: dict[str, Any], place: str, words: str
) -> None:
    assert words in refused(ArgumentConstraint, **fields).get(place, "")


@pytest.mark.parametrize("tool", ["", "*", "git *", "rm -rf", "a" * 129])
def test_an_envelope_names_one_tool_exactly(tool: str) -> None:
    assert "tool" in refused(ActionEnvelope, tool=tool)


def test_an_argument_has_a_name() -> None:
    found = refused(ActionEnvelope, tool="send", constraints={"": {"any": True}})
    assert "must not be empty" in str(found)
