"""Runs that wait for the owner: kept, decided, gone on with by exactly one, or dropped."""

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.gates import GateAction
from silas.kernel import ApprovalError, format_timestamp
from silas.storage import SqliteDatabase
from silas.testing import FakeClock
from silas.testing.work import (
    SENDS,
    FakeApprover,
    FakeGateRunner,
    LaterApprover,
    PausingWorker,
    decide_with_vault,
)
from silas.tools.declaration import Tool, ToolRegistry
from silas.work import AttemptOutcome, WorkItem, WorkItemConflict, WorkItemResult, WorkItemStatus
from silas.work.authorisation import require_decided
from silas.work.executor import WorkItemExecutor
from silas.work.paused import KeptCall, KeptRun, PausedRuns
from silas.work.ports import Briefing, CallReview, PausedRun, ToolCaller, WaitingCall
from silas.work.script import ScriptWorker
from tests.work.paused_runner import FILE, SEND, Sender, open_paused
from tests.work.shop import YES, Shop, check, shell, task
from tests.work.test_goal import approved, cycle, goal
from tests.work.test_project import project, step
from tests.work.test_toolcalls import GATE, SendArguments

NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
HERE = Path(__file__).parents[2]


@pytest.fixture
def sender(shop: Shop) -> Sender:
    sender = Sender()
    tools = [
        *shop.bench.registry.tools.values(),
        Tool("send", SendArguments, sender, contained=False, effect=SENDS),
    ]
    shop.having(registry=ToolRegistry(tools), approver=LaterApprover())
    return sender


def runs_of(shop: Shop) -> PausedRuns:
    assert shop.bench.paused is not None
    return shop.bench.paused


async def waiting(shop: Shop) -> KeptRun:
    kept = await runs_of(shop).of("t1")
    assert kept is not None
    return kept


async def start(shop: Shop, worker: PausingWorker, **more: Any) -> WorkItemResult:
    more = {"verify": [check("cat made", equals="first\n")], "budget": {"max_attempts": 2}, **more}
    return await shop.run(task(**more), worker)


async def go_on(shop: Shop) -> WorkItemResult:
    item = await shop.bench.items.get("t1")
    assert item is not None
    return await shop.execute(item)


async def decide(shop: Shop, decision: ApprovalDecision = YES) -> None:
    for call in (await waiting(shop)).calls:
        await decide_with_vault(shop.bench, [call], decision)


async def test_a_call_waits_and_is_made_after_the_decision(shop: Shop, sender: Sender) -> None:
    worker = PausingWorker(FILE, SEND, tokens=7)
    result = await start(shop, worker)
    assert result.status is WorkItemStatus.BLOCKED
    assert "waits for the owner" in (result.last_error or "")
    assert sender.sent == []
    (call,) = (await waiting(shop)).calls
    assert (call.call.tool, call.call.args, call.call.attempt) == ("send", SEND[1], 1)

    await decide(shop)
    result = await go_on(shop)
    assert result.status is WorkItemStatus.DONE
    assert sender.sent == ["a"]
    item = await shop.bench.items.get("t1")
    assert item is not None
    # The same attempt went on, in the same workspace, and both parts of it were charged.
    assert (item.attempts, item.budget_used.tokens, item.budget_used.executor_runs) == (1, 14, 2)
    assert await runs_of(shop).waiting() == []


async def test_nothing_goes_on_before_the_decision(shop: Shop, sender: Sender) -> None:
    await start(shop, PausingWorker(FILE, SEND))
    for _ in range(2):
        result = await go_on(shop)
        assert (result.status, result.summary) == (WorkItemStatus.BLOCKED, "It waits.")
    assert sender.sent == []
    assert (await shop.bench.attempts.list_of("t1"))[0].ended_at is None


async def test_a_declined_call_is_answered_with_the_reason(shop: Shop, sender: Sender) -> None:
    worker = PausingWorker(FILE, SEND)
    await start(shop, worker)
    await decide(shop, NO)
    assert (await go_on(shop)).status is WorkItemStatus.DONE
    assert "verdict was declined" in worker.answers[-1]
    assert sender.sent == []


async def test_what_nobody_decides_is_declined_in_time(
    shop: Shop, sender: Sender, clock: FakeClock
) -> None:
    worker = PausingWorker(FILE, SEND)
    await start(shop, worker)
    (call,) = (await waiting(shop)).calls
    clock.advance(days=1, seconds=1)
    with pytest.raises(WorkItemConflict):
        await decide_with_vault(shop.bench, [call], YES)
    await shop.approve((await shop.bench.items.get("t1")) or task())
    await go_on(shop)
    assert "did not decide in time" in worker.answers[-1]
    assert sender.sent == []


