"""Canonical JSON, the writing side: the bytes of RFC 8785, and only for values that have them."""

import json
import math
import struct
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import CanonicalError, canonical_bytes
from tests.kernel.json_values import MAX_INTEGER, floats, keys, same, scalars, values

# RFC 8785, appendix B: the bits of a double, and how it is written.
RFC_NUMBERS = """
0000000000000000 0
8000000000000000 0
0000000000000001 5e-324
8000000000000001 -5e-324
7fefffffffffffff 1.7976931348623157e+308
ffefffffffffffff -1.7976931348623157e+308
4340000000000000 9007199254740992
c340000000000000 -9007199254740992
4430000000000000 295147905179352830000
44b52d02c7e14af5 9.999999999999997e+22
44b52d02c7e14af6 1e+23
44b52d02c7e14af7 1.0000000000000001e+23
444b1ae4d6e2ef4e 999999999999999700000
444b1ae4d6e2ef4f 999999999999999900000
444b1ae4d6e2ef50 1e+21
3eb0c6f7a0b5ed8c 9.999999999999997e-7
3eb0c6f7a0b5ed8d 0.000001
41b3de4355555553 333333333.3333332
41b3de4355555554 333333333.33333325
41b3de4355555555 333333333.3333333
41b3de4355555556 333333333.3333334
41b3de4355555557 333333333.33333343
becbf647612f3696 -0.0000033333333333333333
43143ff3c1cb0959 1424953923781206.2
"""


@pytest.mark.parametrize("line", RFC_NUMBERS.split("\n")[1:-1])
def test_numbers_of_the_rfc(line: str) -> None:
    bits, text = line.split()
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_bytes(number) == text.encode()


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_numbers_that_the_rfc_refuses(bits: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    with pytest.raises(CanonicalError, match="has no canonical form"):
        canonical_bytes(number)


def test_sample_object_of_the_rfc() -> None:
    """Section 3.2.2, with the output of section 3.2.3."""
    document = r"""
    {
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }
    """
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_bytes(json.loads(document)) == expected.encode()


def test_sorting_example_of_the_rfc() -> None:
    """Section 3.2.3: by UTF-16 code units, so the emoji comes before the Hebrew letter."""
    document = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    written = json.loads(canonical_bytes(document))
    assert list(written.values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


@given(values)
def test_agrees_with_the_reference_library(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("edge", [0.0, 1e-6, 1e-4, 0.5, 1.0, 1e15, 1e16, 2.0**53, 1e21])
def test_agrees_with_the_reference_library_where_the_spelling_changes(edge: float) -> None:
    for near in (math.nextafter(edge, -1.0), edge, math.nextafter(edge, math.inf)):
        for value in (near, -near, [near], {"x": -near}):
            assert canonical_bytes(value) == rfc8785.dumps(value)


@given(st.dictionaries(keys, scalars, max_size=6))
def test_the_order_of_insertion_does_not_matter(value: dict[str, Any]) -> None:
    backwards = dict(reversed(value.items()))
    assert canonical_bytes(backwards) == canonical_bytes(value)


@given(values, values)
def test_different_values_have_different_bytes(one: Any, other: Any) -> None:
    assert (canonical_bytes(one) == canonical_bytes(other)) is same(one, other)


@given(floats)
def test_every_float_is_written_so_that_it_comes_back(number: float) -> None:
    assert float(canonical_bytes(number)) == number


@pytest.mark.parametrize("number", [MAX_INTEGER, -MAX_INTEGER, 0])
def test_integers_within_53_bits(number: int) -> None:
    assert canonical_bytes([number]) == f"[{number}]".encode()


@pytest.mark.parametrize("number", [MAX_INTEGER + 1, -MAX_INTEGER - 1, 2**64])
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [n, 1.5], lambda n: {"\U0001f600": n}])
def test_integers_beyond_53_bits_are_refused(number: int, wrap: Callable[[int], Any]) -> None:
    with pytest.raises(CanonicalError, match=f"53 bits.*{number}"):
        canonical_bytes(wrap(number))


def _nested(depth: int, wrap: Callable[[Any], Any], core: Any) -> Any:
    for _ in range(depth):
        core = wrap(core)
    return core


WRAPS = {
    "lists": lambda inner: [inner],
    "tuples": lambda inner: (inner,),
    "objects": lambda inner: {"a": inner},
    "mappings": lambda inner: MappingProxyType({"a": inner}),
    "named tuples": lambda inner: _Pair(inner, 0),
}
_Pair = namedtuple("_Pair", "first second")


@pytest.mark.parametrize("core", [1, 1.5], ids=["fast", "full"])
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_hundred_levels_are_the_limit(wrap: Callable[[Any], Any], core: Any) -> None:
    assert canonical_bytes(_nested(100, wrap, core))
    with pytest.raises(CanonicalError, match="nested deeper than 100 levels"):
        canonical_bytes(_nested(101, wrap, core))


def test_a_stack_that_is_nearly_full_is_no_other_error() -> None:
    def deeper() -> None:
        try:
            deeper()
        except RecursionError:
            canonical_bytes(_nested(50, lambda inner: [inner], 1))

    with pytest.raises(CanonicalError):
        deeper()


def test_a_circle_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(CanonicalError, match="nested deeper"):
        canonical_bytes(circle)


class _Colour(StrEnum):
    RED = "red"


class _OldColour(str, Enum):  # noqa: UP042 - the older kind, whose str() is not its value
    RED = "red"


class _Level(IntEnum):
    LOW = 3


class _Ratio(float):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (_Colour.RED, b'"red"'),
        (_OldColour.RED, b'"red"'),
        ({_OldColour.RED: 1.5}, b'{"red":1.5}'),
        ({_OldColour.RED: 1}, b'{"red":1}'),
        (_Level.LOW, b"3"),
        (_Ratio(1.5), b"1.5"),
        ([_Ratio(2)], b"[2]"),
        (OrderedDict(b=1, a=2), b'{"a":2,"b":1}'),
        (UserDict(b=1, a=2.5), b'{"a":2.5,"b":1}'),
        (UserDict(a=1e16), b'{"a":10000000000000000}'),
        (_Pair(1, 2.5), b"[1,2.5]"),
        (_Pair(1, 1e16), b"[1,10000000000000000]"),
        (_Pair(1, _Ratio(1e16)), b"[1,10000000000000000]"),
        ((1, (2,)), b"[1,[2]]"),
        (True, b"true"),
        (None, b"null"),
        ("", b'""'),
        ([], b"[]"),
        ({}, b"{}"),
        ("\x7f\u2028", '"\x7f\u2028"'.encode()),
    ],
)
def test_how_unusual_values_are_written(value: Any, expected: bytes) -> None:
    assert canonical_bytes(value) == expected


