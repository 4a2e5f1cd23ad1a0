"""Guards of Silas as validators of guardrails-ai, and its validators as guards of Silas.

Needs the extra `guardrails`; nothing else imports this module. Metrics and remote inference of
guardrails-ai are switched off: no text leaves the machine through it. A validator that fails to
answer blocks.
"""

from typing import Any

from pydantic import ConfigDict

from silas.gates.guards.errors import GuardOptionsInvalid, GuardrailsUnavailable
from silas.gates.guards.models import GuardFinding, GuardOptions, GuardVerdict, Mode, verdict
from silas.gates.guards.registry import Guard, GuardRegistry
from silas.gates.guards.subject import Subject

try:
    from guardrails import validator_base
    from guardrails.settings import settings
except ImportError:
    validator_base = None

PREFIX = "silas/"
_HUB = "hub://"


class ValidatorOptions(GuardOptions):
    """The mode, and whatever else the validator takes."""

    model_config = ConfigDict(frozen=True, extra="allow")

    mode: Mode = Mode.BLOCK


def register_guards(registry: GuardRegistry) -> tuple[str, ...]:
    """Make every guard a validator of guardrails-ai, `silas/pii` for `pii`; gives the names."""
    library = _library()
    names = []
    for guard in registry.guards:
        name = PREFIX + guard.name
        library.register_validator(name=name, data_type="string")(_validator(guard, registry))
        names.append(name)
    return tuple(names)


def with_guardrails(registry: GuardRegistry) -> GuardRegistry:
    """The same guards, and beside them each validator of guardrails-ai under its own name.

    A validator's name has a slash in it, as in `guardrails/toxic_language`; the prefix `hub://` may
    be left off. It must be installed: nothing is downloaded here.
    """
    _library()
    return GuardRegistry(registry.guards, others=_guard_of_validator)


def _library() -> Any:
    if validator_base is None:
        raise GuardrailsUnavailable
    settings.rc.enable_metrics = False
    return validator_base


def _validator(guard: Guard, registry: GuardRegistry) -> type[Any]:
    """A validator class that asks the guard. Its arguments are the guard's options."""
    library = _library()

    class SilasValidator(library.Validator):  # type: ignore[misc, name-defined]
        def __init__(self, on_fail: Any = None, **options: Any) -> None:
            super().__init__(on_fail=on_fail, use_local=True, **options)
            self._options = registry.options(guard.name, options)

        def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
            found = guard.check(Subject(str(value)), self._options)
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

    return SilasValidator


def _guard_of_validator(name: str) -> Guard | None:
    library = _library()
    plain = name.removeprefix(_HUB)
    if "/" not in plain or plain.startswith(PREFIX):
        return None
    # Looked up in the registry first: the library's own search warns about names it lacks.
    if plain not in library.validators_registry:
        library.try_to_import_from_hub(plain)
    kind = library.validators_registry.get(plain)
    if kind is None:
        return None
    return Guard(
        name, ValidatorOptions, lambda subject, options: _ask(kind, name, subject, options)
    )


def _ask(kind: Any, name: str, subject: Subject, options: ValidatorOptions) -> GuardVerdict:
    validator = _made(kind, name, options)
    try:
        result = validator.validate(subject.text, {})
    except Exception as error:  # noqa: BLE001  (whatever goes wrong inside means no)
        why = f"The validator could not answer ({type(error).__name__})."
        return verdict(name, [_finding(name, subject, why)], mode=Mode.BLOCK)
    if result.outcome == "pass":
        return verdict(name, [], mode=options.mode)
    why = str(getattr(result, "error_message", "")) or "The validator objects."
    fixed = getattr(result, "fix_value", None)
    return verdict(
        name,
        [_finding(name, subject, why)],
        mode=options.mode,
        fixed_text=fixed if isinstance(fixed, str) else None,
    )


def _made(kind: Any, name: str, options: ValidatorOptions) -> Any:
    try:
        return kind(on_fail="noop", use_local=True, **(options.model_extra or {}))
    except Exception as error:
        raise GuardOptionsInvalid(
            f"The validator `{name}` does not take these options ({type(error).__name__})."
        ) from error


def _finding(name: str, subject: Subject, why: str) -> GuardFinding:
    return GuardFinding(rule=name, start=0, end=len(subject.text), why=why)
