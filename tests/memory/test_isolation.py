"""Fifty tenants, one database: nobody ever sees what belongs to somebody else."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silas.kernel import TaintLevel
from silas.memory.consolidator import MemoryConsolidator
from silas.memory.forgetting import Forgetting, Selection
from silas.memory.models import MemoryQuery, MemoryQueryStrategy
from silas.memory.portability import MemoryPortability
from silas.memory.service import MemoryListing, MemoryRetriever, list_memories, memory_numbers
from tests.memory.room import NOON, Room, a_memory, open_room

TENANTS = [f"tenant-{number}" for number in range(50)]

INJECTIONS = [
    '" OR "secret',
    "secret*",
    "* OR 1",
    "content:secret",
    "{content semantic_tags}: secret",
    "^secret",
    "secret NEAR(secret secret, 100)",
    "NOT secret",
    "secret AND NOT nothing",
    '"secret" + "tenant"',
    "secret' OR '1'='1",
    "'; DROP TABLE memory_items; --",
    'x" UNION SELECT content FROM memory_items --',
    "rowid:1",
    "memory_words MATCH secret",
    "secret\x00 OR secret",
    "tenant-7 tenant-8 tenant_9",
    ")))((( secret",
    "secret OR secret OR secret " * 60,
    "(secret)",
    '""""',
    "-secret",
    "сsecret ｓｅｃｒｅｔ",  # noqa: RUF001
]


@pytest.fixture
async def house(room: Room) -> Room:
    for tenant in TENANTS:
        store = room.memories.of(tenant)
        await store.store_many(
            [
                a_memory(
                    f"the secret of {tenant} number {number}",
                    memory_id=f"m{number}",
                    scope_id=tenant,
                    session_id="shared-session",
                    entity_refs=["shared", tenant],
                    causal_refs=["m0"],
                    semantic_tags=["secret"],
                )
                for number in range(4)
            ]
        )
        await store.store_raw(a_memory(f"raw secret of {tenant}", memory_id="raw", scope_id=tenant))
    return room


async def everything_seen(room: Room, tenant: str, question: str):
    store = room.memories.of(tenant)
    retriever = MemoryRetriever(room.memories)
    for strategy in MemoryQueryStrategy:
        query = MemoryQuery(query=question[:2000], strategy=strategy, max_results=50)
        for item in await retriever.retrieve(query, tenant, None):
            yield item
    for item in await store.search_keyword(question, 50):
        yield item
    for item in await store.search_raw(question, 50):
        yield item


async def test_no_question_reaches_another_tenant(house: Room) -> None:
    for number, tenant in enumerate(TENANTS):
        for question in INJECTIONS[number % 3 :: 3]:
            async for item in everything_seen(house, tenant, question):
                assert item.scope_id == tenant, question
                assert f"of {tenant} " in f"{item.content} ", question
    assert await house.count("memory_items") == 250


async def test_every_other_way_in_is_bound_to_the_scope_too(house: Room) -> None:
    for tenant in TENANTS:
        store = house.memories.of(tenant)
        seen = [
            *await store.search_session("shared-session"),
            *await store.search_temporal(NOON, NOON.replace(year=2027), 500),
            *await store.search_entity("shared", 500),
            *await store.search_causal("m0", 500),
            *await list_memories(house.memories, tenant, MemoryListing(limit=500)),
            *await list_memories(house.memories, tenant, MemoryListing(raw=True, limit=500)),
        ]
        assert seen
        assert {item.scope_id for item in seen} == {tenant}
        assert all(f"of {tenant}" in item.content for item in seen)
        found = await store.get("m1")
        assert found is not None
        assert f"of {tenant}" in found.content
        assert (await memory_numbers(house.memories, tenant))["memories"] == 5


async def test_a_scope_that_remembers_nothing_sees_nothing(house: Room) -> None:
    for nobody in ("tenant-", "tenant-5 ", "TENANT-5", "%", "owner", "tenant-50"):
        assert [item async for item in everything_seen(house, nobody, "secret")] == []
        assert await house.memories.of(nobody).get("m1") is None


async def test_what_one_tenant_changes_stays_its_own(house: Room) -> None:
    mine = house.memories.of("tenant-3")
    await mine.update("m0", taint=TaintLevel.OWNER, content="changed by tenant-3")
    await mine.delete("m1", taint=TaintLevel.OWNER)
    gone = await Forgetting(house.memories, "tenant-3").forget(Selection(query="secret"))
    assert gone.memories == 4  # one of them by its tag
    bundle = await MemoryPortability(house.memories, "tenant-4").export_bundle()
    assert b"tenant-5" not in bundle
    await MemoryPortability(house.memories, "tenant-6").import_bundle(bundle, "replace")
    await MemoryConsolidator(house.memories).run_once()
    assert await house.count("memory_items") == 250 - 5
    other = await house.memories.of("tenant-5").search_keyword("secret", 50)
    assert len(other) == 4


words = st.sampled_from(["tea", "milk", "secret", "Anna", '"', "*", "NOT", "tea-pot", "😀", "ключ"])
texts = st.lists(words, min_size=1, max_size=5).map(" ".join)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), texts, st.booleans()), max_size=12),
    texts,
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_item_of_another_scope_ever_appears(tmp_path_factory, stored, question) -> None:
    folder: Path = tmp_path_factory.mktemp("scopes")
    room = await open_room(folder / "silas.db")
    for number, (scope, text, raw) in enumerate(stored):
        item = a_memory(text, memory_id=f"m{number}", scope_id=scope, session_id="s")
        store = room.memories.of(scope)
        await (store.store_raw(item) if raw else store.store(item))
    for scope in ("a", "b", "c"):
        own = {f"m{n}" for n, (owner, _, _) in enumerate(stored) if owner == scope}
        async for item in everything_seen(room, scope, question):
            assert item.memory_id in own
    await room.desk.database.close()
