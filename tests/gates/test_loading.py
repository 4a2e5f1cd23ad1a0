"""Gates are loaded with their examples checked."""

from typing import Any

import pytest
from pydantic import ValidationError

from silas.gates import Gate
from silas.gates.errors import GatesNotLoaded
from silas.gates.models import GateCheckProvider
from silas.gates.providers import CustomProvider, PredicateProvider
from silas.gates.runner import ExampleBook, gate_problems, load_gates
from silas.testing.fakes import FakeProvider, answer

PROVIDERS: dict[str, GateCheckProvider] = {
    "predicate": PredicateProvider(),
    "custom": CustomProvider({}),
}


def amount(**more: Any) -> Gate:
    fields = {
        "name": "amount",
        "on": "on_tool_call",
        "type": "numeric_range",
        "extract": "order.amount",
        "auto_approve": {"min": 0, "max": 50},
    }
    return Gate.model_validate({**fields, **more})


async def test_a_gate_with_examples_that_hold_is_loaded() -> None:
    gate = amount(match=[51, -1, "x", {"tool_args": {}}], not_match=[0, 50, "7.5"])
    assert await load_gates([gate], PROVIDERS) == (gate,)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"match": [50]}, "Example 1 of match does not hold: it was let pass."),
        ({"match": [51, 5]}, "Example 2 of match does not hold: it was let pass."),
        ({"not_match": [5, 51]}, "Example 2 of not_match does not hold: it was caught."),
        (
            {"not_match": [{"tool_args": {}}]},
            "Example 1 of not_match does not hold: it was caught.",
        ),
        (
            {"not_match": [60], "config": {"normalise": [{"clamp": [0, 50]}]}},
            "Example 1 of not_match does not hold: it was caught.",
        ),
    ],
)
async def test_a_gate_whose_examples_fail_is_not(more: dict[str, Any], told: str) -> None:
    with pytest.raises(GatesNotLoaded) as caught:
        await load_gates([amount(**more)], PROVIDERS)
    assert caught.value.details["problems"] == [{"gate": "amount", "problem": told}]
    assert (caught.value.code, caught.value.exit_code) == ("E_GATE_NOT_LOADED", 90)


@pytest.mark.parametrize(
    ("on", "key"),
    [("every_user_message", "message"), ("every_agent_response", "response")],
)
async def test_an_example_stands_where_the_gate_looks(on: str, key: str) -> None:
    fields = {"name": "g", "on": on, "allowed_values": ["hi"], "match": ["ho"], "not_match": ["hi"]}
    assert await gate_problems([Gate.model_validate(fields)], PROVIDERS) == []
    whole = {**fields, "match": [{key: "ho"}, {}], "not_match": [{key: "hi"}]}
    assert await gate_problems([Gate.model_validate(whole)], PROVIDERS) == []


async def test_the_name_of_a_tool_is_an_example_too() -> None:
    fields = {"name": "g", "on": "on_tool_call", "allowed_values": ["search"]}
    gate = Gate.model_validate({**fields, "match": ["delete"], "not_match": ["search"]})
    assert await gate_problems([gate], PROVIDERS) == []


async def test_every_problem_is_told_at_once() -> None:
    custom = {"name": "c", "on": "on_tool_call", "provider": "custom", "check": "nothing"}
    script = {"name": "s", "on": "on_tool_call", "provider": "script", "check": "x"}
    gates = [amount(match=[1]), amount(), *map(Gate.model_validate, (custom, script))]
    problems = await gate_problems(gates, PROVIDERS)
    assert [each.gate for each in problems] == ["amount", "amount", "c", "s"]
    assert problems[1].sentence == "The name is used twice."
    assert problems[3].sentence == "No provider: script"


async def test_examples_are_tried_once() -> None:
    provider = FakeProvider(answer())
    book = ExampleBook()
    for _ in range(3):
        assert await book.problem(amount(not_match=[1, 2]), provider) is None
    assert len(provider.seen) == 2
    assert await book.problem(amount(match=[1]), provider) is not None


def test_a_models_opinion_has_no_examples() -> None:
    fields = {"name": "q", "on": "every_user_message", "provider": "llm", "check": "Polite?"}
    with pytest.raises(ValidationError, match="cannot be promised"):
        Gate.model_validate({**fields, "match": ["x"]})


def test_a_gate_without_examples_is_written_as_before() -> None:
    assert "match" not in amount().model_dump(mode="json")
    assert amount(match=[60]).model_dump(mode="json")["match"] == [60.0]
    again = Gate.model_validate(amount(match=[60]).model_dump(mode="json"))
    assert again == amount(match=[60])


async def test_an_example_that_breaks_the_provider_counts_as_caught() -> None:
    def breaks(_gate: Gate, _context: dict[str, Any]) -> Any:
        raise RuntimeError

    provider = FakeProvider(breaks)
    assert await ExampleBook().problem(amount(match=[1]), provider) is None
    assert await ExampleBook().problem(amount(not_match=[1]), provider) is not None
