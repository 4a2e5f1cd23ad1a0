"""Canonical JSON (RFC 8785): one value, one sequence of bytes.

1. Keys are strings, sorted by UTF-16 code units; no white space; UTF-8.
2. Integers stay within 53 bits and floats are written as ECMAScript writes them, so that a browser
   produces the same bytes. NaN and infinities have no place in JSON and are refused.
3. Datetimes must carry a time zone; they are written as `format_timestamp` writes them.
4. On input, duplicate keys, NaN, infinities, invalid UTF-8, lone surrogates and integers that
   another parser would round are refused: a document that two parsers could read differently must
   not be signed. What is accepted has a canonical form.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Never

import rfc8785

from silas.kernel.clock import format_timestamp

MAX_INTEGER = 2**53 - 1
_MAX_DEPTH = 100
_LEAST_PLAIN = 0.0001
_MOST_PLAIN = 1e15

_encode_fast = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
).encode


class CanonicalError(ValueError):
    """The value or document has no single canonical form."""


class _NeedsFullRules(Exception):
    """Python's encoder would not give RFC 8785's bytes for this value."""


def canonical_bytes(value: Any) -> bytes:
    """The one byte sequence for this value; raises `CanonicalError` if there is none."""
    try:
        try:
            # Python's own encoder is several times faster and agrees with RFC 8785 as long as there
            # are no very large or small floats and no key outside the basic plane.
            return _encode_fast(_plain(value, 0, fast=True)).encode()
        except _NeedsFullRules:
            return rfc8785.dumps(_plain(value, 0, fast=False))
    except (UnicodeEncodeError, RecursionError, rfc8785.CanonicalizationError) as error:
        raise CanonicalError(f"has no canonical form: {error}") from error


def _plain(value: Any, depth: int, *, fast: bool) -> Any:
    """The value in JSON's own types, or an error that names what cannot be written."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is int:
        return _checked_integer(value)
    if kind is dict:
        return _plain_object(value, depth, fast=fast)
    if kind is list or kind is tuple:
        _check_depth(depth)
        return [_plain(item, depth + 1, fast=fast) for item in value]
    if kind is float:
        return _plain_float(value) if fast else value
    return _plain_unusual(value, depth, fast=fast)


def _plain_float(value: float) -> float | int:
    """What Python writes as ECMAScript does: whole numbers without a point, others without `e`."""
    size = abs(value)
    if size <= MAX_INTEGER and value.is_integer():
        return int(value)
    if _LEAST_PLAIN <= size < _MOST_PLAIN:
        return value
    raise _NeedsFullRules


def _plain_object(value: Mapping[Any, Any], depth: int, *, fast: bool) -> dict[str, Any]:
    _check_depth(depth)
    result: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str or not key.isascii():
            _check_unusual_key(key, fast=fast)
        # Most values are text, and this is the hottest loop of all.
        result[key] = item if type(item) is str else _plain(item, depth + 1, fast=fast)
    return result


def _check_unusual_key(key: Any, *, fast: bool) -> None:
    if not isinstance(key, str):
        raise CanonicalError(f"a key must be a string, not {type(key).__name__}: {key!r}")
    if fast and not key.isascii() and max(key) > "\uffff":
        raise _NeedsFullRules


def _plain_unusual(value: Any, depth: int, *, fast: bool) -> Any:
    """Subclasses (string enums, mappings, named tuples) and datetimes."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _checked_integer(int(value))
    if isinstance(value, float):
        return _plain(float(value), depth, fast=fast)
    if isinstance(value, datetime):
        try:
            return format_timestamp(value)
        except ValueError as error:
            raise CanonicalError(str(error)) from error
    if isinstance(value, Mapping):
        return _plain_object(value, depth, fast=fast)
    if isinstance(value, list | tuple):
        return _plain(list(value), depth, fast=fast)
    raise CanonicalError(f"JSON has no {type(value).__name__}")


def _checked_integer(value: int) -> int:
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise CanonicalError(f"an integer beyond 53 bits loses digits elsewhere: {value}")
    return value


def _check_depth(depth: int) -> None:
    if depth >= _MAX_DEPTH:
        raise CanonicalError(f"nested deeper than {_MAX_DEPTH} levels")


def strict_loads(document: bytes | str) -> Any:
    """Parse JSON, refusing whatever two parsers could read differently."""
    try:
        # Text goes through bytes as well: a string can hold lone surrogates.
        text = (document.encode() if isinstance(document, str) else document).decode()
        value = _STRICT.decode(text)
    except CanonicalError:
        raise
    except (ValueError, RecursionError) as error:
        raise CanonicalError(f"is not JSON: {error}") from error
    if _may_lack_a_form(text):
        canonical_bytes(value)
    return value


def _may_lack_a_form(text: str) -> bool:
    """A cheap look for what only the writing side refuses: deep nesting and lone surrogates."""
    deep = text.count("[") + text.count("{") > _MAX_DEPTH
    return deep or "\\ud" in text or "\\uD" in text


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise CanonicalError(f"the number {text} is beyond what a float can hold")
    return number


def _read_integer(text: str) -> int | float:
    """Beyond 53 bits, only the spelling of a float that RFC 8785 itself writes without a point."""
    number = int(text)
    if -MAX_INTEGER <= number <= MAX_INTEGER:
        return number
    if rfc8785.dumps(float(text)) != text.encode():
        raise CanonicalError(f"the integer {text} would be rounded by another parser")
    return float(text)


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise CanonicalError(f"the key {twice!r} appears twice")
    return result


def _refuse_constant(name: str) -> Never:
    raise CanonicalError(f"{name} is not a JSON number")


_STRICT = json.JSONDecoder(
    object_pairs_hook=_object_without_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_read_float,
    parse_int=_read_integer,
)
