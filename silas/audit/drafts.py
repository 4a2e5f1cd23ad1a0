"""An entry before it has its place: redacted, made canonical, complete but for its number.

1. Nothing is written down before it went through redaction, the event's name included.
2. Data that is plain JSON already takes the short way. Anything odd is made plain first (`plain`),
   so that logging never fails because of what is logged: what has an obvious text becomes that
   text, and the rest a marker in square brackets that says what was there. Binary data is never
   recorded: it may be a key.
3. A body is at most `MAX_BODY` bytes. Larger data is cut, visibly, with the size and the hash of
   what it was (after redaction).
4. If the known secrets cannot be had, the data is withheld and the event is recorded without it.
"""

import dataclasses
import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import islice
from pathlib import PurePath
from typing import Any, NamedTuple, Self
from uuid import UUID

from silas.kernel import Clock, IdFactory, SilasError, canonical_bytes, format_timestamp
from silas.kernel.redaction import Redactor

_LONGEST_TEXT = 1_000_000
_MAX_ITEMS = 10_000
_MAX_DEPTH = 24
_MAX_INTEGER = 2**53 - 1


def plain(value: Any) -> Any:
    """The value in JSON's own types, whatever it is; this never raises."""
    return _Plainer().value(value, 0)


class _Plainer:
    """Counts what it has written, so that a value without end comes to an end."""

    def __init__(self) -> None:
        self._left = _MAX_ITEMS

    def value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            return "[left out: too deep or too much]"
        try:
            for kinds, convert in _CONVERSIONS:
                if isinstance(value, kinds):
                    return convert(self, value, depth)
            if isinstance(value, _if_loaded("pydantic", "BaseModel")):
                return self.value(value.model_dump(), depth)
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                names = [field.name for field in dataclasses.fields(value)]
                return self.mapping({name: getattr(value, name) for name in names}, depth)
        except Exception as error:  # noqa: BLE001 - a value may raise anything when it is looked at
            return f"[unserialisable: {_type_name(value)}, {type(error).__name__}]"
        return f"[unserialisable: {_type_name(value)}]"

    def mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            if self._left <= 0:
                result["[left out]"] = len(value) - len(result)
                break
            name = str(self.value(key, depth))
            while name in result:
                name += "'"  # 1 and "1" are two keys in Python and one in JSON
            result[name] = self.value(item, depth + 1)
        return result

    def items(self, value: Iterable[Any], depth: int) -> list[Any]:
        result: list[Any] = []
        for item in value:
            if self._left <= 0:
                result.append("[left out: more]")
                break
            result.append(self.value(item, depth + 1))
        return result

    def error(self, error: BaseException, depth: int) -> dict[str, Any]:
        about: dict[str, Any] = {"error": type(error).__name__, "message": _message(error)}
        if isinstance(error, SilasError):
            about |= {"code": error.code, "correlation_id": error.correlation_id}
        return self.mapping(about, depth)


def _text(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        # Not cut: half a secret at the edge would no longer be recognised as one.
        return f"[left out: a text of {len(text)} characters]"
    # A lone surrogate has no UTF-8; it is written out as an escape.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _from_bytes(raw: bytes) -> str:
    with suppress(UnicodeDecodeError):
        if (text := raw.decode()).isprintable():
            return _text(text)
    return f"[binary: {len(raw)} bytes]"


def _message(error: BaseException) -> str:
    if isinstance(error, _if_loaded("pydantic_core", "ValidationError")):
        # Its own text quotes the input, and the input may be a password.
        return "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
        )
    return str(error)


def _if_loaded(module: str, name: str) -> Any:
    """A class of a library that is slow to load; if nobody has loaded it, nothing is one of its."""
    return getattr(sys.modules.get(module), name, ())


def _type_name(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


Conversion = Callable[[_Plainer, Any, int], Any]

# The first that fits is taken, so a kind stands before those that it is made from.
_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Conversion], ...] = (
    ((type(None), bool), lambda _plainer, value, _depth: value),
    (str, lambda _plainer, value, _depth: _text(str.__str__(value))),
    (Enum, lambda plainer, value, depth: plainer.value(value.value, depth)),
    (int, lambda _plainer, n, _depth: int(n) if abs(n) <= _MAX_INTEGER else str(int(n))),
    (float, lambda _plainer, n, _depth: float(n) if math.isfinite(n) else str(float(n))),
    (Mapping, _Plainer.mapping),
    ((list, tuple), _Plainer.items),
    ((set, frozenset), lambda plainer, value, depth: sorted(plainer.items(value, depth), key=repr)),
    (
        datetime,
        lambda _plainer, moment, _depth: (
            format_timestamp(moment) if moment.tzinfo else f"{moment.isoformat()} (no time zone)"
        ),
    ),
    (
        (date, time, timedelta, Decimal, Fraction, complex, UUID, PurePath),
        lambda _plainer, value, _depth: _text(str(value)),
    ),
    ((bytes, bytearray, memoryview), lambda _plainer, raw, _depth: _from_bytes(bytes(raw))),
    (BaseException, _Plainer.error),
)


