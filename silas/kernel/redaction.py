"""Secrets taken out of anything that is written down: audit entries, logs, error reports.

Three nets, each of which alone would be too coarse:

1. What stands under a telling name (`password`, `api_key`, …) goes, whatever it looks like: in a
   mapping with all that is nested below, in a `{"name": …, "value": …}`, in a list of pairs, after
   a `--password` in a list of arguments.
2. Text in a known secret format goes, wherever it stands, also behind base64, hex or URL encoding.
3. Values that the caller knows to be secret go, also inside longer text and in those encodings.

What is left is a copy that can be shown. Too much taken out is a nuisance, too little a leak.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from silas.kernel.encoded_secrets import SHORTEST_RUN, KnownSecrets, decoded_runs, unquoted
from silas.kernel.secret_formats import SECRET_FORMATS
from silas.kernel.telling_names import Hides, what_name_hides

REDACTED = "[redacted]"

_FORMATS_BY_SIGN = tuple(
    (
        sign,
        tuple(
            (hint, number)
            for number, each in enumerate(SECRET_FORMATS)
            if each.sign == sign
            for hint in each.hints
        ),
    )
    for sign in dict.fromkeys(each.sign for each in SECRET_FORMATS)
)
_SHORTEST_FORMAT = 15
_MAX_DEPTH = 120
_LONGEST_NAME = 64
_NAME_FIELDS = ("name", "key", "header", "field", "option", "variable")


class Redactor:
    """Takes secrets out of values: made once for a set of known secrets, then used many times."""

    def __init__(self, known: Iterable[str] = (), *, json_only: bool = False) -> None:
        """With `json_only`, a value of any other kind raises `TypeError`."""
        self._json_only = json_only
        secrets = tuple(known)
        self._known = KnownSecrets(secrets) if secrets else None

    def value(self, value: Any) -> Any:
        """A copy of a JSON-like value in which no secret is left."""
        return self._value(value, _MAX_DEPTH)

    def text(self, text: str) -> str:
        """The text with every secret taken out."""
        if self._known is not None:
            text = self._known.taken_out(text, REDACTED)
        return _without_formats(text)

    def _value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if value is None or kind is bool or kind is int or kind is float:
            return REDACTED if self._known is not None and str(value) in self._known else value
        if depth == 0:
            return REDACTED
        if kind is dict or isinstance(value, Mapping):
            return self._mapping(value, depth - 1)
        if isinstance(value, list | tuple):
            return self._items(value, depth - 1)
        return self._other(value, depth)

    def _mapping(self, mapping: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in mapping.items():
            name, hides = self._key(key)
            while name in result:
                name += "'"  # two names that were secret must not become one
            result[name] = self._hidden(item, hides, depth) if hides else self._value(item, depth)
        if "value" in result and any(_tells(result.get(field)) for field in _NAME_FIELDS):
            result["value"] = self._hidden(result["value"], Hides.ALL, depth)
        return result

    def _items(self, items: Iterable[Any], depth: int) -> list[Any]:
        result: list[Any] = []
        hides_next = False
        for item in items:
            if hides_next:
                result.append(self._hidden(item, Hides.ALL, depth))
            elif _is_telling_pair(item):
                result.append([self._value(item[0], depth), REDACTED])
            else:
                result.append(self._value(item, depth))
            hides_next = type(item) is str and item[:1] == "-" and _tells(item)
        return result

    def _hidden(self, value: Any, hides: Hides, depth: int) -> Any:
        """The shape of what stands under a telling name, and nothing else of it."""
        if value is None or isinstance(value, bool):
            return value
        if depth > 0 and isinstance(value, Mapping):
            return {
                self._key(key)[0]: self._hidden(item, hides, depth - 1)
                for key, item in value.items()
            }
        if depth > 0 and isinstance(value, list | tuple):
            return [self._hidden(item, hides, depth - 1) for item in value]
        if hides is Hides.TEXT and isinstance(value, int | float):
            return self._value(value, depth)
        return REDACTED

    def _key(self, key: Any) -> tuple[str, Hides]:
        text = key if type(key) is str else str(key)
        name, hides = (
            _judged(text) if len(text) <= _LONGEST_NAME else (_without_formats(text), Hides.NOTHING)
        )
        return (name if self._known is None else self._known.taken_out(name, REDACTED)), hides

    def _other(self, value: Any, depth: int) -> Any:
        """Left as it is if its text is harmless: others may know how to write it down."""
        if self._json_only and not isinstance(value, str | int | float):
            raise TypeError(f"JSON has no {type(value).__name__}")
        if isinstance(value, set | frozenset):
            return self._items(value, depth - 1)
        if isinstance(value, bytes | bytearray | memoryview):
            text = bytes(value).decode("utf-8", "replace")
        else:
            # A kind of text may call itself something else; what counts is what it is.
            text = str.__str__(value) if isinstance(value, str) else str(value)
        clean = self.text(text)
        return value if clean == text else clean


_FORMATS_ONLY = Redactor()


def redact(value: Any, *, known: Iterable[str] = ()) -> Any:
    """A copy of a JSON-like value in which no secret is left."""
    return (Redactor(known) if known else _FORMATS_ONLY).value(value)


def redact_text(text: str, *, known: Iterable[str] = ()) -> str:
    """The text with every secret in a known format, and every known secret, taken out."""
    return (Redactor(known) if known else _FORMATS_ONLY).text(text)


@lru_cache(maxsize=4096)
def _judged(key: str) -> tuple[str, Hides]:
    """The name of a field, clean, and whether it tells that its value is a secret."""
    return _without_formats(key), what_name_hides(key)


def _tells(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and bool(what_name_hides(name))


def _is_telling_pair(item: Any) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2 and _tells(item[0])


def _without_formats(text: str) -> str:
    if len(text) < _SHORTEST_FORMAT and not ("=" in text or ":" in text):
        return text
    text = _without_plain_formats(text)
    if "%" in text and (plain := unquoted(text)) is not None:
        clean = _without_plain_formats(plain)
        text = text if clean == plain else clean
    if len(text) >= SHORTEST_RUN:
        for run, decoded in decoded_runs(text):
            if _without_plain_formats(decoded) != decoded:
                text = text.replace(run, REDACTED)
    return text


def _without_plain_formats(text: str) -> str:
    folded = text.lower()
    # Looking for literals costs a fraction of what the patterns do, and mostly none is there.
    possible: list[int] = []
    for sign, hints in _FORMATS_BY_SIGN:
        if sign in folded:
            for hint, number in hints:
                if hint in folded:
                    possible.append(number)
    if not possible:
        return text
    for number in sorted(set(possible)):
        text = SECRET_FORMATS[number].pattern.sub(_what_stays, text)
    return text


def _what_stays(match: re.Match[str]) -> str:
    named = match.groupdict()
    return f"{named.get('keep') or ''}{REDACTED}{named.get('after') or ''}"
