"""The log and what is remembered of it."""

from silas.companions.log import MemoryAssembler, MemoryLimits, pointer_to
from silas.companions.messages import (
    AgentMessage,
    AgentMessageMetadata,
    AgentMessagePayload,
    LinkDraft,
)
from silas.companions.models import AgentLinkRelation, AgentMessageKind, Companion, ToolResultStatus
from silas.companions.store import CompanionStore
from silas.storage import SqliteDatabase
from tests.companions.making import ReadableLog, draft, make_companion

THREAD = "agent-1:run:1"


async def rows(database: SqliteDatabase) -> dict[str, tuple[int, int]]:
    """How many rows the tables of the log have, and how many bytes are in them."""
    found = {}
    for table in ("agent_messages", "agent_message_payloads", "agent_links"):
        sql = f"SELECT count(*), coalesce(sum(length(body)), 0) FROM {table}"
        row = await database.fetch_one(sql)
        found[table] = (row[0], row[1]) if row else (0, 0)
    return found


async def test_message_payload_normalization_works_end_to_end(
    store: CompanionStore, companion: Companion
) -> None:
    log = ReadableLog(store)
    [message] = await log.append([draft("hello")])
    assert message.content_entry_id is not None
    payload = await store.require(AgentMessagePayload, message.content_entry_id)
    assert payload.content == {"text": "hello"} == await log.content(message)
    [edge] = await ReadableLog(store).links(AgentLinkRelation.MESSAGE_PAYLOAD, from_id=message.id)
    assert edge.to_id == payload.id


async def test_messages_are_chained_and_the_head_moves(
    store: CompanionStore, companion: Companion
) -> None:
    log = ReadableLog(store)
    first, second = await log.append([draft("a"), draft("b")])
    [other] = await log.append([draft("c", thread="agent-1:run:2")])
    assert (first.prev_message_id, second.prev_message_id) == (None, first.id)
    assert other.prev_message_id is None
    assert [first.sequence, second.sequence, other.sequence] == [1, 2, 3]
    heads = await log.links(AgentLinkRelation.AGENT_HEAD, from_id="agent-1")
    assert {link.thread_id: link.to_id for link in heads} == {
        THREAD: second.id,
        "agent-1:run:2": other.id,
    }
    [back] = await log.links(AgentLinkRelation.MESSAGE_PREV, from_id=second.id)
    assert back.to_id == first.id
    assert [m.id for m in await log.thread("agent-1", THREAD)] == [first.id, second.id]


async def test_a_message_with_a_known_id_is_not_appended_again(
    store: CompanionStore, companion: Companion, database: SqliteDatabase
) -> None:
    log = ReadableLog(store)
    once = await log.append([draft("a", message_id="m-1")])
    before = await rows(database)
    assert await log.append([draft("other", message_id="m-1")]) == once
    assert await rows(database) == before


async def test_tool_result_changed_entity_ids_and_changed_tokens_are_stored_and_queryable(
    store: CompanionStore, companion: Companion
) -> None:
    log = ReadableLog(store)
    metadata = AgentMessageMetadata(
        action_ref_id="m-1",
        operation_id="op-1",
        prompt_id="planner.run",
        prompt_version="3",
        model_id="offline",
        changed_entity_ids=("task-1",),
        changed_tokens=("semantic_key|-|TASK",),
        status=ToolResultStatus.SUCCESS,
    )
    [result] = await log.append(
        [
            draft(
                "done",
                kind=AgentMessageKind.TOOL_RESULT,
                metadata=metadata,
                links=(LinkDraft(relation=AgentLinkRelation.TOOL_EFFECT, to_id="task-1"),),
            )
        ]
    )
    assert [each.metadata for each in await store.find(AgentMessage, {"operation_id": "op-1"})] == [
        metadata
    ]
    [effect] = await log.links(AgentLinkRelation.TOOL_EFFECT, to_id="task-1")
    assert effect.from_id == result.id


async def test_payload_size_remains_proportional_to_new_messages_only(
    store: CompanionStore, companion: Companion, database: SqliteDatabase
) -> None:
    log = ReadableLog(store)
    await log.append([draft("x", message_id=f"m-{n:06}") for n in range(10)])

    async def added(n: int) -> dict[str, tuple[int, int]]:
        before = await rows(database)
        await log.append([draft("x", message_id=f"m-{n:06}")])
        after = await rows(database)
        return {
            name: (after[name][0] - before[name][0], after[name][1] - before[name][1])
            for name in after
        }

    early = await added(100)
    await log.append([draft("x", message_id=f"m-{n:06}") for n in range(1000, 1300)])
    late = await added(2000)
    assert {name: count for name, (count, _) in early.items()} == {
        "agent_messages": 1,
        "agent_message_payloads": 1,
        "agent_links": 2,
    }
    # Only the digits of counters grow.
    for name, (count, size) in late.items():
        assert count == early[name][0]
        assert abs(size - early[name][1]) <= 10


async def test_memory_is_bounded_by_count_and_tokens(
    store: CompanionStore, companion: Companion
) -> None:
    log, memory = ReadableLog(store), MemoryAssembler(store)
    await log.append([draft(f"{n}") for n in range(50)])
    limits = MemoryLimits(hot_messages=7)
    told = await memory.assemble("agent-1", THREAD, limits=limits)
    assert [each.content for each in told.hot] == [{"text": str(n)} for n in range(43, 50)]
    assert told.tokens == sum(each.message.tokens_approx for each in told.hot)
    small = MemoryLimits(hot_messages=50, hot_tokens=told.hot[0].message.tokens_approx * 3)
    assert len((await memory.assemble("agent-1", THREAD, limits=small)).hot) == 3


async def test_memory_of_others_is_not_told(store: CompanionStore, companion: Companion) -> None:
    await make_companion(store, "agent-2")
    log, memory = ReadableLog(store), MemoryAssembler(store)
    await log.append([draft("mine"), draft("theirs", agent_id="agent-2", thread=THREAD)])
    told = await memory.assemble("agent-1", THREAD)
    assert [each.content for each in told.hot] == [{"text": "mine"}]
    assert (told.warm, told.cold) == ((), ())


async def test_pointers_rank_messages(store: CompanionStore, companion: Companion) -> None:
    [message] = await ReadableLog(store).append([draft()])
    assert isinstance(message, AgentMessage)
    pointer = pointer_to(message)
    assert (pointer.message_id, pointer.sequence, pointer.host_id) == (message.id, 1, "host-a")
