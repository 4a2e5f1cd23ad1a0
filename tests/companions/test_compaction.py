"""Compaction: spans, jobs, fall-back, retries, and pointers that only move after the commit."""

import asyncio
import itertools
from datetime import datetime, timedelta
from typing import Any

import pytest

from silas.companions.compaction import (
    CompactionPolicy,
    Compactor,
    SummaryRequest,
    summarise_by_rules,
    write_summary_in,
)
from silas.companions.errors import BudgetExceeded
from silas.companions.log import MemoryAssembler, MemoryLimits, Remembered, pointer_to
from silas.companions.messages import (
    AgentMessage,
    AgentMessageMetadata,
    CompactionJob,
    Diagnostic,
)
from silas.companions.models import (
    AgentLifecycle,
    AgentLinkRelation,
    AgentMessageKind,
    AgentState,
    CompactionStatus,
    Companion,
    JsonMap,
    ToolResultStatus,
)
from silas.companions.store import CompanionStore
from silas.kernel import LlmError
from silas.storage import DatabaseBusy
from silas.testing import FakeClock
from tests.companions.making import ReadableLog, draft

THREAD = "agent-1:session:1"
SMALL = CompactionPolicy(
    trigger_messages=6,
    keep_messages=3,
    trigger_summaries=4,
    keep_summaries=2,
    rules_below_tokens=0,
    max_attempts=4,
)


class Model:
    """`Summariser` that says what it is told, or fails."""

    def __init__(self, *answers: JsonMap | Exception, version: str = "model-1") -> None:
        self.answers = itertools.cycle(answers or ({"summary": "In short."},))
        self.version = version
        self.asked: list[SummaryRequest] = []

    @property
    def contract_version(self) -> str:
        return self.version

    async def summarise(self, request: SummaryRequest) -> JsonMap:
        self.asked.append(request)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def fill(store: CompanionStore, count: int, *, thread: str = THREAD, first: int = 0) -> None:
    drafts = [draft(f"line {n}", thread=thread) for n in range(first, first + count)]
    await ReadableLog(store).append(drafts)


async def state_of(store: CompanionStore, companion: Companion) -> AgentState:
    return await store.require(AgentState, companion.current_state_id)


async def summaries(store: CompanionStore, depth: int = 1) -> list[AgentMessage]:
    return await store.find(AgentMessage, {"agent_id": "agent-1", "summary_depth": depth})


async def test_compaction_span_correctness(store: CompanionStore, companion: Companion) -> None:
    compactor = Compactor(store, policy=SMALL, summariser=Model())
    await fill(store, 6)
    assert await compactor.consider("agent-1", THREAD, ended=False) == []
    await fill(store, 4, first=6)
    [job] = await compactor.consider("agent-1", THREAD, ended=False)
    messages = await ReadableLog(store).thread("agent-1", THREAD)
    assert (job.start_message_id, job.end_message_id) == (messages[0].id, messages[6].id)
    # Single flight: while it waits, there is no second one.
    assert await compactor.consider("agent-1", THREAD, ended=False) == []
    assert await compactor.work() is None
    [summary] = await summaries(store)
    assert (summary.summary_start_message_id, summary.summary_end_message_id) == (
        messages[0].id,
        messages[6].id,
    )
    assert summary.metadata.summary_contract_version == "model-1"
    assert (await store.require(CompactionJob, job.id)).status is CompactionStatus.DONE
    state = await state_of(store, companion)
    assert state.latest_summary == pointer_to(summary)
    log = ReadableLog(store)
    [start] = await log.links(AgentLinkRelation.SUMMARY_START, from_id=summary.id)
    [end] = await log.links(AgentLinkRelation.SUMMARY_END, from_id=summary.id)
    assert (start.to_id, end.to_id) == (messages[0].id, messages[6].id)
    # The raw messages are still there, and the next span begins behind this one.
    assert len(await ReadableLog(store).thread("agent-1", THREAD)) == 10
    await fill(store, 6, first=10)
    [following] = await compactor.consider("agent-1", THREAD, ended=False)
    assert following.start_message_id == messages[7].id


