"""The provider `guardrails_ai`: which texts validators see, and what becomes of their verdicts."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import pytest

from silas.gates import Gate, GateAction, GateResult, GateTrigger
from silas.gates.errors import GuardOptionsInvalid, UnknownGuard
from silas.gates.guards.rules import GuardDecision, GuardFinding, GuardOptions, GuardVerdict, Mode
from silas.gates.providers.guardrails_ai import GuardrailsAiProvider
from silas.gates.runner import GateRunner
from silas.testing import RecordingAudit

BLOCK, GO = GateAction.BLOCK, GateAction.CONTINUE
FOUND = (GuardFinding(rule="swear", start=0, end=4, why="It is rude."),)


class RudeOptions(GuardOptions):
    origin: Literal["owner", "external"] = "external"


class Rude:
    """Validators with one name: `rude` objects to the word darn, and to the number 666."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def options(self, name: str, config: Mapping[str, Any]) -> RudeOptions:
        if name != "rude":
            raise UnknownGuard
        if set(config) - {"mode", "origin"}:
            raise GuardOptionsInvalid
        return RudeOptions.model_validate(dict(config))

    def settled(self, name: str, text: str) -> None:
        """It wants to see the whole text."""

    def check(self, name: str, text: str, config: GuardOptions) -> GuardVerdict:
        assert isinstance(config, RudeOptions)
        self.seen.append((text, config.origin))
        mended = text.replace("darn", "[...]").replace("666", "[...]")
        if mended == text:
            return GuardVerdict(guard=name, decision=GuardDecision.PASS)
        if config.mode is Mode.BLOCK:
            return GuardVerdict(guard=name, decision=GuardDecision.BLOCK, findings=FOUND)
        return GuardVerdict(
            guard=name, decision=GuardDecision.FIX, findings=FOUND, fixed_text=mended
        )


def gate(on: str = "every_user_message", **more: Any) -> Gate:
    fields = {"name": "g", "on": on, "provider": "guardrails_ai", "check": "rude"}
    return Gate.model_validate({**fields, **more})


FIX = {"config": {"mode": "fix"}}


async def said(gate: Gate, context: dict[str, Any]) -> GateResult:
    return await GuardrailsAiProvider(Rude()).check(gate, context)


@pytest.mark.parametrize(
    ("on", "key"), [("every_user_message", "message"), ("every_agent_response", "response")]
)
async def test_texts_pass_are_blocked_or_mended(on: str, key: str) -> None:
    assert (await said(gate(on), {key: "well"})).action is GO
    blocked = await said(gate(on), {key: "darn it"})
    assert (blocked.action, blocked.reason) == (BLOCK, "It is rude.")
    mended = await said(gate(on, **FIX), {key: "darn it"})
    assert (mended.action, mended.modified_context) == (GO, {key: "[...] it"})


@pytest.mark.parametrize("context", [{}, {"response": "x"}, {"tool_args": {}}])
async def test_a_text_that_is_not_there_is_blocked(context: dict[str, Any]) -> None:
    assert (await said(gate(), context)).action is BLOCK


CALL = {
    "tool_name": "send",
    "tool_args": {"to": "bob", "body": ["fine", {"deep": "darn"}], "code": 666, "ok": True},
}


async def test_on_a_tool_call_every_text_is_looked_at() -> None:
    assert (await said(gate("on_tool_call"), CALL)).action is BLOCK
    mended = await said(gate("on_tool_call", **FIX), CALL)
    assert mended.modified_context == {
        "tool_args": {"to": "bob", "body": ["fine", {"deep": "[...]"}], "code": "[...]", "ok": True}
    }
    only_to = gate("on_tool_call", extract="to")
    assert (await said(only_to, CALL)).action is GO


async def test_names_inside_the_arguments_are_looked_at_and_cannot_be_mended() -> None:
    call = {"tool_args": {"headers": {"darn": "x"}}}
    assert (await said(gate("on_tool_call"), call)).action is BLOCK
    assert (await said(gate("on_tool_call", **FIX), call)).action is BLOCK


async def test_what_cannot_be_put_back_is_blocked() -> None:
    step = gate("after_step", after_step=0, extract="title", **FIX)
    assert (await said(step, {"title": "darn"})).action is BLOCK
    assert (await said(step, {"title": "fine"})).action is GO


async def test_one_block_among_mended_texts_blocks() -> None:
    class Both(Rude):
        def check(self, name: str, text: str, config: GuardOptions) -> GuardVerdict:
            mode = Mode.BLOCK if "666" in text else Mode.FIX
            return super().check(name, text, config.model_copy(update={"mode": mode}))

    result = await GuardrailsAiProvider(Both()).check(gate("on_tool_call"), CALL)
    assert (result.action, result.modified_context) == (BLOCK, None)


@pytest.mark.parametrize("more", [{"check": "unheard"}, {"config": {"odd": 1}}])
async def test_an_unknown_validator_or_option_blocks(more: dict[str, Any]) -> None:
    assert (await said(gate(**more), {"message": "fine"})).action is BLOCK
    assert GuardrailsAiProvider(Rude()).problem(gate(**more)) is not None
    assert GuardrailsAiProvider(Rude()).problem(gate()) is None


@pytest.mark.parametrize(
    ("taint", "config", "origin"),
    [
        ("owner", {}, "owner"),
        ("auth", {}, "external"),
        ("external", {}, "external"),
        (None, {}, "external"),
        ("owner", {"origin": "external"}, "external"),
    ],
)
async def test_the_validator_is_told_whose_text_it_is(
    taint: str | None, config: dict[str, Any], origin: str
) -> None:
    rude = Rude()
    await GuardrailsAiProvider(rude).check(gate(config=config), {"message": "hi", "taint": taint})
    assert rude.seen == [("hi", origin)]


async def test_the_text_after_one_guard_is_what_the_next_one_sees() -> None:
    audit = RecordingAudit()
    rude = Rude()
    runner = GateRunner({"guardrails_ai": GuardrailsAiProvider(rude)}, audit)
    gates = [gate(**FIX), gate(name="second")]
    policy, _, merged = await runner.check_gates(
        gates, GateTrigger.EVERY_USER_MESSAGE, {"message": "darn it"}
    )
    assert [each.action for each in policy] == [GO, GO]
    assert merged == {"message": "[...] it"}
    left = hashlib.sha256(b"[redacted] it").hexdigest()
    assert audit.entries[0][1]["before"] == f"sha256:{left}, 13 characters"


NASTY = ["'; rm -rf / #", "a\nb", "a\0b", "\ud800", "\udcff", "x" * 10_000_000, "", "\u202e"]


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
async def test_no_text_breaks_it(text: str) -> None:
    assert (await said(gate(), {"message": text})).action is GO
    assert (await said(gate(), {"message": f"{text}darn"})).action is BLOCK
    assert (await said(gate("on_tool_call"), {"tool_args": {"x": {text: 1}}})).action is GO


@pytest.mark.parametrize("arguments", [None, "darn", ["darn"], 5])
async def test_a_call_without_arguments_to_look_at_is_blocked(arguments: Any) -> None:
    assert (await said(gate("on_tool_call"), {"tool_args": arguments})).action is BLOCK
    assert (await said(gate("on_tool_call"), {"tool_name": "x"})).action is BLOCK


async def test_an_unknown_validator_is_named_in_the_reason() -> None:
    result = await said(gate(check="unheard"), {"message": "fine"})
    assert result.reason == UnknownGuard().message
