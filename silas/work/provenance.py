"""Where the values in a call come from, as far as the runtime saw it happen.

1. `plan`: the value stands in the words that the owner approved.
2. `tool:NAME`: it stood in a result of that tool, outside of the sandbox, and not in the arguments
   of the same call. Otherwise a worker could say a value to a tool that repeats it.
3. A value counts as standing there only as a whole: `a.test` does not stand in `a.test.evil`.
4. A list or an object has the sources that all of its parts have.

What a tool in the sandbox prints is no source: the worker decides what it prints.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PLAN = "plan"
_JOINED_BEFORE = r"(?<![\w@:/.%+~-])"
_JOINED_AFTER = r"(?![\w@:/%+~-]|\.\w)"
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

    def of_arguments(self, args: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """The sources of each argument."""
        return {name: tuple(sorted(self.sources_of(value))) for name, value in args.items()}

    def sources_of(self, value: Any) -> frozenset[str]:
        """Everything that the whole value can have come from."""
        parts = [self._sources_of_text(text) for text in _texts(value)]
        return frozenset.intersection(*parts) if parts else frozenset({PLAN})

    def are_owners_words(self, args: Mapping[str, Any]) -> bool:
        """Whether everything in these arguments stands in what the owner approved."""
        words = [each for value in args.values() for each in (*_texts(value), *_names(value))]
        return all(_stands_in(text, self.approved) for text in words)

    def _sources_of_text(self, text: str) -> frozenset[str]:
        found = {
            f"tool:{tool}"
            for tool, results in self._read.items()
            if any(
                _stands_in(text, result) and not _was_said(text, said) for result, said in results
            )
        }
        return frozenset(found | {PLAN} if _stands_in(text, self.approved) else found)


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