async def test_create_wake_run_append_summarize_fills_warm_and_cold_memory(
    store: CompanionStore, companion: Companion
) -> None:
    """Each ended run becomes a summary, and many of those become one."""
    compactor = Compactor(store, policy=SMALL)
    for number in range(9):
        await fill(store, 2, thread=f"agent-1:run:{number}", first=number * 10)
        await compactor.consider("agent-1", f"agent-1:run:{number}", ended=True)
        await compactor.work()
    assert len(await summaries(store)) == 9
    cold = await summaries(store, depth=2)
    assert [each.thread_id for each in cold] == ["agent-1:summaries"] * len(cold)
    assert cold
    memory = await MemoryAssembler(store).assemble("agent-1", "agent-1:run:new")
    assert memory.hot == ()
    told = [each.message.id for each in (*memory.warm, *memory.cold)]
    assert len(told) == len(set(told))
    # What a cold summary has taken up is not told as a warm one again.
    last_cold = memory.cold[-1].message.sequence
    assert all(each.message.sequence > last_cold for each in memory.warm)
    assert "line 80" in str(memory.warm[-1].content)


async def test_long_history_does_not_inflate_what_is_remembered(
    store: CompanionStore, companion: Companion
) -> None:
    compactor, memory = Compactor(store, policy=SMALL), MemoryAssembler(store)
    limits = MemoryLimits(hot_messages=5, warm_summaries=3, cold_summaries=2)
    sizes = []
    for number in range(12):
        await fill(store, 8, first=number * 8)
        await compactor.consider("agent-1", THREAD, ended=False)
        await compactor.work()
        told = await memory.assemble("agent-1", THREAD, limits=limits)
        sizes.append(len(told.hot) + len(told.warm) + len(told.cold))
        # Nothing hot is told a second time in a summary.
        oldest = told.hot[0].message.sequence
        assert all(each.message.sequence < oldest for each in told.warm)
    assert max(sizes) <= 10


async def test_compaction_job_state_machine_and_retry_backoff(
    store: CompanionStore, companion: Companion, clock: FakeClock
) -> None:
    """pending -> running -> pending (twice, by a model that fails) -> done, by rules."""
    model = Model(LlmError("The provider is down."))
    compactor = Compactor(store, policy=SMALL, summariser=model)
    await fill(store, 10)
    [job] = await compactor.consider("agent-1", THREAD, ended=False)
    assert job.status is CompactionStatus.PENDING
    before = await state_of(store, companion)
    next_at = await compactor.work()
    assert next_at == clock.now() + timedelta(seconds=30)
    failed = await store.require(CompactionJob, job.id)
    assert (failed.status, failed.attempt_count) == (CompactionStatus.PENDING, 1)
    assert failed.last_error == "llm_failed: The provider is down."
    assert await state_of(store, companion) == before
    assert await summaries(store) == []
    clock.advance(seconds=30)
    assert await compactor.work() == clock.now() + timedelta(seconds=60)
    clock.advance(seconds=60)
    assert await compactor.work() is None
    [summary] = await summaries(store)
    assert summary.metadata.summary_contract_version == "rules-2"
    assert len(model.asked) == 2
    assert (await store.require(CompactionJob, job.id)).attempt_count == 3


async def test_llm_summarizer_failure_path_preserves_raw_history_and_falls_back(
    store: CompanionStore, companion: Companion, clock: FakeClock
) -> None:
    """And the pointer moves once, with the summary that the rules have made."""
    compactor = Compactor(store, policy=SMALL, summariser=Model(LlmError("Rate limit.")))
    await fill(store, 10)
    history = await ReadableLog(store).thread("agent-1", THREAD)
    before = await state_of(store, companion)
    await compactor.consider("agent-1", THREAD, ended=False)
    for _ in range(SMALL.model_attempts):
        await compactor.work()
        assert await state_of(store, companion) == before
        clock.advance(hours=1)
    await compactor.work()
    raw = [
        each
        for each in await ReadableLog(store).thread("agent-1", THREAD)
        if not each.summary_depth
    ]
    assert raw == history
    [summary] = await summaries(store)
    assert (await state_of(store, companion)).latest_summary == pointer_to(summary)


