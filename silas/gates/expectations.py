"""What a command must give for a check to pass: exactly one predicate, decided without opinion."""

import math
import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from silas.kernel.models import Data
from silas.kernel.safe_regex import regex_problem

_PREDICATES = (
    "exit_code",
    "equals",
    "contains",
    "regex",
    "output_lt",
    "output_gt",
    "file_exists",
    "not_empty",
)
_UNLIKELY_OUTPUT = "\ue000"


def check_regex(pattern: str) -> str:
    """A validator: the expression compiles and cannot take for ever."""
    problem = regex_problem(pattern)
    if problem:
        raise ValueError(problem)
    return pattern


def check_path(path: str) -> str:
    """A validator: the path stays where it starts, whatever directory that is.

    Which directories are permitted is decided by whoever looks the file up.
    """
    if any(ord(char) < 32 for char in path):
        raise ValueError("a path must not contain control characters")
    if ".." in re.split(r"[/\\]", path):
        raise ValueError("a path must not contain `..`; name a file below the working directory")
    if path.startswith("~"):
        raise ValueError("a path must not start with `~`; write it out")
    return path


def _decides_something(pattern: str) -> str:
    compiled = re.compile(pattern)
    if compiled.search("") and compiled.search(_UNLIKELY_OUTPUT):
        raise ValueError("this matches any output; a check must be able to fail")
    return pattern


SafeRegex = Annotated[str, Field(min_length=1), AfterValidator(check_regex)]
SafePath = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(check_path)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Expectation(Data):
    """A deterministic predicate about a command's output, exit code or files; exactly one is set.

    `output_lt` and `output_gt` read the output as a number. `file_exists` is looked up only inside
    directories that the runtime permits.
    """

    exit_code: int | None = Field(default=None, ge=0, le=255)
    equals: str | None = None
    contains: str | None = Field(default=None, min_length=1)
    regex: Annotated[SafeRegex, AfterValidator(_decides_something)] | None = None
    output_lt: Finite | None = None
    output_gt: Finite | None = None
    file_exists: SafePath | None = None
    not_empty: bool | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(self.predicates) != 1:
            found = ", ".join(self.predicates) or "none"
            raise ValueError(f"set exactly one of {', '.join(_PREDICATES)} (set here: {found})")
        return self

    @property
    def predicates(self) -> tuple[str, ...]:
        """The names of the predicates that are set; `not_empty: false` asks for nothing."""
        return tuple(
            name
            for name in _PREDICATES
            if getattr(self, name) is not None and not (name == "not_empty" and not self.not_empty)
        )


def judge_output(expect: Expectation, output: str, exit_code: int) -> tuple[bool, str]:
    """Whether a command's output and exit code are as expected, and why (not).

    A file is not looked for: whoever knows the permitted directories does that.
    """
    (named,) = expect.predicates
    wanted = getattr(expect, named)
    if named == "exit_code":
        return exit_code == wanted, f"exit code {exit_code}, expected {wanted}"
    if named in ("output_lt", "output_gt"):
        return _compare(named, output, wanted)
    if named == "regex":
        passed = re.search(wanted, output) is not None
    elif named == "contains":
        passed = wanted in output
    elif named == "equals":
        passed = output == wanted
    else:
        passed = named == "not_empty" and bool(output)
    return passed, f"{named}: {'as expected' if passed else 'not as expected'}"


def _compare(named: str, output: str, wanted: float) -> tuple[bool, str]:
    try:
        number = float(output)
    except ValueError:
        return False, "the output is not a number"
    if not math.isfinite(number):
        return False, "the output is not a finite number"
    passed = number < wanted if named == "output_lt" else number > wanted
    return passed, f"{number:g}, expected {'below' if named == 'output_lt' else 'above'} {wanted:g}"
