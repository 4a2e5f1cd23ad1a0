"""What two devices agree upon without asking: pointers that go on, counters that stay bounded."""

from hypothesis import given
from hypothesis import strategies as st

from silas.companions.log import higher_pointer
from silas.companions.models import AgentState, Companion, MessagePointer
from silas.companions.store import CompanionStore
from silas.companions.wake.worker import prune_stale_hosts
from silas.journal.edit import Order, compare


def test_pointers_go_on_and_ties_are_broken_by_host_and_id() -> None:
    def pointer(sequence: int, host: str, message: str) -> MessagePointer:
        return MessagePointer(message_id=message, sequence=sequence, host_id=host)

    descendant, ancestor = pointer(5, "a", "m1"), pointer(4, "z", "m9")
    assert higher_pointer(ancestor, descendant) == descendant
    assert higher_pointer(pointer(5, "a", "m9"), pointer(5, "b", "m1")) == pointer(5, "b", "m1")
    assert higher_pointer(pointer(5, "a", "m1"), pointer(5, "a", "m2")) == pointer(5, "a", "m2")
    assert higher_pointer(None, ancestor) == ancestor
    assert higher_pointer(None, None) is None


async def test_the_next_write_takes_the_place_of_what_it_has_seen(
    store: CompanionStore, companion: Companion
) -> None:
    stored = await store.require(AgentState, companion.current_state_id)
    clock = {**stored.vector_clock, "host-b": 3}
    seen = stored.model_copy(update={"vector_clock": clock, "siblings": (stored,)})
    written = await store.put(seen)
    assert written.siblings == ()
    for version in (stored, seen):
        assert compare(version.vector_clock, written.vector_clock) is Order.BEFORE


@given(counters=st.dictionaries(st.text(max_size=3), st.integers(0, 9)), limit=st.integers(0, 5))
def test_stale_host_counter_pruning_stays_bounded_without_replay_regressions(
    counters: dict[str, int], limit: int
) -> None:
    active = sorted(counters)[:2]
    kept = prune_stale_hosts(counters, active=active, limit=limit)
    assert len(kept) <= max(limit, len(active))
    assert set(active) <= kept.keys()
    # What is kept is what it was: nothing that was seen is taken for new, for those that write.
    assert all(counters[host] == kept[host] for host in kept)
    assert kept == prune_stale_hosts(kept, active=active, limit=limit)
