"""Validators of the library guardrails-ai by name, if the extra `guardrails` is installed.

1. An embedded guard of the name goes first: what a gate means does not change with an installation.
2. Any other name is one of the library's registry, such as `guardrails/toxic_language`.
3. `mode` (or the library's word `on_fail`) is `fix` or `block` (`exception`); everything else in
   `config` is handed to the validator.
4. A validator that fails a text without saying how to mend it blocks, whatever the mode.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pydantic import Field

from silas.gates.guards.errors import GuardOptionsInvalid, GuardrailsUnavailable, UnknownGuard
from silas.gates.guards.guardrails_adapter import load_library
from silas.gates.guards.models import GuardFinding, GuardOptions, GuardVerdict, Mode, verdict
from silas.gates.providers.guardrails_ai import Validators
from silas.kernel import canonical_bytes

_MODES = {"fix": Mode.FIX, "block": Mode.BLOCK, "exception": Mode.BLOCK}
_WHY = "A validator of guardrails-ai objects to it."


class LibraryValidator(Protocol):
    """What is used of the library's validators."""

    def validate(self, value: str, metadata: dict[str, Any]) -> Any:
        """A result with `outcome`, and if that is `fail`, perhaps a `fix_value`."""
        ...


FindClass = Callable[[str], Callable[..., LibraryValidator] | None]


class LibraryOptions(GuardOptions):
    """The mode, and what the validator itself is given."""

    arguments: dict[str, Any] = Field(default_factory=dict)


def library_classes() -> FindClass | None:
    """How the library finds a validator; None if it is not installed."""
    library = load_library()
    if library is None:
        return None
    find: FindClass = library.get_validator_class
    return find


class AllValidators:
    """`Validators`: the embedded guards, then those of the library."""

    def __init__(
        self, embedded: Validators, *, names: tuple[str, ...], library: FindClass | None
    ) -> None:
        self._embedded = embedded
        self._names = frozenset(names)
        self._library = library
        self._made: dict[bytes, LibraryValidator] = {}

    def options(self, name: str, config: Mapping[str, Any]) -> GuardOptions:
        """The options as a gate's `config` gives them, checked."""
        if name in self._names or (self._library is None and "/" not in name):  # 1
            return self._embedded.options(name, config)
        if self._library is None:
            raise GuardrailsUnavailable
        rest = dict(config)
        said = rest.pop("mode", rest.pop("on_fail", "block"))
        if said not in _MODES:
            raise GuardOptionsInvalid("`mode` must be fix or block.")
        options = LibraryOptions(mode=_MODES[said], arguments=rest)
        self._validator(name, options)
        return options

    def check(self, name: str, text: str, config: GuardOptions) -> GuardVerdict:
        """What the guard or the validator says about the text."""
        if not isinstance(config, LibraryOptions):
            return self._embedded.check(name, text, config)
        result = self._validator(name, config).validate(text, {})
        if getattr(result, "outcome", None) == "pass":
            return verdict(name, [], mode=config.mode)
        fixed = getattr(result, "fix_value", None)
        finding = GuardFinding(rule=name, start=0, end=len(text), why=_WHY)
        return verdict(
            name, [finding], mode=config.mode, fixed_text=fixed if isinstance(fixed, str) else None
        )

    def _validator(self, name: str, options: LibraryOptions) -> LibraryValidator:
        key = canonical_bytes([name, options.arguments])
        if key not in self._made:
            found = self._library(name) if self._library else None  # 2
            if found is None:
                raise UnknownGuard(f"Neither Silas nor guardrails-ai has a validator {name}.")
            self._made[key] = found(**options.arguments)
        return self._made[key]
