"""Action envelopes: which calls outside the sandbox an approved plan may make without asking again.

1. A call is inside an envelope if its tool is exactly `tool` and each of its arguments satisfies
   the constraint under its name. An argument that no constraint names puts the call outside.
2. An argument that is named must be there, unless its constraint says `optional: true`.
3. A constraint says what a value must be like (exactly one of the shapes below), where it must come
   from (`from`), or both. `any: true` is how a plan says, visibly, that a value is left open.
4. Several envelopes for one tool are alternatives. A tool without an envelope always asks.
5. `most` says how many calls an envelope is good for, in all attempts together. Whoever has taken
   a model over can repeat what was approved; he cannot repeat it more often than that.

| key | the value must |
|---|---|
| `equals` | be this text, number or boolean |
| `one_of` | be one of these |
| `prefix` | start with this text (for addresses: scheme, host and `/`) |
| `under` | be a path inside this directory, compared part by part after `.` and `..` are resolved |
| `matches` | match this regular expression from its first to its last character |
| `min`, `max` | be a number not below, not above |
| `any` | be anything |
| `from` | have come from this source: `owner`, `plan`, or for example `tool:read_invoice` |
| `of` | stand in the one record with this name among what that tool gave, and in no other |

Envelopes bind by shape and provenance because most values are not known when a plan is approved:
the amount comes from an invoice, the address from a contact list.
"""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from silas.gates.expectations import Finite, SafePath, SafeRegex
from silas.kernel.field_problems import text_like
from silas.kernel.models import Data

_SHAPES = ("equals", "one_of", "prefix", "under", "matches", "any")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
TOOL = "tool:"


def origin_of(source: str, name: str | None = None) -> str:
    """A source, or the one record with this name in it; no tool has such a name."""
    return source if name is None else f"{source}#{name}"


def _is_absent(value: object) -> bool:
    """What was added later is left out where it is not used: older plans keep their hash."""
    return value is None


def _is_scalar(value: object) -> object:
    if not isinstance(value, str | bool | int | float):
        raise ValueError("must be text, a number, true or false")  # noqa: TRY004 - pydantic's own
    return value


def _check_prefix(prefix: str) -> str:
    """An address that stops inside its host would also admit a longer, foreign host."""
    if _ADDRESS.match(prefix):
        parts = urlsplit(prefix)
        if not parts.netloc or not parts.path.startswith("/") or "@" in parts.netloc:
            raise ValueError("the prefix of an address must contain the whole host and a `/`")
    if ".." in prefix.split("/"):
        raise ValueError("a prefix must not contain `..`; use `under` for paths")
    return prefix


Scalar = Annotated[str | bool | int | Finite, BeforeValidator(_is_scalar)]
ToolName = Annotated[
    str,
    text_like(
        r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", "must be the exact name of one tool, without wildcards"
    ),
]
ArgumentName = Annotated[str, Field(min_length=1, max_length=128)]
SourceName = Annotated[
    str,
    text_like(
        r"[a-z][a-z0-9_-]{0,63}(?::[A-Za-z0-9_.-]{1,128})?",
        "must name a source, such as `owner` or `tool:read_invoice`",
    ),
]


class ArgumentConstraint(Data):
    """What one argument of a call must be like, and where it must come from."""

    model_config = ConfigDict(serialize_by_alias=True)

    equals: Scalar | None = None
    one_of: list[Scalar] | None = Field(default=None, min_length=1)
    prefix: Annotated[str, Field(min_length=1), AfterValidator(_check_prefix)] | None = None
    under: SafePath | None = None
    matches: SafeRegex | None = None
    min: Finite | None = None
    max: Finite | None = None
    any: Literal[True] | None = None
    source: SourceName | None = Field(default=None, alias="from")
    of: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, exclude_if=_is_absent
    )
    optional: bool = False

    @property
    def origin(self) -> str | None:
        """The source by the name under which the runtime tells it."""
        return None if self.source is None else origin_of(self.source, self.of)

    @model_validator(mode="after")
    def _one_shape(self) -> Self:
        shapes = [name for name in _SHAPES if getattr(self, name) is not None]
        bounded = self.min is not None or self.max is not None
        if len(shapes) + bounded > 1:
            found = [*shapes, *(["min/max"] if bounded else [])]
            raise ValueError(f"these exclude each other: {', '.join(found)}; keep one")
        if not shapes and not bounded and self.source is None:
            raise ValueError("says nothing; write `any: true` if every value is right")
        if self.of is not None and not (self.source or "").startswith(TOOL):
            raise ValueError("`of` needs `from: tool:NAME`: the tool whose records have names")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is above max: no value could be right")
        return self


class ActionEnvelope(Data):
    """One kind of call that needs no new decision, because the owner approved it with the plan."""

    tool: ToolName
    constraints: dict[ArgumentName, ArgumentConstraint] = Field(default_factory=dict)
    most: int | None = Field(default=None, ge=1, exclude_if=_is_absent)
