"""Whether a call is inside one of the envelopes that the owner approved with the plan.

The rules are those of `silas.gates.envelopes`. Where a value came from is not known here, so a
constraint with `from` is never satisfied by a value alone: such a call asks.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from silas.gates import ActionEnvelope
from silas.gates.envelopes import ArgumentConstraint


def is_inside(envelopes: Iterable[ActionEnvelope], tool: str, args: Mapping[str, Any]) -> bool:
    """Whether one of the envelopes covers exactly this call."""
    return any(_covers(each, args) for each in envelopes if each.tool == tool)


def _covers(envelope: ActionEnvelope, args: Mapping[str, Any]) -> bool:
    if set(args) - set(envelope.constraints):
        return False
    return all(
        _holds(constraint, args[name]) if name in args else constraint.optional
        for name, constraint in envelope.constraints.items()
    )


def _holds(constraint: ArgumentConstraint, value: Any) -> bool:
    if constraint.source is not None:
        return False
    if constraint.any:
        return True
    if constraint.equals is not None:
        return _same(value, constraint.equals)
    if constraint.one_of is not None:
        return any(_same(value, each) for each in constraint.one_of)
    if constraint.min is not None or constraint.max is not None:
        return _is_between(value, constraint.min, constraint.max)
    return isinstance(value, str) and _text_holds(constraint, value)


def _text_holds(constraint: ArgumentConstraint, value: str) -> bool:
    if constraint.prefix is not None:
        return value.startswith(constraint.prefix) and ".." not in value.split("/")
    if constraint.matches is not None:
        return re.fullmatch(constraint.matches, value) is not None
    if constraint.under is not None:
        place, path = posixpath.normpath(constraint.under), posixpath.normpath(value)
        return path == place or path.startswith(place.rstrip("/") + "/")
    return False


def _same(value: Any, wanted: Any) -> bool:
    """Equal, and of the same kind: 1 is not true, and "1" is not 1."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _is_between(value: Any, low: float | None, high: float | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (low is None or value >= low) and (high is None or value <= high)