async def test_a_decision_is_made_once(shop: Shop, sender: Sender) -> None:
    await start(shop, PausingWorker(FILE, SEND))
    (call,) = (await waiting(shop)).calls
    await decide_with_vault(shop.bench, [call], NO)
    with pytest.raises(WorkItemConflict):
        await decide_with_vault(shop.bench, [call], YES)
    with pytest.raises(WorkItemConflict):
        await decide_with_vault(shop.bench, [call.model_copy(update={"id": "nobody"})], YES)


async def test_two_calls_wait_one_after_the_other(shop: Shop, sender: Sender) -> None:
    other = ("send", {"to": "b"})
    await start(shop, PausingWorker(FILE, SEND, other))
    await decide(shop)
    assert (await go_on(shop)).status is WorkItemStatus.BLOCKED
    assert sender.sent == ["a"]
    await decide(shop)
    assert (await go_on(shop)).status is WorkItemStatus.DONE
    assert sender.sent == ["a", "b"]


async def test_an_approval_is_good_for_one_call(shop: Shop, sender: Sender) -> None:
    await start(shop, PausingWorker(FILE, SEND, SEND))
    await decide(shop)
    assert (await go_on(shop)).status is WorkItemStatus.BLOCKED
    assert sender.sent == ["a"]


async def test_of_two_that_go_on_at_once_one_does(shop: Shop, sender: Sender) -> None:
    await start(shop, PausingWorker(FILE, SEND))
    await decide(shop)
    results = await asyncio.gather(*(go_on(shop) for _ in range(5)), return_exceptions=True)
    done = [each for each in results if isinstance(each, WorkItemResult)]
    assert WorkItemStatus.DONE in {each.status for each in done}
    assert all(isinstance(each, WorkItemResult | WorkItemConflict) for each in results)
    assert sender.sent == ["a"]


async def test_cancelling_drops_the_run(shop: Shop, sender: Sender) -> None:
    await start(shop, PausingWorker(FILE, SEND))
    (call,) = (await waiting(shop)).calls
    await shop.bench.control.cancel("t1")
    assert await runs_of(shop).waiting() == []
    (attempt,) = await shop.bench.attempts.list_of("t1")
    assert attempt.outcome is AttemptOutcome.STOPPED
    with pytest.raises(WorkItemConflict):
        await decide_with_vault(shop.bench, [call], YES)
    assert (await go_on(shop)).status is WorkItemStatus.FAILED
    assert sender.sent == []


async def test_pausing_the_item_keeps_the_run_for_later(shop: Shop, sender: Sender) -> None:
    await start(shop, PausingWorker(FILE, SEND))
    await shop.bench.control.pause("t1")
    assert await shop.bench.control.wait_until_idle("t1", seconds=0)
    await decide(shop)
    assert (await go_on(shop)).status is WorkItemStatus.PAUSED
    assert sender.sent == []
    await shop.bench.control.resume("t1")
    assert (await go_on(shop)).status is WorkItemStatus.DONE
    assert sender.sent == ["a"]


async def test_a_start_of_silas_leaves_what_waits_alone(shop: Shop, sender: Sender) -> None:
    await start(shop, PausingWorker(FILE, SEND))
    assert await WorkItemExecutor(shop.bench).recover() == []
    assert await shop.bench.attempts.interrupt() == []
    await decide(shop)
    assert (await go_on(shop)).status is WorkItemStatus.DONE


async def test_a_worker_that_cannot_wait_is_refused(shop: Shop, sender: Sender) -> None:
    shop.having(agent=ScriptWorker())
    await shop.run(task("```run\necho hi\n```"), ScriptWorker())
    assert await runs_of(shop).waiting() == []


async def test_a_worker_that_cannot_resume_leaves_the_run_waiting(
    shop: Shop, sender: Sender
) -> None:
    worker = PausingWorker(FILE, SEND)
    await start(shop, worker)
    await decide(shop)
    shop.having(agent=ScriptWorker())
    assert "worker that is not here" in ((await go_on(shop)).last_error or "")
    shop.having(agent=worker)
    assert (await go_on(shop)).status is WorkItemStatus.DONE


