"""Regular expressions from outside: no doubling one passes, ordinary ones do."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silas.kernel.safe_regex import regex_problem

DANGEROUS = [
    r"(a+)+$",
    r"(a*)*$",
    r"(a|a)*$",
    r"(a|ab|b)*c",
    r"(\wx|\dx)+$",
    r"(\w+\s?)+$",
    r"(\s*\w+\s*)+$",
    r"([a-z]+ ?)+!",
    r"(?:a*a*,)*X",
    r"(?:A+[^a])*$",
    r"(?i:(?:kx|Kx)+)$",
    r"(?i)(?:\u212ax|kx)*$",
    r"(?:.*,)*x",
    r"(?:a?b?)*c",
    r"(?:a{1,3}){2,30}c",
    r"(?:(?:a,)?a,)*x",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(x+x+)+y",
    r"(.*)*",
    r"(?:^)*",
    r"(?:[^,]+[^;])*z",
    r"(?:éx|\wx)*$",
    r"(?:\U0001f600x|[^a]x)*$",
    r"((a{2})|(a{3}))*b",
    r"(?:a+?b?)+c",
    r"(?:[a-c]x|cx)*$",
    r"(?:[a-c]x|ax)*$",
    r"(?i)(?:[kq]x|Kx)*$",
    r"(?i)(?:[a-m]x|Kx)*$",
    r"(?i)(?:[kq]x|[KR]x)*$",
    r"(?i)(?:[a-m]x|[K-L]x)*$",
    r"(?i)(?:\u017fx|sx)*$",
    r"(?i)(?:\u00b5x|\u039cx)*$",
    r"(?:\wx|\u4e2dx)*$",
    r"(?:[a-\U0001f600]x|[\u3000-\u3100]x)*$",
    r"(?:ax|[ab]x){0,2}c",
]
DECIDE = (
    "inside a repetition the next character must decide how to go on, or matching can take for "
    "ever; write `[ab]*` instead of `(?:a|ab)*`, `(?:\\w+,)*` instead of `(?:\\w+,?)*`"
)
FOREVER = [
    r"(a)\1",
    r"(?P<x>a)(?P=x)",
    r"(a)?(?(1)b|c)",
    r"(?:(?=a)a)*",
    r"(?:a(?!b))+",
    r"(?:(?!))*",
]
BROKEN = [
    "(",
    "[a",
    "a{2,1}",
    "*a",
    "(?P<1>a)",
    "a" * 1001,
    "(?<=a+)b",
    r"\p",
    "(" * 900,
    "a**",
    "[a--b]",
    "[[a]",
]
HARMLESS = [
    "",
    r"^ok$",
    r"\d+ passed",
    r"(?i)all tests passed",
    r"^[a-z0-9._-]+@example\.org$",
    r"(?:\w+\.)+\w+",
    r"\d{1,3}(?:\.\d{1,3}){3}",
    r"(?:,\d+)*$",
    r"^(?:foo|bar)+$",
    r"(\w|\d)+$",
    r"(?:[a-c]|[d-f]x)*",
    r"https://[^/]+/(?:[^/]+/)*$",
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}",
    r"status: (?:up|ok)\b",
    r"(?=.*ok)done",
    r".*foo.*bar",
    r"(?:\w+ = \d+\n)*end",
    r"(?:(?:\w+,)*;)+",
    r"(?P<year>\d+)-(?P<month>\d+)",
    r"(?>a+)b",
    r"a++b",
    r"^\s*[-+]?\d+(?:\.\d+)?\s*$",
    r"(?:\d{2}\d,)*",
    r"(?:\d+,|,x)*",
    r"(?:ax|[ab]x)?c",
    "a" * 1000,
]


@pytest.mark.parametrize("pattern", DANGEROUS)
def test_a_doubling_expression_is_refused(pattern: str) -> None:
    assert "inside a repetition the next character must decide" in (regex_problem(pattern) or "")


@pytest.mark.parametrize("pattern", FOREVER)
def test_references_and_lookaround_in_repetitions_are_refused(pattern: str) -> None:
    assert "can take for ever" in (regex_problem(pattern) or "")


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        (r"(a)\1", "references to earlier groups can take for ever; write the text out"),
        (
            r"(?:a(?!b))+",
            "looking ahead or behind inside a repetition can take for ever; move it outside",
        ),
        (
            r"(a+)+",
            DECIDE,
        ),
        ("a" * 1001, "this expression is longer than 1000 characters"),
    ],
)
def test_a_refusal_says_what_to_write_instead(pattern: str, sentence: str) -> None:
    assert regex_problem(pattern) == sentence


@pytest.mark.parametrize("pattern", BROKEN)
def test_what_does_not_compile_is_refused(pattern: str) -> None:
    problem = regex_problem(pattern) or ""
    assert "is not a regular expression" in problem or "longer than" in problem


@pytest.mark.parametrize("pattern", HARMLESS)
def test_an_ordinary_expression_passes(pattern: str) -> None:
    assert regex_problem(pattern) is None


pieces = st.recursive(
    st.sampled_from(["a", "b", ",", "[ab]", "[^a]", "[^,]", r"\w", r"\d", ".", "A", "ab", r"\b"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?", "++"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
    ),
    max_leaves=8,
)


@settings(max_examples=400)
@given(pieces, st.sampled_from(["", "(?i)"]))
def test_what_passes_ends_quickly_on_nasty_text(piece: str, flags: str) -> None:
    """A doubling expression would need 2**40 steps here, and the test would never end."""
    pattern = f"{flags}{piece}!$"
    if regex_problem(pattern) is None:
        for unit in ("a", "ab", "aa,", "b,", "aA", "a1,b"):
            re.compile(pattern).search(unit * (40 // len(unit)) + "?")


@given(st.text(max_size=60))
def test_any_text_gets_an_answer(pattern: str) -> None:
    problem = regex_problem(pattern)
    if problem is None:
        re.compile(pattern)
