"""Action envelopes: which calls outside the sandbox an approved plan may make without asking again.

1. A call is inside an envelope if its tool is exactly `tool` and each of its arguments satisfies
   the constraint under its name. An argument that no constraint names puts the call outside.
2. An argument that is named must be there, unless its constraint says `optional: true`.
3. A constraint says what a value must be like (exactly one of the shapes below), where it must come
   from (`from`), or both. `any: true` is how a plan says, visibly, that a value is left open.
4. Several envelopes for one tool are alternatives. A tool without an envelope always asks.
5. `as_written: true` covers the calls of this tool that stand in the script of the plan, letter for
   letter: the owner has read every value of them. The runtime says which calls are (`written`).
6. `most` says how many calls an envelope is good for, in all attempts together. Whoever has taken
   a model over can repeat what was approved, but not more often than that.

| key | the value must |
|---|---|
| `equals` | be this text, number or boolean |
| `one_of` | be one of these |
| `each_of` | be a list of these and no others, of at least one |
| `prefix` | start with this text (for addresses: scheme, host and `/`) |
| `under` | be a path inside this directory, compared part by part after `.` and `..` are resolved |
| `matches` | match this regular expression from its first to its last character |
| `min`, `max` | be a number not below, not above |
| `any` | be anything |
| `from` | have come from this source: `owner`, `plan`, or for example `tool:read_invoice` |
| `of` | stand in the one record with this name among what that tool gave, and in no other |

Envelopes bind by shape and provenance because most values are not known when a plan is approved:
the amount comes from an invoice, the address from a contact list.

Where a value came from is told by the runtime (`sources`, by argument); a constraint with `from` is
not satisfied by a value whose source is not known. What follows for a call (`outside_reason`):

1. A call that acts in the sandbox and nowhere else needs no envelope.
2. A call inside an envelope needs no new decision.
3. A call that changes something outside of the sandbox does.
4. Once foreign content has entered the run, so does every call that tells somebody something: a
   read whose address a stranger chose is a letter to that stranger. Two kinds of reading tell
   nobody anything new: looking into an account of the owner's own, and asking for exactly what
   stands in the words that the owner approved.

What is not known about a call counts against it.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from silas.gates.models import Finite, Gate, GateResult, SafePath, SafeRegex, asks, passes
from silas.kernel import TaintLevel
from silas.kernel.models import Data, text_like
from silas.kernel.safe_regex import compiled

_SHAPES = ("equals", "one_of", "each_of", "prefix", "under", "matches", "any")
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
    each_of: list[Scalar] | None = Field(default=None, min_length=1, exclude_if=_is_absent)
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
    as_written: Literal[True] | None = Field(default=None, exclude_if=_is_absent)
    """It covers the calls that stand in the plan's own script, letter for letter, and no others."""

    @model_validator(mode="after")
    def _written_or_described(self) -> Self:
        if self.as_written and self.constraints:
            raise ValueError("`as_written` takes the call as it stands: leave the constraints out")
        return self


CHANGES = "It changes something outside of the sandbox, and the plan does not cover it."
_MOST_DECODINGS = 3
_TRUSTED = {level.value: level for level in (TaintLevel.OWNER, TaintLevel.AUTH)}
FOREIGN = "Foreign content has entered this run{sources}, and the plan does not cover this call."


def is_inside(
    envelopes: Iterable[ActionEnvelope],
    tool: str,
    args: Mapping[str, Any],
    *,
    sources: Mapping[str, Collection[str]] | None = None,
    written: bool = False,
) -> bool:
    """Whether one of the envelopes covers exactly this call; `written`: it stands in the script."""
    known = sources or {}
    return any(
        written if each.as_written else _covers(each, args, known)
        for each in envelopes
        if each.tool == tool
    )