async def test_failed_terminal_after_the_last_attempt_and_manual_retry(
    store: CompanionStore, companion: Companion, clock: FakeClock
) -> None:
    never = SMALL.model_copy(update={"model_attempts": 99, "max_attempts": 3})
    model = Model(LlmError("Down."))
    compactor = Compactor(store, policy=never, summariser=model)
    await fill(store, 10)
    [job] = await compactor.consider("agent-1", THREAD, ended=False)
    before = await state_of(store, companion)
    for _ in range(3):
        await compactor.work()
        clock.advance(hours=1)
    given_up = await store.require(CompactionJob, job.id)
    assert (given_up.status, given_up.attempt_count) == (CompactionStatus.FAILED_TERMINAL, 3)
    assert await state_of(store, companion) == before


async def test_a_used_up_budget_is_a_reason_for_rules_at_once(
    store: CompanionStore, companion: Companion
) -> None:
    model = Model(BudgetExceeded())
    compactor = Compactor(store, policy=SMALL, summariser=model)
    await fill(store, 10)
    await compactor.consider("agent-1", THREAD, ended=False)
    assert await compactor.work() is None
    [summary] = await summaries(store)
    assert summary.metadata.summary_contract_version == "rules-2"


async def test_a_short_span_costs_no_model(store: CompanionStore, companion: Companion) -> None:
    model = Model()
    compactor = Compactor(store, summariser=model)
    await fill(store, 2)
    await compactor.consider("agent-1", THREAD, ended=True)
    await compactor.work()
    assert model.asked == []
    assert len(await summaries(store)) == 1


async def test_a_crash_in_the_middle_is_recovered_without_a_second_summary(
    store: CompanionStore, companion: Companion
) -> None:
    class Dying(Model):
        async def summarise(self, request: SummaryRequest) -> JsonMap:
            raise asyncio.CancelledError

    await fill(store, 10)
    dying = Compactor(store, policy=SMALL, summariser=Dying())
    await dying.consider("agent-1", THREAD, ended=False)
    with pytest.raises(asyncio.CancelledError):
        await dying.work()
    [left] = await store.find(CompactionJob)
    assert left.status is CompactionStatus.RUNNING
    again = Compactor(store, policy=SMALL, summariser=Model())
    assert await again.recover() == 1
    await again.work()
    assert len(await summaries(store)) == 1


async def request_of(store: CompanionStore) -> SummaryRequest:
    messages = await ReadableLog(store).thread("agent-1", THREAD)
    entries = tuple(Remembered(each, {"text": "x"}) for each in messages)
    return SummaryRequest("agent-1", THREAD, 1, entries)


async def test_divergent_summary_text_keeps_the_first_with_diagnostics(
    store: CompanionStore, companion: Companion
) -> None:
    await fill(store, 5)
    request = await request_of(store)

    async def write(content: JsonMap, version: str = "model-1") -> AgentMessage:
        return await store.transaction(
            lambda tx: write_summary_in(
                tx, store, request, content=content, contract_version=version
            )
        )

    first = await write({"summary": "A"})
    state = await state_of(store, companion)
    assert await write({"summary": "A"}) == first
    assert await store.find(Diagnostic) == []
    assert await write({"summary": "B"}) == first
    [diagnostic] = await store.find(Diagnostic, {"kind": "summary_divergence"})
    assert diagnostic.subject_id == first.id
    assert diagnostic.detail["content"] == {"summary": "B"}
    assert await state_of(store, companion) == state
    assert await ReadableLog(store).content(first) == {"summary": "A"}
    # Another contract is another summary: nothing collides when the prompt changes.
    other = await write({"summary": "B"}, "model-2")
    assert other.id != first.id


