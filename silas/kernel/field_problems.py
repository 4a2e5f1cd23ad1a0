"""What is wrong with a record, field by field, in words for the person who wrote it.

Pydantic reports wrong types by itself. A rule across several fields uses `refuse`, which keeps the
place of every problem; `problems_in` turns both into sentences. A sentence says what would be right
and does not repeat a value, which may be a secret in the wrong place.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import AfterValidator, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from silas.kernel.visible import visible

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
