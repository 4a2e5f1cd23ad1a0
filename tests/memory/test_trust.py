import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import DatabaseError, TaintLevel, join_taint
from silas.memory.errors import TrustRefused
from silas.memory.models import MemoryItem, MemoryType, ReingestionTier, TrustLevel
from silas.memory.store import MemoryStores
from silas.memory.trust import changed, least_trust, lowered, most_trust, require_admissible, rises
from tests.memory.room import Room, a_memory

OWNER, AUTH, EXTERNAL = TaintLevel.OWNER, TaintLevel.AUTH, TaintLevel.EXTERNAL
VERIFIED, CONSTITUTIONAL = TrustLevel.VERIFIED, TrustLevel.CONSTITUTIONAL

taints = st.sampled_from(TaintLevel)
levels = st.sampled_from(TrustLevel)
kinds = st.sampled_from(MemoryType)


def admissible(item: MemoryItem, *, confirmed: bool) -> bool:
    try:
        require_admissible(item, confirmed=confirmed)
    except TrustRefused:
        return False
    return True


@given(levels, levels, levels)
def test_trust_is_a_lattice(a: TrustLevel, b: TrustLevel, c: TrustLevel) -> None:
    assert least_trust(a, b) is least_trust(b, a)
    assert least_trust(a, least_trust(b, c)) is least_trust(least_trust(a, b), c)
    assert least_trust(a, a) is a
    assert not rises(a, least_trust(a, b))
    assert rises(a, b) != (least_trust(a, b) is b)


@given(taints, taints)
def test_worse_taint_never_allows_more_trust(a: TaintLevel, b: TaintLevel) -> None:
    assert most_trust(join_taint(a, b)) is least_trust(most_trust(a), most_trust(b))


@given(taints, levels, kinds, st.booleans())
def test_nothing_external_is_ever_admitted_as_trusted(
    taint: TaintLevel, trust: TrustLevel, kind: MemoryType, confirmed: bool
) -> None:
    item = a_memory(taint=taint, trust_level=trust, memory_type=kind)
    if admissible(item, confirmed=confirmed):
        assert confirmed or trust is TrustLevel.WORKING
        assert taint is not EXTERNAL or trust is TrustLevel.WORKING
        assert taint is not EXTERNAL or kind not in {MemoryType.PREFERENCE, MemoryType.PROFILE}
        assert trust is not CONSTITUTIONAL or taint is OWNER
    assert admissible(lowered(item), confirmed=False)


@given(taints, taints, levels, levels | st.none(), kinds, kinds | st.none(), st.booleans())
def test_a_change_joins_taint_and_raises_nothing_unconfirmed(
    old_taint, taint, trust, wanted, kind, new_kind, confirmed
) -> None:
    old = a_memory(taint=old_taint, trust_level=trust, memory_type=kind)
    if not admissible(old, confirmed=True):
        return
    changes = {"content": "new"}
    changes |= {"trust_level": wanted} if wanted else {}
    changes |= {"memory_type": new_kind} if new_kind else {}
    try:
        new = changed(old, changes, taint=taint, confirmed=confirmed)
    except TrustRefused:
        return
    assert new.taint is join_taint(old_taint, taint)
    assert confirmed or not rises(old.trust_level, new.trust_level)
    assert confirmed or old.trust_level is TrustLevel.WORKING
    assert old.trust_level is not CONSTITUTIONAL
    assert admissible(new, confirmed=True)
    if taint is EXTERNAL:
        assert kind not in {MemoryType.PREFERENCE, MemoryType.PROFILE}
        assert old.trust_level is TrustLevel.WORKING


@pytest.mark.parametrize("trust", [VERIFIED, CONSTITUTIONAL])
async def test_trust_without_a_confirmation_is_refused(room: Room, trust: TrustLevel) -> None:
    with pytest.raises(TrustRefused):
        await room.store.store(a_memory(trust_level=trust))


@pytest.mark.parametrize("trust", [VERIFIED, CONSTITUTIONAL])
async def test_the_owner_can_confirm_own_words(room: Room, trust: TrustLevel) -> None:
    item = a_memory(trust_level=trust)
    await room.store.store(item, token=await room.confirm("store", item))
    assert await room.store.get(item.memory_id) == item
    assert "memory_stored" in room.desk.audit.events()


@pytest.mark.parametrize("trust", [VERIFIED, CONSTITUTIONAL])
async def test_not_even_a_confirmation_makes_outside_text_trusted(
    room: Room, trust: TrustLevel
) -> None:
    item = a_memory(trust_level=trust, taint=EXTERNAL)
    with pytest.raises(TrustRefused):
        await room.store.store(item, token=await room.confirm("store", item))


