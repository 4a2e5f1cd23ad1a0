from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silas.kernel import TaintLevel
from silas.memory.errors import BundleRefused, TrustRefused
from silas.memory.models import MemoryItem, MemoryType, ReingestionTier, TrustLevel
from silas.memory.portability import MemoryPortability
from silas.memory.trust import CONFIRMATION
from tests.approval.desk import YES
from tests.memory.room import NOON, Room, a_memory, open_room

OWNER, EXTERNAL = TaintLevel.OWNER, TaintLevel.EXTERNAL
VERIFIED = TrustLevel.VERIFIED


def moving(room: Room, *, signed: bool = True, scope: str = "owner") -> MemoryPortability:
    return MemoryPortability(room.memories, scope, keys=room.desk.keys if signed else None)


async def all_items(room: Room) -> list[MemoryItem]:
    names = await room.desk.database.fetch_all("SELECT memory_id FROM memory_items ORDER BY id")
    return [item for (name,) in names if (item := await room.store.get(name)) is not None]


async def test_a_bundle_is_header_records_and_an_end(room: Room) -> None:
    await room.store.store(a_memory("tea"))
    lines = (await moving(room).export_bundle()).splitlines()
    assert len(lines) == 3
    assert b'"bundle_version":"jsonl-v1"' in lines[0]
    assert b'"schema_version":1' in lines[0]
    assert b'"exported_at"' in lines[0]


async def test_since_and_without_the_raw_lane(room: Room) -> None:
    await room.store.store(a_memory("old"))
    await room.store.store(a_memory("new", updated_at=NOON + timedelta(days=9)))
    await room.store.store_raw(a_memory("raw"))
    assert b"raw" not in (await moving(room).export_bundle(include_raw=False)).split(b"\n", 1)[1]
    since = await moving(room).export_bundle(since=NOON + timedelta(days=1))
    assert b'"new"' in since
    assert b'"old"' not in since


stamps = st.integers(0, 10**6).map(lambda seconds: NOON + timedelta(seconds=seconds))
names = st.lists(st.text("abcé ", min_size=1, max_size=6), max_size=3)
records = st.builds(
    a_memory,
    content=st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=40).filter(
        str.strip
    ),
    memory_type=st.sampled_from([MemoryType.FACT, MemoryType.PREFERENCE, MemoryType.EPISODE]),
    reingestion_tier=st.sampled_from(ReingestionTier),
    trust_level=st.sampled_from(TrustLevel),
    taint=st.sampled_from(TaintLevel),
    created_at=stamps,
    updated_at=stamps,
    valid_until=st.none() | stamps,
    access_count=st.integers(0, 9),
    last_accessed=st.none() | stamps,
    semantic_tags=names,
    entity_refs=names,
    causal_refs=names,
    session_id=st.none() | st.just("s"),
)


@given(st.lists(records, max_size=6), st.sampled_from(["merge", "replace"]))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_import_after_export_is_the_identity(tmp_path_factory, items, mode) -> None:
    folder: Path = tmp_path_factory.mktemp("bundle")
    here = await open_room(folder / "here.db")
    for item in items:
        try:
            await here.store.store(item, token=await here.confirm("store", item))
        except TrustRefused:
            await here.store.store_raw(item)
    before = await all_items(here)
    bundle = await moving(here).export_bundle()
    # Into itself, without any confirmation:
    stats = await moving(here).import_bundle(bundle, mode)
    assert stats["kept"] == len(before)
    assert await all_items(here) == before
    # Into an empty place, with the owner's confirmation:
    there = await open_room(folder / "there.db")
    lines = bundle.splitlines(keepends=True)
    claim = moving(there).claim(lambda: lines, mode)
    token = await there.desk.engine.issue_token(claim, YES, CONFIRMATION)
    await moving(there).import_bundle(bundle, mode, token=token)
    key = lambda item: item.memory_id  # noqa: E731
    assert sorted(await all_items(there), key=key) == sorted(before, key=key)
    for room in (here, there):
        await room.desk.database.close()


