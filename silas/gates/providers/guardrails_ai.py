"""The provider `guardrails_ai`: validators of text, by name. Its rules:

1. `check` names the validator and `config` holds its options; it is made on first use. Unless the
   extra `guardrails` is installed, the validators are the embedded guards.
2. Looked at is the message, the response, or what `extract` names. On a tool call without
   `extract`, every text and number in the arguments is looked at, and the names inside them too.
3. A validator that objects blocks. One that mends (`mode: fix`) rewrites the text and continues.
4. What cannot be put back cannot be mended, and is blocked instead. So is what is not there.
5. A validator that has an option `origin` is told when the runtime knows the text to be the owner's
   (`taint` is `owner`), unless `config` says something else.

With the extra `guardrails`, the validators of that library can be named too (`AllValidators`):

1. An embedded guard of the name goes first: what a gate means does not change with an installation.
2. Any other name is one of the library's registry, such as `guardrails/toxic_language`.
3. `mode` (or the library's word `on_fail`) is `fix` or `block` (`exception`); everything else in
   `config` is handed to the validator.
4. A validator that fails a text without saying how to mend it blocks, whatever the mode.

The other way round, `register_guards` makes the embedded guards validators of the library:
`silas/pii` for `pii`, and so on. The library is loaded when it is asked for: that takes seconds.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from pydantic import Field

from silas.gates.errors import GuardOptionsInvalid, GuardrailsUnavailable, UnknownGuard
from silas.gates.guards.normalise import Subject
from silas.gates.guards.registry import Guard, GuardRegistry
from silas.gates.guards.rules import (
    GuardDecision,
    GuardFinding,
    GuardOptions,
    GuardVerdict,
    Mode,
    verdict,
)
from silas.gates.models import Gate, GateResult, GateTrigger, blocks, passes
from silas.gates.subjects import GateSubject, NotConcerned, NoValue, subject_of
from silas.kernel import CanonicalError, GateError, TaintLevel, canonical_bytes

TextCheck = Callable[[str], GuardVerdict]
_ORIGIN = "origin"
_LONG = 65_536
_REMEMBERED = 256


class Validators(Protocol):
    """Validators by name; whatever is not known raises `GateError`."""

    def options(self, name: str, config: Mapping[str, Any]) -> GuardOptions:
        """The options as a gate's `config` gives them, checked."""
        ...

    def check(self, name: str, text: str, config: GuardOptions) -> GuardVerdict:
        """What the validator says about the text."""
        ...

    def settled(self, name: str, text: str) -> int | None:
        """Up to where this beginning of a text is judged for good; None: not before its end."""
        ...


class CannotBeMended(Exception):
    """A text was to be changed where nothing can be put back."""


class GuardrailsAiProvider:
    """Has validators look at texts."""

    def __init__(self, validators: Validators) -> None:
        self._validators = validators
        self._made: dict[tuple[str | None, bytes, bool], TextCheck] = {}

    def problem(self, gate: Gate) -> str | None:
        """Whether there is such a validator, and whether its options suit it."""
        try:
            self._validator(gate, owners=False)
        except (GateError, CanonicalError) as error:
            return getattr(error, "message", "config cannot be used.")
        return None

    async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
        """What the validator says about every text that the gate looks at."""
        try:
            validator = self._validator(gate, owners=context.get("taint") == TaintLevel.OWNER)
            subject = _looked_at(gate, context)
        except NotConcerned as error:
            return passes(gate, str(error))
        except NoValue as error:
            return blocks(gate, str(error))
        except (GateError, CanonicalError):
            return blocks(gate, self.problem(gate) or "There is no such validator.")
        examined = _Examination(validator)
        try:
            value = await examined.mended(subject.value)
            if examined.blocked or not examined.changed:
                return examined.result(gate)
            return examined.result(gate, _rewriting(subject, value, context))
        except CannotBeMended:
            return blocks(gate, examined.reason)

    def settles(self, gate: Gate) -> bool:
        """Whether the gate can judge an answer while it is written."""
        try:
            self._validator(gate, owners=False)
            known = self._validators.settled(gate.check or "", "") is not None
        except (GateError, CanonicalError):
            return False
        return known and gate.extract in (None, "response")

    def settled(self, gate: Gate, text: str) -> str | None:
        """What the gate leaves of this beginning, as far as that is certain; None: it blocks."""
        place = self._validators.settled(gate.check or "", text) or 0
        verdict = self._validator(gate, owners=False)(text[:place])
        if verdict.decision is GuardDecision.BLOCK:
            return None
        return text[:place] if verdict.fixed_text is None else verdict.fixed_text

    def _validator(self, gate: Gate, *, owners: bool) -> TextCheck:
        config = canonical_bytes(gate.config) if gate.config else b""
        key = (gate.check, config, owners)
        if key not in self._made:
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            self._made[key] = self._make(gate.check or "", gate.config, owners=owners)
        return self._made[key]

    def _make(self, name: str, config: Mapping[str, Any], *, owners: bool) -> TextCheck:
        options = self._validators.options(name, config)
        if owners and _ORIGIN in type(options).model_fields and _ORIGIN not in config:  # 5
            options = self._validators.options(name, {**config, _ORIGIN: TaintLevel.OWNER.value})
        return partial(self._validators.check, name, config=options)


