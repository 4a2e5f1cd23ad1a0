"""Problems of records in words: the place is right and no value is repeated."""

from enum import Enum
from typing import Annotated, Literal, Self

import pytest
from pydantic import Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from silas.kernel.models import (
    Data,
    FieldProblem,
    dotted,
    problems_in,
    quoted,
    refuse,
    text_like,
)


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


def test_a_name_that_just_fits_is_shown_whole() -> None:
    assert quoted("x" * 80) == f"`{'x' * 80}`"
    assert dotted(("XaX", "`b`")) == "XaX.b"


def test_text_that_must_look_like_something() -> None:
    adapter = TypeAdapter(Annotated[str, text_like(r"[a-z]+", "must be lowercase letters")])
    assert adapter.validate_python("abc") == "abc"
    for wrong in ("", "Abc", "abc\n", "abc1"):
        with pytest.raises(ValidationError) as caught:
            adapter.validate_python(wrong)
        assert problems_in(caught.value) == [FieldProblem((), "must be lowercase letters")]


def test_a_rule_is_told_in_its_own_words() -> None:
    with pytest.raises(PydanticCustomError) as caught:
        refuse([FieldProblem(("a",), "one")])
    assert caught.value.message() == "a: one"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Chosen(Data):
    """Its last field waits for the one before."""

    colour: Colour = Colour.RED
    count: int = 0
    double: int = Field(default_factory=lambda fields: fields["count"] * 2)


def test_a_choice_is_named_and_a_default_that_waits_is_no_problem() -> None:
    with pytest.raises(ValidationError) as caught:
        Chosen.model_validate({"colour": "green"})
    assert problems_in(caught.value) == [FieldProblem(("colour",), "must be one of: red, blue")]
    with pytest.raises(ValidationError) as caught:
        Chosen.model_validate({"count": object()})
    assert problems_in(caught.value) == [
        FieldProblem(("count",), "must be a whole number, not this")
    ]
