"""Gates after a step: they rewrite its result, end the attempt, or ask; and scripts that wait."""

from pathlib import Path
from typing import Any

import pytest

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.gates import Gate, GateAction, GateResult
from silas.gates.runner import GateRunner
from silas.testing import FakeClock
from silas.testing.work import SENDS, FakeApprover, FakeWorker, LaterApprover, decide_with_vault
from silas.tools.declaration import Tool, ToolRegistry
from silas.work import WorkItem, WorkItemResult, WorkItemStatus
from silas.work.paused import KeptRun
from silas.work.ports import Briefing, ToolCaller
from tests.work.paused_runner import Sender
from tests.work.shop import YES, Shop, check, shell, task
from tests.work.test_toolcalls import AFTER, GATE, SendArguments

NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
MADE = [check("cat made", equals="yes\n")]
SCRIPT = "```file path=made\nyes\n```\n\n```run\necho secret\n```"


class Provider:
    """`GateCheckProvider` that gives one action, and rewrites what was printed."""

    def __init__(self, action: GateAction, response: str | None = None) -> None:
        self._action = action
        self._response = response

    def problem(self, gate: Gate) -> str | None:
        return None

    async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
        changed = {} if self._response is None else {"response": self._response}
        return GateResult(
            gate_name=gate.name,
            lane=gate.lane,
            action=self._action,
            reason="the test says so",
            modified_context=changed,
        )


def gated(shop: Shop, action: GateAction, response: str | None = None, **more: Any) -> Shop:
    runner = GateRunner({"predicate": Provider(action, response)}, shop.audit)
    return shop.having(gates=runner, **more)


async def waiting(shop: Shop) -> KeptRun:
    assert shop.bench.paused is not None
    kept = await shop.bench.paused.of("t1")
    assert kept is not None
    return kept


async def go_on(shop: Shop, decision: ApprovalDecision) -> WorkItemResult:
    await decide_with_vault(shop.bench, (await waiting(shop)).calls, decision)
    item = await shop.bench.items.get("t1")
    assert item is not None
    return await shop.execute(item)


def script(**more: Any) -> WorkItem:
    return task(SCRIPT, gates=[{**AFTER, "after_step": 1}], verify=MADE, **more)


async def test_what_a_gate_rewrites_is_what_everybody_sees(shop: Shop) -> None:
    gated(shop, GateAction.CONTINUE, "rewritten")
    answers = []

    async def work(_briefing: Briefing, tools: ToolCaller) -> None:
        answers.append(await tools.call(*shell("echo", "secret")))

    item = task(gates=[AFTER], verify=[check("true")])
    await shop.run(item, FakeWorker(work))
    assert answers[0].return_value == "rewritten"
    (entry,) = await shop.bench.ledger.entries("t1", 1)
    assert entry.result is not None
    assert entry.result.return_value == "rewritten"


async def test_a_gate_that_blocks_ends_the_attempt_at_this_step(shop: Shop) -> None:
    gated(shop, GateAction.BLOCK)
    answers = []

    async def work(_briefing: Briefing, tools: ToolCaller) -> None:
        answers.extend([await tools.call(*shell("true")), await tools.call(*shell("true"))])

    result = await shop.run(task(gates=[AFTER], verify=[check("true")]), FakeWorker(work))
    assert (result.status, result.last_error) == (
        WorkItemStatus.BLOCKED,
        "after: the test says so",
    )
    assert [each.success for each in answers] == [True, False]


