"""What a tool server offers, pinned: every name, text, schema and annotation, under one hash.

1. The hash is over the whole set: names, titles, descriptions, schemas and annotations of all tools
   and the instructions, as RFC 8785 writes them. A tool that is renamed, added or left out is
   another set, not another tool.
2. A server has one form in which it is pinned (`server.json`). What was not understood when the set
   was read is refused, with a sentence.
3. A schema refers to nothing outside of itself: nothing is fetched because of it. Its expressions
   are matched in linear time; one that cannot be lets no value pass. Nor does one whose references
   multiply: so many are followed for one call, and no more.
4. Arguments are checked against the pinned schema, here. Neither side of the protocol does it.
5. What annotations say of a tool's effect is its server's claim. The effect is what the owner says;
   what the owner has not said counts as the worst, and is asked about every time.
"""

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cached_property, lru_cache
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from silas.kernel import CanonicalError, SkillError, canonical_bytes, strict_loads, visible
from silas.kernel.models import Data, FieldProblem, refuse, text_like
from silas.kernel.safe_regex import compiled
from silas.mcp.launch import Launch
from silas.mcp.remote import RemoteServer
from silas.tools.declaration import ArgumentsRefused

SERVER_FILE = "server.json"
MAX_TOOLS = 200
MAX_SET_BYTES = 400_000
_TOO_MUCH = (
    f"It has more than {MAX_TOOLS} tools, or they have more than {MAX_SET_BYTES // 1000} kB of "
    "text."
)
_MAX_TEXT = 20_000
_MAX_REFERENCES = 20_000
_MAX_DEPTH = 24
_MOST_PROBLEMS = 5
_REMEMBERED = 16
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.\-/]{0,127}"
_REFERS = ("$ref", "$dynamicRef", "$recursiveRef")
_PATTERNS = ("pattern", "patternProperties")

Text = Annotated[str, Field(max_length=_MAX_TEXT)]


class ToolSetRefused(SkillError):
    """The tools of this server cannot be pinned. The sentence says what stands against it."""

    code = "E_SKILL_MCP_TOOLS"


class PinnedTool(Data):
    """One tool, as its server describes it."""

    name: Annotated[str, text_like(_NAME, "must be a plain name such as `read_file`")]
    title: Text = ""
    description: Text = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = Field(default_factory=dict)
    """What the server claims about it (rule 5)."""

    @cached_property
    def _checks(self) -> Any:
        return _validator(json.dumps(self.input_schema, sort_keys=True))

    @cached_property
    def _fitting(self) -> deque[bytes]:
        """Digests of arguments that fit: the schema is pinned, so they will fit again."""
        return deque(maxlen=_REMEMBERED)

    def require_fitting(self, args: Mapping[str, Any]) -> None:
        """Raise `ArgumentsRefused` with the problems unless the arguments fit (rule 4).

        A call is looked at when it is asked for and when it is made.
        """
        digest = _digest(args)
        if digest is None or digest not in self._fitting:
            _require_fitting(lambda: self._checks, args)
            if digest is not None:
                self._fitting.append(digest)

    @property
    def claims(self) -> str:
        """The annotations in words."""
        said = {
            "readOnlyHint": ("it only reads", "it changes something"),
            "destructiveHint": ("it may destroy", "it destroys nothing"),
            "idempotentHint": ("twice is as once", "twice is not as once"),
            "openWorldHint": ("it reaches others", "it reaches nobody else"),
        }
        words = [
            yes if self.annotations[name] is True else no
            for name, (yes, no) in said.items()
            if isinstance(self.annotations.get(name), bool)
        ]
        return ", ".join(words)


class ToolSet(Data):
    """All tools of a server, by name, and its instructions."""

    tools: Annotated[tuple[PinnedTool, ...], Field(max_length=MAX_TOOLS)]
    instructions: Text = ""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        names = [each.name for each in self.tools]
        if names != sorted(set(names)):
            refuse([FieldProblem(("tools",), "stand in the order of their names, each once")])
        return self

    @cached_property
    def sha256(self) -> str:
        """Rule 1."""
        return hashlib.sha256(canonical_bytes(self.model_dump(mode="json"))).hexdigest()

    def by_name(self) -> Mapping[str, PinnedTool]:
        return {each.name: each for each in self.tools}