class _Examination:
    """One validator going through one value, and what it found on the way."""

    def __init__(self, validator: TextCheck) -> None:
        self._validator = validator
        self._reasons: dict[str, None] = {}
        self.blocked = False
        self.changed = False

    @property
    def reason(self) -> str:
        return " ".join(self._reasons)

    def result(self, gate: Gate, rewriting: dict[str, Any] | None = None) -> GateResult:
        if self.blocked:
            return blocks(gate, self.reason)
        return passes(gate, self.reason, modified_context=rewriting)

    async def mended(self, value: Any) -> Any:
        """The value with every text in it as the validator leaves it."""
        if isinstance(value, str):
            return await self._text(value)
        if isinstance(value, Mapping):
            for key in _names(value):
                if await self._text(key) != key:
                    raise CannotBeMended
            return {key: await self.mended(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [await self.mended(item) for item in value]
        if value is None or isinstance(value, bool):
            return value
        text = str(value)  # a number may be somebody's card
        mended = await self._text(text)
        return value if mended == text else mended

    async def _text(self, text: str) -> str:
        if len(text) > _LONG:  # so that one long text does not keep everybody waiting
            verdict = await asyncio.to_thread(self._validator, text)
        else:
            verdict = self._validator(text)
        if verdict.decision is GuardDecision.PASS:
            return text
        self._reasons[verdict.reason] = None
        if verdict.decision is GuardDecision.BLOCK or verdict.fixed_text is None:
            self.blocked = True
            return text
        self.changed = True
        return verdict.fixed_text


def _names(value: Mapping[Any, Any]) -> Iterator[str]:
    return (key for key in value if isinstance(key, str))


def _looked_at(gate: Gate, context: Mapping[str, Any]) -> GateSubject:
    if gate.on is not GateTrigger.ON_TOOL_CALL or gate.extract is not None:
        return subject_of(gate, context)
    arguments = context.get("tool_args")
    if not isinstance(arguments, Mapping):
        raise NoValue("There are no arguments to look at.")
    return GateSubject(("tool_args",), arguments)


def _rewriting(subject: GateSubject, value: Any, context: Mapping[str, Any]) -> dict[str, Any]:
    if not subject.rewritable:
        raise CannotBeMended
    return subject.rewriting(value, context)


PREFIX = "silas/"


def load_library() -> Any:
    """The library's module `validator_base`, after its reports to its maker are switched off.

    None if it is not installed, or if it is not a version whose reports can be switched off.
    """
    try:  # in this order: nothing of it may report while it is loaded
        from guardrails.settings import settings  # noqa: PLC0415 - it takes seconds

        settings.rc.enable_metrics = False
        from guardrails.utils import hub_telemetry_utils  # noqa: PLC0415

        # The library reads its settings again now and then. Without a tracer it cannot report.
        hub_telemetry_utils.HubTelemetry(enabled=False)._tracer = None  # noqa: SLF001
        from guardrails import validator_base  # noqa: PLC0415
    except (ImportError, AttributeError):
        return None
    return validator_base


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

    def settled(self, name: str, text: str) -> int | None:
        """Up to where a guard has judged for good; the library's validators want the whole text."""
        return self._embedded.settled(name, text) if name in self._names else None

    def _validator(self, name: str, options: LibraryOptions) -> LibraryValidator:
        key = canonical_bytes([name, options.arguments])
        if key not in self._made:
            found = self._library(name) if self._library else None  # 2
            if found is None:
                raise UnknownGuard(f"Neither Silas nor guardrails-ai has a validator {name}.")
            self._made[key] = found(**options.arguments)
        return self._made[key]
