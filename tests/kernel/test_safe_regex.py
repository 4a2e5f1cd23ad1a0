"""Regular expressions from outside: ordinary ones pass, and none takes for ever."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel.safe_regex import compiled, regex_problem

DOUBLING = [
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
    r"((a{2})|(a{3}))*b",
    r"(?:a+?b?)+c",
    r"(?:[a-c]x|cx)*$",
    r"(?:[a-c]x|ax)*$",
    r"(?i)(?:[kq]x|Kx)*$",
    r"(?i)(?:[a-m]x|Kx)*$",
    r"(?i)(?:[kq]x|[KR]x)*$",
    r"(?i)(?:[a-m]x|[K-L]x)*$",
    r"(?:ax|[ab]x){0,2}c",
]
FOREVER = [
    r"(a)\1",
    r"(?P<x>a)(?P=x)",
    r"(a)?(?(1)b|c)",
    r"(?:(?=a)a)*",
    r"(?:a(?!b))+",
    r"(?:(?!))*",
    r"(?=.*ok)done",
    r"(?<=a)b",
    r"(?<!a)b",
]
BROKEN = [
    "(",
    "[a",
    "a{2,1}",
    "*a",
    "a" * 1001,
    r"\p",
    "(" * 900,
    "a**",
    "[a--b]",
    r"(?>a+)b",
    "a++b",
    r"\u00e9",
    "[\ud800]",
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
    r".*foo.*bar",
    r"(?:\w+ = \d+\n)*end",
    r"(?:(?:\w+,)*;)+",
    r"(?P<year>\d+)-(?P<month>\d+)",
    r"^\s*[-+]?\d+(?:\.\d+)?\s*$",
    r"(?:\d{2}\d,)*",
    r"(?:\d+,|,x)*",
    r"(?:ax|[ab]x)?c",
    "a" * 1000,
]


@pytest.mark.parametrize("pattern", DOUBLING)
def test_an_expression_that_would_double_elsewhere_is_linear_here(pattern: str) -> None:
    """Python's engine would need 2**2000 steps for some of these, and the test would never end."""
    assert regex_problem(pattern) is None
    for unit in ("a", "ab", "aa,", "x", " a"):
        compiled(pattern).search(unit * 2000 + "?")


@pytest.mark.parametrize("pattern", FOREVER)
def test_references_and_lookaround_are_refused(pattern: str) -> None:
    assert "can take for ever" in (regex_problem(pattern) or "")


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        (r"(a)\1", "references to earlier groups can take for ever; write the text out"),
        (
            r"(?:a(?!b))+",
            "looking ahead or behind can take for ever; write what must be there instead",
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


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^ok$", "ok\n", True),
        ("^ok$", "ok\nmore", False),
        ("(?m)^ok$", "first\nok\nmore", True),
        ("^ok$", "ok\n\n", False),
        ("é", "café", True),
        ("(?i)ok", "all OK", True),
        ("x", "\ud800x", True),
    ],
)
def test_search_is_as_in_python(pattern: str, text: str, found: bool) -> None:
    assert compiled(pattern).search(text) is found
    assert (re.search(pattern, text) is not None) is found


def test_fullmatch_leaves_nothing_out() -> None:
    assert compiled("a+").fullmatch("aaa")
    assert not compiled("a+").fullmatch("aaa\n")
    assert not compiled("a|ab").fullmatch("abc")
    assert compiled("a|ab").fullmatch("ab")


@given(st.text(max_size=60))
def test_any_text_gets_an_answer(pattern: str) -> None:
    if regex_problem(pattern) is None:
        compiled(pattern).search(pattern)
        compiled(pattern).fullmatch(pattern)
