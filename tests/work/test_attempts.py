"""Attempts and their ledger: claimed once, closed once, and honest after a crash."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import CanonicalError
from silas.storage import SqliteDatabase
from silas.testing import FakeClock, RecordingAudit
from silas.tools.execution import OUTCOME_UNKNOWN, ExecutionResult
from silas.work import (
    AttemptOutcome,
    AttemptStore,
    BudgetUsed,
    IllegalTransition,
    LedgerEntry,
    ToolLedger,
    VerificationResult,
    WorkItem,
    WorkItemConflict,
    WorkItemStatus,
    WorkItemStore,
    WorkItemUnknown,
    collect_artifacts,
)

S = WorkItemStatus


@pytest.fixture
def store(database: SqliteDatabase, clock: FakeClock) -> WorkItemStore:
    return WorkItemStore(database, clock)


@pytest.fixture
def attempts(database: SqliteDatabase, clock: FakeClock) -> AttemptStore:
    return AttemptStore(database, clock, RecordingAudit())


@pytest.fixture
def ledger(database: SqliteDatabase, clock: FakeClock) -> ToolLedger:
    return ToolLedger(database, clock)


@pytest.fixture(autouse=True)
async def item(store: WorkItemStore) -> WorkItem:
    return await store.save(WorkItem.model_validate({"id": "a", "type": "task", "title": "T"}))


async def finish(attempts: AttemptStore, number: int, status: S, **options: Any) -> WorkItem:
    return await attempts.finish(
        "a",
        number,
        outcome=options.pop("outcome", AttemptOutcome.FAILED),
        status=status,
        budget_used=options.pop("budget_used", BudgetUsed(attempts=number)),
        **options,
    )


def result(name: str, **fields: Any) -> ExecutionResult:
    return ExecutionResult.model_validate(
        {"execution_id": name, "step_index": 0, "success": True, **fields}
    )


async def test_starting_runs_counts_and_claims(attempts: AttemptStore) -> None:
    item = await attempts.start("a", runner="w1")
    assert (item.status, item.attempts, item.budget_used.attempts) == (S.RUNNING, 1, 1)
    with pytest.raises(WorkItemConflict, match="being worked on by w1"):
        await attempts.start("a", runner="w2")
    with pytest.raises(WorkItemConflict):
        await attempts.start("a", runner="w1")


async def test_of_many_runners_exactly_one_gets_the_item(attempts: AttemptStore) -> None:
    starts = [attempts.start("a", runner=f"w{number}") for number in range(20)]
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    assert sum(isinstance(outcome, WorkItem) for outcome in outcomes) == 1
    assert len(await attempts.list_open()) == 1


async def test_the_database_itself_refuses_a_second_open_attempt(
    attempts: AttemptStore, database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happens if two processes look at the same moment and both see nobody."""
    await attempts.start("a", runner="w1")
    monkeypatch.setattr("silas.work.attempt_store.open_attempt", lambda *_: None)
    with pytest.raises(WorkItemConflict, match="just started"):
        await attempts.start("a", runner="w2")
    assert [each.runner for each in await attempts.list_open()] == ["w1"]


async def test_retrying_and_passing(attempts: AttemptStore, clock: FakeClock) -> None:
    await attempts.start("a", runner="w")
    failed = VerificationResult(name="c", passed=False, reason="exit code 1")
    again = await finish(attempts, 1, S.RUNNING, detail="a test failed", results=[failed])
    assert again.status is S.RUNNING
    clock.advance(seconds=5)
    await attempts.start("a", runner="w")
    passed = VerificationResult(name="c", passed=True, reason="exit code 0")
    done = await finish(attempts, 2, S.DONE, outcome=AttemptOutcome.PASSED, results=[passed])
    assert done.status is S.DONE
    assert done.verification_results == [failed, passed]
    assert done.budget_used.attempts == 2
    first, second = await attempts.list_of("a")
    assert (first.outcome, first.detail) == (AttemptOutcome.FAILED, "a test failed")
    assert (second.outcome, second.ended_at) == (AttemptOutcome.PASSED, clock.now())
    assert await attempts.list_open() == []


async def test_an_attempt_is_closed_once(attempts: AttemptStore) -> None:
    await attempts.start("a", runner="w")
    await finish(attempts, 1, S.STUCK)
    for number in (1, 2):
        with pytest.raises(WorkItemConflict, match="not open any more"):
            await finish(attempts, number, S.DONE)


async def test_an_illegal_end_leaves_the_attempt_open(attempts: AttemptStore) -> None:
    await attempts.start("a", runner="w")
    with pytest.raises(IllegalTransition):
        await finish(attempts, 1, S.HEALTHY)
    assert len(await attempts.list_open()) == 1


@pytest.mark.parametrize("word", [S.PAUSED, S.FAILED, S.BLOCKED])
async def test_the_owners_word_stands(
    attempts: AttemptStore, store: WorkItemStore, word: WorkItemStatus
) -> None:
    await attempts.start("a", runner="w")
    await store.update_status("a", word, BudgetUsed())
    used = BudgetUsed(attempts=1, tokens=50)
    item = await finish(attempts, 1, S.DONE, outcome=AttemptOutcome.STOPPED, budget_used=used)
    assert item.status is word
    assert item.budget_used == used
    assert await attempts.list_open() == []


async def test_a_paused_item_cannot_be_resumed_while_its_worker_is_still_at_it(
    attempts: AttemptStore, store: WorkItemStore
) -> None:
    await attempts.start("a", runner="w")
    await store.update_status("a", S.PAUSED, BudgetUsed())
    with pytest.raises(WorkItemConflict):
        await attempts.start("a", runner="w2")


