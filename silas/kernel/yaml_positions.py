"""YAML read safely: plain values, and where in the text each of them stands.

1. Only what JSON can say: mappings with text keys, lists, text, numbers, booleans, null.
2. Anchors, aliases, tags, directives, merge keys and further documents are refused.
3. A key that appears twice is refused: two readers could disagree about which one counts.
4. Plain words follow YAML 1.2: `on`, `yes` and `12:30` are text, not a boolean or a number. A
   number that YAML 1.1 and 1.2 read differently, or that JSON cannot hold, is refused.
5. Size, depth and the number of values are limited while reading: a bomb costs no more than that.
6. Control characters are refused, also those that an escape such as "\\0" would bring in.

Problems that leave the rest readable are collected, so that a person sees them all at once. This
module imports yaml and is therefore not imported by `silas.kernel` itself.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]

# Both parsers are PyYAML's and give the same events; the one in C is ten times faster.
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
)
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_AMBIGUOUS = re.compile(r"[-+]?0(?:[0-9]+|x[0-9a-fA-F]+|o[0-7]+|b[01]+)")
_MAX_INTEGER = 2**53 - 1

_HINTS = (
    ("mapping values are not allowed", "put text that contains ': ' in quotes"),
    ("that cannot start any token", "put text that starts with this character in quotes"),
    ("expected ':'", "every line of a mapping is `key: value`; check the indentation"),
    ("expected <block end>", "the indentation does not fit the lines above"),
    ("did not find expected", "check the indentation, and that every bracket and quote is closed"),
    ("unexpected end of stream", "a quote or bracket is not closed"),
)


@dataclass(frozen=True, order=True)
class Position:
    """A place in the text, as editors count: the first line and column are 1."""

    line: int
    column: int


@dataclass(frozen=True)
class YamlLimits:
    """How much a document may hold."""

    characters: int = 1_000_000
    depth: int = 32
    values: int = 50_000


@dataclass(frozen=True, order=True)
class YamlProblem:
    """One thing that is wrong, where it stands, and what would be right."""

    position: Position
    path: Path
    message: str


_DEFAULT_LIMITS = YamlLimits()


class YamlError(ValueError):
    """The text is not YAML that can be read in exactly one way; `problems` says why.

    `document` is what could be read in spite of them, to look for further problems; it must not
    be used for anything else. It is None if the text is not YAML at all.
    """

    def __init__(
        self, problems: list[YamlProblem], *, document: "YamlDocument | None" = None
    ) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.position))
        self.document = document
        super().__init__(
            "; ".join(f"line {each.position.line}: {each.message}" for each in self.problems)
        )


@dataclass(frozen=True)
class YamlDocument:
    """A value in JSON's types, with the place of every value and of every key."""

    value: Any
    values: Mapping[Path, Position]
    keys: Mapping[Path, Position]

    def position(self, path: Path) -> Position:
        """Where the value stands; if it is missing, where the nearest value around it starts."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values[path]

    def key_position(self, path: Path) -> Position:
        """Where the key of this value stands; for what has no key, where the value does."""
        return self.keys.get(path) or self.position(path)


def load_yaml(
    text: str, *, limits: YamlLimits = _DEFAULT_LIMITS, first_line: int = 1
) -> YamlDocument:
    """Read one document; raises `YamlError` with everything that is wrong with it.

    `first_line` is the number of the text's first line in the file it was cut from.
    """
    text = text.removeprefix("\ufeff")
    _check_characters(text, limits, first_line)
    composer = _Composer(limits, first_line)
    document = None
    try:
        value = composer.document(yaml.parse(text, Loader=_LOADER))
        document = YamlDocument(value=value, values=composer.values, keys=composer.keys)
    except _TooMuch:
        pass  # the problem has been written down; the rest would only cost time
    except yaml.YAMLError as error:
        composer.problems.append(_syntax_problem(error, text, first_line))
    except (ValueError, OverflowError) as error:
        # PyYAML's own parser lets an impossible escape such as "\UFFFFFFFF" out as one of these.
        composer.problems.append(YamlProblem(Position(first_line, 1), (), f"bad escape: {error}"))
    if document is None or composer.problems:
        raise YamlError(composer.problems, document=document)
    return document


class _TooMuch(Exception):
    """A limit was reached."""


@dataclass
class _Composer:
    """Builds the value from the parser's events."""

    limits: YamlLimits
    first_line: int
    values: dict[Path, Position] = field(default_factory=dict)
    keys: dict[Path, Position] = field(default_factory=dict)
    problems: list[YamlProblem] = field(default_factory=list)
    count: int = 0

    def document(self, events: Iterator[yaml.Event]) -> Any:
        next(events)  # the start of the stream
        start = next(events)
        if isinstance(start, yaml.StreamEndEvent):
            self.values[()] = Position(self.first_line, 1)
            return None
        if getattr(start, "version", None) or getattr(start, "tags", None):
            self._problem(start, (), "directives (`%…`) are not supported; remove the line")
        value = self._value(next(events), (), events)
        next(events)  # the end of the document
        further = next(events)
        if not isinstance(further, yaml.StreamEndEvent):
            self._problem(further, (), "only one document is allowed; remove the extra `---`")
        return value

    def _value(self, event: yaml.Event, path: Path, events: Iterator[yaml.Event]) -> Any:
        self.values[path] = self._position(event)
        self._count(event, path)
        self._refuse_decoration(event, path)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path, events)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, events)
        return self._scalar(event, path) if isinstance(event, yaml.ScalarEvent) else None

    def _mapping(self, path: Path, events: Iterator[yaml.Event]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._key(event, path, events, result)
            value = self._value(next(events), (*path, key), events)
            result.setdefault(key, value)
        return result

    def _key(
        self, event: yaml.Event, path: Path, events: Iterator[yaml.Event], seen: dict[str, Any]
    ) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            self._value(event, (*path, "?"), events)
            self._problem(event, path, "a key must be a single word or text")
            return "?"
        key: str = event.value
        self._count(event, path)
        self._refuse_decoration(event, (*path, key))
        self._refuse_control(event, (*path, key))
        if key in seen:
            first = self.keys[*path, key].line
            self._problem(event, (*path, key), f"`{key}` appears twice (first in line {first})")
        elif key == "<<" and event.implicit[0]:
            self._problem(event, (*path, key), "merge keys (`<<`) are not supported")
        elif not key:
            self._problem(event, (*path, key), "a key must not be empty")
        self.keys.setdefault((*path, key), self._position(event))
        return key

    def _sequence(self, path: Path, events: Iterator[yaml.Event]) -> list[Any]:
        result: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            result.append(self._value(event, (*path, len(result)), events))
        return result

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> Any:
        self._refuse_control(event, path)
        if not event.implicit[0]:
            return event.value
        value, problem = _plain_value(event.value)
        if problem:
            self._problem(event, path, problem)
        return value

    def _count(self, event: yaml.Event, path: Path) -> None:
        self.count += 1
        if self.count > self.limits.values:
            self._problem(event, path, f"more than {self.limits.values} values")
        elif len(path) > self.limits.depth:
            self._problem(event, path, f"nested deeper than {self.limits.depth} levels")
        else:
            return
        raise _TooMuch

    def _refuse_decoration(self, event: yaml.Event, path: Path) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._problem(event, path, "aliases (`*name`) are not supported; write the value out")
        elif getattr(event, "anchor", None):
            self._problem(event, path, "anchors (`&name`) are not supported; remove it")
        if getattr(event, "tag", None):
            self._problem(event, path, "tags (`!name`) are not supported; remove it")

    def _refuse_control(self, event: yaml.ScalarEvent, path: Path) -> None:
        found = _CONTROL.search(event.value)
        if found:
            self._problem(event, path, f"contains the control character {found[0]!a}; remove it")

    def _problem(self, event: yaml.Event, path: Path, message: str) -> None:
        self.problems.append(YamlProblem(self._position(event), path, message))

    def _position(self, event: yaml.Event) -> Position:
        mark = event.start_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        return Position(line + self.first_line, column + 1)


def _plain_value(text: str) -> tuple[Any, str | None]:
    """What a word without quotes means, and what is wrong with it."""
    if text in _NULLS:
        return None, None
    if text in _BOOLEANS:
        return _BOOLEANS[text], None
    return _number(text) if text[0] in "+-.0123456789" else (text, None)


def _number(text: str) -> tuple[Any, str | None]:
    problem = None
    if _AMBIGUOUS.fullmatch(text):
        problem = "readers disagree about this number; write it in decimal, or in quotes"
    elif _NOT_FINITE.fullmatch(text):
        problem = "not a finite number; write one, or put it in quotes"
    elif _INTEGER.fullmatch(text):
        if len(text) <= 17 and abs(int(text)) <= _MAX_INTEGER:
            return int(text), None
        problem = "a whole number beyond 53 bits; put it in quotes"
    elif _FLOAT.fullmatch(text):
        if math.isfinite(float(text)):
            return float(text), None
        problem = "this number is too large; put it in quotes"
    return text, problem


def _check_characters(text: str, limits: YamlLimits, first_line: int) -> None:
    """Refuse what is too long, and what a reader of the file could not see."""
    if len(text) > limits.characters:
        where = Position(first_line, 1)
        message = f"longer than {limits.characters} characters"
        raise YamlError([YamlProblem(where, (), message)])
    found = _CONTROL.search(text)
    if found:
        before = text[: found.start()]
        line = before.count("\n")
        where = Position(first_line + line, len(before) - (before.rfind("\n") + 1) + 1)
        message = f"contains the control character {found[0]!a}; remove it"
        raise YamlError([YamlProblem(where, (), message)])


def _syntax_problem(error: yaml.YAMLError, text: str, first_line: int) -> YamlProblem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line, mark.column) if mark else (0, 0)
    problem = getattr(error, "problem", None) or str(error)
    hint = next((hint for part, hint in _HINTS if part in problem), "check quotes and indentation")
    if _character_at(text, line, column) == "\t":
        hint = "indent with spaces, not with tabs"
    return YamlProblem(Position(line + first_line, column + 1), (), f"not YAML: {problem} ({hint})")


def _character_at(text: str, line: int, column: int) -> str:
    lines = text.splitlines()
    return lines[line][column : column + 1] if line < len(lines) else ""
