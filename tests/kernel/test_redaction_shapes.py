"""What redaction leaves behind: the shape of what was there, and all that is no secret."""

from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest

from silas.kernel.redaction import REDACTED, Redactor, redact, redact_text

DEEPEST = 120


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def nested_mapping(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"a": value}
    return value


class TestUnderATellingName:
    def test_the_shape_stays(self) -> None:
        value = {"password": {"a": [1, "x", None, True, {"b": 2.5}], 7: ("y",)}}
        assert redact(value) == {
            "password": {"a": [REDACTED, REDACTED, None, True, {"b": REDACTED}], "7": [REDACTED]}
        }

    def test_counts_stay_where_the_name_may_mean_a_count(self) -> None:
        value = {"tokens": {"used": 5, "of": [7, 1.5, "x"]}}
        assert redact(value) == {"tokens": {"used": 5, "of": [7, 1.5, REDACTED]}}

    def test_a_value_beside_its_name(self) -> None:
        value = {"name": "password", "value": {"a": ["x", None]}}
        assert redact(value) == {"name": "password", "value": {"a": [REDACTED, None]}}

    def test_an_argument_behind_its_option(self) -> None:
        value = ["login", "--password", ["x", {"a": "y"}], "z"]
        assert redact(value) == ["login", "--password", [REDACTED, {"a": REDACTED}], "z"]

    def test_a_pair(self) -> None:
        assert redact([("password", "x"), ("user", "bob")]) == [
            ["password", REDACTED],
            ["user", "bob"],
        ]

    def test_any_mapping_counts(self) -> None:
        assert redact(MappingProxyType({"password": "x"})) == {"password": REDACTED}

    @pytest.mark.parametrize("levels", [DEEPEST - 2, DEEPEST - 1, DEEPEST])
    @pytest.mark.parametrize("nest", [nested, nested_mapping])
    def test_nested_too_deep_it_goes_as_a_whole(self, nest: Any, levels: int) -> None:
        kept = min(levels, DEEPEST - 1)
        assert redact({"password": nest(1, levels)}) == {"password": nest(REDACTED, kept)}


class TestNames:
    def test_a_sentence_is_no_name(self) -> None:
        name = "x" * 56 + "_password"
        assert redact({name: 1, name[1:]: 2}) == {name: 1, name[1:]: REDACTED}
        assert redact([[name, 1], [name[1:], 2]]) == [[name, 1], [name[1:], REDACTED]]

    def test_names_that_are_secrets_stay_apart(self) -> None:
        names = [f"ghp_{letter * 36}" for letter in "abc"]
        assert redact(dict.fromkeys(names, 1)) == {
            REDACTED: 1,
            f"{REDACTED}'": 1,
            f"{REDACTED}''": 1,
        }


class TestDepth:
    @pytest.mark.parametrize("leaf", ["x", 1, 1.5, True, None])
    @pytest.mark.parametrize("nest", [nested, nested_mapping])
    def test_what_lies_within_it_stays(self, nest: Any, leaf: Any) -> None:
        assert redact(nest(leaf, DEEPEST)) == nest(leaf, DEEPEST)
        assert redact(nest(leaf, DEEPEST + 1)) == nest(REDACTED, DEEPEST)

    def test_a_set_is_a_level(self) -> None:
        inside = frozenset({("x",)})
        assert redact(nested(inside, DEEPEST - 2)) == nested([["x"]], DEEPEST - 2)
        assert redact(nested(inside, DEEPEST - 1)) == nested([REDACTED], DEEPEST - 1)


class TestText:
    def test_nothing_else_changes(self) -> None:
        assert redact_text("x ghp_" + "a" * 36 + " y") == f"x {REDACTED} y"

    def test_what_only_looks_encoded_stays_as_it_was(self) -> None:
        assert redact_text("100%25 sure, 1%2B1") == "100%25 sure, 1%2B1"
        assert Redactor(["hunter2-secret"]).text("100%25 sure") == "100%25 sure"

    def test_bytes_that_are_no_text(self) -> None:
        assert redact(b"\xff password=hunter2") == f"\ufffd password={REDACTED}"

    def test_other_kinds_only_where_they_are_welcome(self) -> None:
        assert Redactor().value(Decimal(1)) == Decimal(1)
        with pytest.raises(TypeError, match="JSON has no Decimal"):
            Redactor(json_only=True).value(Decimal(1))
