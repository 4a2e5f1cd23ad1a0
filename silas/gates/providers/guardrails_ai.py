"""The provider `guardrails_ai`: validators of text, by name. Its rules:

1. `check` names the validator and `config` holds its options; it is made on first use. Unless the
   extra `guardrails` is installed, the validators are the embedded guards.
2. Looked at is the message, the response, or what `extract` names. On a tool call without
   `extract`, every text and number in the arguments is looked at, and the names inside them too.
3. A validator that objects blocks. One that mends (`mode: fix`) rewrites the text and continues.
4. What cannot be put back cannot be mended, and is blocked instead. So is what is not there.
5. A validator that has an option `origin` is told when the runtime knows the text to be the owner's
   (`taint` is `owner`), unless `config` says something else.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from silas.gates.decisions import blocks, passes
from silas.gates.guards.models import Decision, GuardOptions, GuardVerdict
from silas.gates.models import Gate, GateResult, GateTrigger
from silas.gates.subjects import NotConcerned, NoValue, Subject, subject_of
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
        if verdict.decision is Decision.PASS:
            return text
        self._reasons[verdict.reason] = None
        if verdict.decision is Decision.BLOCK or verdict.fixed_text is None:
            self.blocked = True
            return text
        self.changed = True
        return verdict.fixed_text


def _names(value: Mapping[Any, Any]) -> Iterator[str]:
    return (key for key in value if isinstance(key, str))


def _looked_at(gate: Gate, context: Mapping[str, Any]) -> Subject:
    if gate.on is not GateTrigger.ON_TOOL_CALL or gate.extract is not None:
        return subject_of(gate, context)
    arguments = context.get("tool_args")
    if not isinstance(arguments, Mapping):
        raise NoValue("There are no arguments to look at.")
    return Subject(("tool_args",), arguments)


def _rewriting(subject: Subject, value: Any, context: Mapping[str, Any]) -> dict[str, Any]:
    if not subject.rewritable:
        raise CannotBeMended
    return subject.rewriting(value, context)
