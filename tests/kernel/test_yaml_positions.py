"""YAML read safely: what is refused, where things stand, and that both parsers agree."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import yaml_positions
from silas.kernel.canonical import canonical_bytes
from silas.kernel.yaml_positions import Position, YamlError, YamlLimits, load_yaml


def problems(text: str, **options: object) -> list[tuple[int, str]]:
    with pytest.raises(YamlError) as caught:
        load_yaml(text, **options)  # type: ignore[arg-type]
    return [(each.position.line, each.message) for each in caught.value.problems]


def test_values_are_plain_and_words_follow_yaml_1_2() -> None:
    text = """
on: every_user_message
answer: yes
time: 12:30
day: 2026-01-01
truth: true
nothing: null
empty:
count: 42
share: -0.5
power: 1e3
quoted: "42"
block: |
  two
  lines
list: [1, two, {three: 3}]
"""
    assert load_yaml(text).value == {
        "on": "every_user_message",
        "answer": "yes",
        "time": "12:30",
        "day": "2026-01-01",
        "truth": True,
        "nothing": None,
        "empty": None,
        "count": 42,
        "share": -0.5,
        "power": 1000.0,
        "quoted": "42",
        "block": "two\nlines\n",
        "list": [1, "two", {"three": 3}],
    }


def test_every_value_and_key_knows_its_place() -> None:
    document = load_yaml("a:\n  - b: 1\n    ü: [x, yy]\n", first_line=2)
    assert document.position(()) == Position(2, 1)
    assert document.key_position(("a",)) == Position(2, 1)
    assert document.position(("a", 0, "b")) == Position(3, 8)
    assert document.key_position(("a", 0, "ü")) == Position(4, 5)
    assert document.position(("a", 0, "ü", 1)) == Position(4, 12)
    assert document.position(("a", 0, "missing", "deeper")) == Position(3, 5)
    assert document.key_position(("a", 0)) == Position(3, 5)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "\ufeff"])
def test_an_empty_document_is_null_and_has_a_place(text: str) -> None:
    assert load_yaml(text).value is None
    assert load_yaml(text).position(("a",)).line <= 2


REFUSED = {
    "duplicate key": ("a: 1\nb: 2\na: 3\n", 3, "`a` appears twice (first in line 1)"),
    "duplicate key, quoted": ("a: 1\n'a': 2\n", 2, "appears twice"),
    "duplicate key, number and text": ("1: a\n'1': b\n", 2, "appears twice"),
    "alias": ("a: &x 1\nb: *x\n", 2, "aliases"),
    "anchor": ("a: &x 1\n", 1, "anchors"),
    "anchor on a key": ("&x a: 1\n", 1, "anchors"),
    "tag": ("a:\n  !!python/object/apply:os.system ['true']\n", 2, "tags"),
    "harmless tag": ("a: !!str 1\n", 1, "tags"),
    "exclamation tag": ("a: ! 1\n", 1, "tags"),
    "merge key": ("a:\n  <<: {b: 1}\n", 2, "merge keys"),
    "directive": ("%YAML 1.1\n---\na: 1\n", 1, "directives"),
    "tag directive": ("%TAG ! tag:x,2000:\n---\na: 1\n", 1, "directives"),
    "two documents": ("a: 1\n---\nb: 1\n", 2, "only one document"),
    "list as key": ("? [a, b]\n: 1\n", 1, "a key must be"),
    "empty key": ('"": 1\n', 1, "must not be empty"),
    "octal or decimal": ("a: 010\n", 1, "readers disagree"),
    "hexadecimal": ("a: 0x1F\n", 1, "readers disagree"),
    "beyond 53 bits": ("a: 9007199254740992\n", 1, "53 bits"),
    "a million digits": ("a: " + "9" * 100_000 + "\n", 1, "53 bits"),
    "infinity": ("a: .inf\n", 1, "not a finite number"),
    "not a number": ("a: .NaN\n", 1, "not a finite number"),
    "overflow": ("a: 1e999\n", 1, "too large"),
    "NUL": ("a: 1\nb: \x00\n", 2, "control character '\\x00'"),
    "NUL by escape": ('a: 1\nb: "\\0"\n', 2, "control character '\\x00'"),
    "escape sequence in a key": ('"\\e[2J": 1\n', 1, "control character"),
    "line separator": ("a: 1\nb: x\u2028y\n", 2, "control character"),
    "byte order mark in the middle": ("a: 1\n\ufeffb: 2\n", 2, "control character"),
    "lone surrogate": ("a: \ud800\n", 1, "control character"),
    "tab as indentation": ("a:\n\tb: 1\n", 2, "spaces"),
    "colon in text": ("a: 1\nb: fix: it\n", 2, "in quotes"),
    "open bracket": ("a: [1, 2\n", 2, "not YAML"),
    "open quote": ('a: "x\n', 2, "not YAML"),
    "bad indentation": ("a:\n    b: 1\n  c: 2\n", 3, "indentation"),
    "a character that starts nothing": ("a: `x`\n", 1, "in quotes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused_with_its_line(case: str) -> None:
    text, line, words = REFUSED[case]
    found = problems(text)
    assert any(where == line and words in message for where, message in found), found


def test_all_problems_are_told_at_once() -> None:
    assert [line for line, _ in problems("a: &x 1\nb: *x\nc: 010\nc: 1\n")] == [1, 2, 3, 4]


def test_limits_hold() -> None:
    assert problems("a" * 11, limits=YamlLimits(characters=10)) == [
        (1, "longer than 10 characters")
    ]
    assert problems("[" * 500_000)[-1][1] == "nested deeper than 32 levels"
    assert problems("- - - - - 1", limits=YamlLimits(depth=3))[-1][1].startswith("nested deeper")
    assert problems("[1, 2, 3]", limits=YamlLimits(values=3))[-1][1] == "more than 3 values"
    assert load_yaml("[1, 2, 3]", limits=YamlLimits(values=4)).value == [1, 2, 3]


def test_a_bomb_costs_nothing() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert {message.split(" ", 1)[0] for _, message in problems(bomb)} == {"anchors", "aliases"}


SIGNS = list("ab:-[]{},#'\"|>&*!%@`?~\n\t10.e_")
WORDS = [
    "true",
    "null",
    "<<",
    "---",
    "...",
    "\n  ",
    "  ",
    ": ",
    "- ",
    "\\x41",
    "\\0",
    "ü",
    "\u200b",
]
fragments = st.sampled_from([*SIGNS, *WORDS, " ", "\ufeff", "\r\n"])


@given(st.one_of(st.text(max_size=200), st.lists(fragments, max_size=40).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    problems = ()
    try:
        canonical_bytes(load_yaml(text).value)
    except YamlError as error:
        problems = error.problems
    assert all(each.position.line >= 1 and each.message for each in problems)


@given(st.lists(fragments, max_size=40).map("".join))
def test_both_parsers_give_the_same_value(text: str) -> None:
    def value(loader: type) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(yaml_positions, "_LOADER", loader)
            try:
                return load_yaml(text).value
            except YamlError:
                return ValueError

    in_c, in_python = value(yaml.CSafeLoader), value(yaml.SafeLoader)
    if in_c is not ValueError and in_python is not ValueError:
        assert in_c == in_python


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
@pytest.mark.parametrize("text", ['a: "\\UFFFFFFFF"\n', 'a: "\\ud800"\n', 'a: "\\xzz"\n'])
def test_an_impossible_escape_is_refused_by_both_parsers(
    loader: type, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_positions, "_LOADER", loader)
    assert problems(text)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-1e15, 1e15)
    | st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Cn", "Zl", "Zp"]),
        max_size=20,
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abcüß日 :#-", min_size=1, max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values)
def test_json_comes_back_as_it_was(value: object) -> None:
    assert load_yaml(canonical_bytes(value).decode()).value == value


def test_what_can_still_be_read_is_handed_over_with_the_problems() -> None:
    with pytest.raises(YamlError) as caught:
        load_yaml("a: 1\na: 2\nb: *x\nc: 3\n")
    document = caught.value.document
    assert document is not None
    assert document.value == {"a": 1, "b": None, "c": 3}
    with pytest.raises(YamlError) as caught:
        load_yaml("a: [1\n")
    assert caught.value.document is None
