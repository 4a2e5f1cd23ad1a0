"""Batches and autonomy changes: canonical bytes as the spec writes them."""

import dataclasses

import pytest

from silas.approval import AutonomyPayload, BatchPayload, ThresholdChange

CHANGE = ThresholdChange("batch_review.default_size", "10", "20", "widen")
AUTONOMY = AutonomyPayload("prop_1", "scope_1", None, (CHANGE,), 50, 0.02, "last 50 batches")


def test_a_batch() -> None:
    batch = BatchPayload("goal_1", "archive", ("b", "a"))
    assert batch.plan_bytes() == (
        b'{"action":"archive","count":2,"goal_id":"goal_1","item_ids":["b","a"]}'
    )
    assert (batch.id, batch.parent, batch.spawn_policy_bytes()) == ("goal_1", None, b"")


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
