"""Two versions become one, the same whoever merges them and in whatever order."""

from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.journal.edit import Order, compare, join_clocks, last_write, merge, written
from silas.journal.models import Note, Priority, Task, TaskStatus, TimeEntry

START = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ("host_a", "host_b", "host_c")

clocks = st.dictionaries(st.sampled_from(HOSTS), st.integers(1, 5))


class Device:
    """One device with its copy of a record."""

    def __init__(self, name: str, record: Task) -> None:
        self.name, self.record, self.counter = name, record, record.vector_clock.get(name, 0)

    def write(self, **fields: object) -> None:
        self.counter += 1
        after = self.record.model_copy(update=fields)
        self.record = written(after, self.record, host=self.name, counter=self.counter)

    def flip_deletion(self) -> None:
        deletions = self.record.deletions + 1
        gone = START + timedelta(hours=deletions) if deletions % 2 else None
        self.write(deletions=deletions, deleted_at=gone)

    def hear(self, other: "Device") -> None:
        self.record = merge(self.record, other.record)


def fresh() -> Task:
    task = Task(id="task_1", created_at=START, updated_at=START, title="Squats")
    return written(task, None, host="host_a", counter=1)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("title"), st.integers(0, 2), st.sampled_from(["one", "two", "three"])),
        st.tuples(st.just("status"), st.integers(0, 2), st.sampled_from(list(TaskStatus))),
        st.tuples(st.just("priority"), st.integers(0, 2), st.sampled_from(list(Priority))),
        st.tuples(st.just("delete"), st.integers(0, 2), st.none()),
        st.tuples(st.just("hear"), st.integers(0, 2), st.integers(0, 2)),
    ),
    max_size=14,
)


def after(story: list[tuple[str, int, object]]) -> list[Task]:
    """The copies of three devices after what they did and heard of each other."""
    devices = [Device(name, fresh()) for name in HOSTS]
    for what, who, value in story:
        if what == "hear":
            devices[who].hear(devices[value])  # type: ignore[call-overload]
        elif what == "delete":
            devices[who].flip_deletion()
        else:
            devices[who].write(**{what: value})
    return [device.record for device in devices]


@given(steps)
def test_merging_is_commutative_associative_and_idempotent(
    story: list[tuple[str, int, object]],
) -> None:
    copies = after(story)
    results = {reduce(merge, order).model_dump_json() for order in permutations(copies)}
    assert len(results) == 1
    a, b, c = copies
    assert merge(a, merge(b, c)) == merge(merge(a, b), c)
    for each in copies:
        assert merge(each, each) == each
        assert merge(each, merge(a, b)) == merge(a, merge(b, each))


@given(steps)
def test_a_version_that_has_seen_the_other_wins_whole(
    story: list[tuple[str, int, object]],
) -> None:
    copies = after(story)
    for a in copies:
        for b in copies:
            if compare(a.vector_clock, b.vector_clock) is Order.AFTER:
                assert merge(a, b) == a
            if compare(a.vector_clock, b.vector_clock) is Order.EQUAL:
                assert a == b


@given(clocks, clocks, clocks)
def test_clocks_join_like_a_maximum(
    a: dict[str, int], b: dict[str, int], c: dict[str, int]
) -> None:
    assert join_clocks(a, b) == join_clocks(b, a)
    assert join_clocks(a, join_clocks(b, c)) == join_clocks(join_clocks(a, b), c)
    assert compare(a, join_clocks(a, b)) in {Order.EQUAL, Order.BEFORE}


def test_concurrent_edits_of_different_fields_both_survive() -> None:
    left, right = Device("host_b", fresh()), Device("host_c", fresh())
    left.write(title="Deep squats")
    right.write(status=TaskStatus.DONE)
    merged = merge(left.record, right.record)
    assert (merged.title, merged.status) == ("Deep squats", TaskStatus.DONE)


def test_concurrent_edits_of_one_field_are_decided_by_no_clock_on_the_wall() -> None:
    left, right = Device("host_b", fresh()), Device("host_c", fresh())
    left.write(title="later on the wall", updated_at=START + timedelta(days=9))
    right.write(title="earlier on the wall")
    assert merge(left.record, right.record).title == "earlier on the wall"


def test_a_deletion_wins_over_a_concurrent_edit_and_loses_to_whoever_brings_it_back() -> None:
    left, right = Device("host_b", fresh()), Device("host_c", fresh())
    left.flip_deletion()
    right.write(title="still needed")
    right.write(title="really")
    merged = merge(left.record, right.record)
    assert merged.deleted
    assert merged.title == "really"
    right.hear(left)
    right.flip_deletion()
    assert not merge(left.record, right.record).deleted


def test_begin_and_end_of_a_time_entry_stay_together() -> None:
    def moved(by: int, host: str) -> TimeEntry:
        changed = first.model_copy(
            update={
                "started_at": first.started_at + timedelta(hours=by),
                "ended_at": START + timedelta(hours=1 + by),
            }
        )
        return written(changed, first, host=host, counter=2)

    entry = TimeEntry(id="t", created_at=START, updated_at=START, started_at=START, ended_at=START)
    first = written(entry, None, host="host_a", counter=1)
    merged = merge(moved(3, "host_b"), moved(-3, "host_c"))
    assert merged.ended_at is not None
    assert merged.started_at < merged.ended_at


def test_only_versions_of_one_record_can_be_merged() -> None:
    note = Note(id="task_1", created_at=START, updated_at=START, text="other")
    with pytest.raises(ValueError, match="two versions of one record"):
        merge(fresh(), note)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="two versions of one record"):
        merge(fresh(), fresh().model_copy(update={"id": "task_2"}))


def test_the_last_write_is_known() -> None:
    device = Device("host_b", fresh())
    device.counter = 6
    device.flip_deletion()
    found = last_write(device.record)
    assert found is not None
    assert (found.host, found.counter) == ("host_b", 7)
