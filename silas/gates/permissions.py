"""The gate `connection_permission`: an action must not need more than its connection was granted.

1. A call that uses no connection is not concerned.
2. What the action needs is declared by the skill, what was granted is in the connection's record;
   the runtime puts both into the context. If one of them is not known, the call is blocked.
3. Everything granted, for good or just this once: passes.
4. Something missing that the skill never offered: blocked, because nobody could grant it.
5. Something else missing: asks, with what is there, what is needed, and how risky that is.
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from silas.gates.decisions import asks, blocks, passes
from silas.gates.models import Gate, GateResult
from silas.kernel.models import Data

_SEPARATORS = (".", ":", "/")


class PermissionEscalation(Data):
    """What a connection would have to be granted."""

    missing: tuple[str, ...]
    risk: Literal["medium", "high"]
    """`medium`: more of a kind of resource that was granted; `high`: a new kind."""


def escalation_needed(
    granted: Collection[str], required: Collection[str]
) -> PermissionEscalation | None:
    """What is missing; None if nothing is."""
    missing = tuple(sorted(set(required) - set(granted)))
    if not missing:
        return None
    known = {_resource(each) for each in granted} - {None}
    familiar = all(_resource(each) in known for each in missing)
    return PermissionEscalation(missing=missing, risk="medium" if familiar else "high")


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
