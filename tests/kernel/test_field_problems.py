"""Problems of records in words: the place is right and no value is repeated."""

from typing import Annotated, Literal, Self

import pytest
from pydantic import Field, ValidationError, model_validator

from silas.kernel.field_problems import (
    FieldProblem,
    dotted,
    problems_in,
    quoted,
    refuse,
    text_like,
)
from silas.kernel.models import Data


class Inner(Data):
    low: int = Field(default=0, ge=0)
    high: int = Field(default=9, le=9)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        refuse([FieldProblem(("low",), "must not be above high")] if self.low > self.high else [])
        return self


class Outer(Data):
    name: Annotated[str, text_like(r"[a-z]+", "must be lowercase letters")] = "x"
    kind: Literal["one", "two"] = "one"
    flag: bool = False
    share: float = Field(default=0.5, allow_inf_nan=False)
    inner: Inner = Inner()
    several: list[Inner] = Field(default_factory=list, max_length=2)
    by_name: dict[Annotated[str, Field(min_length=1)], Inner] = Field(default_factory=dict)


def told(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate_json(text, strict=True)
    return [(dotted(path), message) for path, message in problems_in(caught.value)]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('{"name": 5}', "name", "must be text, not a whole number"),
        ('{"name": "X"}', "name", "must be lowercase letters"),
        ('{"name": null}', "name", "must be text, not nothing"),
        ('{"kind": "three"}', "kind", "must be one of: one, two"),
        ('{"flag": "yes"}', "flag", "must be true or false, not text"),
        ('{"share": "much"}', "share", "must be a number, not text"),
        ('{"inner": []}', "inner", "must be a mapping, not a list"),
        ('{"inner": {"low": -1}}', "inner.low", "must be at least 0"),
        ('{"inner": {"high": 10}}', "inner.high", "must be at most 9"),
        ('{"inner": {"low": 1.5}}', "inner.low", "must be a whole number, not a number"),
        ('{"inner": {"low": 5, "high": 1}}', "inner.low", "must not be above high"),
        ('{"several": {}}', "several", "must be a list, not a mapping"),
        ('{"several": [{}, {"low": 9, "high": 8}]}', "several[1].low", "must not be above high"),
        ('{"several": [{}, {}, {}]}', "several", "must have at most 2 items"),
        ('{"by_name": {"": {}}}', "by_name.", "must not be empty"),
        ('{"by_name": {"a": {"x": 1}}}', "by_name.a.x", "is not a known key"),
    ],
)
def test_a_problem_has_its_place_and_its_remedy(text: str, place: str, message: str) -> None:
    assert told(text) == [(place, message)]


def test_several_problems_of_one_rule_keep_their_places() -> None:
    with pytest.raises(ValueError, match=r"a: one; b\[0\]: two") as caught:
        refuse([FieldProblem(("a",), "one"), FieldProblem(("b", 0), "two")])
    assert caught.value is not None
    refuse([])


def test_names_from_outside_are_made_visible_and_short() -> None:
    assert quoted("a\u202eb") == "`a\\u202eb`"
    assert quoted("x" * 200) == f"`{'x' * 80}…`"
    assert dotted(("a", 0, "b\nc")) == "a[0].b\\nc"
