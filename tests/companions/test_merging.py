"""Merging: the rules one by one, and the laws that make the order of merging meaningless."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.companions.merging import (
    higher_pointer,
    merge_budget_windows,
    merge_companions,
    merge_persona_heads,
    merge_states,
    prune_stale_hosts,
)
from silas.companions.models import (
    AgentLifecycle,
    AgentPersonaHead,
    AgentSlots,
    AgentState,
    BudgetUsage,
    BudgetWindow,
    Companion,
    MessagePointer,
)
from silas.companions.store import CompanionStore
from silas.journal.merging import Order, compare

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOSTS = ("a", "b", "c")
A, B = {"a": 1}, {"b": 1}

moments = st.integers(0, 4).map(lambda hours: NOW + timedelta(hours=hours))
clocks = st.dictionaries(st.sampled_from(HOSTS), st.integers(1, 3))
counters = st.dictionaries(st.sampled_from(HOSTS), st.integers(0, 3))
pointers = st.none() | st.builds(
    MessagePointer,
    message_id=st.sampled_from(["m1", "m2"]),
    sequence=st.integers(0, 3),
    host_id=st.sampled_from(HOSTS),
)
slots = st.builds(
    AgentSlots,
    primary_goal=st.sampled_from([None, "run", "swim"]),
    primary_goal_version=st.integers(0, 2),
    open_loop_ids=st.sampled_from([(), ("x",), ("x", "y")]),
    open_loop_ids_version=st.integers(0, 2),
    slot_hosts=st.dictionaries(
        st.sampled_from(["primary_goal", "open_loop_ids"]), st.sampled_from(HOSTS)
    ),
)
states = st.builds(
    AgentState,
    id=st.just("s"),
    agent_id=st.just("agent-1"),
    revision=st.integers(0, 3),
    updated_at=moments,
    last_wake_at=st.none() | moments,
    next_wake_at=st.none() | moments,
    sleep_until=st.none() | moments,
    recent_head=pointers,
    latest_summary=pointers,
    consecutive_failure_count=st.integers(0, 3),
    processed_counter_by_host=counters,
    slots=slots,
    vector_clock=clocks,
)
companions = st.builds(
    Companion,
    id=st.just("agent-1"),
    kind=st.just("planner"),
    display_name=st.sampled_from(["P", "Q"]),
    lifecycle=st.sampled_from(AgentLifecycle),
    allowed_category_ids=st.sampled_from([(), ("gym",), ("gym", "work")]),
    current_state_id=st.just("s"),
    created_at=st.just(NOW),
    updated_at=moments,
    paused_at=st.none() | moments,
    vector_clock=clocks,
)
heads = st.builds(
    AgentPersonaHead,
    id=st.just("h"),
    agent_id=st.just("agent-1"),
    persona_version_id=st.sampled_from(["p1", "p2"]),
    persona_version=st.integers(1, 3),
    host_id=st.sampled_from(HOSTS),
    updated_at=moments,
    vector_clock=clocks,
)
windows = st.builds(
    BudgetWindow,
    id=st.just("w"),
    agent_id=st.just("agent-1"),
    window_start_local_date=st.just(date(2026, 1, 1)),
    time_zone=st.sampled_from(["Europe/Berlin", "UTC"]),
    usage_by_host=st.dictionaries(
        st.sampled_from(HOSTS),
        st.builds(BudgetUsage, tokens=st.integers(0, 3), tool_calls=st.integers(0, 3)),
    ),
    updated_at=moments,
    vector_clock=clocks,
)
M = TypeVar("M")
MERGES = [
    pytest.param(merge_states, states, id="state"),
    pytest.param(merge_companions, companions, id="companion"),
    pytest.param(merge_persona_heads, heads, id="persona head"),
    pytest.param(merge_budget_windows, windows, id="budget window"),
]


@pytest.mark.parametrize(("merge", "records"), MERGES)
@given(data=st.data())
def test_merging_is_commutative_associative_and_idempotent(
    merge: Any, records: Any, data: st.DataObject
) -> None:
    a, b, c = (data.draw(records) for _ in range(3))
    ab = merge(a, b)
    assert ab == merge(b, a)
    assert merge(ab, c) == merge(a, merge(b, c))
    assert merge(merge(a, c), b) == merge(ab, c)
    assert merge(a, a) == a
    assert merge(ab, ab) == ab
    assert merge(ab, a) == ab


def state(**fields: Any) -> AgentState:
    return AgentState(**{"id": "s", "agent_id": "agent-1", "updated_at": NOW, **fields})


def test_rule_1_a_dominating_clock_wins_whole() -> None:
    old = state(vector_clock={"a": 1}, consecutive_failure_count=5, sleep_until=NOW)
    new = state(vector_clock={"a": 2}, consecutive_failure_count=0, updated_at=NOW)
    assert merge_states(old, new) == new


def test_cursor_watermark_merge_rules() -> None:
    a = state(vector_clock=A, processed_counter_by_host={"a": 3, "b": 1})
    b = state(vector_clock=B, processed_counter_by_host={"b": 2, "c": 1})
    assert merge_states(a, b).processed_counter_by_host == {"a": 3, "b": 2, "c": 1}


def test_rule_3_destroyed_over_dormant_over_active_over_created() -> None:
    def companion(lifecycle: AgentLifecycle, clock: dict[str, int]) -> Companion:
        return Companion(
            id="agent-1",
            kind="planner",
            display_name="P",
            lifecycle=lifecycle,
            current_state_id="s",
            created_at=NOW,
            updated_at=NOW,
            vector_clock=clock,
        )

    order = list(AgentLifecycle)
    for place, low in enumerate(order):
        for high in order[place:]:
            merged = merge_companions(companion(low, A), companion(high, B))
            assert merged.lifecycle is high


def test_rule_3_a_border_that_only_one_device_knows_is_not_widened() -> None:
    def companion(categories: tuple[str, ...], clock: dict[str, int]) -> Companion:
        return Companion(
            id="agent-1",
            kind="planner",
            display_name="P",
            allowed_category_ids=categories,
            current_state_id="s",
            created_at=NOW,
            updated_at=NOW,
            vector_clock=clock,
        )

    merged = merge_companions(companion(("gym", "work"), A), companion(("gym",), B))
    assert merged.allowed_category_ids == ("gym",)


def test_rule_4_pointers_go_on_and_ties_are_broken_by_host_and_id() -> None:
    def pointer(sequence: int, host: str, message: str) -> MessagePointer:
        return MessagePointer(message_id=message, sequence=sequence, host_id=host)

    descendant, ancestor = pointer(5, "a", "m1"), pointer(4, "z", "m9")
    assert higher_pointer(ancestor, descendant) == descendant
    assert higher_pointer(pointer(5, "a", "m9"), pointer(5, "b", "m1")) == pointer(5, "b", "m1")
    assert higher_pointer(pointer(5, "a", "m1"), pointer(5, "a", "m2")) == pointer(5, "a", "m2")
    assert higher_pointer(None, ancestor) == ancestor
    a, b = state(vector_clock=A, recent_head=ancestor), state(vector_clock=B)
    assert merge_states(a, b).recent_head_message_id == "m9"


def test_pointer_conflicts_converge_under_skewed_wall_clocks() -> None:
    ahead = MessagePointer(message_id="m2", sequence=2, host_id="a")
    behind = MessagePointer(message_id="m1", sequence=1, host_id="b")
    skewed = NOW + timedelta(days=365)
    a = state(vector_clock=A, recent_head=ahead)
    b = state(vector_clock=B, recent_head=behind, updated_at=skewed)
    assert merge_states(a, b).recent_head == ahead


def test_rule_5_failures_take_the_higher_count_until_a_run_succeeds() -> None:
    a = state(vector_clock=A, consecutive_failure_count=2)
    b = state(vector_clock=B, consecutive_failure_count=1)
    merged = merge_states(a, b)
    assert merged.consecutive_failure_count == 2
    succeeded = merged.model_copy(
        update={
            "consecutive_failure_count": 0,
            "vector_clock": {**merged.vector_clock, "a": 2},
            "siblings": (),
        }
    )
    assert merge_states(merged, succeeded).consecutive_failure_count == 0
    assert merge_states(succeeded, b).consecutive_failure_count == 0


def test_slot_merge_correctness_using_logical_slot_version_under_skewed_clocks() -> None:
    twice = (
        AgentSlots()
        .with_slot("primary_goal", "swim", host_id="a")
        .with_slot("primary_goal", "run", host_id="a")
    )
    once = AgentSlots().with_slot("primary_goal", "rest", host_id="b")
    once = once.with_slot("active_task_id", "t1", host_id="b")
    later = NOW + timedelta(days=1)
    merged = merge_states(
        state(vector_clock=A, slots=twice), state(vector_clock=B, slots=once, updated_at=later)
    ).slots
    assert (merged.primary_goal, merged.primary_goal_version) == ("run", 2)
    assert (merged.active_task_id, merged.slot_hosts["active_task_id"]) == ("t1", "b")


def test_rule_6_equal_versions_are_decided_by_the_host() -> None:
    a = state(vector_clock=A, slots=AgentSlots().with_slot("primary_goal", "x", host_id="a"))
    b = state(vector_clock=B, slots=AgentSlots().with_slot("primary_goal", "y", host_id="b"))
    assert merge_states(a, b).slots.primary_goal == "y"


def test_rule_7_the_earliest_wake_and_the_latest_sleep() -> None:
    early, late = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
    a = state(vector_clock=A, next_wake_at=late, sleep_until=early)
    b = state(vector_clock=B, next_wake_at=early, sleep_until=late)
    c = state(vector_clock={"c": 1})
    merged = merge_states(merge_states(a, b), c)
    assert (merged.next_wake_at, merged.sleep_until) == (early, late)


def test_the_higher_persona_version_wins_then_host_then_id() -> None:
    def head(version: int, host: str, persona: str, clock: dict[str, int]) -> AgentPersonaHead:
        return AgentPersonaHead(
            id="h",
            agent_id="agent-1",
            persona_version_id=persona,
            persona_version=version,
            host_id=host,
            updated_at=NOW,
            vector_clock=clock,
        )

    cases = [
        (head(2, "a", "p", A), head(1, "b", "q", B)),
        (head(2, "b", "p", A), head(2, "a", "q", B)),
        (head(2, "a", "q", A), head(2, "a", "p", B)),
    ]
    for winner, loser in cases:
        merged = merge_persona_heads(loser, winner)
        assert merged.persona_version_id == winner.persona_version_id
    reverted = head(1, "a", "p", {"a": 2})
    assert merge_persona_heads(head(2, "a", "q", A), reverted) == reverted


def test_budget_window_host_counter_aggregation() -> None:
    def window(usage: dict[str, int], clock: dict[str, int]) -> BudgetWindow:
        return BudgetWindow(
            id="w",
            agent_id="agent-1",
            window_start_local_date=date(2026, 1, 1),
            time_zone="UTC",
            usage_by_host={host: BudgetUsage(tokens=used) for host, used in usage.items()},
            updated_at=NOW,
            vector_clock=clock,
        )

    merged = merge_budget_windows(window({"a": 5, "b": 1}, A), window({"b": 4}, B))
    assert merged.total.tokens == 9


async def test_the_next_write_takes_the_place_of_what_it_has_seen(
    store: CompanionStore, companion: Companion
) -> None:
    stored = await store.require(AgentState, companion.current_state_id)
    other = stored.model_copy(update={"vector_clock": {"host-b": 3}, "updated_at": NOW})
    merged = merge_states(stored, other)
    assert len(merged.siblings) == 2
    written = await store.put(merged)
    assert written.siblings == ()
    for version in (stored, other, merged):
        assert compare(version.vector_clock, written.vector_clock) is Order.BEFORE
        assert merge_states(version, written) == written


def test_different_records_are_not_merged() -> None:
    with pytest.raises(ValueError, match="two versions of one record"):
        merge_states(state(), state(id="other"))


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
