"""What can go wrong with a guard itself. A text that a guard refuses is no error but a verdict."""

from silas.kernel import GateError


class GuardRuleBroken(GateError):
    """A rule of a guard contradicts its own examples, so it was not loaded. Reinstall Silas."""

    code = "E_GATE_GUARD_RULE"
    exit_code = 96


class GuardOptionsInvalid(GateError):
    """These options do not suit the guard. Compare the gate's `config` with `docs/guards.md`."""

    code = "E_GATE_GUARD_OPTIONS"
    exit_code = 97


class UnknownGuard(GateError):
    """There is no guard of this name. See `docs/guards.md` for the names that can be used."""

    code = "E_GATE_GUARD_UNKNOWN"
    exit_code = 98


class GuardrailsUnavailable(GateError):
    """This validator needs guardrails-ai. Install it with `pip install 'silas[guardrails]'`."""

    code = "E_GATE_GUARDRAILS_MISSING"
    exit_code = 99