async def test_a_confirmation_fits_one_memory_one_action_one_scope_once(room: Room) -> None:
    item = a_memory(trust_level=VERIFIED)
    other = a_memory("something else", trust_level=VERIFIED)
    token = await room.confirm("store", item)
    with pytest.raises(TrustRefused):
        await room.store.store(other, token=token)
    with pytest.raises(TrustRefused):
        await room.memories.of("b").store(item.model_copy(update={"scope_id": "b"}), token=token)
    with pytest.raises(TrustRefused):
        await room.store.store(item, token=await room.confirm("delete", item))
    await room.store.store(item, token=token)
    again = item.model_copy(update={"memory_id": "mem_again"})
    with pytest.raises(TrustRefused):
        await room.store.store(again, token=token)


async def test_a_token_of_another_owner_or_without_engine_confirms_nothing(
    room: Room, tmp_path
) -> None:
    item = a_memory(trust_level=VERIFIED)
    token = await room.confirm("store", item)
    forged = token.model_copy(update={"signature": b"x" * 64})
    with pytest.raises(TrustRefused):
        await room.store.store(item, token=forged)
    alone = MemoryStores(room.desk.database, clock=room.desk.clock)
    with pytest.raises(TrustRefused, match="Nobody here"):
        await alone.of("owner").store(item, token=token)


async def test_promotion_and_changes_of_what_is_verified(room: Room) -> None:
    item = a_memory("Anna's birthday is in May", taint=AUTH)
    await room.store.store(item)
    change = {"taint": OWNER, "trust_level": VERIFIED}
    with pytest.raises(TrustRefused):
        await room.store.update(item.memory_id, **change)
    shown = await room.store.after_update(item.memory_id, **change)
    await room.store.update(item.memory_id, **change, token=await room.confirm("update", shown))
    found = await room.store.get(item.memory_id)
    assert found is not None
    assert (found.trust_level, found.taint) == (VERIFIED, AUTH)
    with pytest.raises(TrustRefused):
        await room.store.update(item.memory_id, taint=OWNER, content="in June")
    with pytest.raises(TrustRefused):
        await room.store.delete(item.memory_id, taint=OWNER)
    await room.store.delete(item.memory_id, taint=OWNER, token=await room.confirm("delete", found))
    assert await room.store.get(item.memory_id) is None


async def test_a_confirmation_is_void_if_the_memory_changed_meanwhile(room: Room) -> None:
    item = a_memory("pay Anna")
    await room.store.store(item)
    change = {"taint": OWNER, "trust_level": VERIFIED}
    shown = await room.store.after_update(item.memory_id, **change)
    token = await room.confirm("update", shown)
    await room.store.update(item.memory_id, taint=OWNER, content="pay Eve")
    with pytest.raises(TrustRefused):
        await room.store.update(item.memory_id, **change, token=token)


async def test_a_constitutional_memory_is_never_changed(room: Room) -> None:
    item = a_memory("I decide.", trust_level=CONSTITUTIONAL)
    await room.store.store(item, token=await room.confirm("store", item))
    with pytest.raises(TrustRefused):
        await room.store.update(
            item.memory_id, taint=OWNER, content="x", token=await room.confirm("update", item)
        )


async def test_an_outside_change_taints_an_ordinary_memory(room: Room) -> None:
    item = a_memory("the shop opens at 9")
    await room.store.store(item)
    await room.store.update(item.memory_id, taint=EXTERNAL, content="the shop opens at 10")
    found = await room.store.get(item.memory_id)
    assert found is not None
    assert found.taint is EXTERNAL
    await room.store.update(item.memory_id, taint=OWNER, content="the shop opens at 11")
    again = await room.store.get(item.memory_id)
    assert again is not None
    assert again.taint is EXTERNAL


async def test_the_raw_lane_is_a_one_way_street(room: Room) -> None:
    item = a_memory()
    await room.store.store_raw(item)
    with pytest.raises(TrustRefused):
        await room.store.update(
            item.memory_id, taint=OWNER, reingestion_tier=ReingestionTier.ACTIVE
        )


@pytest.mark.parametrize(
    "row",
    [
        "trust_level = 'verified', taint = 'external'",
        "trust_level = 'constitutional', taint = 'auth'",
        "taint = 'external', memory_type = 'preference'",
        "taint = 'external', memory_type = 'profile'",
    ],
)
async def test_the_database_itself_refuses_what_no_rule_allows(room: Room, row: str) -> None:
    await room.store.store(a_memory())
    with pytest.raises(DatabaseError):
        await room.desk.database.execute(f"UPDATE memory_items SET {row}")
