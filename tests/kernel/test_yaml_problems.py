"""What is wrong with a YAML text: the place, the path and the words, for each kind of problem."""

from typing import Any

import pytest
import yaml

from silas.kernel import yaml_positions
from silas.kernel.yaml_positions import Position, YamlError, YamlLimits, load_yaml

Problem = tuple[int, int, tuple[str | int, ...], str]

ANCHOR = "anchors (`&name`) are not supported; remove it"
CONTROL = "contains the control character '\\x00'; remove it"
DIRECTIVE = "directives (`%…`) are not supported; remove the line"
NO_KEY = "a key must be a single word or text"
MAPPING = (
    "not YAML: mapping values are not allowed in this context "
    "(put text that contains ': ' in quotes)"
)
TAB = "not YAML: found character that cannot start any token (indent with spaces, not with tabs)"
CASES: dict[str, list[Problem]] = {
    "%YAML 1.2\n---\na: 1\n": [(1, 1, (), DIRECTIVE)],
    "%TAG ! x:\n---\na: 1\n": [(1, 1, (), DIRECTIVE)],
    "a: 1\n---\nb: 2\n": [(2, 1, (), "only one document is allowed; remove the extra `---`")],
    "x:\n  a: 1\n  a: 2\n": [(3, 3, ("x", "a"), "`a` appears twice (first in line 2)")],
    "x:\n  <<: {a: 1}\n": [(2, 3, ("x", "<<"), "merge keys (`<<`) are not supported")],
    "x:\n  '': 1\n": [(2, 3, ("x", ""), "a key must not be empty")],
    "x:\n  [1]: 2\n  ? {b: &c 1}\n  : 3\n": [
        (2, 3, ("x",), NO_KEY),
        (3, 5, ("x",), NO_KEY),
        (3, 9, ("x", "?", "b"), ANCHOR),
    ],
    "x:\n  ? &k [1]\n  : 2\n": [(2, 5, ("x", "?"), ANCHOR), (2, 5, ("x",), NO_KEY)],
    "x:\n  &k a: 1\n": [(2, 3, ("x", "a"), ANCHOR)],
    "x:\n  - &k a\n": [(2, 5, ("x", 0), ANCHOR)],
    "x:\n  - *k\n": [(2, 5, ("x", 0), "aliases (`*name`) are not supported; write the value out")],
    "x:\n  - !t a\n": [(2, 5, ("x", 0), "tags (`!name`) are not supported; remove it")],
    'x:\n  - "a\\0b"\n': [(2, 5, ("x", 0), CONTROL)],
    'x:\n  "a\\0b": 1\n': [(2, 3, ("x", "a\0b"), CONTROL)],
    "x:\n  - a\0b\n": [(2, 6, (), CONTROL)],
    "x:\n  - a\n  - b\0\n": [(3, 6, (), CONTROL)],
    "x:\n  - 010\n": [
        (2, 5, ("x", 0), "readers disagree about this number; write it in decimal, or in quotes")
    ],
    "x:\n  - .inf\n": [(2, 5, ("x", 0), "not a finite number; write one, or put it in quotes")],
    "x:\n  - 9007199254740992\n": [
        (2, 5, ("x", 0), "a whole number beyond 53 bits; put it in quotes")
    ],
    "x:\n  - 1e999\n": [(2, 5, ("x", 0), "this number is too large; put it in quotes")],
    "a: b: c\n": [(1, 5, (), MAPPING)],
    "a:\n\t- b\n": [(2, 1, (), TAB)],
    'a: "x\n': [
        (2, 1, (), "not YAML: found unexpected end of stream (a quote or bracket is not closed)")
    ],
}


def problems(text: str, **options: Any) -> list[Problem]:
    with pytest.raises(YamlError) as caught:
        load_yaml(text, **options)
    found = caught.value.problems
    assert str(caught.value) == "; ".join(f"line {p.position.line}: {p.message}" for p in found)
    return [(p.position.line, p.position.column, p.path, p.message) for p in found]


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("first_line", [1, 41])
def test_place_path_and_words(text: str, first_line: int) -> None:
    expected = [(line + first_line - 1, *rest) for line, *rest in CASES[text]]
    found = problems(text, first_line=first_line)
    if "appears twice" in str(found):  # the words name a line as well
        found = [(*each[:3], each[3].replace(f"line {first_line + 1}", "line 2")) for each in found]
    assert found == expected


def test_syntax_that_has_no_hint_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_positions, "_LOADER", yaml.SafeLoader)
    words = "not YAML: expected ',' or ']', but got '<stream end>' (check quotes and indentation)"
    assert problems("a: [1\n", first_line=3) == [(4, 1, (), words)]


def test_an_escape_that_the_parser_itself_cannot_bear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_positions, "_LOADER", yaml.SafeLoader)
    ((line, column, path, words),) = problems('a: "\\UFFFFFFFF"\n', first_line=3)
    assert (line, column, path) == (3, 1, ())
    assert words.startswith("bad escape: ")


@pytest.mark.parametrize(
    ("text", "limits", "problem"),
    [
        ("[[[1]]]", YamlLimits(depth=2), (1, 4, (0, 0, 0), "nested deeper than 2 levels")),
        ("[1, 2, 3]", YamlLimits(values=3), (1, 8, (2,), "more than 3 values")),
        ("{a: 1, b: 2}", YamlLimits(values=3), (1, 8, (), "more than 3 values")),
        ("abc", YamlLimits(characters=2), (1, 1, (), "longer than 2 characters")),
    ],
)
def test_limits(text: str, limits: YamlLimits, problem: Problem) -> None:
    assert problems(text, limits=limits) == [problem]


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("[[1]]", YamlLimits(depth=2)),
        ("[1, 2, 3]", YamlLimits(values=4)),
        ("abc", YamlLimits(characters=3)),
    ],
)
def test_just_within_the_limits(text: str, limits: YamlLimits) -> None:
    assert load_yaml(text, limits=limits).value is not None


def test_a_mark_of_the_byte_order_is_no_part_of_the_text() -> None:
    assert load_yaml("\ufeffa: 1\n").value == {"a": 1}


def test_what_is_missing_is_where_its_surroundings_are() -> None:
    document = load_yaml("z: 0\na:\n  b: 1\n")
    assert document.position(("a", "x")) == document.position(("a",)) == Position(3, 3)
    assert document.position(("a", "b", "c", "d")) == document.position(("a", "b"))
    assert load_yaml("", first_line=7).position(("a",)) == Position(7, 1)


def test_a_key_that_is_none_has_a_value_nevertheless() -> None:
    with pytest.raises(YamlError) as caught:
        load_yaml("[1]: 2\n")
    document = caught.value.document
    assert document is not None
    assert document.value == {"?": 2}
    assert document.position(("?",)) == Position(1, 6)