class PinnedServer(Data):
    """Everything that the owner signs of a server, but for the effects of its tools."""

    name: str
    launch: Launch | None = None
    """What runs, for a server of this machine."""
    remote: RemoteServer | None = None
    """Where it is, for one of somebody else's."""
    protocol: str
    """The revision of the protocol that it spoke when its tools were read."""
    says: str = ""
    """How it calls itself."""
    tool_set: ToolSet

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if (self.launch is None) == (self.remote is None):
            refuse([FieldProblem(("launch",), "is there, or `remote`, and never both")])
        return self

    @property
    def place(self) -> Launch | RemoteServer:
        """What is started, or connected to."""
        place = self.launch or self.remote
        if place is None:
            raise ToolSetRefused("It is nowhere.")
        return place

    def to_text(self) -> str:
        """The file: one value in a line, so that two versions can be compared by eye."""
        return json.dumps(self.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"


def read_server(text: str) -> PinnedServer:
    """The content of `server.json`; raises `ToolSetRefused`."""
    try:
        return PinnedServer.model_validate_json(json.dumps(strict_loads(text)), strict=True)
    except (ValueError, CanonicalError) as error:
        raise ToolSetRefused(f"{SERVER_FILE} cannot be read: {error}") from error


def pinned_set(tools: Iterable[Mapping[str, Any]], instructions: str | None) -> ToolSet:
    """The set out of what a server has sent; raises `ToolSetRefused` (rules 2 and 3)."""
    found: dict[str, PinnedTool] = {}
    offered = list(tools)
    # Before anything of it is checked: that takes a time that grows with it.
    if len(offered) > MAX_TOOLS or sum(map(_length, offered)) > 2 * MAX_SET_BYTES:
        raise ToolSetRefused(_TOO_MUCH)
    for each in offered:
        tool = _pinned_tool(each)
        if tool.name in found:
            raise ToolSetRefused(f"It has two tools with the name {visible(tool.name)}.")
        found[tool.name] = tool
    try:
        whole = ToolSet(
            tools=tuple(found[name] for name in sorted(found)), instructions=instructions or ""
        )
        size = len(canonical_bytes(whole.model_dump(mode="json")))
    except (ValueError, CanonicalError) as error:
        raise ToolSetRefused(f"Its tools cannot be pinned: {_first_line(error)}") from error
    if not found:
        raise ToolSetRefused("It offers no tool.")
    if size > MAX_SET_BYTES:
        raise ToolSetRefused(_TOO_MUCH)
    return whole


def _length(sent: Mapping[str, Any]) -> int:
    pinned = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
    return len(json.dumps([sent.get(each) for each in pinned], default=str))


def _pinned_tool(sent: Mapping[str, Any]) -> PinnedTool:
    try:
        tool = PinnedTool(
            name=sent["name"],
            title=sent.get("title") or "",
            description=sent.get("description") or "",
            input_schema=sent["inputSchema"],
            output_schema=sent.get("outputSchema"),
            annotations=sent.get("annotations") or {},
        )
    except (KeyError, ValueError) as error:
        name = visible(str(sent.get("name", ""))[:100], keep_newlines=False)
        raise ToolSetRefused(f"Its tool {name!r} cannot be pinned: {_first_line(error)}") from error
    problem = _schema_problem(tool.input_schema)
    if problem:
        raise ToolSetRefused(f"The arguments of its tool {tool.name} {problem}")
    return tool


def _first_line(error: Exception) -> str:
    return visible(" ".join(str(error).split())[:300], keep_newlines=False)


def _schema_problem(schema: Mapping[str, Any]) -> str:
    """What is wrong with the schema of arguments; empty if nothing is (rule 3)."""
    from jsonschema import SchemaError  # noqa: PLC0415 - of the extra, and slow to load

    if schema.get("type") != "object":
        return "are no object."
    if evades := _evasion(schema):
        return evades
    for depth, value in _inside(schema):
        if depth > _MAX_DEPTH:
            return "are nested too deep."
        for key in _REFERS:
            target = value.get(key) if isinstance(value, dict) else None
            if isinstance(target, str) and not target.startswith("#"):
                return f"refer to something outside: {visible(target[:200])}."
    try:
        _validator_class(schema).check_schema(dict(schema))
    except SchemaError as error:
        return f"are described by no valid schema: {_first_line(error)}"
    return ""


def _inside(value: Any, depth: int = 0) -> Iterator[tuple[int, Any]]:
    waiting = [(depth, value)]
    while waiting:
        depth, value = waiting.pop()
        yield depth, value
        if depth <= _MAX_DEPTH:
            below = (
                value.values()
                if isinstance(value, dict)
                else value
                if isinstance(value, list)
                else ()
            )
            waiting += [(depth + 1, each) for each in below]


def _validator_class(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415 - as above

    return validators.validator_for(schema, default=Draft202012Validator)


@lru_cache(maxsize=512)
def _validator(schema: str) -> Any:
    from jsonschema import validators  # noqa: PLC0415 - as above
    from referencing import Registry  # noqa: PLC0415 - as above

    found = json.loads(schema)
    base = _validator_class(found)
    found.pop("$schema", None)
    if _changes_language(found):
        raise ArgumentsRefused("their schema changes its own language")
    kind = validators.extend(base, validators={**_bounded(base), **_linear_patterns()})
    # An empty registry: whatever is not in the schema is not looked for anywhere.
    return kind(found, registry=Registry())


def _evasion(schema: Mapping[str, Any]) -> str:
    """What of it would be checked without what is said here; empty if nothing is."""
    if _changes_language(schema):
        return "name a language of schemas for a part of them ($schema)."
    used = {key for _, value in _inside(schema) if isinstance(value, dict) for key in value}
    if used >= {"patternProperties", "unevaluatedProperties"}:
        return "have expressions that cannot be matched safely (unevaluatedProperties)."
    return ""


def _changes_language(schema: Mapping[str, Any]) -> bool:
    """Whether a part names a language of its own: it would be read without what is said here."""
    parts = (value for _, value in _inside(schema) if isinstance(value, dict))
    return any(each is not schema and isinstance(each.get("$schema"), str) for each in parts)


_followed: ContextVar[list[int]] = ContextVar("followed")
"""How many references were followed for the arguments of this call."""


def _bounded(base: Any) -> dict[str, Any]:
    """The words of a schema that can multiply (rule 3)."""

    def counted(known: Any) -> Any:
        def refer(validator: Any, target: Any, value: Any, schema: Any) -> Iterator[Any]:
            count = _followed.get()
            count[0] += 1
            if count[0] > _MAX_REFERENCES:
                raise ArgumentsRefused("their schema has too many references to be checked")
            yield from known(validator, target, value, schema) or ()

        return refer

    known = base.VALIDATORS
    return {each: counted(known[each]) for each in _REFERS if each in known}


def _linear_patterns() -> dict[str, Any]:
    """The words of a schema that match expressions, in linear time (rule 3)."""
    from jsonschema import ValidationError  # noqa: PLC0415 - as above

    def pattern(_validator: Any, expression: Any, value: Any, _schema: Any) -> Iterator[Any]:
        if isinstance(value, str) and not _matches(str(expression), value):
            yield ValidationError(f"does not match {str(expression)!r}")

    def of_properties(validator: Any, named: Any, value: Any, _schema: Any) -> Iterator[Any]:
        if not isinstance(value, dict):
            return
        for expression, below in named.items():
            for key, each in value.items():
                if _matches(str(expression), key):
                    yield from validator.descend(each, below, path=key, schema_path=expression)

    return {
        "pattern": pattern,
        "patternProperties": of_properties,
        "additionalProperties": _additional,
    }


def _matches(expression: str, text: str) -> bool:
    try:
        return compiled(expression).search(text)
    except ValueError:
        raise ArgumentsRefused(
            "an argument has an expression that cannot be matched safely"
        ) from None


def _additional(validator: Any, below: Any, value: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    named, known = schema.get("patternProperties", {}), schema.get("properties", {})
    for key, each in value.items():
        if key not in known and not any(_matches(str(one), key) for one in named):
            yield from validator.descend(each, below, path=key)


def require_fitting(schema: Mapping[str, Any], args: Mapping[str, Any]) -> None:
    """The same for a schema that belongs to no tool yet."""
    _require_fitting(lambda: _validator(json.dumps(schema, sort_keys=True)), args)


def _digest(args: Mapping[str, Any]) -> bytes | None:
    """Of arguments as they are written; None if they cannot be."""
    try:
        return hashlib.sha256(json.dumps(args, sort_keys=True).encode()).digest()
    except (TypeError, ValueError, RecursionError):
        return None


def _require_fitting(checks: Callable[[], Any], args: Mapping[str, Any]) -> None:
    _followed.set([0])
    try:
        problems = list(checks().iter_errors(dict(args)))
    except ArgumentsRefused:
        raise
    except Exception as error:  # a schema that only fails when it is used
        raise ArgumentsRefused(f"they cannot be checked: {_first_line(error)}") from error
    if problems:
        told = [
            f"{'.'.join(map(str, each.absolute_path)) or 'arguments'}: {_first_line(each.message)}"
            for each in problems[:_MOST_PROBLEMS]
        ]
        raise ArgumentsRefused("; ".join(told))


def tool_name(server: str, tool: str) -> str:
    """How a tool is called here: its server's name, and its own, in plain letters."""
    whole = f"{server}_{tool}".lower()
    return re.sub(r"_+", "_", re.sub(r"[^a-z0-9]+", "_", whole)).strip("_")


def differences(before: ToolSet, after: ToolSet) -> list[str]:
    """What is different, tool by tool, in sentences; empty if nothing is."""
    old, new = before.by_name(), after.by_name()
    lines = [f"The tool {name} is new." for name in new if name not in old]
    lines += [f"The tool {name} is gone." for name in old if name not in new]
    for name, tool in new.items():
        known = old.get(name)
        if known is None or known == tool:
            continue
        for field, words in (
            ("title", "title"),
            ("description", "description"),
            ("input_schema", "arguments"),
            ("output_schema", "answer's form"),
            ("annotations", "claims"),
        ):
            was, now = getattr(known, field), getattr(tool, field)
            if was != now:
                lines.append(f"The {words} of {name} changed from {_said(was)} to {_said(now)}.")
    if before.instructions != after.instructions:
        was, now = _said(before.instructions), _said(after.instructions)
        lines.append(f"The instructions changed from {was} to {now}.")
    return lines


def _said(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return f"“{visible(text[:400], keep_newlines=False)}{'…' if len(text) > 400 else ''}”"