class TestAsks:
    """The card comes when the worker has ended, and nothing is taken over before the answer."""

    @pytest.fixture
    def asked(self, shop: Shop, tmp_path: Path) -> Path:
        gated(shop, GateAction.REQUIRE_APPROVAL, approver=LaterApprover())
        site = tmp_path / "site"
        site.mkdir()
        return site

    def item(self) -> WorkItem:
        return script(workspace={"path": "site", "changes": {"add": ["made"]}})

    async def test_it_waits_with_a_card_that_shows_the_step(self, shop: Shop, asked: Path) -> None:
        result = await shop.run(self.item())
        assert result.status is WorkItemStatus.BLOCKED
        (call,) = (await waiting(shop)).calls
        assert call.call.args["tool"] == "shell_exec"
        assert call.call.args["output"] == "secret\n"
        assert call.call.reasons == ["after: the test says so"]
        assert not (asked / "made").exists()

    async def test_a_yes_delivers_what_was_done(self, shop: Shop, asked: Path) -> None:
        await shop.run(self.item())
        assert (await go_on(shop, YES)).status is WorkItemStatus.DONE
        assert (asked / "made").read_text() == "yes\n"
        item = await shop.bench.items.get("t1")
        assert item is not None
        assert item.attempts == 1

    async def test_a_no_blocks_it(self, shop: Shop, asked: Path) -> None:
        await shop.run(self.item())
        result = await go_on(shop, NO)
        assert result.status is WorkItemStatus.BLOCKED
        assert "did not let the result of a step stand" in (result.last_error or "")
        assert not (asked / "made").exists()

    async def test_it_waits_longer_than_the_approval(
        self, shop: Shop, asked: Path, clock: FakeClock
    ) -> None:
        await shop.run(self.item())
        clock.advance(hours=20)
        assert (await go_on(shop, YES)).status is WorkItemStatus.DONE

    async def test_at_a_terminal_it_is_decided_at_once(self, shop: Shop, asked: Path) -> None:
        shop.having(approver=FakeApprover())
        assert (await shop.run(self.item())).status is WorkItemStatus.DONE

    async def test_until_then_nothing_is_done_outside(self, shop: Shop, asked: Path) -> None:
        sender, answers = Sender(), []
        send = Tool("send", SendArguments, sender, contained=False, effect=SENDS)
        shop.having(registry=ToolRegistry([*shop.bench.registry.tools.values(), send]))

        async def work(_briefing: Briefing, tools: ToolCaller) -> None:
            answers.append(await tools.call(*shell("true")))
            answers.append(await tools.call("send", {"to": "a"}))

        envelope = {"tool": "send", "constraints": {"to": {"equals": "a"}}}
        item = task(gates=[AFTER], approvals=[envelope], verify=[check("true")])
        await shop.run(item, FakeWorker(work))
        assert sender.sent == []
        assert "The owner decides first" in (answers[1].error or "")


class TestScript:
    """Without a model, a plan's own blocks wait for the owner like a model's calls."""

    async def started(self, shop: Shop) -> WorkItemResult:
        gated(shop, GateAction.REQUIRE_APPROVAL, approver=LaterApprover())
        return await shop.run(task(SCRIPT, gates=[GATE], verify=MADE, budget={"max_attempts": 1}))

    async def test_a_step_that_a_gate_asks_about_waits(self, shop: Shop) -> None:
        result = await self.started(shop)
        assert result.status is WorkItemStatus.BLOCKED
        (call,) = (await waiting(shop)).calls
        assert call.call.tool == "write_file"

    async def test_it_goes_on_step_by_step(self, shop: Shop) -> None:
        await self.started(shop)
        assert (await go_on(shop, YES)).status is WorkItemStatus.BLOCKED
        (call,) = (await waiting(shop)).calls
        assert call.call.args["argv"] == ["echo", "secret"]
        assert (await go_on(shop, YES)).status is WorkItemStatus.DONE
        entries = await shop.bench.ledger.entries("t1", 1)
        assert [entry.tool for entry in entries] == ["write_file", "shell_exec"]

    async def test_a_no_ends_the_script(self, shop: Shop) -> None:
        await self.started(shop)
        assert (await go_on(shop, NO)).status is WorkItemStatus.STUCK
        assert await shop.bench.ledger.entries("t1", 1) == []
