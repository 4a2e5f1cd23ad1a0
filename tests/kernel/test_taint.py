"""The taint lattice: joining never adds trust."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import TaintLevel, join_taint

OWNER, AUTH, EXTERNAL = TaintLevel.OWNER, TaintLevel.AUTH, TaintLevel.EXTERNAL
levels = st.sampled_from(TaintLevel)


def test_the_names_are_the_ones_that_are_stored() -> None:
    assert [level.value for level in TaintLevel] == ["owner", "auth", "external"]


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (OWNER, OWNER, OWNER),
        (OWNER, AUTH, AUTH),
        (OWNER, EXTERNAL, EXTERNAL),
        (AUTH, AUTH, AUTH),
        (AUTH, EXTERNAL, EXTERNAL),
        (EXTERNAL, EXTERNAL, EXTERNAL),
    ],
)
def test_the_whole_table(one: TaintLevel, other: TaintLevel, joined: TaintLevel) -> None:
    assert join_taint(one, other) is joined
    assert join_taint(other, one) is joined


def test_nothing_known_earns_no_trust() -> None:
    assert join_taint() is EXTERNAL


@given(levels, levels, levels)
def test_lattice_laws(a: TaintLevel, b: TaintLevel, c: TaintLevel) -> None:
    assert join_taint(a) is a
    assert join_taint(a, a) is a
    assert join_taint(a, b) is join_taint(b, a)
    assert join_taint(join_taint(a, b), c) is join_taint(a, join_taint(b, c))
    assert join_taint(a, b, c) is join_taint(join_taint(a, b), c)
    assert join_taint(a, OWNER) is a
    assert join_taint(a, EXTERNAL) is EXTERNAL


@given(st.lists(levels, min_size=1, max_size=5))
def test_the_result_is_one_of_the_inputs_in_any_order(several: list[TaintLevel]) -> None:
    results = {join_taint(*order) for order in itertools.permutations(several)}
    assert len(results) == 1
    assert results <= set(several)


def test_a_word_that_is_no_level_is_refused() -> None:
    with pytest.raises(KeyError):
        join_taint(OWNER, "trusted")  # type: ignore[arg-type]
