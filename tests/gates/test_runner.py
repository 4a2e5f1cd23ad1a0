"""The gate runner: its rules one by one, and its laws for any gates and any answers."""

import asyncio
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.gates import ALLOWED_MUTATIONS, Gate, GateAction, GateLane, GateResult, GateTrigger
from silas.gates.errors import GateInputInvalid
from silas.gates.models import strictest
from silas.gates.runner import GateRunner
from silas.kernel import canonical_bytes
from silas.testing import RecordingAudit
from silas.testing.fakes import Answer, FakeProvider, answer

MESSAGE = GateTrigger.EVERY_USER_MESSAGE
BLOCK, ASK, GO = GateAction.BLOCK, GateAction.REQUIRE_APPROVAL, GateAction.CONTINUE
CONTEXT = {"message": "hello", "sender_id": "anna", "tool_args": {"amount": 100, "to": "bob"}}


def custom(name: str, **more: Any) -> Gate:
    fields = {"name": name, "on": "every_user_message", "provider": "custom", "check": name}
    return Gate.model_validate({**fields, **more})


def llm(name: str, **more: Any) -> Gate:
    return custom(name, provider="llm", **more)


class Desk:
    """A runner whose providers answer by the name of the gate."""

    def __init__(self, answers: dict[str, Answer], **more: Any) -> None:
        def by_name(gate: Gate, context: dict[str, Any]) -> GateResult:
            return answers.get(gate.name, answer())(gate, context)

        self.audit = RecordingAudit()
        self.custom, self.llm = FakeProvider(by_name), FakeProvider(by_name)
        providers = {"custom": self.custom, "llm": self.llm}
        self.runner = GateRunner(providers, self.audit, **more)

    async def check(
        self, *gates: Gate, context: dict[str, Any] | None = None
    ) -> tuple[list[GateResult], list[GateResult], dict[str, Any]]:
        return await self.runner.check_gates(list(gates), MESSAGE, context or CONTEXT)

    def data(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.audit.entries if name == event]


