"""The base of every record: frozen, strict about unknown fields, UTC moments only.

And what is wrong with a record, field by field, in words for the person who wrote it. Pydantic
reports wrong types by itself. A rule across several fields uses `refuse`, which keeps the place of
every problem; `problems_in` turns both into sentences. A sentence says what would be right and does
not repeat a value, which may be a secret in the wrong place.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    PlainSerializer,
    ValidationError,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from silas.kernel.clock import format_timestamp
from silas.kernel.visible import visible


class Data(BaseModel):
    """Frozen data without I/O. A change makes a new value."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same with some fields changed; as everywhere in pydantic, these are not checked."""
        if deep or self.__pydantic_private__ is not None:
            return super().model_copy(update=update, deep=deep)
        # What pydantic does for records without extra fields, at a third of its cost.
        changes = update or {}
        copied = self.__class__.__new__(self.__class__)
        object.__setattr__(copied, "__dict__", {**self.__dict__, **changes})
        object.__setattr__(copied, "__pydantic_extra__", None)
        fields_set = self.__pydantic_fields_set__ | changes.keys()
        object.__setattr__(copied, "__pydantic_fields_set__", fields_set)
        object.__setattr__(copied, "__pydantic_private__", None)
        return copied


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


UtcDatetime = Annotated[
    AwareDatetime,
    AfterValidator(_in_utc),
    PlainSerializer(format_timestamp, return_type=str, when_used="json"),
]
"""An aware moment, kept in UTC and written to JSON in the one canonical spelling."""


FieldPath = tuple[str | int, ...]

_MAX_QUOTED = 80
_RULES = "silas_rules"
_KINDS: Mapping[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
    type(None): "nothing",
}
_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_LIMITS = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "must be at most {max_length} characters long",
    "too_short": "needs at least {min_length} item(s)",
    "too_long": "must have at most {max_length} items",
    "missing": "is missing",
    "extra_forbidden": "is not a known key",
}


class FieldProblem(NamedTuple):
    """One thing that is wrong, and the path of the field it is about."""

    path: FieldPath
    message: str


def text_like(pattern: str, words: str) -> AfterValidator:
    """A validator for text that must match a pattern as a whole; `words` say what is right."""
    matches = re.compile(pattern).fullmatch

    def check(text: str) -> str:
        if not matches(text):
            raise ValueError(words)
        return text

    return AfterValidator(check)


def refuse(problems: Sequence[FieldProblem]) -> None:
    """Raise inside a validator if there are any problems; paths are relative to the record."""
    if problems:
        sentence = "; ".join(f"{dotted(path)}: {message}" for path, message in problems)
        raise PydanticCustomError(
            _RULES, "{sentence}", {"sentence": sentence, "problems": tuple(problems)}
        )


def problems_in(error: ValidationError) -> list[FieldProblem]:
    """Every problem of a failed validation, in sentences."""
    return [
        problem
        for details in error.errors(include_url=False)
        # A default that waits for another field is no problem of its own.
        if details["type"] != "default_factory_not_called"
        for problem in _told(details)
    ]


def problem_text(error: Exception) -> str:
    """Every problem of a failed validation in one line; of any other error, what it says."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{dotted(path)}: {message}" if path else message for path, message in problems_in(error)
    )


def dotted(path: FieldPath) -> str:
    """The path as people write it: `verify[0].expect`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + quoted(part).strip("`")
    return text


def quoted(name: str) -> str:
    """A name from outside, fit for a sentence: short, and with nothing invisible in it."""
    shown = visible(name, keep_newlines=False)
    return f"`{shown[:_MAX_QUOTED]}…`" if len(shown) > _MAX_QUOTED else f"`{shown}`"


def _told(details: ErrorDetails) -> list[FieldProblem]:
    path = tuple(part for part in details["loc"] if part != "[key]")
    context: dict[str, Any] = details.get("ctx", {})
    kind = details["type"]
    if kind == _RULES:
        return [FieldProblem((*path, *inner), text) for inner, text in context["problems"]]
    return [FieldProblem(path, _sentence(kind, details, context))]


def _sentence(kind: str, details: ErrorDetails, context: dict[str, Any]) -> str:
    if kind in _WANTED:
        return f"must be {_WANTED[kind]}, not {_KINDS.get(type(details['input']), 'this')}"
    if kind in ("enum", "literal_error"):
        return f"must be one of: {context['expected'].replace(' or ', ', ').replace(chr(39), '')}"
    if kind in _LIMITS:
        return _LIMITS[kind].format(**context)
    return details["msg"].removeprefix("Value error, ")
