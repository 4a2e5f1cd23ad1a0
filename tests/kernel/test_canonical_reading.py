"""Canonical JSON, the reading side: what two parsers could read differently is refused."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from silas.kernel import CanonicalError, canonical_bytes, strict_loads
from tests.kernel.json_values import MAX_INTEGER, same, values


@given(values)
@example([1e20, -1e20, 9007199254740992.0, 123456789012345680000.0])
def test_what_was_written_is_read_back(value: Any) -> None:
    written = canonical_bytes(value)
    assert same(strict_loads(written), value)
    assert same(strict_loads(written.decode()), value)
    assert canonical_bytes(strict_loads(written)) == written


@given(values, st.booleans())
def test_other_spellings_of_the_same_value_are_read(value: Any, escaped: bool) -> None:
    assert same(strict_loads(json.dumps(value, ensure_ascii=escaped, indent=1)), value)


@given(st.text() | st.binary() | st.text(alphabet='[]{}":,0123456789.eE+-\\untrfalsd \n'))
def test_any_input_is_read_or_refused_and_what_is_read_has_a_form(document: str | bytes) -> None:
    try:
        value = strict_loads(document)
    except CanonicalError:
        return
    canonical_bytes(value)


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ('{"a":1,"a":1}', "a"),
        ('{"a":1,"b":2,"\\u0061":3}', "a"),
        ('[{"deep":{"x":1,"y":1,"x":1}}]', "x"),
        ('{"":1,"":2}', ""),
    ],
)
def test_duplicate_keys(document: str, name: str) -> None:
    with pytest.raises(CanonicalError, match=f"the key {name!r} appears twice"):
        strict_loads(document)


def test_the_same_key_in_different_objects_is_no_duplicate() -> None:
    assert strict_loads('[{"a":1},{"a":{"a":2}}]') == [{"a": 1}, {"a": {"a": 2}}]


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_are_not_json(constant: str) -> None:
    with pytest.raises(CanonicalError, match=f"^{constant} is not a JSON number"):
        strict_loads(f"[{constant}]")


@pytest.mark.parametrize("number", ["1e309", "-1e309", "1.0e99999", "17976931348623159e292"])
def test_numbers_that_overflow_to_infinity(number: str) -> None:
    with pytest.raises(CanonicalError, match="beyond what a float can hold"):
        strict_loads(number)


def test_the_largest_float_is_read() -> None:
    assert strict_loads("1.7976931348623157e308") == 1.7976931348623157e308


@pytest.mark.parametrize("number", [MAX_INTEGER, -MAX_INTEGER, 0, -1])
def test_integers_within_53_bits(number: int) -> None:
    value = strict_loads(str(number))
    assert value == number
    assert type(value) is int


@pytest.mark.parametrize("number", [MAX_INTEGER + 1, -MAX_INTEGER - 1, 10**20])
def test_integers_beyond_53_bits_are_the_floats_that_are_written_so(number: int) -> None:
    value = strict_loads(str(number))
    assert value == float(number)
    assert type(value) is float


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, 10**21, 10**400])
def test_integers_that_another_parser_would_round(number: int) -> None:
    with pytest.raises(CanonicalError):
        strict_loads(str(number))


def test_the_refused_integer_is_named() -> None:
    with pytest.raises(CanonicalError, match="the integer 9007199254740993 would be rounded"):
        strict_loads('{"amount":9007199254740993}')


@pytest.mark.parametrize(
    "document",
    [
        '"\\ud800"',
        '"\\uDFFF"',
        '"\\udc00\\ud800"',
        '{"\\ud83d":1}',
        '"\ud800"',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'"\xc0\xaf"',
        "[1]".encode("utf-16"),
        b"\xef\xbb\xbf[1]",
    ],
)
def test_lone_surrogates_and_invalid_utf_8(document: str | bytes) -> None:
    with pytest.raises(CanonicalError):
        strict_loads(document)


@pytest.mark.parametrize("document", ['"\\ud83d\\ude00"', '"\\uD83D\\uDE00"', '"\U0001f600"'])
def test_a_pair_of_surrogates_is_a_character(document: str) -> None:
    assert strict_loads(document) == "\U0001f600"


def test_an_escaped_backslash_before_ud800_is_text() -> None:
    assert strict_loads(r'"\\ud800"') == r"\ud800"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_hundred_levels_are_the_limit(opening: str, closing: str) -> None:
    deepest = opening * 100 + "1" + closing * 100
    assert canonical_bytes(strict_loads(deepest)) == deepest.encode()
    for levels in (101, 100_000):
        with pytest.raises(CanonicalError):
            strict_loads(opening * levels + "1" + closing * levels)


def test_the_limit_counts_levels_of_both_kinds() -> None:
    mixed = '[{"a":' * 50 + "[1]" + "}]" * 50
    with pytest.raises(CanonicalError, match="nested deeper than 100 levels"):
        strict_loads(mixed)


def test_many_containers_side_by_side_are_fine() -> None:
    assert strict_loads("[" + ",".join(["[]", "{}"] * 300) + "]") == [[], {}] * 300


@pytest.mark.parametrize(
    "document", ["", " ", "[1,]", "{'a':1}", "01", "1.", ".5", "+1", "tru", "[1] 2", '"\n"', "{}x"]
)
def test_what_is_not_json(document: str) -> None:
    with pytest.raises(CanonicalError, match=r"^is not JSON: "):
        strict_loads(document)


def test_a_large_object_with_a_duplicate_is_refused_without_a_long_search() -> None:
    names = ",".join(f'"k{n}":0' for n in range(50_000))
    with pytest.raises(CanonicalError, match="'k7' appears twice"):
        strict_loads("{" + names + ',"k7":0}')