MAX_BODY = 64 * 1024
_MAX_DATA = MAX_BODY - 4096
_MAX_EVENT = 200
_MANY = 10_000
_CAN_BE_LARGE = frozenset((str, list, dict, tuple))
_REMEMBERED_EVENTS = 512
# Tried one after the other until the data fits: the longest text, the longest list.
_CUTS = ((4000, 500), (400, 50), (100, 10), (50, 4))

KnownSecretsPort = Callable[[], Iterable[str]]


class Draft(NamedTuple):
    """An entry that only lacks its number."""

    entry_id: str
    text: str

    def body(self, seq: int) -> str:
        """The entry's canonical JSON at this place in the chain."""
        return f"{self.text}{seq}}}"


@dataclass(frozen=True, slots=True)
class _Rules:
    """What is known to be secret just now, and what was cleared under it, as JSON."""

    known: tuple[str, ...]
    redactor: Redactor
    events: dict[str, str]

    @classmethod
    def under(cls, known: tuple[str, ...]) -> Self:
        return cls(known, Redactor(known, json_only=True), {})


class Drafter:
    """Makes drafts; safe to use from any thread."""

    def __init__(
        self, *, clock: Clock, ids: IdFactory, known_secrets: KnownSecretsPort | None = None
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._known_secrets = known_secrets
        self._rules = _Rules.under(())

    def draft(self, event: str, data: Mapping[str, Any]) -> Draft:
        """The entry for something that happens now."""
        at = format_timestamp(self._clock.now())
        entry_id = self._ids.new("aud")
        try:
            rules = self._current_rules()
        except Exception as error:  # noqa: BLE001 - a vault that fails must not stop the log
            reason = f"the known secrets could not be read ({type(error).__name__})"
            name, written = _json("[withheld]"), _json({"withheld": reason})
        else:
            cleared = rules.events.get(event) if type(event) is str else None
            name = cleared or _event_name(event, rules)
            written = _data(data, rules)
        text = f'{{"at":"{at}","data":{written},"entry_id":"{entry_id}","event":{name},"seq":'
        return Draft(entry_id, text)

    def _current_rules(self) -> _Rules:
        known = () if self._known_secrets is None else tuple(self._known_secrets())
        if known != self._rules.known:
            self._rules = _Rules.under(known)
        return self._rules


def _event_name(event: Any, rules: _Rules) -> str:
    name = rules.redactor.text(str(plain(event)))[:_MAX_EVENT]
    written = _json(name)
    if type(event) is str and len(rules.events) < _REMEMBERED_EVENTS:
        rules.events[event] = written
    return written


def _data(data: Mapping[str, Any], rules: _Rules) -> str:
    redactor = rules.redactor
    try:
        if _is_small(data):
            written = _json(redactor.value(data))
            if len(written.encode()) <= _MAX_DATA:
                return written
    except Exception:  # noqa: BLE001, S110 - whatever it was, the long way deals with it
        pass
    value = redactor.value(plain(data))
    return _cut_to_fit(value if isinstance(value, dict) else {"value": value})


def _is_small(data: Mapping[str, Any]) -> bool:
    for each in data.values():  # noqa: SIM110 - a generator costs more than the rest together
        if type(each) in _CAN_BE_LARGE and len(each) > _MANY:
            return False
    return True


def _cut_to_fit(value: Any) -> str:
    whole = canonical_bytes(value)
    if len(whole) <= _MAX_DATA:
        return whole.decode()
    size = {"cut_from_bytes": len(whole), "cut_from_sha256": hashlib.sha256(whole).hexdigest()}
    for longest_text, longest_list in _CUTS:
        smaller = _json({"cut": _cut(value, longest_text, longest_list), **size})
        if len(smaller.encode()) <= _MAX_DATA:
            return smaller
    return _json(size)


def _cut(value: Any, longest_text: int, longest_list: int) -> Any:
    if isinstance(value, str):
        return _cut_text(value, longest_text)
    if isinstance(value, list):
        items = [_cut(item, longest_text, longest_list) for item in value[:longest_list]]
        rest = len(value) - len(items)
        return [*items, f"[cut: {rest} more]"] if rest else items
    if isinstance(value, dict):
        cut = {
            _cut_text(name, longest_text): _cut(item, longest_text, longest_list)
            for name, item in islice(value.items(), longest_list)
        }
        rest = len(value) - len(cut)  # names that have become the same are among them
        return {**cut, "[cut]": f"{rest} more"} if rest else cut
    return value


def _cut_text(text: str, longest: int) -> str:
    rest = len(text) - longest
    return f"{text[:longest]}[cut: {rest} more characters]" if rest > 0 else text


def _json(value: Any) -> str:
    return canonical_bytes(value).decode()
