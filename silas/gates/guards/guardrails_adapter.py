"""The guards of Silas as validators of guardrails-ai: `silas/pii` for `pii`, and so on.

Needs the extra `guardrails`. The library is loaded when it is asked for: that takes seconds.
Its own validators are used by name through the provider `guardrails_ai`.
"""

import importlib
from typing import Any

from silas.gates.guards.errors import GuardrailsUnavailable
from silas.gates.guards.models import GuardVerdict
from silas.gates.guards.registry import Guard, GuardRegistry
from silas.gates.guards.subject import Subject

PREFIX = "silas/"


def load_library() -> Any:
    """The library's module `validator_base`, after its reports to its maker are switched off.

    None if it is not installed, or if it is not a version whose reports can be switched off.
    """
    try:
        settings = importlib.import_module("guardrails.settings").settings
        settings.rc.enable_metrics = False
        # The library reads its settings again now and then. Without a tracer it cannot report.
        telemetry = importlib.import_module("guardrails.utils.hub_telemetry_utils")
        telemetry.HubTelemetry(enabled=False)._tracer = None  # noqa: SLF001
        return importlib.import_module("guardrails.validator_base")
    except (ImportError, AttributeError):
        return None


def register_guards(registry: GuardRegistry) -> tuple[str, ...]:
    """Register every guard with guardrails-ai, and give the names under which it knows them."""
    library = load_library()
    if library is None:
        raise GuardrailsUnavailable
    names = []
    for guard in registry.guards:
        name = PREFIX + guard.name
        register = library.register_validator(name=name, data_type="string")
        register(_validator(guard, registry, library=library))
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
