"""Rules that change a value before it is judged. A gate names them; none is applied unasked.

| rule | does |
|---|---|
| `strip` | takes white space off both ends |
| `spaces` | makes one space of every run of white space |
| `lower` | makes letters small |
| `nfkc` | makes full-width and styled characters plain (Unicode NFKC) |
| `number` | turns the plain decimal text of a number into that number |
| `{clamp: [low, high]}` | moves a number into the bounds |

A rule for text refuses anything else, and so does a rule for numbers.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import model_validator

from silas.gates.expectations import Finite
from silas.kernel.models import Data

_SPACES = re.compile(r"\s+")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?")
TextRule = Literal["strip", "spaces", "lower", "nfkc", "number"]


class Clamp(Data):
    """Moves a number into the bounds."""

    clamp: tuple[Finite, Finite]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.clamp[0] > self.clamp[1]:
            raise ValueError("clamp must be [low, high]")
        return self


Rule = TextRule | Clamp


class NotNormalised(Exception):
    """A rule cannot be applied to this value."""


def normalised(value: Any, rules: Sequence[Rule]) -> Any:
    """The value after all rules, in order; raises `NotNormalised`."""
    for rule in rules:
        value = _clamped(value, rule) if isinstance(rule, Clamp) else _changed(value, rule)
    return value


def _changed(value: Any, rule: TextRule) -> Any:
    if not isinstance(value, str):
        raise NotNormalised(f"The rule {rule} is for text only.")
    return _TEXT_RULES[rule](value)


def _number(text: str) -> int | float:
    if not _DECIMAL.fullmatch(text):
        raise NotNormalised("The value is not a plain decimal number.")
    return float(text) if "." in text else int(text)


def _clamped(value: Any, rule: Clamp) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124
        raise NotNormalised("The rule clamp is for numbers only.")
    low, high = rule.clamp
    if low <= value <= high:
        return value
    return low if value < low else high


_TEXT_RULES: Mapping[TextRule, Callable[[str], Any]] = {
    "strip": str.strip,
    "spaces": lambda text: _SPACES.sub(" ", text),
    "lower": str.casefold,
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "number": _number,
}
