"""Hypothesis strategies for values that have a canonical form, and what makes two of them equal."""

from typing import Any

from hypothesis import strategies as st

MAX_INTEGER = 2**53 - 1

texts = st.text(max_size=12)
# Keys around the border of the basic plane, where UTF-16 order and code point order differ.
keys = texts | st.text(alphabet="a\ud7ff\ue000\uffff\U00010000\U0010ffff", max_size=4)
integers = st.integers(-MAX_INTEGER, MAX_INTEGER)
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | integers | floats | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Equal as JSON values: 1 and 1.0 are the same number, but true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)
