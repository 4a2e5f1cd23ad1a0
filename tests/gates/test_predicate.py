"""The provider `predicate`: a truth table for every type, at its boundaries."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.gates import Gate, GateAction, GateResult
from silas.gates.providers import PredicateProvider

BLOCK, ASK, GO = GateAction.BLOCK, GateAction.REQUIRE_APPROVAL, GateAction.CONTINUE
RANGES = {
    "auto_approve": {"min": 0.1, "max": 50},
    "require_approval": {"min": 50, "max": 500},
    "block": {"outside": [-10, 1000]},
}


def gate(type_: str, **more: Any) -> Gate:
    fields = {"name": "g", "on": "on_tool_call", "type": type_, "extract": "value"}
    return Gate.model_validate({**fields, **more})


async def judged(
    gate: Gate, value: Any, *, directories: tuple[Path, ...] = (), **more: Any
) -> GateResult:
    context = {"tool_name": "t", "tool_args": {"value": value}, **more}
    return await PredicateProvider(directories).check(gate, context)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0.1, GO),
        ("0.1", GO),
        (0.09999, BLOCK),
        (1, GO),
        (50, GO),
        (50.0, GO),
        ("50", GO),
        ("50.0", GO),
        ("5e1", GO),
        ("50.00000000000000000001", ASK),
        (50.00000000000001, ASK),
        (500, ASK),
        ("+500", ASK),
        (500.0000001, BLOCK),
        (0, BLOCK),
        (-0.0, BLOCK),
        (-10, BLOCK),
        (-10.5, BLOCK),
        (1000, BLOCK),
        (1000.5, BLOCK),
        (10**400, BLOCK),
        (True, BLOCK),
        (False, BLOCK),
        (None, BLOCK),
        (math.nan, BLOCK),
        (math.inf, BLOCK),
        ("nan", BLOCK),
        ("inf", BLOCK),
        ("1_0", BLOCK),
        (" 5", BLOCK),
        ("5\n", BLOCK),
        ("\u0665", BLOCK),
        ("0x10", BLOCK),
        ("", BLOCK),
        (".", BLOCK),
        ("1e9999", BLOCK),
        ("9" * 100, BLOCK),
        ([5], BLOCK),
        ({"value": 5}, BLOCK),
    ],
)
async def test_numeric_range(value: Any, wanted: GateAction) -> None:
    assert (await judged(gate("numeric_range", **RANGES), value)).action is wanted


async def test_the_hard_limits_come_first_and_include_their_bounds() -> None:
    wide = {"min": -1000, "max": 10_000}
    narrow = gate("numeric_range", auto_approve=wide, block={"outside": [0, 10]})
    for value, wanted in ((0, GO), (10, GO), (-0.001, BLOCK), (10.001, BLOCK)):
        assert (await judged(narrow, value)).action is wanted


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
async def test_a_number_and_its_text_are_judged_alike(number: float) -> None:
    ranges = gate("numeric_range", **RANGES)
    as_text = f"{number:.20f}" if abs(number) < 1e15 else "1e99"
    one, other = await judged(ranges, number), await judged(ranges, as_text)
    near = any(abs(number - bound) < 1e-15 for bound in (0.1, 50, 500, -10, 1000))
    assert near or one.action is other.action


async def test_a_very_large_number_is_shown_as_it_is() -> None:
    anything = gate("numeric_range", auto_approve={"min": 0, "max": 1e300})
    assert (await judged(anything, 2**60 + 1)).value == str(2**60 + 1)
    assert (await judged(anything, 5)).value == 5.0


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("staging", GO),
        ("production", ASK),
        ("Staging", BLOCK),
        ("staging ", BLOCK),
        ("staging\n", BLOCK),
        ("stag", BLOCK),
        ("", BLOCK),
        ("staging\0", BLOCK),
        ("\ud800", BLOCK),
        (5, BLOCK),
        (True, BLOCK),
        (None, BLOCK),
        (["staging"], BLOCK),
        ("x" * 10_000_000, BLOCK),
    ],
)
async def test_string_match(value: Any, wanted: GateAction) -> None:
    places = gate("string_match", allowed_values=["staging"], approval_values=["production"])
    assert (await judged(places, value)).action is wanted


async def test_a_value_that_is_allowed_and_asked_about_is_allowed() -> None:
    both = gate("string_match", allowed_values=["a"], approval_values=["a"])
    assert (await judged(both, "a")).action is GO


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("anna@example.org", GO),
        ("anna@example.org\n", BLOCK),
        ("to: anna@example.org", BLOCK),
        ("anna@example.org.evil.com", BLOCK),
        ("", BLOCK),
        ("anna\0@example.org", BLOCK),
        ("\ud800@example.org", BLOCK),
        (5, BLOCK),
        ("a" * 99_988 + "@example.org", GO),
        ("a" * 99_989 + "@example.org", BLOCK),
        ("a" * 10_000_000, BLOCK),
    ],
)
async def test_regex(value: Any, wanted: GateAction) -> None:
    mail = gate("regex", config={"pattern": r"[a-z]+@example\.org"})
    assert (await judged(mail, value)).action is wanted


@pytest.mark.parametrize("value", [None, "", 5, "x", [], "\0"])
async def test_approval_always(value: Any) -> None:
    assert (await judged(gate("approval_always"), value)).action is ASK


async def test_approval_is_always_needed_even_without_a_value() -> None:
    always = gate("approval_always")
    assert (await PredicateProvider().check(always, {})).action is ASK


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    (place / "sub").mkdir(parents=True)
    (place / "report.txt").write_text("12345")
    (place / "sub" / "deep.txt").write_text("")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "place2").mkdir()
    (tmp_path / "place2" / "report.txt").write_text("x")
    (place / "link").symlink_to(tmp_path / "secret.txt")
    (place / "inner").symlink_to(place / "report.txt")
    return place


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("report.txt", "The file is there."),
        ("./report.txt", "The file is there."),
        ("sub/deep.txt", "The file is there."),
        ("inner", "The file is there."),
        ("{place}/report.txt", "The file is there."),
        ("missing.txt", "File not found"),
        ("sub", "File not found"),
        ("", "File not found"),
        ("report.txt/x", "File not found"),
        ("link", "Path outside permitted directories"),
        ("../secret.txt", "Path outside permitted directories"),
        ("sub/../report.txt", "Path outside permitted directories"),
        ("{place}/../secret.txt", "Path outside permitted directories"),
        ("{place}2/report.txt", "Path outside permitted directories"),
        ("/etc/passwd", "Path outside permitted directories"),
        ("~/report.txt", "Path outside permitted directories"),
        ("report.txt\0", "Path outside permitted directories"),
        ("report\n.txt", "Path outside permitted directories"),
        ("\ud800", "Path outside permitted directories"),
        ("x" * 10_000_000, "File not found"),
        (5, "The path is not text."),
    ],
)
async def test_file_valid(place: Path, path: Any, reason: str) -> None:
    value = path.replace("{place}", str(place)) if isinstance(path, str) else path
    result = await judged(gate("file_valid"), value, directories=(place,))
    assert result.reason == reason
    assert result.action is (GO if reason == "The file is there." else BLOCK)


async def test_the_size_of_a_file(place: Path) -> None:
    for limit, wanted in ((5, GO), (4, BLOCK), (0, BLOCK)):
        sized = gate("file_valid", config={"max_size_bytes": limit})
        assert (await judged(sized, "report.txt", directories=(place,))).action is wanted


async def test_without_permitted_directories_no_file_is_valid(place: Path) -> None:
    assert (await judged(gate("file_valid"), str(place / "report.txt"))).action is BLOCK


async def test_a_relative_path_starts_in_the_working_directory_if_that_is_permitted(
    place: Path,
) -> None:
    valid = gate("file_valid")
    sub = str(place / "sub")
    assert (await judged(valid, "deep.txt", directories=(place,), work_dir=sub)).action is GO
    assert (await judged(valid, "report.txt", directories=(place,), work_dir=sub)).action is BLOCK
    outside = str(place.parent)
    result = await judged(valid, "secret.txt", directories=(place,), work_dir=outside)
    assert result.action is BLOCK


@pytest.mark.parametrize(
    ("rules", "value", "kept"),
    [
        (["strip"], "  yes\n", "yes"),
        (["lower"], "YES", "yes"),
        (["nfkc"], "\uff59\uff45\uff53", "yes"),
        (["spaces", "strip"], " \t yes ", "yes"),
        (["strip", "lower"], " Yes ", "yes"),
        (["strip"], "yes", "yes"),
    ],
)
async def test_text_is_normalised_only_as_written(rules: list[str], value: str, kept: str) -> None:
    yes = gate("string_match", allowed_values=["yes"], config={"normalise": rules})
    result = await judged(yes, value)
    assert result.action is GO
    changed = {"tool_args": {"value": kept}} if value != kept else None
    assert result.modified_context == changed
    plain = gate("string_match", allowed_values=["yes"])
    assert (await judged(plain, value)).action is (GO if value == kept else BLOCK)


@pytest.mark.parametrize(
    ("value", "kept"),
    [(-1, 0.0), (0, None), (25, None), (50, None), (51, 50.0), (1e300, 50.0), (math.inf, 50.0)],
)
async def test_a_number_is_clamped_and_goes_on_as_the_clamped_one(
    value: float, kept: float | None
) -> None:
    clamp = gate(
        "numeric_range",
        auto_approve={"min": 0, "max": 50},
        config={"normalise": [{"clamp": [0, 50]}]},
    )
    result = await judged(clamp, value)
    assert result.action is GO
    assert result.modified_context == (None if kept is None else {"tool_args": {"value": kept}})


async def test_text_becomes_a_number_where_that_is_written() -> None:
    rules = {"normalise": ["number", {"clamp": [0, 50]}]}
    clamp = gate("numeric_range", auto_approve={"min": 0, "max": 50}, config=rules)
    assert (await judged(clamp, "75")).modified_context == {"tool_args": {"value": 50.0}}
    assert (await judged(clamp, "20")).modified_context == {"tool_args": {"value": 20}}
    assert (await judged(clamp, "2.5")).modified_context == {"tool_args": {"value": 2.5}}
    for bad in ("1e3", "abc", "", "1_0", 5, True, math.nan, None):
        assert (await judged(clamp, bad)).action is BLOCK


@pytest.mark.parametrize(
    "config",
    [
        {"normalise": ["upper"]},
        {"normalise": [{"clamp": [5, 1]}]},
        {"normalise": [{"clamp": [0, math.inf]}]},
        {"normalise": "strip"},
        {"unknown": 1},
        {"max_size_bytes": -1},
    ],
)
async def test_a_configuration_that_means_nothing_blocks(config: dict[str, Any]) -> None:
    odd = gate("string_match", allowed_values=["yes"], config=config)
    assert PredicateProvider().problem(odd) is not None
    assert (await judged(odd, "yes")).action is BLOCK


async def test_what_cannot_be_put_back_is_not_normalised() -> None:
    names = Gate.model_validate(
        {
            "name": "g",
            "on": "on_tool_call",
            "allowed_values": ["search"],
            "config": {"normalise": ["lower"]},
        }
    )
    provider = PredicateProvider()
    assert (await provider.check(names, {"tool_name": "search"})).action is GO
    assert (await provider.check(names, {"tool_name": "SEARCH"})).action is BLOCK


async def test_a_nested_value_is_found_and_put_back() -> None:
    nested = gate(
        "numeric_range",
        extract="order.amount",
        auto_approve={"min": 0, "max": 50},
        config={"normalise": [{"clamp": [0, 50]}]},
    )
    arguments = {"order": {"amount": 80, "to": "bob"}, "note": "x"}
    result = await PredicateProvider().check(nested, {"tool_args": arguments})
    assert result.modified_context == {"tool_args": {"order": {"amount": 50.0, "to": "bob"}}}


@pytest.mark.parametrize(
    ("context", "wanted"),
    [
        ({"tool_args": {"unit": "web"}}, GO),
        ({"tool_args": {}}, BLOCK),
        ({"tool_args": {}, "tool_parameters": ["unit"]}, BLOCK),
        ({"tool_args": {}, "tool_parameters": ["path"]}, GO),
        ({"tool_args": {"unit": "db"}, "tool_parameters": ["path"]}, BLOCK),
        ({"tool_args": {}, "tool_parameters": "unit"}, BLOCK),
        ({"tool_args": "unit"}, BLOCK),
        ({}, BLOCK),
    ],
)
async def test_a_value_that_is_not_there(context: dict[str, Any], wanted: GateAction) -> None:
    units = gate("string_match", extract="unit", allowed_values=["web"])
    assert (await PredicateProvider().check(units, context)).action is wanted


async def test_an_argument_cannot_pretend_to_be_the_name_of_the_tool() -> None:
    names = gate("string_match", extract="tool_name", allowed_values=["search"])
    context = {"tool_name": "delete", "tool_args": {"tool_name": "search"}}
    assert (await PredicateProvider().check(names, context)).action is BLOCK


@pytest.mark.parametrize(
    ("on", "key"), [("every_user_message", "message"), ("every_agent_response", "response")]
)
async def test_without_extract_the_text_is_looked_at(on: str, key: str) -> None:
    text = Gate.model_validate({"name": "g", "on": on, "allowed_values": ["hi"]})
    provider = PredicateProvider()
    assert (await provider.check(text, {key: "hi"})).action is GO
    assert (await provider.check(text, {key: "ho"})).action is BLOCK
    assert (await provider.check(text, {"other": "hi"})).action is BLOCK


async def test_a_number_may_be_clamped_to_one_value() -> None:
    rules = {"normalise": [{"clamp": [5, 5]}]}
    five = gate("numeric_range", auto_approve={"min": 5, "max": 5}, config=rules)
    assert (await judged(five, 9)).modified_context == {"tool_args": {"value": 5.0}}
