"""What can go wrong with gates before they decide anything.

What can go wrong with a guard itself. A text that a guard refuses is no error but a verdict.
"""

from silas.kernel import GateError


class GatesNotLoaded(GateError):
    """A gate cannot be used as it is written. Run `silas gates check` to see every problem."""

    code = "E_GATE_NOT_LOADED"


class CustomerContextRefused(GateError):
    """A customer's file cannot be trusted. Make it and its directory writable by Silas alone."""

    code = "E_GATE_CUSTOMER"


class GateInputInvalid(GateError):
    """This cannot be put before the gates. Give text in UTF-8, and arguments as a JSON object."""

    code = "E_GATE_INPUT"


class GuardRuleBroken(GateError):
    """A rule of a guard contradicts its own examples, so it was not loaded. Reinstall Silas."""

    code = "E_GATE_GUARD_RULE"


class GuardOptionsInvalid(GateError):
    """These options do not suit the guard. Compare the gate's `config` with `docs/guards.md`."""

    code = "E_GATE_GUARD_OPTIONS"


class UnknownGuard(GateError):
    """There is no guard of this name. See `docs/guards.md` for the names that can be used."""

    code = "E_GATE_GUARD_UNKNOWN"


class GuardrailsUnavailable(GateError):
    """This validator needs guardrails-ai. Install it with `pip install 'silas[guardrails]'`."""

    code = "E_GATE_GUARDRAILS_MISSING"
