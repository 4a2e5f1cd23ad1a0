from datetime import timedelta

import pytest

from silas.kernel import TaintLevel
from silas.memory.errors import MemoryExists, MemoryInvalid, MemoryUnknown, OtherScope
from silas.memory.models import MemoryType, ReingestionTier
from tests.memory.room import NOON, Room, a_memory

OWNER = TaintLevel.OWNER


async def test_what_was_stored_comes_back_as_it_was(room: Room) -> None:
    item = a_memory(
        "Zoë's café is “closed” on Mondays",
        memory_type=MemoryType.FACT,
        valid_from=NOON,
        valid_until=NOON + timedelta(days=9),
        semantic_tags=["places", 'a "quoted" tag'],
        entity_refs=["zoe"],
        causal_refs=["mem_x"],
        temporal_next="b",
        temporal_prev="a",
        session_id="s1",
        source_kind="memory_op",
        access_count=3,
        last_accessed=NOON,
    )
    assert await room.store.store(item) == item.memory_id
    assert await room.store.get(item.memory_id) == item


async def test_the_same_id_twice_is_refused_and_nothing_is_overwritten(room: Room) -> None:
    item = a_memory("the first")
    await room.store.store(item)
    with pytest.raises(MemoryExists):
        await room.store.store(item.model_copy(update={"content": "the second"}))
    found = await room.store.get(item.memory_id)
    assert found is not None
    assert found.content == "the first"


async def test_an_item_of_another_scope_is_refused(room: Room) -> None:
    with pytest.raises(OtherScope):
        await room.store.store(a_memory(scope_id="somebody"))


async def test_two_scopes_may_use_the_same_id(room: Room) -> None:
    mine = a_memory("mine", memory_id="m")
    theirs = a_memory("theirs", memory_id="m", scope_id="b")
    await room.store.store(mine)
    await room.memories.of("b").store(theirs)
    assert await room.store.get("m") == mine
    assert await room.memories.of("b").get("m") == theirs


async def test_update_changes_words_and_their_index(room: Room) -> None:
    item = a_memory("Anna likes tea")
    await room.store.store(item)
    room.desk.clock.advance(hours=1)
    await room.store.update(item.memory_id, taint=OWNER, content="Anna likes coffee")
    assert await room.store.search_keyword("tea", 5) == []
    (found,) = await room.store.search_keyword("coffee", 5)
    assert found.updated_at == room.desk.clock.now()


async def test_update_of_what_is_not_there_or_cannot_be_changed(room: Room) -> None:
    item = a_memory()
    await room.store.store(item)
    with pytest.raises(MemoryUnknown):
        await room.store.update("nothing", taint=OWNER, content="x")
    with pytest.raises(MemoryInvalid, match="scope_id"):
        await room.store.update(item.memory_id, taint=OWNER, scope_id="b")
    with pytest.raises(MemoryInvalid, match="memory_type"):
        await room.store.update(item.memory_id, taint=OWNER, memory_type="rumour")


async def test_deleted_means_gone_from_every_index(room: Room) -> None:
    item = a_memory("Anna likes tea", entity_refs=["anna"], causal_refs=["x"])
    await room.store.store(item)
    await room.store.delete(item.memory_id, taint=OWNER)
    assert await room.store.get(item.memory_id) is None
    assert await room.store.search_keyword("tea", 5) == []
    for table in ("memory_items", "memory_entities", "memory_causes"):
        assert await room.count(table) == 0


async def test_the_raw_lane_is_found_only_when_asked_for(room: Room) -> None:
    raw = a_memory("a long talk about tea", session_id="s")
    await room.store.store_raw(raw)
    assert await room.store.search_keyword("tea", 5) == []
    assert await room.store.search_session("s") == []
    (found,) = await room.store.search_raw("tea", 5)
    assert found.reingestion_tier is ReingestionTier.LOW_REINGESTION


async def test_moving_to_the_raw_lane(room: Room) -> None:
    item = a_memory("tea", entity_refs=["anna"])
    await room.store.store(item)
    await room.store.update(
        item.memory_id, taint=OWNER, reingestion_tier=ReingestionTier.LOW_REINGESTION
    )
    assert await room.store.search_keyword("tea", 5) == []
    assert await room.store.search_entity("anna", 5) == []
    assert len(await room.store.search_raw("tea", 5)) == 1


async def test_search_finds_any_word_and_ranks_by_rarity(room: Room) -> None:
    texts = ["tea and cake", "tea with milk", "tea in the garden", "a zebra drinks tea"]
    await room.store.store_many([a_memory(text) for text in texts])
    found = await room.store.search_keyword("Does the zebra like tea?", 10)
    assert found[0].content == "a zebra drinks tea"
    assert len(found) == 4
    assert len(await room.store.search_keyword("tea", 2)) == 2


