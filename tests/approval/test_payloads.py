"""Batches and autonomy changes: canonical bytes as the spec writes them."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silas.approval import AutonomyPayload, BatchPayload, ThresholdChange

CHANGE = ThresholdChange("batch_review.default_size", "10", "20", "widen")
AUTONOMY = AutonomyPayload("prop_1", "scope_1", None, (CHANGE,), 50, 0.02, "last 50 batches")


BATCH = BatchPayload(
    batch_id="batch_1",
    goal_id="goal_1",
    action="archive",
    connection="conn_1",
    tool="mail_label",
    args={"label": "news"},
    ids="mails",
    item_ids=("b", "a"),
    states=("", "7"),
    lines=("B, from x", "A, from y"),
)


def test_a_batch() -> None:
    assert BATCH.plan_bytes() == (
        b'{"action":"archive","args":{"label":"news"},"batch_id":"batch_1","connection":"conn_1",'
        b'"count":2,"goal_id":"goal_1","ids":"mails","item_ids":["b","a"],'
        b'"lines":["B, from x","A, from y"],"state":null,"states":["","7"],"tool":"mail_label"}'
    )
    assert (BATCH.id, BATCH.parent, BATCH.spawn_policy_bytes()) == ("batch_1", None, b"")
    assert BatchPayload.read(BATCH.shown()) == BATCH


@pytest.mark.parametrize(
    "change",
    [
        {"batch_id": "x"},
        {"goal_id": "x"},
        {"action": "x"},
        {"connection": "x"},
        {"tool": "x"},
        {"args": {}},
        {"args": {"label": "other"}},
        {"ids": "x"},
        {"item_ids": ("a", "b")},
        {"item_ids": ("b", "c")},
        {"states": ("", "8")},
        {"lines": ("B, from x", "A, from z")},
        {"state": "etag"},
    ],
)
def test_every_part_of_a_batch_is_bound(change: dict[str, object]) -> None:
    assert dataclasses.replace(BATCH, **change).plan_bytes() != BATCH.plan_bytes()


@settings(max_examples=60)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=6, unique=True), st.data())
def test_a_batch_is_bound_to_its_very_list(ids: list[str], data: st.DataObject) -> None:
    def of(names: list[str]) -> bytes:
        blank = ("",) * len(names)
        changed = {"item_ids": tuple(names), "states": blank, "lines": blank}
        return dataclasses.replace(BATCH, **changed).plan_bytes()

    other = data.draw(st.lists(st.sampled_from([*ids, "new"]), min_size=1, unique=True))
    assert (of(ids) == of(other)) == (ids == other)


@pytest.mark.parametrize(
    "change",
    [
        {"count": 3},
        {"item_ids": ["b"]},
        {"item_ids": ["b", "b"]},
        {"item_ids": "ba"},
        {"lines": ["B"]},
        {"states": []},
        {"more": 1},
    ],
)
def test_a_card_that_does_not_show_a_whole_batch_is_none(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        BatchPayload.read({**BATCH.shown(), **change})


def test_an_autonomy_change() -> None:
    assert AUTONOMY.plan_bytes() == (
        b'{"changes":[{"current_value":"10","direction":"widen","key":"batch_review.default_size",'
        b'"proposed_value":"20"}],"correction_rate":0.02,"evidence_window":"last 50 batches",'
        b'"goal_id":null,"sample_size":50,"scope_id":"scope_1"}'
    )
    assert (AUTONOMY.id, AUTONOMY.parent, AUTONOMY.spawn_policy_bytes()) == ("prop_1", None, b"")


@pytest.mark.parametrize(
    "change",
    [
        {"scope_id": "x"},
        {"goal_id": "x"},
        {"changes": ()},
        {"changes": (CHANGE, CHANGE)},
        {"changes": (dataclasses.replace(CHANGE, proposed_value="21"),)},
        {"sample_size": 51},
        {"correction_rate": 0.03},
        {"evidence_window": "x"},
    ],
)
def test_every_part_of_an_autonomy_change_is_bound(change: dict[str, object]) -> None:
    changed = dataclasses.replace(AUTONOMY, **change)
    assert changed.plan_bytes() != AUTONOMY.plan_bytes()
