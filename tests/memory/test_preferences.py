import pytest

from silas.kernel import TaintLevel
from silas.memory.errors import MemoryInvalid, TrustRefused
from silas.memory.models import MemoryType, TrustLevel
from silas.memory.preferences import (
    Behavior,
    BehaviorPreferences,
    PreferenceOutcome,
    PreferencePolicy,
    text_for_owner,
)
from tests.memory.room import Room, a_memory

OWNER = TaintLevel.OWNER


def learner(room: Room, **policy) -> BehaviorPreferences:
    chosen = PreferencePolicy(**policy)
    return BehaviorPreferences(room.memories, "owner", ids=room.desk.ids, policy=chosen)


def saw(key: str, outcome: PreferenceOutcome = PreferenceOutcome.APPROVED) -> Behavior:
    return Behavior(key, "mails that are archived", outcome, what="Archive the mail")


async def observe(preferences, times: int, key: str = "approval/archive"):
    return [await preferences.observe(saw(key), taint=OWNER) for _ in range(times)]


async def test_a_repeated_pattern_becomes_a_working_preference_once(room: Room) -> None:
    found = await observe(learner(room), 6)
    (item,) = [each for each in found if each]
    assert found[2] is item
    assert (item.memory_type, item.trust_level) == (MemoryType.PREFERENCE, TrustLevel.WORKING)
    assert item.semantic_tags == ["behavior:approval/archive"]
    assert item.content == "The owner usually approves mails that are archived."
    assert len(item.causal_refs) == 3, "it names what it rests on"
    assert await learner(room).defaults() == []


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (PreferenceOutcome.APPROVED, "You usually approve mails that are archived."),
        (PreferenceOutcome.DECLINED, "You usually decline mails that are archived."),
        (
            PreferenceOutcome.EDIT_SELECTION,
            "You usually ask for changes to mails that are archived.",
        ),
        (PreferenceOutcome.UNDO, "You usually undo mails that are archived."),
        (PreferenceOutcome.DISMISSED, "You usually dismiss mails that are archived."),
        (PreferenceOutcome.ASKED, "You usually ask for mails that are archived."),
    ],
)
async def test_the_owner_is_called_you(room: Room, outcome: PreferenceOutcome, text: str) -> None:
    preferences = learner(room)
    found = [await preferences.observe(saw("a", outcome), taint=OWNER) for _ in range(3)]
    (item,) = [each for each in found if each]
    assert text_for_owner(item) == text
    said = item.model_copy(update={"source_kind": "chat"})
    assert text_for_owner(said) == item.content, "what somebody said stays as it was said"


async def test_other_outcomes_and_old_signals_do_not_add_up(room: Room) -> None:
    preferences = learner(room)
    for outcome in PreferenceOutcome:
        assert await preferences.observe(saw("response/short", outcome), taint=OWNER) is None
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
    (default,) = await preferences.defaults()
    assert default.memory_id == memory_id
    assert await preferences.proposals() == []


@pytest.mark.parametrize("key", ["", " x", "x" * 101])
async def test_a_behaviour_needs_a_name(room: Room, key: str) -> None:
    with pytest.raises(MemoryInvalid):
        await learner(room).observe(saw(key), taint=OWNER)


async def test_what_the_owner_mostly_does_otherwise_is_no_preference(room: Room) -> None:
    preferences = learner(room)
    await observe(preferences, 2)
    for _ in range(3):
        declined = saw("approval/archive", PreferenceOutcome.DECLINED)
        assert await preferences.observe(declined, taint=OWNER) is None, "two of five were yes"
    assert await preferences.proposals() == []


async def test_the_evidence_is_said_in_words(room: Room) -> None:
    preferences = learner(room)
    (item,) = [each for each in await observe(preferences, 3) if each]
    said = await preferences.evidence(item)
    assert said.startswith("3 of 3 since ")
    assert said.count("“Archive the mail”") == 3
    assert await preferences.evidence(a_memory("x")) == ""


async def test_without_confirmation_what_is_clear_counts_and_stays_unconfirmed(room: Room) -> None:
    preferences = learner(room, needs_confirmation=False)
    await observe(preferences, 4)
    assert await preferences.defaults() == []
    await observe(preferences, 1)
    (default,) = await preferences.defaults()
    assert default.trust_level is TrustLevel.WORKING
    assert await preferences.proposals() == [], "nothing is asked"


async def test_what_an_older_version_inferred_from_undo_cards_is_retracted(room: Room) -> None:
    old = a_memory(
        "The owner has repeatedly undone plan: undo.",
        memory_id="old",
        memory_type=MemoryType.PREFERENCE,
        semantic_tags=["behavior:plan/undo"],
        entity_refs=["behavior:plan/undo#undo"],
        source_kind="behavior_inference",
    )
    await room.store.store(old)
    await learner(room).retract()
    assert await room.store.get("old") is None
