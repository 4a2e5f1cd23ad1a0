"""Retention: what explains goes, what is remembered stays, and who was destroyed is forgotten."""

from datetime import timedelta

from silas.companions.compaction import Compactor
from silas.companions.log import MemoryAssembler
from silas.companions.messages import (
    AgentLink,
    AgentMessage,
    AgentMessagePayload,
    AgentPromptItem,
    AgentPromptResponse,
    AgentReport,
    AgentReportHead,
    RunTrace,
    WakeRun,
)
from silas.companions.models import AgentLinkRelation, Companion, WakeStatus
from silas.companions.retention import KEEP_DAYS, ArtifactClass, Retention
from silas.companions.store import TABLES, CompanionStore
from silas.journal.store import Journal
from silas.queue import QueueStore
from silas.storage import SqliteDatabase
from silas.testing import FakeClock
from tests.companions.making import House, ReadableLog, draft, make_companion
from tests.companions.test_store import RECORDS

THREAD = "agent-1:run:1"


async def write_everything(store: CompanionStore) -> None:
    for record in RECORDS:
        await store.put(record)


async def test_nothing_goes_before_its_time(
    store: CompanionStore, companion: Companion, clock: FakeClock
) -> None:
    await write_everything(store)
    clock.advance(days=13)
    assert set((await Retention(store).prune()).values()) == {0}


async def test_what_is_not_at_its_end_or_is_shown_stays(
    store: CompanionStore, companion: Companion, clock: FakeClock
) -> None:
    await write_everything(store)
    clock.advance(days=3650)
    await Retention(store).prune()
    # The wake is still queued, and the report is the newest: its head points to it.
    assert [run.status for run in await store.find(WakeRun)] == [WakeStatus.QUEUED]
    assert len(await store.find(AgentReport)) == len(await store.find(AgentReportHead)) == 1
    assert len(await store.find(AgentMessage)) == 1
    assert await store.find(RunTrace) == []
    assert await store.find(Companion) == [companion]


async def test_raw_messages_go_only_when_a_summary_has_taken_them_up(
    store: CompanionStore, companion: Companion, clock: FakeClock
) -> None:
    log, compactor = ReadableLog(store), Compactor(store)
    await log.append([draft(f"{n}") for n in range(5)])
    await log.append([draft("other", thread="agent-1:run:2")])
    await compactor.consider("agent-1", THREAD, ended=True)
    await compactor.work()
    clock.advance(days=KEEP_DAYS[ArtifactClass.ACTION_RESULT] + 1)
    pruned = await Retention(store).prune()
    # Five messages, their contents, and every link between them.
    assert pruned["action_result"] > 10
    links = await store.find(AgentLink, {"type": AgentLinkRelation.MESSAGE_PAYLOAD})
    assert len(links) == 2  # of the other thread, and of the summary
    assert await log.thread("agent-1", THREAD) == []
    assert len(await log.thread("agent-1", "agent-1:run:2")) == 1
    memory = await MemoryAssembler(store).assemble("agent-1", "agent-1:run:3")
    assert memory.warm[0].content is not None


async def test_the_owner_decides_how_long(
    store: CompanionStore, companion: Companion, clock: FakeClock
) -> None:
    await write_everything(store)
    clock.advance(days=3650)
    for_ever = dict.fromkeys(ArtifactClass, 0)
    assert set((await Retention(store, for_ever).prune()).values()) == {0}
    assert len(await store.find(RunTrace)) == 1


async def test_who_was_destroyed_is_forgotten_whole(
    store: CompanionStore,
    database: SqliteDatabase,
    journal: Journal,
    queue: QueueStore,
    clock: FakeClock,
) -> None:
    house = House(store, journal, queue)
    await make_companion(store, "agent-1")
    await make_companion(store, "agent-2")
    await write_everything(store)
    await house.lifecycle.destroy("agent-1")
    retention = Retention(store)
    await retention.prune()
    assert (await store.require(Companion, "agent-1")).is_destroyed
    clock.advance(days=KEEP_DAYS[ArtifactClass.DESTROYED] + 1)
    pruned = await retention.prune()
    assert pruned["destroyed"] > 10
    assert [each.id for each in await store.find(Companion)] == ["agent-2"]
    for table in TABLES.values():
        if "agent_id" in (*table.columns, table.key):
            sql = f"SELECT count(*) FROM {table.name} WHERE agent_id = 'agent-1'"
            assert await database.fetch_one(sql) == (0,), table.name


async def test_nothing_is_kept_for_ever_that_only_explains(
    store: CompanionStore, database: SqliteDatabase, companion: Companion, clock: FakeClock
) -> None:
    """What is over, tombstones, old budgets and links of messages that are gone: all of it goes."""
    await write_everything(store)
    ended = "UPDATE agent_operations SET status = 'declined'"
    await database.execute(ended)
    for kind in (AgentMessage, AgentMessagePayload, AgentPromptResponse, AgentPromptItem):
        for record in await store.find(kind):
            await store.delete(kind, record.id)
    clock.advance(days=3650)
    await Retention(store).prune()
    for table in (
        "agent_operations", "agent_budget_windows", "agent_messages", "agent_message_payloads",
        "agent_prompt_items", "agent_prompt_responses", "agent_links", "agent_run_traces",
    ):  # fmt: skip
        rows = await database.fetch_all(f"SELECT * FROM {table}")
        assert rows == [], table


async def test_where_there_is_too_little_room_what_explains_goes_earlier_and_in_order(
    store: CompanionStore, database: SqliteDatabase, companion: Companion, clock: FakeClock
) -> None:
    """Traces of forty days ago go before those of yesterday; what is shown stays."""
    await write_everything(store)
    trace = (await store.find(RunTrace))[0]
    for days in (40, 1):
        at = clock.now() - timedelta(days=days)
        long = {"text": "x" * 400_000}
        changed = {"run_key": f"run-{days}", "started_at": at, "inputs": long}
        await store.put(trace.model_copy(update=changed))
    retention = Retention(store)
    full = await retention.size()
    assert full > 800_000
    assert (await retention.prune())["trace"] == 0
    roomy = Retention(store, max_bytes=full - 100_000)
    assert (await roomy.prune())["trace"] == 1
    assert {each.run_key for each in await store.find(RunTrace)} == {trace.run_key, "run-1"}
    assert await roomy.size() <= full - 100_000
    assert (await roomy.prune())["trace"] == 0
    # Of what is younger than two days, nothing goes, however little room there is.
    await Retention(store, max_bytes=1).prune()
    assert "run-1" in {each.run_key for each in await store.find(RunTrace)}
    assert len(await store.find(AgentReport)) == 1
