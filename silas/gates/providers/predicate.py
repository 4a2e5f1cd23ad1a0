"""The provider `predicate`: deterministic checks of one value. Its rules, by type:

`numeric_range`
  1. A number is a number, or its plain decimal text. Anything else is blocked, as are true, false,
     NaN and infinities.
  2. Outside of `block.outside`: blocked.
  3. In `auto_approve`: passes. 4. In `require_approval`: asks. 5. Elsewhere: blocked.
     All bounds are included, and compared exactly, without rounding.
`string_match`: the text is in `allowed_values`: passes; in `approval_values`: asks; else blocked.
`regex`: passes if `config.pattern` matches from the first to the last character; else blocked.
`file_valid`: passes if a regular file is there, inside the permitted directories, and not larger
  than `config.max_size_bytes`; else blocked.
`approval_always`: asks.

A value that is not there is blocked. `config.normalise` lists rules that are applied first, in
order (`normalise.py`); a value that they change is judged and passed on as changed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from silas.gates.decisions import asks, blocks, passes
from silas.gates.expectations import SafeRegex
from silas.gates.models import Gate, GateAction, GateResult, GateType, NumericRange
from silas.gates.providers.files import FileRefused, permitted_file
from silas.gates.providers.normalise import NotNormalised, Rule, normalised
from silas.gates.subjects import NotConcerned, NoValue, Subject, subject_of
from silas.kernel.models import Data

_LONGEST_TEXT = 100_000
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST_NUMBER = 64


class PredicateConfig(Data):
    """What `config` may say for this provider."""

    pattern: SafeRegex | None = None
    max_size_bytes: Annotated[int, Field(ge=0)] | None = None
    normalise: list[Rule] = Field(default_factory=list)


class PredicateProvider:
    """Judges values; files only inside `directories`."""

    def __init__(self, directories: Sequence[Path] = ()) -> None:
        self._directories = tuple(directories)

    def problem(self, gate: Gate) -> str | None:
        """What is wrong with `config`, if anything is."""
        try:
            PredicateConfig.model_validate(gate.config)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            return f"config.{where} cannot be used."
        return None

    async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
        """The verdict about the value that the gate looks at."""
        problem = self.problem(gate)
        if problem:
            return blocks(gate, problem)
        if gate.type is GateType.APPROVAL_ALWAYS:
            return asks(gate, "This always needs the owner's decision.")
        try:
            subject = subject_of(gate, context)
            value = normalised(subject.value, PredicateConfig.model_validate(gate.config).normalise)
        except NotConcerned as error:
            return passes(gate, str(error))
        except (NoValue, NotNormalised) as error:
            return blocks(gate, str(error))
        result = self.judge(gate, value, context)
        return (
            result if _same(value, subject.value) else _rewritten(result, subject, value, context)
        )

    def judge(self, gate: Gate, value: Any, context: Mapping[str, Any]) -> GateResult:
        """The verdict about this value, by the type of the gate."""
        if gate.type is GateType.FILE_VALID:
            return self._file_valid(gate, value, context)
        judge = _JUDGES.get(gate.type)
        return judge(gate, value) if judge else blocks(gate, "This type cannot be judged here.")

    def _file_valid(self, gate: Gate, value: Any, context: Mapping[str, Any]) -> GateResult:
        if not isinstance(value, str):
            return blocks(gate, "The path is not text.")
        try:
            size = permitted_file(value, self._directories, work_dir=context.get("work_dir"))
        except FileRefused as error:
            return blocks(gate, str(error))
        largest = PredicateConfig.model_validate(gate.config).max_size_bytes
        if largest is not None and size > largest:
            return blocks(gate, f"The file has {size} bytes; {largest} are allowed.")
        return passes(gate, "The file is there.", value=value)


def _rewritten(
    result: GateResult, subject: Subject, value: Any, context: Mapping[str, Any]
) -> GateResult:
    """The result with the normalised value; one that cannot be put back must not be judged."""
    if subject.rewritable:
        return result.model_copy(update={"modified_context": subject.rewriting(value, context)})
    reason = "This value can be judged only as it is: remove config.normalise."
    return result.model_copy(update={"action": GateAction.BLOCK, "reason": reason})


def number_of(value: Any) -> Decimal | None:
    """The value as an exact number, or None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if len(value) > _LONGEST_NUMBER or not _NUMBER.fullmatch(value):
            return None
        return Decimal(value)
    if not isinstance(value, int | float):
        return None
    try:
        # The shortest text of a float is what people wrote: 0.1, and not 0.1000000000000000055.
        number = Decimal(repr(value))
    except (InvalidOperation, ValueError):
        return None
    return number if number.is_finite() else None


def _numeric_range(gate: Gate, value: Any) -> GateResult:
    number = number_of(value)
    if number is None:  # 1
        return blocks(gate, "The value is not a number.")
    shown = value if isinstance(value, str) else _as_shown(value)
    if gate.block is not None and not _between(number, *gate.block.outside):  # 2
        return blocks(gate, "The number is outside of what is allowed.", value=shown)
    if _inside(number, gate.auto_approve):  # 3
        return passes(gate, "The number is in the range that passes.", value=shown)
    if _inside(number, gate.require_approval):  # 4
        return asks(gate, "The number is in the range that needs a decision.", value=shown)
    return blocks(gate, "The number is in no range.", value=shown)  # 5


def _as_shown(value: float) -> str | float:
    # Beyond this a float would show another number than the one that was judged.
    return str(value) if abs(value) > 2**53 else float(value)


def _inside(number: Decimal, allowed: NumericRange | None) -> bool:
    return allowed is not None and _between(number, allowed.min, allowed.max)


def _between(number: Decimal, low: float, high: float) -> bool:
    return Decimal(repr(low)) <= number <= Decimal(repr(high))


def _string_match(gate: Gate, value: Any) -> GateResult:
    if not isinstance(value, str):
        return blocks(gate, "The value is not text.")
    if value in (gate.allowed_values or ()):
        return passes(gate, "The value is allowed.", value=value)
    if value in (gate.approval_values or ()):
        return asks(gate, "The value needs a decision.", value=value)
    return blocks(gate, "The value is not one of those allowed.", value=value)


def _regex(gate: Gate, value: Any) -> GateResult:
    if not isinstance(value, str):
        return blocks(gate, "The value is not text.")
    if len(value) > _LONGEST_TEXT:
        return blocks(gate, f"The text is longer than {_LONGEST_TEXT} characters.")
    if _compiled(gate.config["pattern"]).fullmatch(value):
        return passes(gate, "The value has the right form.", value=value)
    return blocks(gate, "The value does not have the right form.", value=value)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


_JUDGES: Mapping[GateType, Callable[[Gate, Any], GateResult]] = {
    GateType.NUMERIC_RANGE: _numeric_range,
    GateType.STRING_MATCH: _string_match,
    GateType.REGEX: _regex,
}
