"""Decisions are ordered, and the strictest wins: continue < require_approval < block."""

from collections.abc import Iterable
from typing import Any

from silas.gates.models import Gate, GateAction, GateResult

_STRICTNESS = {action: rank for rank, action in enumerate(GateAction)}


def strictest(results: Iterable[GateResult]) -> GateAction:
    """What all results together mean. Where no gate looks, nothing stands in the way."""
    actions = [result.action for result in results]
    return max(actions, key=_STRICTNESS.__getitem__, default=GateAction.CONTINUE)


def passes(gate: Gate, reason: str = "", **more: Any) -> GateResult:
    """The gate lets it pass."""
    return _result(gate, GateAction.CONTINUE, reason, more)


def asks(gate: Gate, reason: str, **more: Any) -> GateResult:
    """The owner has to decide."""
    return _result(gate, GateAction.REQUIRE_APPROVAL, reason, more)


def blocks(gate: Gate, reason: str, **more: Any) -> GateResult:
    """The gate stops it."""
    return _result(gate, GateAction.BLOCK, reason, more)


def _result(gate: Gate, action: GateAction, reason: str, more: dict[str, Any]) -> GateResult:
    return GateResult(gate_name=gate.name, lane=gate.lane, action=action, reason=reason, **more)
