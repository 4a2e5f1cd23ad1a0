"""Tool calls through the real gate runner, and where foreign content came from."""

from typing import Any

import pytest

from silas.gates.providers import CustomProvider, PredicateProvider
from silas.gates.providers.builtin import ACTION_ENVELOPE, BUILT_IN_CHECKS
from silas.gates.runner import GateRunner
from silas.kernel.models import Data
from silas.testing.work import LOOKS, FakeApprover, FakeWorker
from silas.tools.declaration import Tool, ToolRegistry
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, ModelView, succeeded
from silas.work.ports import Briefing, ToolCaller
from tests.work.shop import Shop, check, shell, task

ONLY_NOTES = {
    "name": "only_notes",
    "on": "on_tool_call",
    "extract": "path",
    "allowed_values": ["notes.txt"],
    "match": ["other.txt"],
    "not_match": ["notes.txt"],
}


class LookArguments(Data):
    at: str


class Look:
    """A tool that brings in foreign content; `hold` looks at the owner's own."""

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        own = {"taint": "owner"} if envelope.action == "hold" else {"taint": "external"}
        return succeeded(envelope, "seen", **own)


@pytest.fixture
def gated(shop: Shop) -> Shop:
    tools = [
        *shop.bench.registry.tools.values(),
        *(
            Tool(name, LookArguments, Look(), contained=False, effect=LOOKS)
            for name in ("look", "hold")
        ),
    ]
    directories = (shop.root / "work",)
    providers = {
        "predicate": PredicateProvider(directories),
        "custom": CustomProvider(BUILT_IN_CHECKS),
    }
    runner = GateRunner(providers, shop.audit)
    return shop.having(registry=ToolRegistry(tools), gates=runner)


async def answers_to(
    shop: Shop, *wanted: tuple[str, dict[str, Any]], **more: Any
) -> list[ModelView]:
    answers: list[ModelView] = []

    async def work(_briefing: Briefing, tools: ToolCaller) -> None:
        for tool, args in wanted:
            answers.append(await tools.call(tool, args))

    await shop.run(task(**{"budget": {"max_attempts": 1}, **more}), FakeWorker(work))
    return answers


def write(path: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": "x"}


async def test_a_gate_concerns_the_tools_that_have_its_value(gated: Shop) -> None:
    answers = await answers_to(
        gated, write("notes.txt"), write("other.txt"), shell("ls"), gates=[ONLY_NOTES]
    )
    assert [each.success for each in answers] == [True, False, True]
    assert "other.txt" not in answers[2].return_value
    assert "gate_blocked" in gated.audit.events()


async def test_a_gate_whose_examples_fail_stops_the_calls(gated: Shop) -> None:
    (answer,) = await answers_to(
        gated, write("notes.txt"), gates=[{**ONLY_NOTES, "match": ["notes.txt"]}]
    )
    assert "Example 1 of match does not hold" in (answer.error or "")


async def test_the_owner_is_shown_where_the_foreign_content_came_from(gated: Shop) -> None:
    approver = FakeApprover()
    gated.having(approver=approver)
    calls = [("hold", {"at": "a"}), ("look", {"at": "a"}), ("hold", {"at": "b"})]
    answers = await answers_to(gated, *calls)
    assert [each.success for each in answers] == [True, True, True]
    (paused,) = approver.calls
    (source,) = paused.taint_sources
    at = gated.clock.now()
    assert (paused.tool, source) == ("hold", f"tool:look, read at {at:%H:%M} UTC on {at:%Y-%m-%d}")
    assert f"(from {source})" in paused.reasons[0]


async def test_the_envelope_gate_sees_what_the_runtime_knows(gated: Shop) -> None:
    gate = ACTION_ENVELOPE.model_dump(mode="json")
    calls = [("look", {"at": "a"}), shell("true"), ("look", {"at": "b"}), ("look", {"at": "c"})]
    envelope = {"tool": "look", "constraints": {"at": {"equals": "b"}}}
    answers = await answers_to(gated, *calls, gates=[gate], approvals=[envelope])
    assert [each.success for each in answers] == [True, True, True, False]
    data = [data for event, data in gated.audit.entries if event == "gate_approval_required"]
    (source,) = data[0]["taint_sources"]
    assert (len(data), source.split(",")[0]) == (1, "tool:look")


async def test_a_file_is_looked_for_where_the_attempt_works(gated: Shop) -> None:
    gate = {"name": "there", "on": "after_step", "after_step": 0, "type": "file_valid"}
    report = {"name": "there", "extract": "response"}
    echo = ("shell_exec", {"argv": ["/bin/sh", "-c", "echo x > out.txt; printf out.txt"]})
    missing = ("shell_exec", {"argv": ["printf", "none.txt"]})
    for call, blocked in ((echo, False), (missing, True)):
        item = task(
            id="t-missing" if blocked else "t-there",
            gates=[{**gate, **report}],
            verify=[check("true")],
            budget={"max_attempts": 1},
        )

        async def work(
            _briefing: Briefing, tools: ToolCaller, call: tuple[str, dict[str, Any]] = call
        ) -> None:
            await tools.call(*call)

        result = await gated.run(item, FakeWorker(work))
        assert (result.status.value == "blocked") is blocked
