"""The settings while they are put together from file, environment and command line."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from silas.app.settings.origin import DEFAULT, KeyPath, Origin, Problem, overlaps


@dataclass
class Draft:
    """Values not checked yet, where each was written, and what is wrong so far."""

    values: dict[str, Any] = field(default_factory=dict, repr=False)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    concealed: set[KeyPath] = field(default_factory=set)
    """Values that came out of a variable: no message repeats them."""

    def origin_of(self, *keys: KeyPath) -> Origin:
        """Where the first of these that was written stands; else what is around the first one."""
        written = (self.origins[key] for key in keys if key in self.origins)
        found = next((origin for origin in written if origin != DEFAULT), None)
        key = keys[0]
        while found is None and key:
            key = key[:-1]
            found = self.origins.get(key)
        return found or DEFAULT

    def find(self, key: KeyPath) -> Any:
        """The value at this place, or None."""
        found: Any = self.values
        for part in key:
            if isinstance(found, dict):
                found = found.get(part)
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return None
        return found

    def has(self, key: KeyPath) -> bool:
        """Whether anything, even null, is written at this place."""
        around = self.find(key[:-1])
        return isinstance(around, dict) and key[-1] in around

    def put(self, key: KeyPath, value: Any, *, origin: Origin = DEFAULT) -> None:
        """Write a value over what is there; does nothing where the way to it is not a section."""
        around: Any = self.values
        for part in key[:-1]:
            around = around.setdefault(part, {}) if isinstance(around, dict) else None
        if isinstance(around, dict):
            around[key[-1]] = value
            self.origins = {k: o for k, o in self.origins.items() if k[: len(key)] != key}
            self.origins.update((place, origin) for place, _ in places(value, key))

    def remove(self, key: KeyPath) -> bool:
        """Take a value out of its section or map; whether it was there."""
        if not key or not self.has(key):
            return False
        del self.find(key[:-1])[key[-1]]
        return True

    def complain(self, key: KeyPath, message: str, *, origin: Origin | None = None) -> None:
        """Note a problem at this place."""
        self.problems.append(Problem(origin or self.origin_of(key), key, message))

    def is_doubtful(self, key: KeyPath) -> bool:
        """Whether something is already known to be wrong with this value or a part of it."""
        return any(problem.key and overlaps(key, problem.key) for problem in self.problems)


def places(value: Any, key: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """The value and everything in it, each with its place."""
    yield key, value
    inner = value.items() if isinstance(value, dict) else ()
    for name, item in enumerate(value) if isinstance(value, list) else inner:
        yield from places(item, (*key, name))