def still_good(
    envelopes: Iterable[ActionEnvelope], made: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[ActionEnvelope]:
    """The envelopes that are not used up by the calls that were made.

    Where the values of those came from is not asked again: a call that looks like one counts.
    """
    return [
        each
        for each in envelopes
        if each.most is None
        or sum(tool == each.tool and (each.as_written or _fits(each, args)) for tool, args in made)
        < each.most
    ]


def lookups_in(envelopes: Iterable[ActionEnvelope]) -> set[tuple[str, str]]:
    """The tools whose records are asked for by name, each with the name."""
    constraints = [each for envelope in envelopes for each in envelope.constraints.values()]
    return {
        (each.source.removeprefix(TOOL), each.of) for each in constraints if each.source and each.of
    }


def _fits(envelope: ActionEnvelope, args: Mapping[str, Any]) -> bool:
    known = {each.origin for each in envelope.constraints.values() if each.origin is not None}
    return _covers(envelope, args, dict.fromkeys(args, known))


def outside_reason(
    *,
    contained: bool,
    inside: bool,
    changes_state: bool,
    taint: TaintLevel,
    taint_sources: Sequence[str] = (),
    tells_nobody: bool = False,
) -> str | None:
    """Why the owner has to decide about a call; None if nobody has to."""
    if contained or inside:  # 1, 2
        return None
    if changes_state:  # 3
        return CHANGES
    if taint is TaintLevel.EXTERNAL and not tells_nobody:  # 4
        shown = ", ".join(taint_sources)
        return FOREIGN.format(sources=f" (from {shown})" if shown else "")
    return None


def check_action_envelope(gate: Gate, context: Mapping[str, Any]) -> GateResult:
    """The gate `action_envelope`, for the provider `custom`.

    The runtime puts into the context, besides the call: `contained`, `changes_state`, `taint`,
    `taint_sources`, `tells_nobody`, `envelopes` and `argument_sources`.
    """
    foreign = [str(each) for each in context.get("taint_sources") or ()]
    reason = outside_reason(
        contained=context.get("contained") is True,
        inside=_context_inside(context),
        changes_state=context.get("changes_state") is not False,
        taint=_TRUSTED.get(str(context.get("taint")), TaintLevel.EXTERNAL),
        taint_sources=foreign,
        tells_nobody=context.get("tells_nobody") is True,
    )
    return asks(gate, reason, taint_sources=foreign) if reason else passes(gate)


def _context_inside(context: Mapping[str, Any]) -> bool:
    envelopes = [ActionEnvelope.model_validate(each) for each in context.get("envelopes") or ()]
    tool, args = context.get("tool_name"), context.get("tool_args")
    if not isinstance(tool, str) or not isinstance(args, Mapping):
        return False
    return is_inside(envelopes, tool, args, sources=context.get("argument_sources"))


def _covers(
    envelope: ActionEnvelope, args: Mapping[str, Any], sources: Mapping[str, Collection[str]]
) -> bool:
    if set(args) - set(envelope.constraints):
        return False
    return all(
        _holds(constraint, args[name], sources.get(name, ()))
        if name in args
        else constraint.optional
        for name, constraint in envelope.constraints.items()
    )


def _holds(constraint: ArgumentConstraint, value: Any, sources: Collection[str]) -> bool:
    if constraint.origin is not None and constraint.origin not in sources:
        return False
    if constraint.any:
        return True
    if constraint.each_of is not None:
        return _is_list_of(constraint.each_of, value)
    named = constraint.one_of if constraint.equals is None else [constraint.equals]
    if named is not None:
        return any(_same(value, each) for each in named)
    if constraint.min is not None or constraint.max is not None:
        return _is_between(value, constraint.min, constraint.max)
    return _text_holds(constraint, value)


def _text_holds(constraint: ArgumentConstraint, value: Any) -> bool:
    if constraint.prefix is None and constraint.matches is None and constraint.under is None:
        return constraint.source is not None  # where it comes from is all that was asked
    if not isinstance(value, str):
        return False
    if constraint.prefix is not None:
        return value.startswith(constraint.prefix) and not _climbs(value)
    if constraint.matches is not None:
        return compiled(constraint.matches).fullmatch(value)
    return _is_under(constraint.under or "", value)


def _climbs(value: str) -> bool:
    """Whether a server could read a way upwards in it, also one that is written in another way."""
    for _ in range(_MOST_DECODINGS):
        value = unquote(value)
    steps = re.split(r"[/\\]", value)
    return any(step.partition(";")[0].strip() == ".." for step in steps)


def _is_under(place: str, value: str) -> bool:
    directory, path = posixpath.normpath(place), posixpath.normpath(value)
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _is_list_of(known: Sequence[Any], value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(any(_same(each, one) for one in known) for each in value)


def _same(value: Any, wanted: Any) -> bool:
    """Equal, and of the same kind: 1 is not true, and "1" is not 1."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _is_between(value: Any, low: float | None, high: float | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (low is None or value >= low) and (high is None or value <= high)