def test_datetimes_are_written_in_utc() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert canonical_bytes([noon]) == b'["2026-03-01T10:00:00.000000Z"]'
    assert canonical_bytes([noon, 0.5]) == b'["2026-03-01T10:00:00.000000Z",0.5]'


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (datetime(2026, 3, 1), "without a time zone"),  # noqa: DTZ001
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "outside the years"),
        (date(2026, 3, 1), "JSON has no date"),
        (b"bytes", "JSON has no bytes"),
        ({1, 2}, "JSON has no set"),
        (Decimal(1), "JSON has no Decimal"),
        (object(), "JSON has no object"),
        ({1: 2}, "a key must be a string, not int: 1"),
        ({None: 2}, "a key must be a string, not NoneType"),
        ({"a": {b"k": 1.5}}, "a key must be a string, not bytes"),
        ("\ud800", "has no canonical form"),
        ({"\udfff": 1}, "has no canonical form"),
        ({"\U0001f600": "\udfff"}, "has no canonical form"),
        (float("nan"), "has no canonical form"),
        ([float("inf")], "has no canonical form"),
        ({"a": float("-inf")}, "has no canonical form"),
    ],
)
def test_values_without_a_canonical_form(value: Any, why: str) -> None:
    with pytest.raises(CanonicalError, match=why):
        canonical_bytes(value)


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical_bytes({"password": b"hunter2"})
    assert "hunter2" not in str(caught.value)


def test_the_value_is_left_as_it_was() -> None:
    value = {"b": [1, {"z": 1.5, "a": (1,)}], "a": _Colour.RED}
    before = repr(value)
    canonical_bytes(value)
    assert repr(value) == before
