import pytest

from silas.kernel import TaintLevel
from silas.memory.errors import MemoryInvalid, TrustRefused
from silas.memory.models import MemoryType, TrustLevel
from silas.memory.preferences import BehaviorPreferences, Outcome, PreferencePolicy
from tests.memory.room import Room, a_memory

OWNER = TaintLevel.OWNER


def learner(room: Room, **policy) -> BehaviorPreferences:
    chosen = PreferencePolicy(**policy)
    return BehaviorPreferences(room.memories, "owner", ids=room.desk.ids, policy=chosen)


async def observe(preferences, times: int, key: str = "approval/archive"):
    return [await preferences.observe(key, Outcome.APPROVED, taint=OWNER) for _ in range(times)]


async def test_a_repeated_pattern_becomes_a_working_preference_once(room: Room) -> None:
    found = await observe(learner(room), 6)
    (item,) = [each for each in found if each]
    assert found[2] is item
    assert (item.memory_type, item.trust_level) == (MemoryType.PREFERENCE, TrustLevel.WORKING)
    assert item.semantic_tags == ["behavior:approval/archive"]
    assert await learner(room).verified() == []


async def test_other_outcomes_and_old_signals_do_not_add_up(room: Room) -> None:
    preferences = learner(room)
    for outcome in Outcome:
        assert await preferences.observe("response/short", outcome, taint=OWNER) is None
    room.desk.clock.advance(days=31)
    assert await observe(preferences, 2, "response/short") == [None, None]


async def test_at_most_so_many_a_day(room: Room) -> None:
    preferences = learner(room, most_a_day=1)
    assert any(await observe(preferences, 3, "a"))
    assert not any(await observe(preferences, 3, "b"))
    room.desk.clock.advance(days=2)
    assert any(await observe(preferences, 1, "b"))


async def test_only_a_card_makes_it_a_default(room: Room) -> None:
    preferences = learner(room)
    await observe(preferences, 4)
    assert await preferences.proposals() == []
    await observe(preferences, 1)
    (claim,) = await preferences.proposals()
    memory_id = claim.items[0].memory_id
    other = a_memory("x", trust_level=TrustLevel.VERIFIED)
    with pytest.raises(TrustRefused):
        await preferences.promote(memory_id, await room.confirm("update", other))
    await preferences.promote(memory_id, await room.confirm(claim.action, *claim.items))
    (default,) = await preferences.verified()
    assert default.memory_id == memory_id
    assert await preferences.proposals() == []


@pytest.mark.parametrize("key", ["", " x", "x" * 101])
async def test_a_behaviour_needs_a_name(room: Room, key: str) -> None:
    with pytest.raises(MemoryInvalid):
        await learner(room).observe(key, Outcome.UNDO, taint=OWNER)
