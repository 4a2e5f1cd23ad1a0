"""Gates: the deterministic checks between a wish and a deed, and what a plan may do unasked.

Here live gates and their results, access levels, expectations about output, and action envelopes.
No model's opinion decides anything here, and whatever is not expressly allowed is not allowed.
"""

from silas.gates.envelopes import ActionEnvelope, ArgumentConstraint
from silas.gates.escalation import EscalationAction
from silas.gates.models import (
    ALLOWED_MUTATIONS,
    AccessLevel,
    Expectation,
    Gate,
    GateAction,
    GateLane,
    GateProvider,
    GateResult,
    GateTrigger,
    GateType,
    Name,
    NumericRange,
)

__all__ = [
    "ALLOWED_MUTATIONS",
    "AccessLevel",
    "ActionEnvelope",
    "ArgumentConstraint",
    "EscalationAction",
    "Expectation",
    "Gate",
    "GateAction",
    "GateLane",
    "GateProvider",
    "GateResult",
    "GateTrigger",
    "GateType",
    "Name",
    "NumericRange",
]
