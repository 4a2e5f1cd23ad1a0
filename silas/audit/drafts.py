"""An entry before it has its place: redacted, made canonical, complete but for its number.

1. Nothing is written down before it went through redaction, the event's name included.
2. Data that is plain JSON already takes the short way, and that which most events carry, short
   texts and numbers under harmless names, the shortest. Anything odd is made plain first.
3. A body is at most `MAX_BODY` bytes. Larger data is cut, visibly, with the size and the hash of
   what it was (after redaction).
4. If the known secrets cannot be had, the data is withheld and the event is recorded without it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, NamedTuple, Self

from silas.audit.plain import plain
from silas.kernel import Clock, IdFactory, canonical_bytes, format_timestamp
from silas.kernel.canonical import MAX_INTEGER
from silas.kernel.redaction import Redactor

MAX_BODY = 64 * 1024
_MAX_DATA = MAX_BODY - 4096
_MAX_EVENT = 200
_MANY = 10_000
_SIMPLE = frozenset((str, int, bool, float, type(None)))
_WORDS = {None: "null", True: "true", False: "false"}
_CAN_BE_LARGE = frozenset((str, list, dict, tuple))
_REMEMBERED_EVENTS = 512
_REMEMBERED_NAMES = 512
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
    names: dict[str, str]
    """Names under which the redactor leaves a harmless value alone."""

    @classmethod
    def under(cls, known: tuple[str, ...]) -> Self:
        return cls(known, Redactor(known, json_only=True), {}, {})


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
            written = _flat(data, rules) or canonical_bytes(redactor.value(data)).decode()
            if len(written.encode()) <= _MAX_DATA:
                return written
    except Exception:  # noqa: BLE001, S110 - whatever it was, the long way deals with it
        pass
    value = redactor.value(plain(data))
    return _cut_to_fit(value if isinstance(value, dict) else {"value": value})


def _flat(data: Mapping[str, Any], rules: _Rules) -> str | None:
    """The redacted data as canonical JSON, written in one pass; None if it is not that simple."""
    clean = rules.redactor.value
    pieces: list[str] = []
    for name in sorted(data):
        start = rules.names.get(name) or _cleared(name, rules)
        if start is None or type(data[name]) not in _SIMPLE:
            return None
        value = clean(data[name])
        if type(value) is str and value.isascii():
            pieces.append(start + encode_basestring(value))
        elif type(value) is int and abs(value) <= MAX_INTEGER:
            pieces.append(f"{start}{value}")
        elif value is None or type(value) is bool:
            pieces.append(start + _WORDS[value])
        elif type(value) is float:
            pieces.append(start + _json(value))
        else:
            return None
    return f"{{{','.join(pieces)}}}"


def _cleared(name: str, rules: _Rules) -> str | None:
    """The beginning of a field with a harmless name; what a field `value` holds others decide."""
    if name == "value" or not name.isascii() or rules.redactor.value({name: "x"}) != {name: "x"}:
        return None
    written = f"{encode_basestring(name)}:"
    if len(rules.names) < _REMEMBERED_NAMES:
        rules.names[name] = written
    return written


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
        kept = [_cut(item, longest_text, longest_list) for item in value[:longest_list]]
        rest = len(value) - len(kept)
        return [*kept, f"[cut: {rest} more]"] if rest else kept
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