async def test_identifiers_stay_whole_and_word_forms_meet(room: Room) -> None:
    await room.store.store_many(
        [a_memory("use max_retry-count here"), a_memory("she was painting")]
    )
    assert len(await room.store.search_keyword("max_retry-count", 5)) == 1
    assert len(await room.store.search_keyword("paints", 5)) == 1


async def test_what_is_not_valid_now_is_not_found(room: Room) -> None:
    now = room.desk.clock.now()
    await room.store.store(a_memory("old tea", valid_until=now - timedelta(days=1)))
    await room.store.store(a_memory("new tea", valid_from=now + timedelta(days=1)))
    assert await room.store.search_keyword("tea", 5) == []
    room.desk.clock.advance(days=2)
    assert [item.content for item in await room.store.search_keyword("tea", 5)] == ["new tea"]


async def test_sessions_times_and_entities(room: Room) -> None:
    items = [
        a_memory(
            f"turn {number}",
            session_id=f"s{number % 2}",
            created_at=NOON + timedelta(days=number),
            entity_refs=["anna"] if number > 3 else [],
        )
        for number in range(6)
    ]
    await room.store.store_many(items)
    assert [i.content for i in await room.store.search_session("s1")] == [
        "turn 1",
        "turn 3",
        "turn 5",
    ]
    since, until = NOON + timedelta(days=1), NOON + timedelta(days=3)
    assert [i.content for i in await room.store.search_temporal(since, until, 9)] == [
        "turn 2",
        "turn 1",
    ]
    assert [i.content for i in await room.store.search_entity("anna", 9)] == ["turn 5", "turn 4"]


async def test_causes_and_effects_are_followed_both_ways_and_cycles_end(room: Room) -> None:
    chain = {
        "rain": ["tea"],
        "flood": ["rain"],
        "repair": ["flood"],
        "tea": ["repair"],
        "other": [],
    }
    await room.store.store_many(
        [a_memory(name, memory_id=name, causal_refs=refs) for name, refs in chain.items()]
    )
    found = [item.memory_id for item in await room.store.search_causal("flood", 10)]
    assert set(found) == {"rain", "repair", "tea"}
    assert set(found[:2]) == {"rain", "repair"}


async def test_store_in_shares_the_transaction_of_the_caller(room: Room) -> None:
    def both(tx) -> None:
        room.store.insert_in(tx, room.store.ready(a_memory("kept?")))
        raise LookupError

    with pytest.raises(LookupError):
        await room.desk.database.transaction(both)
    assert await room.count("memory_items") == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "  "},
        {"content": "a\0b"},
        {"content": "x" * 1_000_001},
        {"semantic_tags": ["x" * 201]},
        {"entity_refs": ["x"] * 101},
    ],
)
async def test_what_cannot_be_kept_is_refused(room: Room, fields: dict) -> None:
    with pytest.raises(MemoryInvalid):
        await room.store.store(a_memory(**fields))


async def test_secrets_never_reach_the_memory(room: Room) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    item = a_memory(f"my key is {key}, keep it")
    await room.store.store(item)
    found = await room.store.get(item.memory_id)
    assert found is not None
    assert key not in found.content
    assert found.scrubbed == ["secret"]


async def test_counts_are_written_in_batches(room: Room) -> None:
    item = a_memory()
    await room.store.store(item)
    (row,) = await room.desk.database.fetch_all("SELECT id FROM memory_items")
    access = room.memories.access
    await access.count([row[0], row[0]])
    await access.count(row)
    before = await room.store.get(item.memory_id)
    assert before is not None
    assert before.access_count == 0
    await room.memories.flush()
    after = await room.store.get(item.memory_id)
    assert after is not None
    assert after.access_count == 3
    assert after.last_accessed == room.desk.clock.now()


async def test_ids_of_deleted_rows_are_not_used_again(room: Room) -> None:
    first = a_memory()
    await room.store.store(first)
    (old,) = await room.desk.database.fetch_all("SELECT id FROM memory_items")
    await room.store.delete(first.memory_id, taint=OWNER)
    await room.store.store(a_memory())
    (new,) = await room.desk.database.fetch_all("SELECT id FROM memory_items")
    assert new > old


async def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(room: Room) -> None:
    for name in ("mem_abc1", "mem_abd2", "mem_abd3"):
        await room.store.store(a_memory(memory_id=name))
    found = await room.store.find("mem_abc")
    assert found is not None
    assert found.memory_id == "mem_abc1"
    assert await room.store.find("mem_abd") is None
    assert await room.store.find("mem_a") is None
    assert await room.memories.of("bob").find("mem_abc") is None