async def test_pointers_do_not_move_if_the_commit_fails(
    store: CompanionStore, companion: Companion
) -> None:
    await fill(store, 5)
    request = await request_of(store)
    before = await state_of(store, companion)

    def write_and_fail(tx: Any) -> None:
        write_summary_in(tx, store, request, content={"summary": "A"}, contract_version="m")
        raise RuntimeError("the lights go out")

    with pytest.raises(RuntimeError):
        await store.transaction(write_and_fail)
    assert await state_of(store, companion) == before
    assert await summaries(store) == []
    assert await store.find(Diagnostic) == []


async def test_a_destroyed_companion_is_not_summarised(
    store: CompanionStore, companion: Companion
) -> None:
    compactor = Compactor(store, policy=SMALL, summariser=Model())
    await fill(store, 10)
    [job] = await compactor.consider("agent-1", THREAD, ended=False)
    gone = companion.model_copy(update={"lifecycle": AgentLifecycle.DESTROYED})
    await store.put(gone)
    assert await compactor.work() is None
    assert (await store.require(CompactionJob, job.id)).status is CompactionStatus.FAILED_TERMINAL
    assert await summaries(store) == []


async def test_the_compactor_sleeps_until_somebody_wants_it(
    store: CompanionStore, companion: Companion
) -> None:
    asked = asyncio.Event()

    class JournalReply(Model):
        async def summarise(self, request: SummaryRequest) -> JsonMap:
            asked.set()
            return await super().summarise(request)

    compactor = Compactor(store, policy=SMALL, summariser=JournalReply())
    running = asyncio.create_task(compactor.run())
    await fill(store, 10)
    await compactor.consider("agent-1", THREAD, ended=False)
    async with asyncio.timeout(120):
        await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_bad_moment_at_the_start_is_not_the_end_of_compaction(
    store: CompanionStore, companion: Companion, monkeypatch: pytest.MonkeyPatch
) -> None:
    compactor = Compactor(store, policy=SMALL, summariser=Model())
    tried, done = asyncio.Event(), asyncio.Event()
    recover, work = compactor.recover, compactor.work

    async def busy() -> int:
        tried.set()
        monkeypatch.setattr(compactor, "recover", recover)
        raise DatabaseBusy

    async def heard() -> datetime | None:
        nearest = await work()
        done.set()
        return nearest

    monkeypatch.setattr(compactor, "recover", busy)
    monkeypatch.setattr(compactor, "work", heard)
    await fill(store, 10)
    [job] = await compactor.consider("agent-1", THREAD, ended=False)
    # As it stays when the database fails in the middle of it.
    await store.put(job.model_copy(update={"status": CompactionStatus.RUNNING}))
    running = asyncio.create_task(compactor.run())
    async with asyncio.timeout(120):
        await tried.wait()
        compactor._wanted.set()  # so that nobody has to wait for it
        await done.wait()
    running.cancel()
    after = await store.require(CompactionJob, job.id)
    assert after.status is CompactionStatus.DONE


async def test_the_fallback_is_deterministic_and_bounded(
    store: CompanionStore, companion: Companion
) -> None:
    metadata = AgentMessageMetadata(
        tool_name="create_task",
        status=ToolResultStatus.SUCCESS,
        changed_entity_ids=("task-1",),
    )
    drafts = [draft("x" * 5000) for _ in range(50)]
    drafts += [draft("", kind=AgentMessageKind.TOOL_RESULT, metadata=metadata)]
    messages = await ReadableLog(store).append(drafts)
    contents = [each.content for each in drafts]
    entries = tuple(Remembered(m, c) for m, c in zip(messages, contents, strict=True))
    request = SummaryRequest("agent-1", THREAD, 1, entries)
    content = summarise_by_rules(request)
    assert content == summarise_by_rules(request)
    assert len(content["text"]) < 5000
    assert content["text"].endswith("add a task: done")
    assert content["changed_entity_ids"] == ["task-1"]
    assert content["kinds"] == {"observation": 50, "tool_result": 1}
