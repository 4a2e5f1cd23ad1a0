"""The guards of Silas as validators of guardrails-ai: `silas/pii` for `pii`, and so on.

Needs the extra `guardrails`. Only who asks for it imports this module: the library takes seconds to
load. Its own validators are used by name through the provider `guardrails_ai`.
"""

from typing import Any

from silas.gates.guards.errors import GuardrailsUnavailable
from silas.gates.guards.models import GuardVerdict
from silas.gates.guards.registry import Guard, GuardRegistry
from silas.gates.guards.subject import Subject

try:
    from guardrails import validator_base
except ImportError:
    validator_base = None

PREFIX = "silas/"


def register_guards(registry: GuardRegistry) -> tuple[str, ...]:
    """Register every guard with guardrails-ai, and give the names under which it knows them."""
    if validator_base is None:
        raise GuardrailsUnavailable
    names = []
    for guard in registry.guards:
        name = PREFIX + guard.name
        register = validator_base.register_validator(name=name, data_type="string")
        register(_validator(guard, registry, library=validator_base))
        names.append(name)
    return tuple(names)


def _validator(guard: Guard, registry: GuardRegistry, *, library: Any) -> type[Any]:
    """A validator that asks the guard; its arguments are the guard's options."""

    class SilasValidator(library.Validator):  # type: ignore[misc]
        def __init__(self, on_fail: Any = None, **options: Any) -> None:
            super().__init__(on_fail=on_fail, use_local=True, **options)
            self._options = registry.options(guard.name, options)

        def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
            return _result(guard.check(Subject(str(value)), self._options), library)

    return SilasValidator


def _result(found: GuardVerdict, library: Any) -> Any:
    if not found.findings:
        return library.PassResult()
    return library.FailResult(
        error_message=found.reason,
        fix_value=found.fixed_text,
        error_spans=[
            library.ErrorSpan(start=each.start, end=each.end, reason=each.why)
            for each in found.findings
        ],
    )
