"""Odd values turned into JSON, so that logging never fails because of what is logged.

What has an obvious text becomes that text. What has none becomes a marker in square brackets that
says what was there. Binary data is never recorded: it may be a key.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID

from silas.kernel import SilasError, format_timestamp

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
