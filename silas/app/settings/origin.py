"""Where a value comes from, and what is wrong with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from silas.kernel.field_problems import FieldPath, dotted
from silas.kernel.redaction import redact_text
from silas.kernel.visible import visible

KeyPath = FieldPath
Source = Literal["default", "file", "environment", "command line"]


@dataclass(frozen=True)
class Origin:
    """Where a value was written: a line of a file, a variable, an option, or nowhere."""

    source: Source = "default"
    name: str = ""
    line: int | None = None

    def __str__(self) -> str:
        if self.source == "default":
            return "default"
        return f"{self.name}:{self.line}" if self.line is not None else self.name

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        names = {"file": "file", "environment": "variable", "command line": "option"}
        place = {names[self.source]: self.name} if self.source in names else {}
        line = {} if self.line is None else {"line": self.line}
        return {"source": self.source, **place, **line}


DEFAULT = Origin()


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it stands, which setting it is, and what would be right."""

    origin: Origin
    key: KeyPath
    message: str

    @property
    def name(self) -> str:
        """The setting as people write it: `gates.system[0].name`."""
        return redact_text(dotted(self.key))

    def __str__(self) -> str:
        parts = [str(self.origin)] if self.origin != DEFAULT else []
        parts += [self.name] if self.key else []
        return ": ".join([*parts, self.message])

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        return {**self.origin.as_json(), "key": self.name, "message": self.message}


def presentable(name: str, *, longest: int = 60) -> str:
    """A name from outside, fit for one line: short, visible, and no secret by accident."""
    shown = visible(redact_text(name), keep_newlines=False)
    return shown if len(shown) <= longest else f"{shown[:longest]}…"


def overlaps(one: KeyPath, other: KeyPath) -> bool:
    """Whether one key is the other, or lies inside it."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems as a reader of the file meets them; those of the environment come last."""
    return tuple(
        sorted(
            problems,
            key=lambda each: (each.origin.line is None, each.origin.line or 0, str(each.origin)),
        )
    )