async def test_import_never_raises_trust(room: Room, tmp_path: Path) -> None:
    item = a_memory(trust_level=VERIFIED)
    await room.store.store(item, token=await room.confirm("store", item))
    bundle = await moving(room).export_bundle()
    there = await open_room(tmp_path / "there.db")
    stats = await moving(there).import_bundle(bundle)
    assert stats["lowered"] == 1
    (found,) = await all_items(there)
    assert (found.trust_level, found.taint) == (TrustLevel.WORKING, EXTERNAL)
    # The same key, but the memory was lowered meanwhile: an old bundle does not raise it again.
    change = {"taint": OWNER, "trust_level": TrustLevel.WORKING}
    shown = await room.store.after_update(item.memory_id, **change)
    await room.store.update(item.memory_id, **change, token=await room.confirm("update", shown))
    await moving(room).import_bundle(bundle)
    (again,) = await all_items(room)
    assert again.trust_level is TrustLevel.WORKING
    await there.desk.database.close()


async def test_a_bundle_of_ones_own_keeps_its_taints_a_foreign_one_does_not(
    room: Room, tmp_path: Path
) -> None:
    await room.store.store(a_memory("I like tea", memory_type=MemoryType.PREFERENCE))
    signed = await moving(room).export_bundle()
    unsigned = await moving(room, signed=False).export_bundle()
    for bundle, taint in ((signed, OWNER), (unsigned, EXTERNAL)):
        scope = f"copy-{taint}"
        await moving(room, scope=scope).import_bundle(bundle)
        (found,) = await room.memories.of(scope).search_keyword("tea", 5)
        assert found.taint is taint


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-10],
        lambda b: b.replace(b"tea", b"TEA"),
        lambda b: b"\n".join(b.split(b"\n")[1:]),
        lambda b: b + b"{}\n",
        lambda b: b.replace(b"jsonl-v1", b"jsonl-v9"),
        lambda b: b"not json\n" + b,
        lambda b: b"",
        lambda b: b"\n".join(b.split(b"\n")[:-2]) + b"\n",
        lambda b: b.replace(b'"working"', b'"king"'),
    ],
)
async def test_a_damaged_bundle_changes_nothing(room: Room, damage) -> None:
    await room.store.store(a_memory("tea"))
    before = await all_items(room)
    bundle = damage(await moving(room).export_bundle())
    for mode in ("merge", "replace"):
        with pytest.raises(BundleRefused):
            await moving(room).import_bundle(bundle, mode)
    assert await all_items(room) == before


async def test_an_unknown_mode_is_refused(room: Room) -> None:
    with pytest.raises(BundleRefused):
        await moving(room).import_bundle(b"", "overwrite")


async def test_replace_removes_what_the_bundle_lacks_but_not_what_is_trusted(room: Room) -> None:
    await room.store.store(a_memory("in the bundle"))
    bundle = await moving(room).export_bundle()
    await room.store.store(a_memory("only here"))
    assert (await moving(room).import_bundle(bundle, "replace"))["removed"] == 1
    item = a_memory("trusted", trust_level=VERIFIED)
    await room.store.store(item, token=await room.confirm("store", item))
    before = await all_items(room)
    with pytest.raises(TrustRefused):
        await moving(room).import_bundle(bundle, "replace")
    assert await all_items(room) == before


async def test_a_merge_updates_by_id(room: Room) -> None:
    item = a_memory("tea")
    await room.store.store(item)
    bundle = await moving(room).export_bundle()
    await room.store.update(item.memory_id, taint=OWNER, content="coffee")
    stats = await moving(room).import_bundle(bundle)
    assert stats["changed"] == 1
    (found,) = await all_items(room)
    assert found.content == "tea"
    assert "memory_imported" in room.desk.audit.events()
