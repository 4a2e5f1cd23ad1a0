"""The provider `custom`: Python functions that the application registered, by their exact name.

A function gets the gate and a copy of the context and returns a result; it does no I/O. Whatever it
raises is a block. A plan can name a function and cannot bring one along.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from silas.gates.decisions import blocks
from silas.gates.models import Gate, GateResult

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