def logged(text: str) -> str:
    """What the log holds of a text."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}, {len(text)} characters"


def raises(_gate: Gate, _context: dict[str, Any]) -> GateResult:
    raise RuntimeError("the secret is swordfish")


async def test_only_gates_of_the_trigger_are_asked() -> None:
    desk = Desk({"other": answer(BLOCK)})
    policy, _, _ = await desk.check(custom("mine"), custom("other", on="on_tool_call"))
    assert [each.gate_name for each in policy] == ["mine"]


async def test_a_gate_after_another_step_is_not_asked() -> None:
    desk = Desk({})
    gates = [custom(f"s{step}", on="after_step", after_step=step) for step in (0, 1)]
    policy, _, _ = await desk.runner.check_gates(gates, GateTrigger.AFTER_STEP, {"step_index": 1})
    assert [each.gate_name for each in policy] == ["s1"]
    policy, _, _ = await desk.runner.check_gates(gates, GateTrigger.AFTER_STEP, {})
    assert [each.gate_name for each in policy] == ["s0", "s1"]


async def test_after_a_block_the_others_still_run_and_are_logged_without_escalating_again() -> None:
    desk = Desk({"b": answer(BLOCK), "c": answer(ASK), "d": answer(BLOCK)})
    policy, _, _ = await desk.check(custom("a"), custom("b"), custom("c"), custom("d"))
    assert [each.action for each in policy] == [GO, BLOCK, ASK, BLOCK]
    assert strictest(policy) is BLOCK
    blocked = desk.data("gate_blocked")
    assert [(each["gate"], each.get("already_blocked")) for each in blocked] == [
        ("b", None),
        ("d", True),
    ]
    assert blocked[0]["sender_id"] == "anna"
    assert blocked[0]["reason"] == "the test says so"
    assert [each["gate"] for each in desk.data("gate_approval_required")] == ["c"]


async def test_mutations_are_merged_from_left_to_right_and_seen_by_later_gates() -> None:
    desk = Desk(
        {
            "a": answer(modified_context={"message": "one", "tool_args": {"amount": 50}}),
            "b": answer(modified_context={"message": "two"}),
        }
    )
    _, _, merged = await desk.check(custom("a"), custom("b"), custom("c"), llm("q"))
    assert merged["message"] == "two"
    assert merged["tool_args"] == {"amount": 50, "to": "bob"}
    assert CONTEXT["message"] == "hello"
    seen = [context["message"] for _, context in desk.custom.seen]
    assert seen == ["hello", "one", "two"]
    assert desk.llm.seen[0][1]["message"] == "two"
    changes = [(each["key"], each["before"], each["after"]) for each in desk.data("gate_mutation")]
    assert changes[0] == ("message", logged("hello"), logged("one"))
    assert changes[1] == (
        "tool_args", {"amount": 100, "to": logged("bob")}, {"amount": 50, "to": logged("bob")}
    )  # fmt: skip
    assert changes[2] == ("message", logged("one"), logged("two"))


async def test_the_log_keeps_no_text_that_was_rewritten() -> None:
    said = "Zanzibarish, with half a \ud800 character"
    wanted = {"message": "two", "tool_args": {"title": [{"deep": f"A {said}"}], "amount": 5}}
    desk = Desk({"a": answer(modified_context=wanted)})
    context = {"message": said, "tool_args": {"title": said, "amount": 7}}
    await desk.check(custom("a"), context=context)
    assert "Zanzibarish" not in str(desk.audit.entries)
    args = desk.data("gate_mutation")[1]
    assert (args["before"]["amount"], args["after"]["amount"]) == (7, 5)


@pytest.mark.parametrize(
    "wanted",
    [
        {"sender_id": "owner"},
        {"taint": "owner"},
        {"message": 5},
        {"message": None},
        {"tool_args": "all"},
        {"tool_args": ["all"]},
        {"response": {"text": "x"}},
    ],
)
async def test_what_may_not_be_changed_is_dropped_and_logged(wanted: dict[str, Any]) -> None:
    desk = Desk({"a": answer(modified_context=wanted)})
    policy, _, merged = await desk.check(custom("a"))
    assert merged == CONTEXT
    assert policy[0].modified_context is None
    assert [each["key"] for each in desk.data("rejected_mutation")] == list(wanted)


async def test_secrets_in_what_was_changed_do_not_reach_the_log() -> None:
    key = "sk-proj-" + "a1B2" * 12
    desk = Desk({"a": answer(modified_context={"message": f"my key is {key}!"})})
    await desk.check(custom("a"), context={"message": f"my key is {key}"})
    assert key not in str(desk.audit.entries)
    assert desk.data("gate_mutation")[0]["before"] == logged("my key is [redacted]")


async def test_what_a_guard_took_out_does_not_reach_the_log_either() -> None:
    audit = RecordingAudit()
    guard = FakeProvider(answer(modified_context={"message": "call [PHONE] or [MAIL] now"}))
    runner = GateRunner({"guardrails_ai": guard}, audit)
    gate = custom("pii", provider="guardrails_ai")
    context = {"message": "call +43 660 1234567 or a@example.org now"}
    await runner.check_gates([gate], MESSAGE, context)
    (_, data) = audit.entries[0]
    assert data["before"] == logged("call [redacted] now")
    assert data["after"] == logged("call [PHONE] or [MAIL] now")


async def test_a_long_value_is_shortened_in_the_log() -> None:
    desk = Desk({"a": answer(modified_context={"message": "y" * 10_000_000})})
    _, _, merged = await desk.check(custom("a"), context={"message": "x" * 10_000_000})
    assert len(merged["message"]) == 10_000_000
    assert len(str(desk.audit.entries)) < 10_000


async def test_a_provider_cannot_reach_into_the_context() -> None:
    def meddle(gate: Gate, context: dict[str, Any]) -> GateResult:
        context["message"] = "changed"
        context["tool_args"]["amount"] = 0
        return answer()(gate, context)

    desk = Desk({"a": meddle, "q": meddle})
    context = {"message": "hello", "tool_args": {"amount": 100}}
    _, _, merged = await desk.check(custom("a"), llm("q"), context=context)
    assert merged == context == {"message": "hello", "tool_args": {"amount": 100}}


async def test_nor_later_through_what_it_returned() -> None:
    arguments: dict[str, Any] = {"amount": 1}
    desk = Desk({"a": answer(modified_context={"tool_args": arguments})})
    _, _, merged = await desk.check(custom("a"))
    arguments["amount"] = 10_000
    assert merged["tool_args"]["amount"] == 1


async def test_the_quality_lane_decides_and_changes_nothing() -> None:
    desk = Desk(
        {"q": answer(BLOCK, score=0.1, modified_context={"message": "x"}), "r": answer(ASK)}
    )
    policy, quality, merged = await desk.check(llm("q"), llm("r"))
    assert policy == []
    assert [(each.action, each.modified_context) for each in quality] == [(GO, None), (GO, None)]
    assert quality[0].score == 0.1
    assert merged == CONTEXT
    told = [(each["gate"], each["action"], each["keys"]) for each in desk.data(VIOLATION)]
    assert told == [("q", "block", ["message"]), ("r", "require_approval", [])]


VIOLATION = "quality_lane_violation"


async def test_a_promoted_gate_is_in_the_policy_lane() -> None:
    desk = Desk({"q": answer(BLOCK)})
    policy, quality, _ = await desk.check(llm("q", promote_to_policy=True))
    assert [each.action for each in policy] == [BLOCK]
    assert quality == []


@pytest.mark.parametrize("provider", ["predicate", "script", "guardrails_ai"])
async def test_a_gate_without_a_provider_blocks(provider: str) -> None:
    desk = Desk({})
    policy, _, _ = await desk.check(custom("a", provider=provider, allowed_values=["x"]))
    assert (policy[0].action, policy[0].reason) == (BLOCK, f"No provider: {provider}")


async def test_even_one_of_the_quality_lane() -> None:
    runner = GateRunner({}, RecordingAudit())
    policy, quality, _ = await runner.check_gates([llm("q")], MESSAGE, {})
    assert [(each.lane, each.action) for each in policy] == [(GateLane.POLICY, BLOCK)]
    assert quality == []


async def test_a_provider_that_breaks_closes_the_policy_lane_only() -> None:
    desk = Desk({"a": raises, "q": raises})
    policy, quality, _ = await desk.check(custom("a"), llm("q"))
    assert policy[0].action is BLOCK
    assert (quality[0].action, quality[0].flags) == (GO, ["error"])
    assert [each["error"] for each in desk.data("gate_failed")] == ["RuntimeError"] * 2
    assert "swordfish" not in str(desk.audit.entries)


async def test_beyond_the_limit_policy_gates_block_and_quality_gates_are_left_out() -> None:
    desk = Desk({}, max_gate_evals_per_turn=2)
    policy, quality, _ = await desk.check(custom("a"), llm("q"), custom("b"), custom("c"))
    assert [each.action for each in policy] == [GO, GO, BLOCK]
    assert quality[0].flags == ["not_evaluated"]
    assert [each["gate"] for each in desk.data("quality_gate_skipped")] == ["q"]
    assert len(desk.custom.seen) == 2


async def test_the_calls_of_a_turn_share_the_limit() -> None:
    desk = Desk({}, max_gate_evals_per_turn=3)
    turn = desk.runner.for_turn()
    gates = [custom("a"), custom("b")]
    assert strictest((await turn.check_gates(gates, MESSAGE, CONTEXT))[0]) is GO
    assert strictest((await turn.check_gates(gates, MESSAGE, CONTEXT))[0]) is BLOCK
    assert strictest((await desk.runner.check_gates(gates, MESSAGE, CONTEXT))[0]) is GO


async def test_a_gate_whose_examples_fail_blocks() -> None:
    desk = Desk({"a": answer(GO)})
    (result,), _, _ = await desk.check(custom("a", match=["bad"]))
    assert result.action is BLOCK
    assert result.reason == "Example 1 of match does not hold: it was let pass."


async def test_what_is_nested_too_deep_reaches_no_gate() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"x": deep}
    desk = Desk({})
    with pytest.raises(GateInputInvalid):
        await desk.check(custom("a"), context={"tool_args": deep})
    assert desk.custom.seen == []


async def test_which_gate_answered_is_not_the_providers_to_say() -> None:
    def lies(_gate: Gate, _context: dict[str, Any]) -> GateResult:
        return GateResult(gate_name="other", lane=GateLane.QUALITY, action=BLOCK, reason="")

    policy, _, _ = await Desk({"a": lies}).check(custom("a"))
    assert (policy[0].gate_name, policy[0].lane) == ("a", GateLane.POLICY)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)
keys = st.sampled_from([*sorted(ALLOWED_MUTATIONS), "sender_id", "taint", "x"])
contexts = st.dictionaries(keys, json_values, max_size=4)
said = st.fixed_dictionaries(
    {"action": st.sampled_from(GateAction), "modified_context": st.none() | contexts}
)
kinds = st.sampled_from(["custom", "llm", "promoted", "script"])
cases = st.lists(st.tuples(kinds, said), max_size=6)


def built(case: list[tuple[str, dict[str, Any]]]) -> tuple[list[Gate], dict[str, Answer]]:
    gates, answers = [], {}
    for number, (kind, words) in enumerate(case):
        name = f"g{number}"
        provider = "llm" if kind == "promoted" else kind
        gates.append(custom(name, provider=provider, promote_to_policy=kind == "promoted"))
        answers[name] = answer(**words)
    return gates, answers


@given(cases, contexts)
def test_laws_of_the_runner(
    case: list[tuple[str, dict[str, Any]]], context: dict[str, Any]
) -> None:
    gates, answers = built(case)
    desk = Desk(answers)
    before = canonical_bytes(context)
    policy, quality, merged = asyncio.run(desk.check(*gates, context=context or {"x": 1}))
    # the context of the caller is never changed, and only allowed keys differ from it
    assert canonical_bytes(context) == before
    changed = {key for key in merged if merged[key] != (context or {"x": 1}).get(key)}
    assert changed <= ALLOWED_MUTATIONS
    # each lane in the order of the gates; nothing of the quality lane decides or changes
    decides = [gate.name for gate in gates if gate.lane is GateLane.POLICY]
    assert [each.gate_name for each in policy] == decides
    assert [each.gate_name for each in quality] == [g.name for g in gates if g.name not in decides]
    assert all(each.action is GO and each.modified_context is None for each in quality)
    assert all(set(each.modified_context or {}) <= ALLOWED_MUTATIONS for each in policy)
    # without the quality lane, everything is the same
    alone = [gate for gate in gates if gate.lane is GateLane.POLICY]
    again = asyncio.run(Desk(answers).check(*alone, context=context or {"x": 1}))
    assert (again[0], again[2]) == (policy, merged)


@given(cases, contexts)
def test_same_input_same_bytes(
    case: list[tuple[str, dict[str, Any]]], context: dict[str, Any]
) -> None:
    gates, answers = built(case)

    def run(desk: Desk) -> bytes:
        policy, quality, merged = asyncio.run(desk.check(*gates, context=context or {"x": 1}))
        results = [each.model_dump(mode="json") for each in (*policy, *quality)]
        return canonical_bytes([results, merged, desk.audit.entries])

    assert run(Desk(answers)) == run(Desk(answers))


@given(st.lists(st.sampled_from(GateAction)))
def test_the_strictest_wins(actions: list[GateAction]) -> None:
    results = [
        GateResult(gate_name="g", lane=GateLane.POLICY, action=a, reason="") for a in actions
    ]
    order = [GO, ASK, BLOCK]
    assert strictest(results) is order[max((order.index(a) for a in actions), default=0)]


async def test_two_tenants_in_parallel_share_nothing() -> None:
    """Each tenant's texts go through one runner, interleaved at every await."""

    class Slow:
        def problem(self, _gate: Gate) -> str | None:
            return None

        async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
            await asyncio.sleep(0)
            text = f"{context['message']}/{context['sender_id']}"
            return answer(modified_context={"message": text})(gate, context)

    audit = RecordingAudit()
    runner = GateRunner({"custom": Slow()}, audit, max_gate_evals_per_turn=8)
    gates = [custom(f"g{number}") for number in range(8)]

    async def turn(tenant: str) -> dict[str, Any]:
        mine = runner.for_turn()
        context = {"message": tenant, "sender_id": tenant}
        policy, _, merged = await mine.check_gates(gates, MESSAGE, context)
        assert strictest(policy) is GO
        return merged

    tenants = [f"t{number}" for number in range(20)]
    for tenant, merged in zip(tenants, await asyncio.gather(*map(turn, tenants)), strict=True):
        assert merged["message"] == "/".join([tenant] * 9)
    for _, data in audit.entries:
        assert data["after"] in {logged("/".join([data["sender_id"]] * n)) for n in range(2, 10)}


async def test_a_text_that_was_not_there_before_is_logged_too() -> None:
    guard = FakeProvider(answer(modified_context={"message": "new"}))
    audit = RecordingAudit()
    runner = GateRunner({"guardrails_ai": guard}, audit)
    await runner.check_gates([custom("g", provider="guardrails_ai")], MESSAGE, {"message": None})
    assert audit.entries[0][1]["before"] == logged("[redacted]")
    assert audit.entries[0][1]["after"] == logged("new")