async def test_what_has_ended_or_is_unknown_is_not_started(
    attempts: AttemptStore, store: WorkItemStore
) -> None:
    with pytest.raises(WorkItemUnknown):
        await attempts.start("nobody", runner="w")
    await attempts.start("a", runner="w")
    await finish(attempts, 1, S.DONE)
    with pytest.raises(IllegalTransition):
        await attempts.start("a", runner="w")
    assert len(await attempts.list_of("a")) == 1


async def test_after_a_crash_the_item_waits_for_a_fresh_attempt(attempts: AttemptStore) -> None:
    await attempts.start("a", runner="w")
    (item,) = await attempts.interrupt()
    assert (item.status, item.attempts) == (S.PENDING, 1)
    (attempt,) = await attempts.list_of("a")
    assert attempt.outcome is AttemptOutcome.INTERRUPTED
    assert (await attempts.start("a", runner="w")).attempts == 2
    assert await attempts.interrupt(runner="somebody else") == []
    with pytest.raises(WorkItemConflict):
        await finish(attempts, 1, S.DONE)


async def test_a_crash_does_not_undo_a_pause(attempts: AttemptStore, store: WorkItemStore) -> None:
    await attempts.start("a", runner="w")
    await store.update_status("a", S.PAUSED, BudgetUsed())
    assert await attempts.interrupt(runner="w") == []
    item = await store.get("a")
    assert item is not None
    assert item.status is S.PAUSED
    assert await attempts.list_open() == []


@pytest.mark.parametrize("runner", [None, "w"])
async def test_a_crash_between_two_attempts_does_not_leave_the_item_running(
    attempts: AttemptStore, runner: str | None
) -> None:
    await attempts.start("a", runner="w")
    await finish(attempts, 1, S.RUNNING)
    assert await attempts.interrupt(runner="somebody else") == []
    (item,) = await attempts.interrupt(runner=runner)
    assert item.status is S.PENDING
    assert await attempts.interrupt() == []


async def test_calls_are_written_before_and_after(
    attempts: AttemptStore, ledger: ToolLedger, clock: FakeClock
) -> None:
    await attempts.start("a", runner="w")
    first = await ledger.begin("a", 1, tool="shell_exec", args={"argv": ["true"]})
    second = await ledger.begin("a", 1, tool="write_file", args={"path": "x"})
    assert (first, second) == (1, 2)
    clock.advance(seconds=2)
    given_back = result("e1", return_value="ok", metadata={"pid": 1}, artifacts={"x": "1"})
    await ledger.finish("a", 1, seq=first, result=given_back)
    begun, open_call = await ledger.entries("a", 1)
    assert begun.result == given_back
    assert begun.ended_at == clock.now()
    assert (open_call.tool, open_call.result, open_call.ended_at) == ("write_file", None, None)
    with pytest.raises(WorkItemConflict, match="not open"):
        await ledger.finish("a", 1, seq=first, result=result("forged"))
    with pytest.raises(WorkItemConflict, match="not open"):
        await ledger.finish("a", 1, seq=9, result=result("forged"))


async def test_a_call_that_a_crash_cut_off_or_whose_answer_was_lost_is_known_by_its_arguments(
    attempts: AttemptStore, ledger: ToolLedger
) -> None:
    await attempts.start("a", runner="w")
    for text, ended in (("begun", None), ("lost", OUTCOME_UNKNOWN), ("known", {})):
        seq = await ledger.begin("a", 1, tool="send", args={"to": "b", "text": text})
        if ended is not None:
            await ledger.finish("a", 1, seq=seq, result=result("e", metadata=dict(ended)))
    await attempts.interrupt()
    for text, lost in (("begun", True), ("lost", True), ("known", False), ("other", False)):
        same = {"text": text, "to": "b"}
        assert await ledger.was_lost("a", tool="send", args=same) is lost
    assert not await ledger.was_lost("a", tool="other", args={"to": "b", "text": "lost"})
    assert not await ledger.was_lost("b", tool="send", args={"to": "b", "text": "lost"})


async def test_only_the_open_attempt_calls_tools(
    attempts: AttemptStore, ledger: ToolLedger
) -> None:
    with pytest.raises(WorkItemConflict, match="not open"):
        await ledger.begin("a", 1, tool="shell_exec", args={})
    await attempts.start("a", runner="w")
    with pytest.raises(WorkItemConflict, match="not open"):
        await ledger.begin("a", 2, tool="shell_exec", args={})
    await attempts.interrupt()
    with pytest.raises(WorkItemConflict, match="not open"):
        await ledger.begin("a", 1, tool="shell_exec", args={})


async def test_arguments_without_a_canonical_form_are_not_written(
    attempts: AttemptStore, ledger: ToolLedger
) -> None:
    await attempts.start("a", runner="w")
    with pytest.raises(CanonicalError):
        await ledger.begin("a", 1, tool="shell_exec", args={"x": float("nan")})


calls = st.lists(
    st.tuples(st.booleans(), st.dictionaries(st.sampled_from("xyz"), st.text(max_size=3))),
    max_size=6,
)


@given(calls, st.randoms(use_true_random=False))
def test_artifacts_come_from_successful_calls_in_their_order(
    made: list[tuple[bool, dict[str, str]]], rng: Any
) -> None:
    start = FakeClock().now()
    entries = [
        LedgerEntry(
            seq=number,
            tool="t",
            args={},
            started_at=start,
            result=result("e", success=success, artifacts=artifacts),
        )
        for number, (success, artifacts) in enumerate(made)
    ]
    entries.append(LedgerEntry(seq=99, tool="t", args={}, started_at=start))
    rng.shuffle(entries)
    expected: dict[str, str] = {}
    for success, artifacts in made:
        expected.update(artifacts if success else {})
    assert collect_artifacts(entries) == expected
