from datetime import timedelta

from silas.kernel import TaintLevel
from silas.memory.consolidator import ConsolidationPolicy, MemoryConsolidator
from silas.memory.models import MemoryType, TrustLevel
from tests.memory.room import Room, a_memory


async def test_duplicates_become_one_and_lose_nothing(room: Room) -> None:
    for number in range(4):
        await room.store.store(
            a_memory(
                "Anna likes tea",
                memory_id=f"m{number}",
                session_id=f"s{number}",
                access_count=number,
                semantic_tags=[f"t{number}"],
            )
        )
    await room.store.store(a_memory("Anna likes tea", taint=TaintLevel.EXTERNAL))
    await room.store.store(a_memory("Anna likes tea", memory_type=MemoryType.FACT))
    stats = await MemoryConsolidator(room.memories).run_once()
    assert stats["merged"] == 3
    kept = await room.store.get("m0")
    assert kept is not None
    assert kept.access_count == 6
    assert kept.semantic_tags == ["t0", "t1", "t2", "t3"]
    assert await room.count("memory_items") == 3
    assert (await MemoryConsolidator(room.memories).run_once())["merged"] == 0


async def test_duplicates_of_other_scopes_are_left_alone(room: Room) -> None:
    for scope in ("a", "b"):
        await room.memories.of(scope).store(a_memory("same", scope_id=scope))
    assert (await MemoryConsolidator(room.memories).run_once())["merged"] == 0


async def test_often_used_is_proposed_and_only_a_confirmation_promotes(room: Room) -> None:
    item = a_memory("The car is red", memory_type=MemoryType.FACT, access_count=7)
    await room.store.store(item)
    await room.store.store(a_memory("rarely used", memory_type=MemoryType.FACT, access_count=1))
    consolidator = MemoryConsolidator(room.memories)
    stats = await consolidator.run_once()
    assert (stats["proposed"], stats["promoted"]) == (1, 0)
    (claim,) = await consolidator.proposals("owner")
    token = await room.confirm(claim.action, *claim.items)
    await room.store.update(
        item.memory_id, taint=TaintLevel.OWNER, token=token, trust_level=TrustLevel.VERIFIED
    )
    found = await room.store.get(item.memory_id)
    assert found is not None
    assert found.trust_level is TrustLevel.VERIFIED
    assert await consolidator.proposals("owner") == []


async def test_what_nobody_looks_at_moves_to_the_raw_lane(room: Room) -> None:
    old = a_memory("long ago")
    used = a_memory("long ago, but used")
    wish = a_memory("a wish", memory_type=MemoryType.PREFERENCE)
    law = a_memory("a law", trust_level=TrustLevel.VERIFIED)
    for item in (old, used, wish):
        await room.store.store(item)
    await room.store.store(law, token=await room.confirm("store", law))
    room.desk.clock.advance(days=200)
    rows = await room.desk.database.fetch_all(
        "SELECT id FROM memory_items WHERE memory_id = ?", (used.memory_id,)
    )
    await room.memories.access.count(rows[0])
    await room.store.store(a_memory("new", created_at=room.desk.clock.now()))
    stats = await MemoryConsolidator(room.memories).run_once()
    assert stats["pruned"] == 1
    assert [item.content for item in await room.store.search_raw("long", 5)] == ["long ago"]
    assert len(await room.store.search_keyword("long ago", 5)) == 1


async def test_many_of_each(room: Room) -> None:
    now = room.desk.clock.now()
    items = [
        a_memory(f"pair {number // 2}", created_at=now - timedelta(days=400 * (number % 4 > 1)))
        for number in range(2400)
    ]
    await room.store.store_many(items)
    policy = ConsolidationPolicy(stale_after=timedelta(days=30))
    stats = await MemoryConsolidator(room.memories, policy=policy).run_once()
    assert (stats["merged"], stats["pruned"]) == (1200, 600)
    assert await room.count("memory_items") == 1200
