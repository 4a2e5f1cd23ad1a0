"""Where the values in a call come from, as far as the runtime saw it happen.

1. `plan`: the value stands in the words that the owner approved.
2. `tool:NAME`: it stood in a result of that tool, outside of the sandbox, and not in the arguments
   of the same call. Otherwise a worker could say a value to a tool that repeats it.
3. A value counts as standing there only as a whole: `a.test` does not stand in `a.test.evil`.
   A single character, and a whole number of up to three digits, says so little that it stands
   everywhere: it has no source. "1. Show me the files" does not name the file 1.
4. A list or an object has the sources that all of its parts have.
5. `tool:NAME#WHO`: it is a field of the record named WHO among the results of that tool, which must
   be JSON. A record is an object with a field that is exactly WHO. If two different records have
   that name, neither does: somebody may have put the second one there. Text inside of a field is
   never a record, and names that only look alike are different.

What a tool in the sandbox prints is no source: the worker decides what it prints.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from silas.gates.envelopes import origin_of
from silas.kernel import CanonicalError, strict_loads

PLAN = "plan"
_JOINED_BEFORE = r"(?<![\w@:/.%+~-])"
_JOINED_AFTER = r"(?![\w@:/%+~-]|\.\w)"
_SAYS_LITTLE = re.compile(r"\W*(?:\w|\d{1,3})\W*")
_KEPT_PER_TOOL = 2_000_000


@dataclass
class Provenance:
    """What was said and read in one attempt."""

    approved: str
    _read: dict[str, list[tuple[str, frozenset[str]]]] = field(default_factory=dict)
    _size: dict[str, int] = field(default_factory=dict)

    def saw(self, tool: str, args: Mapping[str, Any], result: str) -> None:
        """Remember what a call gave; beyond a limit, what comes has no source."""
        size = self._size.get(tool, 0) + len(result)
        if size <= _KEPT_PER_TOOL:
            said = frozenset(text.casefold() for text in (*_texts(args), *_names(args)))
            self._read.setdefault(tool, []).append((result, said))
            self._size[tool] = size

    def of_arguments(
        self, args: Mapping[str, Any], *, lookups: Iterable[tuple[str, str]] = ()
    ) -> dict[str, tuple[str, ...]]:
        """The sources of each argument; records are looked up for these tools and names."""
        asked = list(lookups)
        return {
            name: tuple(sorted(self.sources_of(value) | self._records_with(value, asked)))
            for name, value in args.items()
        }

    def sources_of(self, value: Any) -> frozenset[str]:
        """Everything that the whole value can have come from."""
        parts = [self._sources_of_text(text) for text in _texts(value)]
        return frozenset.intersection(*parts) if parts else frozenset({PLAN})

    def are_owners_words(self, args: Mapping[str, Any]) -> bool:
        """Whether everything in these arguments stands in what the owner approved."""
        words = [each for value in args.values() for each in (*_texts(value), *_names(value))]
        return all(_stands_in(text, self.approved) for text in words)

    def _records_with(self, value: Any, lookups: Iterable[tuple[str, str]]) -> frozenset[str]:
        """Rule 5."""
        texts = list(_texts(value))
        return frozenset(
            origin_of(f"tool:{tool}", name)
            for tool, name in lookups
            if texts and self._is_in_record(texts, tool, name)
        )

    def _is_in_record(self, texts: list[str], tool: str, name: str) -> bool:
        named: list[Mapping[str, Any]] = []
        for result, said in self._read.get(tool, ()):
            found = [each for each in _records(result) if name in _fields(each)]
            if any(_was_said(text, said) for text in texts) and found:
                return False
            named.extend(each for each in found if each not in named)
        return len(named) == 1 and set(texts) <= set(_fields(named[0]))

    def _sources_of_text(self, text: str) -> frozenset[str]:
        if _SAYS_LITTLE.fullmatch(text):
            return frozenset()
        found = {
            f"tool:{tool}"
            for tool, results in self._read.items()
            if any(
                _stands_in(text, result) and not _was_said(text, said) for result, said in results
            )
        }
        return frozenset(found | {PLAN} if _stands_in(text, self.approved) else found)


def _records(result: str) -> Iterator[Mapping[str, Any]]:
    """Every object in a result that is JSON."""
    try:
        pending = [strict_loads(result)]
    except CanonicalError:
        return
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            yield value
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


def _fields(record: Mapping[str, Any]) -> list[str]:
    """The texts and numbers that stand in the record itself."""
    return [text for value in record.values() if _is_plain(value) for text in _texts(value)]


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple)


def _texts(value: Any) -> Iterator[str]:
    """Every text and number in a value, as it would be read."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif value is not None and not isinstance(value, bool) and value != "":
        yield str(value)


def _names(value: Any) -> Iterator[str]:
    """Every name in the objects of a value: whoever makes the call may have chosen it."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name)
            yield from _names(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _names(each)


def _was_said(text: str, said: frozenset[str]) -> bool:
    """Whether it stood in the arguments, alone or among other words, in capitals or not."""
    return any(_stands_in(text.casefold(), each) for each in said)


def _stands_in(text: str, place: str) -> bool:
    return re.search(_JOINED_BEFORE + re.escape(text) + _JOINED_AFTER, place) is not None
