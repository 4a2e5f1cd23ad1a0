"""Whether a call is inside one of the envelopes that the owner approved with the plan.

The rules of what an envelope covers are those of `silas.gates.envelopes`. Where a value came from
is told by the runtime (`sources`, by argument); a constraint with `from` is not satisfied by a
value whose source is not known. What follows for a call:

1. A call that acts in the sandbox and nowhere else needs no envelope.
2. A call inside an envelope needs no new decision.
3. A call that changes something outside of the sandbox does.
4. Once foreign content has entered the run, so does every call that tells somebody something: a
   read whose address a stranger chose is a letter to him. Two kinds of reading tell nobody
   anything new: looking into an account of the owner's own, and asking for exactly what stands in
   the words that the owner approved.

What is not known about a call counts against it.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from silas.gates.decisions import asks, passes
from silas.gates.envelopes import TOOL, ActionEnvelope, ArgumentConstraint
from silas.gates.models import Gate, GateResult
from silas.kernel import TaintLevel

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
) -> bool:
    """Whether one of the envelopes covers exactly this call."""
    known = sources or {}
    return any(_covers(each, args, known) for each in envelopes if each.tool == tool)


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
        or sum(tool == each.tool and _fits(each, args) for tool, args in made) < each.most
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
    if constraint.equals is not None:
        return _same(value, constraint.equals)
    if constraint.one_of is not None:
        return any(_same(value, each) for each in constraint.one_of)
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
        return re.fullmatch(constraint.matches, value) is not None
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


def _same(value: Any, wanted: Any) -> bool:
    """Equal, and of the same kind: 1 is not true, and "1" is not 1."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _is_between(value: Any, low: float | None, high: float | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (low is None or value >= low) and (high is None or value <= high)
