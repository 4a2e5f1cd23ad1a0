"""What a change is recognised by, and what must never be joined."""

import asyncio
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.journal import notifications
from silas.journal.errors import MissingChangeProvenance
from silas.journal.notifications import (
    ChangeUnit,
    NotificationBatch,
    TokenClass,
    TypedToken,
    change_unit_key,
    coalesce,
    entity,
    logical_change_key,
    make_batch,
    semantic,
    subtype,
    token_key,
)
from silas.storage import DatabaseBusy

units = st.builds(
    ChangeUnit,
    origin=st.sampled_from(["local", "sync"]),
    host_id=st.sampled_from(["host_a", "host_b"]),
    counter=st.integers(1, 9),
    payload_type=st.sampled_from(["task", "note"]),
    payload_id=st.sampled_from(["one", "two"]),
)


def unit(counter: int = 7, origin: str = "local") -> ChangeUnit:
    return ChangeUnit.model_validate(
        {
            "origin": origin,
            "host_id": "host_a",
            "counter": counter,
            "payload_type": "task",
            "payload_id": "task_1",
        }
    )


def batch(*units: ChangeUnit, name: str = "batch_1", token: str = "TASK") -> NotificationBatch:
    return make_batch(name, units, tokens=[semantic(token)])


def test_the_canonical_string_of_a_change_unit() -> None:
    text = b"v2|host_a|7|task|task_1"
    assert change_unit_key(unit()) == hashlib.sha256(text).hexdigest()


def test_the_logical_change_key_is_made_of_the_sorted_keys() -> None:
    keys = sorted([unit(1).change_unit_key, unit(2).change_unit_key])
    wanted = hashlib.sha256(f"v1|{','.join(keys)}".encode()).hexdigest()
    assert logical_change_key(reversed(keys)) == wanted


@given(st.lists(units, min_size=1, max_size=6), st.randoms())
def test_order_independence_of_sorted_change_unit_key_aggregation(
    several: list[ChangeUnit], chance: object
) -> None:
    mixed = [*several, *several[:2]]
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert batch(*mixed).logical_change_key == batch(*several).logical_change_key
    assert batch(*mixed).change_unit_keys == tuple(sorted(set(batch(*several).change_unit_keys)))


def test_logical_change_key_derivation_from_sync_origin_provenance_is_stable_across_devices() -> (
    None
):
    here, there = batch(unit(origin="sync"), name="here"), batch(unit(origin="sync"), name="there")
    assert here.local_batch_id != there.local_batch_id
    assert here.logical_change_key == there.logical_change_key


def test_logical_change_key_derivation_from_local_origin_provenance_is_deterministic() -> None:
    keys = {batch(unit(), name=name).logical_change_key for name in ("one", "two")}
    assert len(keys) == 1
    assert batch(unit(origin="sync")).logical_change_key in keys, "how it came plays no part"
    assert batch(unit(8)).logical_change_key not in keys


def test_semantic_key_tokens_must_omit_token_namespace() -> None:
    with pytest.raises(ValidationError, match="namespace"):
        TypedToken(token_class=TokenClass.SEMANTIC_KEY, token_value="TASK", token_namespace="task")


def test_subtype_token_tokens_must_include_token_namespace() -> None:
    with pytest.raises(ValidationError, match="namespace"):
        TypedToken(token_class=TokenClass.SUBTYPE_TOKEN, token_value="done")


def test_entity_id_tokens_must_omit_token_namespace() -> None:
    with pytest.raises(ValidationError, match="namespace"):
        TypedToken(token_class=TokenClass.ENTITY_ID, token_value="task_1", token_namespace="task")


def test_token_keys() -> None:
    assert semantic("TASK").token_key == "semantic_key|-|TASK"
    assert entity("task_1").token_key == "entity_id|-|task_1"
    assert subtype("task.status", "done").token_key == "subtype_token|task.status|done"
    assert token_key(TokenClass.ENTITY_ID, "x") == entity("x").token_key


def test_batches_are_joined_only_if_they_are_the_same_change() -> None:
    first, again, other = (
        batch(unit(1), name="a", token="TASK"),
        batch(unit(1), name="b", token="CHECKLIST"),
        batch(unit(2), name="c", token="TASK"),
    )
    joined = coalesce([first, other, again])
    assert [each.local_batch_id for each in joined] == ["a", "c"]
    assert [token.token_value for token in joined[0].typed_tokens] == ["CHECKLIST", "TASK"]
    assert joined[0].logical_change_key == first.logical_change_key
    assert joined[1] == other


@given(st.lists(st.lists(units, min_size=1, max_size=3), max_size=6))
def test_notifier_never_merges_batches_with_different_logical_change_key_values(
    several: list[list[ChangeUnit]],
) -> None:
    batches = [batch(*each, name=f"b{number}") for number, each in enumerate(several)]
    joined = coalesce(batches)
    assert [each.logical_change_key for each in joined] == list(
        dict.fromkeys(each.logical_change_key for each in batches)
    )


def test_missing_provenance_fails_closed() -> None:
    whole = batch(unit(1), unit(2))
    with pytest.raises(MissingChangeProvenance):
        make_batch("batch_2", [], tokens=[semantic("TASK")])
    with pytest.raises(MissingChangeProvenance):
        make_batch("batch_2", [unit()], tokens=[])
    with pytest.raises(MissingChangeProvenance):
        logical_change_key(["batch_1"])  # a local id is no substitute
    data = whole.model_dump()
    for wrong in (
        {"change_unit_keys": ()},
        {"change_unit_keys": whole.change_unit_keys[::-1]},
        {"change_unit_keys": whole.change_unit_keys[:1]},
        {"logical_change_key": "0" * 64},
    ):
        with pytest.raises(MissingChangeProvenance):
            NotificationBatch.model_validate(data | wrong)
    assert MissingChangeProvenance.tool_code == "missing_change_provenance"


async def test_listeners_are_told_a_moment_after_a_bad_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "_CALM_DOWN", 0.0)
    asked: list[int] = []
    told = asyncio.Event()

    async def missed(cursor: int) -> list[NotificationBatch]:
        asked.append(cursor)
        if len(asked) == 1:
            raise DatabaseBusy
        return [batch(unit()).model_copy(update={"source_cursor": 1})]

    teller = notifications.Notifier(missed, cursor=0)
    teller.subscribe(lambda _batch: told.set())
    teller.wake()
    async with asyncio.timeout(120):
        await told.wait()
    assert asked == [0, 0]
    await teller.stop()
