"""The records: typed, frozen, with nothing untyped that could become a schema."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from silas.companions import messages, models
from silas.companions.messages import AgentMessageMetadata
from silas.companions.models import AgentConfig, AgentSlots, Companion, Synced, WakeStatus
from silas.companions.store import TABLES
from silas.journal.notifications import TokenClass, TypedToken

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("wrapper", [AgentConfig, AgentSlots, AgentMessageMetadata])
def test_extension_maps_are_empty_by_default_and_take_only_registered_keys(wrapper: type) -> None:
    assert wrapper().extension == {}
    with pytest.raises(ValidationError, match=r"not a registered extension: gym\.secret"):
        wrapper(extension={"gym.secret": 1})


def test_wrapper_schemas_round_trip() -> None:
    slots = AgentSlots().with_slot("primary_goal", "run 10 km", host_id="a")
    assert AgentSlots.model_validate_json(slots.model_dump_json()) == slots
    assert (slots.primary_goal_version, slots.slot_hosts) == (1, {"primary_goal": "a"})
    with pytest.raises(ValidationError):
        AgentSlots.model_validate({"mood": "good"})


def test_allowed_categories_are_a_set_with_one_spelling() -> None:
    companion = Companion(
        id="a",
        kind="planner",
        display_name="P",
        allowed_category_ids=("work", "gym", "work"),
        current_state_id="s",
        created_at=NOW,
        updated_at=NOW,
    )
    assert companion.allowed_category_ids == ("gym", "work")


@pytest.mark.parametrize(
    ("token_class", "namespace", "fits"),
    [
        (TokenClass.SEMANTIC_KEY, None, True),
        (TokenClass.SEMANTIC_KEY, "task", False),
        (TokenClass.SUBTYPE_TOKEN, "task.status", True),
        (TokenClass.SUBTYPE_TOKEN, None, False),
        (TokenClass.ENTITY_ID, None, True),
        (TokenClass.ENTITY_ID, "task", False),
    ],
)
def test_typed_tokens_of_subscriptions_have_a_namespace_only_for_subtypes(
    token_class: TokenClass, namespace: str | None, fits: bool
) -> None:
    def make() -> TypedToken:
        return TypedToken(token_class=token_class, token_value="x", token_namespace=namespace)

    if fits:
        assert make().token_key == f"{token_class}|{namespace or '-'}|x"
    else:
        with pytest.raises(ValidationError):
            make()


def test_only_queued_and_running_are_not_terminal() -> None:
    assert {each for each in WakeStatus if not each.is_terminal} == {
        WakeStatus.QUEUED,
        WakeStatus.RUNNING,
    }


def test_every_synced_record_has_a_clock_and_a_tombstone_and_a_table() -> None:
    synced = {
        each
        for each in (vars(models) | vars(messages)).values()
        if isinstance(each, type) and issubclass(each, Synced) and each is not Synced
    }
    assert synced <= TABLES.keys()
    for record in synced:
        assert {"vector_clock", "deleted_at"} <= record.model_fields.keys()


def test_raw_maps_are_only_extensions_and_contents() -> None:
    """`Companion`, `AgentState` and `AgentMessage` have no untyped field of their own."""
    for record in (models.Companion, models.AgentState, messages.AgentMessage):
        for name, field in record.model_fields.items():
            assert field.annotation != models.JsonMap, name
