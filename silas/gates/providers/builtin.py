"""The providers that judge by themselves: `predicate` and `custom`.

`predicate`: deterministic checks of one value. Its rules, by type:

`numeric_range`
  1. A number is a number, or its plain decimal text. Anything else is blocked, as are true, false,
     NaN and infinities.
  2. Outside of `block.outside`: blocked.
  3. In `auto_approve`: passes. 4. In `require_approval`: asks. 5. Elsewhere: blocked.
     All bounds are included, and compared exactly, without rounding.
`string_match`: the text is in `allowed_values`: passes; in `approval_values`: asks; else blocked.
`regex`: passes if `config.pattern` matches from the first to the last character; else blocked.
`file_valid`: passes if a regular file is there, inside the permitted directories behind all links,
  and not larger than `config.max_size_bytes`; else blocked.
`approval_always`: asks.

A value that is not there is blocked. `config.normalise` lists rules that are applied first, in
order; a value that they change is judged and passed on as changed. None is applied unasked:

| rule | does |
|---|---|
| `strip` | takes white space off both ends |
| `spaces` | makes one space of every run of white space |
| `lower` | makes letters small |
| `nfkc` | makes full-width and styled characters plain (Unicode NFKC) |
| `number` | turns the plain decimal text of a number into that number |
| `{clamp: [low, high]}` | moves a number into the bounds |

A rule for text refuses anything else, and so does a rule for numbers.

`custom`: Python functions that the application registered, by their exact name.

A function gets the gate and a copy of the context and returns a result; it does no I/O. Whatever it
raises is a block. A plan can name a function and cannot bring one along.

Every runtime has `action_envelope` (`silas.gates.envelopes`) and `connection_permission`: an action
must not need more than its connection was granted.

1. A call that uses no connection is not concerned.
2. What the action needs is declared by the skill, what was granted is in the connection's record;
   the runtime puts both into the context. If one of them is not known, the call is blocked.
3. Everything granted, for good or just this once: passes.
4. Something missing that the skill never offered: blocked, because nobody could grant it.
5. Something else missing: asks, with what is there, what is needed, and how risky that is.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from silas.gates.envelopes import check_action_envelope
from silas.gates.models import (
    Finite,
    Gate,
    GateAction,
    GateProvider,
    GateResult,
    GateTrigger,
    GateType,
    NumericRange,
    SafeRegex,
    asks,
    blocks,
    check_path,
    passes,
)
from silas.gates.subjects import GateSubject, NotConcerned, NoValue, subject_of
from silas.kernel.models import Data
from silas.kernel.safe_regex import compiled

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


OUTSIDE = "Path outside permitted directories"
NOT_FOUND = "File not found"


class FileNotPermitted(Exception):
    """There is no such file, or not where one may look."""


def permitted_file(path: str, directories: Sequence[Path], *, work_dir: Any = None) -> int:
    """The size of a regular file; raises `FileNotPermitted`.

    A relative path is looked up in `work_dir`, if that lies inside a permitted directory, and
    otherwise in the directories themselves.
    """
    try:
        check_path(path)
        os.fsencode(path)
    except ValueError:
        raise FileNotPermitted(OUTSIDE) from None
    places = [Path(os.path.realpath(each)) for each in directories]
    seen = False
    for place in _candidates(path, places, work_dir):
        if not _is_inside(place, places):
            continue
        seen = True
        size = _size(place)
        if size is not None:
            return size
    raise FileNotPermitted(NOT_FOUND if seen else OUTSIDE)


def _candidates(path: str, places: Sequence[Path], work_dir: Any) -> Iterator[Path]:
    starts = list(places)
    if isinstance(work_dir, str) and work_dir.startswith("/"):
        start = Path(os.path.realpath(work_dir))
        if _is_inside(start, places):
            starts = [start]
    for start in [Path("/")] if path.startswith("/") else starts:
        yield Path(os.path.realpath(start / path))


def _is_inside(path: Path, places: Sequence[Path]) -> bool:
    return any(path == place or place in path.parents for place in places)


def _size(path: Path) -> int | None:
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


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
        except FileNotPermitted as error:
            return blocks(gate, str(error))
        largest = PredicateConfig.model_validate(gate.config).max_size_bytes
        if largest is not None and size > largest:
            return blocks(gate, f"The file has {size} bytes; {largest} are allowed.")
        return passes(gate, "The file is there.", value=value)


def _rewritten(
    result: GateResult, subject: GateSubject, value: Any, context: Mapping[str, Any]
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
    if compiled(gate.config["pattern"]).fullmatch(value):
        return passes(gate, "The value has the right form.", value=value)
    return blocks(gate, "The value does not have the right form.", value=value)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


_JUDGES: Mapping[GateType, Callable[[Gate, Any], GateResult]] = {
    GateType.NUMERIC_RANGE: _numeric_range,
    GateType.STRING_MATCH: _string_match,
    GateType.REGEX: _regex,
}


CustomCheck = Callable[[Gate, Mapping[str, Any]], GateResult]


class CustomProvider:
    """Looks functions up and calls them."""

    def __init__(self, checks: Mapping[str, CustomCheck]) -> None:
        self._checks = MappingProxyType(dict(checks))

    @property
    def names(self) -> tuple[str, ...]:
        """What a gate can name under `check`."""
        return tuple(sorted(self._checks))

    def problem(self, gate: Gate) -> str | None:
        """Whether there is such a function."""
        if gate.check in self._checks:
            return None
        return f"There is no check {gate.check}; there are: {', '.join(self.names) or 'none'}."

    async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
        """What the function says."""
        check = self._checks.get(gate.check or "")
        return check(gate, context) if check else blocks(gate, f"No check: {gate.check}")


_SEPARATORS = (".", ":", "/")


class MissingPermissions(Data):
    """What a connection would have to be granted."""

    missing: tuple[str, ...]
    risk: Literal["medium", "high"]
    """`medium`: more of a kind of resource that was granted; `high`: a new kind."""


def escalation_needed(
    granted: Collection[str], required: Collection[str]
) -> MissingPermissions | None:
    """What is missing; None if nothing is."""
    missing = tuple(sorted(set(required) - set(granted)))
    if not missing:
        return None
    known = {_resource(each) for each in granted} - {None}
    familiar = all(_resource(each) in known for each in missing)
    return MissingPermissions(missing=missing, risk="medium" if familiar else "high")


def check_connection_permission(gate: Gate, context: Mapping[str, Any]) -> GateResult:
    """The gate, for the provider `custom`.

    Of the context: `connection`, `required_permissions`, `permissions_granted`, and if there are
    any, `permissions_once` and `permissions_available`.
    """
    connection = context.get("connection")
    if connection is None:  # 1
        return passes(gate, "This call uses no connection.")
    required = _names(context.get("required_permissions"))
    granted = _names(context.get("permissions_granted"))
    if required is None or granted is None:  # 2
        return blocks(gate, "It is not known what this call needs, or what was granted.")
    needed = escalation_needed(
        [*granted, *(_names(context.get("permissions_once")) or ())], required
    )
    if needed is None:  # 3
        return passes(gate, "Everything that this call needs was granted.")
    missing = ", ".join(needed.missing)
    available = _names(context.get("permissions_available"))
    if available is not None and not set(needed.missing) <= set(available):  # 4
        return blocks(gate, f"{connection} offers no permission {missing}.")
    has = ", ".join(sorted(granted)) or "nothing"
    reason = f"{connection} was granted {has}; this needs {missing} ({needed.risk} risk)."
    return asks(gate, reason)  # 5


def _resource(permission: str) -> str | None:
    """`Mail` of `Mail.ReadWrite`; a name without parts may mean everything."""
    cut = max(permission.rfind(each) for each in _SEPARATORS)
    return permission[:cut] if cut > 0 else None


def _names(value: Any) -> list[str] | None:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        return None
    return list(value)


BUILT_IN_CHECKS: Mapping[str, CustomCheck] = MappingProxyType(
    {
        "action_envelope": check_action_envelope,
        "connection_permission": check_connection_permission,
    }
)


def _on_every_call(name: str) -> Gate:
    return Gate(
        name=name,
        on=GateTrigger.ON_TOOL_CALL,
        provider=GateProvider.CUSTOM,
        type=GateType.CUSTOM_CHECK,
        check=name,
    )


ACTION_ENVELOPE = _on_every_call("action_envelope")
CONNECTION_PERMISSION = _on_every_call("connection_permission")