async def test_a_gate_that_asks_waits_too_and_rewritten_arguments_are_what_is_decided(
    shop: Shop, sender: Sender
) -> None:
    shop.having(
        gates=FakeGateRunner(
            {"limit": GateAction.REQUIRE_APPROVAL}, rewritten={"argv": ["touch", "safe"]}
        )
    )
    await start(shop, PausingWorker(shell("rm", "-rf", "/")), gates=[GATE], verify=[])
    (call,) = (await waiting(shop)).calls
    assert call.call.args == {"argv": ["touch", "safe"]}
    await decide(shop)
    assert (await go_on(shop)).status is WorkItemStatus.UNCHECKED
    (entry,) = await shop.bench.ledger.entries("t1", 1)
    assert entry.args == {"argv": ["touch", "safe"]}


async def test_a_gate_with_a_new_objection_asks_again(shop: Shop, sender: Sender) -> None:
    shop.having(gates=FakeGateRunner({"limit": GateAction.CONTINUE}))
    await start(shop, PausingWorker(FILE, SEND), gates=[GATE])
    await decide(shop)
    shop.having(gates=FakeGateRunner({"limit": GateAction.REQUIRE_APPROVAL}))
    assert (await go_on(shop)).status is WorkItemStatus.BLOCKED
    assert sender.sent == []


async def test_a_gate_still_blocks_what_was_approved(shop: Shop, sender: Sender) -> None:
    shop.having(gates=FakeGateRunner({"limit": GateAction.CONTINUE}))
    worker = PausingWorker(FILE, SEND)
    await start(shop, worker, gates=[GATE])
    await decide(shop)
    shop.having(gates=FakeGateRunner({"limit": GateAction.BLOCK}))
    await go_on(shop)
    assert "A gate stopped this" in worker.answers[1]
    assert sender.sent == []


async def test_a_token_of_another_call_opens_nothing(
    shop: Shop, sender: Sender, database: SqliteDatabase
) -> None:
    worker = PausingWorker(FILE, SEND)
    await start(shop, worker)
    await decide(shop)
    (decided,) = (await waiting(shop)).approved()
    await require_decided(shop.bench, decided)
    evil = decided.call.model_copy(update={"args": {"to": "thief"}})
    with pytest.raises(ApprovalError, match="is not valid"):
        await require_decided(shop.bench, replace(decided, call=evil))
    await database.execute(
        "UPDATE paused_calls SET call = replace(call, ?, ?)", ('"to":"a"', '"to":"thief"')
    )
    worker._wanted = (FILE, ("send", {"to": "thief"}))
    assert (await go_on(shop)).status is WorkItemStatus.BLOCKED
    assert sender.sent == []


async def test_without_its_plans_approval_nothing_goes_on(
    shop: Shop, sender: Sender, clock: FakeClock
) -> None:
    await start(shop, PausingWorker(FILE, SEND))
    await decide(shop)
    clock.advance(days=400)
    assert (await go_on(shop)).status is WorkItemStatus.BLOCKED
    assert sender.sent == []


async def test_files_that_are_gone_block(shop: Shop, sender: Sender) -> None:
    await start(shop, PausingWorker(FILE, SEND))
    item = await shop.bench.items.get("t1")
    assert item is not None
    shop.bench.workspaces.discard(item)
    await decide(shop)
    result = await go_on(shop)
    assert (result.status, sender.sent) == (WorkItemStatus.BLOCKED, [])
    assert "are gone" in (result.last_error or "")


class Inventing(PausingWorker):
    """A worker that says it waits for something that nobody asked for."""

    async def run(self, briefing: Briefing, tools: ToolCaller) -> PausedRun:
        paused = await super().run(briefing, tools)
        assert isinstance(paused, PausedRun)
        call = paused.calls[0].call.model_copy(update={"reasons": ["It is quite harmless."]})
        return paused.model_copy(update={"calls": (WaitingCall(call_id="0", call=call),)})


async def test_a_worker_cannot_say_what_the_owner_is_asked(shop: Shop, sender: Sender) -> None:
    result = await start(shop, Inventing(SEND), budget={"max_attempts": 1})
    assert result.last_error == "It waits for what nobody asked."
    assert await runs_of(shop).waiting() == []


async def test_a_review_is_good_for_one_call_and_cannot_be_made_up(
    shop: Shop, sender: Sender
) -> None:
    shop.having(approver=FakeApprover())
    answers: list[str | None] = []

    class Cheating(PausingWorker):
        async def run(self, briefing: Briefing, tools: Any) -> Any:
            first, review = await tools.review(*SEND), await tools.review(*SEND)
            changed = first.model_copy(update={"args": {"to": "thief"}})
            forged = CallReview(number=99, tool="send", args={"to": "thief"})
            tried = (forged, review, review, changed, first)
            answers.extend([(await tools.perform(each)).error for each in tried])
            return await super().run(briefing, tools)

    await start(shop, Cheating(), budget={"max_attempts": 1})
    assert answers[1] is None
    assert all("waits for the owner" in (answers[at] or "") for at in (0, 2, 3, 4))
    assert sender.sent == ["a"]


