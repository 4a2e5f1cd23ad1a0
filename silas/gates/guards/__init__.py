"""Guards: pure, deterministic checks of one text, each with its rules, options and examples.

Here live the built-in guards and their registry; nothing here does I/O or asks a model.
What a verdict leads to (a block, a changed text, an entry in the audit) is decided by the gates.
"""

from silas.gates.errors import (
    GuardOptionsInvalid,
    GuardrailsUnavailable,
    GuardRuleBroken,
    UnknownGuard,
)
from silas.gates.guards.normalise import Subject
from silas.gates.guards.registry import Guard, GuardRegistry, built_in_guards
from silas.gates.guards.rules import (
    GuardDecision,
    GuardFinding,
    GuardOptions,
    GuardVerdict,
    Mode,
    strictest,
)

__all__ = [
    "Guard",
    "GuardDecision",
    "GuardFinding",
    "GuardOptions",
    "GuardOptionsInvalid",
    "GuardRegistry",
    "GuardRuleBroken",
    "GuardVerdict",
    "GuardrailsUnavailable",
    "Mode",
    "Subject",
    "UnknownGuard",
    "built_in_guards",
    "strictest",
]