async def test_nobody_can_wait_where_nothing_is_kept(shop: Shop, sender: Sender) -> None:
    worker = PausingWorker(SEND)
    await start(shop.having(paused=None), worker, budget={"max_attempts": 1})
    assert "cannot be waited for here" in worker.answers[0]
    assert isinstance(shop.bench.approver, LaterApprover)
    about = shop.bench.approver.calls[0]
    with pytest.raises(ApprovalError):
        await decide_with_vault(shop.bench, [KeptCall(id="any", call_id="0", call=about)], YES)


def killed(root: Path, *, at: str) -> None:
    """Run a Silas that is killed at this point."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.work.paused_runner", str(root), at], cwd=HERE, check=False
    )
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("at", ["before-keeping", "after-keeping", "after-deciding", "claimed"])
async def test_killed_at_any_point_the_call_is_made_at_most_once(tmp_path: Path, at: str) -> None:
    await asyncio.to_thread(killed, tmp_path, at=at)
    database, shop, sender = await open_paused(tmp_path)
    try:
        executor = WorkItemExecutor(shop.bench)
        recovered = await executor.recover()
        kept = await runs_of(shop).of("t1")
        if at in ("before-keeping", "claimed"):
            # The attempt was going on when it was killed: a fresh one begins, and asks again.
            assert [item.id for item in recovered] == ["t1"]
            assert kept is None
            assert (await go_on(shop)).status is WorkItemStatus.BLOCKED
        else:
            assert (recovered, kept is None) == ([], False)
        if at != "after-deciding":
            assert sender.sent == []
            await decide(shop)
        assert (await go_on(shop)).status is WorkItemStatus.DONE
        assert sender.sent == ["a"]
        item: WorkItem | None = await shop.bench.items.get("t1")
        assert item is not None
        assert item.attempts == (2 if at in ("before-keeping", "claimed") else 1)
    finally:
        await database.close()


async def test_resuming_an_undecided_item_says_that_it_waits(shop: Shop, sender: Sender) -> None:
    await start(shop, PausingWorker(FILE, SEND))
    await shop.bench.control.resume("t1")
    assert (await go_on(shop)).status is WorkItemStatus.BLOCKED
    await decide(shop)
    assert (await go_on(shop)).status is WorkItemStatus.DONE


async def test_a_project_waits_with_its_task_and_goes_on_with_it(
    shop: Shop, sender: Sender
) -> None:
    shop.having(agent=PausingWorker(FILE, SEND))
    made = check("cat made", equals="first\n")
    plan = project(step("t1", "Do it.", verify=[made]), verify=[made])
    root, *_ = await shop.approve_plan(plan)
    assert (await shop.execute(root)).status is WorkItemStatus.BLOCKED
    await decide(shop)
    stored = await shop.bench.items.get("p")
    assert stored is not None
    assert (await shop.execute(stored)).status is WorkItemStatus.DONE
    assert sender.sent == ["a"]


async def test_a_goal_goes_on_with_the_repair_that_waits(
    shop: Shop, sender: Sender, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    shop.having(agent=PausingWorker(("write_file", {"path": "up", "content": "yes\n"}), SEND))
    await approved(shop, goal())
    for _ in range(3):
        assert (await cycle(shop)).status is WorkItemStatus.BLOCKED
    (repair,) = await shop.bench.items.list_by_parent("g")
    kept = await runs_of(shop).of(repair.id)
    assert kept is not None
    await decide_with_vault(shop.bench, [kept.calls[0]], YES)
    assert (await cycle(shop)).status is WorkItemStatus.HEALTHY
    assert sender.sent == ["a"]


async def test_what_a_run_said_it_used_is_charged_when_it_is_cut_off(
    shop: Shop, sender: Sender
) -> None:
    class Crashing(PausingWorker):
        async def run(self, briefing: Briefing, tools: Any) -> Any:
            tools.report(tokens=11, cost_usd=0.5)
            raise RuntimeError("cut off")

    result = await start(shop, Crashing(), budget={"max_attempts": 1})
    assert (result.budget_used.tokens, result.budget_used.cost_usd) == (11, 0.5)


async def test_what_a_run_says_it_used_ends_it(shop: Shop, sender: Sender) -> None:
    class Spending(PausingWorker):
        async def run(self, briefing: Briefing, tools: Any) -> Any:
            tools.report(tokens=200_000, cost_usd=0.0)
            return await super().run(briefing, tools)

    worker = Spending(FILE)
    await start(shop, worker, budget={"max_attempts": 1})
    assert worker.answers == ["The budget is used up: max_tokens."]


class TestLongerThanTheApproval:
    """A plan's approval lasts for minutes, a call waits for a day."""

    async def test_a_call_is_made_that_is_decided_after_hours(
        self, shop: Shop, sender: Sender, clock: FakeClock
    ) -> None:
        await start(shop, PausingWorker(FILE, SEND))
        kept = await waiting(shop)
        assert kept.expires_at - kept.paused_at == timedelta(days=1)
        clock.advance(hours=20)
        await decide(shop)
        assert (await go_on(shop)).status is WorkItemStatus.DONE
        assert sender.sent == ["a"]

    async def test_a_no_after_hours_lets_it_go_on_without_the_call(
        self, shop: Shop, sender: Sender, clock: FakeClock
    ) -> None:
        await start(shop, PausingWorker(FILE, SEND))
        clock.advance(hours=20)
        await decide(shop, NO)
        assert (await go_on(shop)).status is WorkItemStatus.DONE
        assert sender.sent == []

    async def test_it_may_wait_a_second_time(
        self, shop: Shop, sender: Sender, clock: FakeClock
    ) -> None:
        await start(shop, PausingWorker(FILE, SEND, ("send", {"to": "b"})))
        for _ in range(2):
            clock.advance(hours=20)
            await decide(shop)
            result = await go_on(shop)
        assert result.status is WorkItemStatus.DONE
        assert sender.sent == ["a", "b"]

    async def test_nobody_goes_on_without_a_decision(
        self, shop: Shop, sender: Sender, clock: FakeClock
    ) -> None:
        worker = PausingWorker(FILE, SEND)
        await start(shop, worker)
        clock.advance(days=1, seconds=1)
        result = await go_on(shop)
        assert (result.status, result.last_error) == (
            WorkItemStatus.BLOCKED,
            "The token has expired",
        )
        assert len(worker.answers) == 1

    async def test_a_decision_is_not_followed_hours_later(
        self, shop: Shop, sender: Sender, clock: FakeClock
    ) -> None:
        await start(shop, PausingWorker(FILE, SEND))
        clock.advance(hours=2)
        await decide(shop)
        clock.advance(hours=2)
        assert (await go_on(shop)).last_error == "The token has expired"
        assert sender.sent == []

    async def test_a_row_that_says_it_was_decided_is_no_decision(
        self, shop: Shop, sender: Sender, clock: FakeClock
    ) -> None:
        await start(shop, PausingWorker(FILE, SEND))
        clock.advance(hours=20)
        now = format_timestamp(clock.now())
        database = shop.bench.control._database
        await database.execute("UPDATE paused_calls SET verdict = 'declined'")
        (call,) = (await waiting(shop)).calls
        await database.execute(
            "INSERT INTO decisions (question_id, kind, statement, strength, key_id, signature, "
            "tokens, decided_at, receipt_key_id, receipt) "
            "VALUES (?, 'call', '{}', 'vault', 'k', '', '{}', ?, 'k', '')",
            (call.id, now),
        )
        assert (await go_on(shop)).last_error == "The token has expired"

    async def test_an_approval_that_was_taken_back_is_not_gone_on_with(
        self, shop: Shop, sender: Sender, clock: FakeClock
    ) -> None:
        await start(shop, PausingWorker(FILE, SEND))
        item = await shop.bench.items.get("t1")
        assert item is not None
        assert item.approval_token is not None
        clock.advance(hours=1)
        await decide(shop)
        await shop.engine.withdraw(item.approval_token, item)
        assert (await go_on(shop)).status is WorkItemStatus.BLOCKED
        assert sender.sent == []

    async def test_a_project_goes_on_with_what_was_not_begun(
        self, shop: Shop, sender: Sender, clock: FakeClock
    ) -> None:
        there = [check("cat made", equals="first\n")]
        parts = project(step("a", verify=there), step("b", depends_on=["a"], verify=there))
        shop.having(agent=PausingWorker(FILE, SEND))
        root, *_ = await shop.approve_plan(parts)
        for _ in range(2):
            assert (await shop.execute(root)).status is WorkItemStatus.BLOCKED
            clock.advance(hours=20)
            (run,) = await runs_of(shop).waiting()
            await decide_with_vault(shop.bench, run.calls, YES)
        assert (await shop.execute(root)).status is WorkItemStatus.DONE
