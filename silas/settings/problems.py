"""The settings while they are put together, and what is wrong with them.

A `SettingsDraft` holds values that are not checked yet, with the place (`SettingOrigin`) where each
was written, and gathers every `Problem`, so that the owner sees all of them at once with file and
line. `invalid_settings` makes one error of them; the classes below it are what can be wrong with
the file itself.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from silas.kernel.errors import ConfigError, ServerError
from silas.kernel.models import FieldPath, dotted
from silas.kernel.redaction import redact_text
from silas.settings.paths import DEFAULT, SettingOrigin

KeyPath = FieldPath


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it stands, which setting it is, and what would be right."""

    origin: SettingOrigin
    key: KeyPath
    message: str

    @property
    def name(self) -> str:
        """The setting as people write it: `gates.system[0].name`."""
        return redact_text(dotted(self.key))

    def __str__(self) -> str:
        parts = [str(self.origin)] if self.origin != DEFAULT else []
        parts += [self.name] if self.key else []
        return ": ".join([*parts, self.message])

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        return {**self.origin.as_json(), "key": self.name, "message": self.message}


def overlaps(one: KeyPath, other: KeyPath) -> bool:
    """Whether one key is the other, or lies inside it."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems as a reader of the file meets them; those of the environment come last."""
    return tuple(
        sorted(
            problems,
            key=lambda each: (each.origin.line is None, each.origin.line or 0, str(each.origin)),
        )
    )


@dataclass
class SettingsDraft:
    """Values not checked yet, where each was written, and what is wrong so far."""

    values: dict[str, Any] = field(default_factory=dict, repr=False)
    origins: dict[KeyPath, SettingOrigin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    concealed: set[KeyPath] = field(default_factory=set)
    """Values that came out of a variable: no message repeats them."""

    def origin_of(self, *keys: KeyPath) -> SettingOrigin:
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

    def put(self, key: KeyPath, value: Any, *, origin: SettingOrigin = DEFAULT) -> None:
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

    def complain(self, key: KeyPath, message: str, *, origin: SettingOrigin | None = None) -> None:
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


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """A question to append to a message, or nothing if no option is near."""
    found = difflib.get_close_matches(word[:100], list(options), n=1, cutoff=0.6)
    return f"; did you mean `{found[0]}`?" if found else ""


def invalid_settings(problems: Iterable[Problem], warnings: Iterable[str]) -> ConfigError:
    """All problems as one error: a line each in its message, and as data in its details.

    Warnings are told too: a variable that sets nothing may be what the missing value was meant for.
    """
    ordered = in_order(problems)
    count = "a problem" if len(ordered) == 1 else f"{len(ordered)} problems"
    lines = "".join(f"\n  {problem}" for problem in ordered)
    notes = "".join(f"\n  Note: {warning}" for warning in warnings)
    return ConfigError(
        f"The configuration has {count}:{lines}{notes}\n"
        "Correct this, and run `silas config check` to see whether it is right.",
        problems=[problem.as_json() for problem in ordered],
    )


class ConfigSyntax(ConfigError):
    """The configuration file is not valid YAML. Correct the line that is named."""

    code = "E_CFG_SYNTAX"


class ConfigMissing(ConfigError):
    """This configuration file does not exist. Check its name, or run `silas init` to make one."""

    code = "E_CFG_MISSING"


class ConfigNotAFile(ConfigError):
    """A directory stands where the configuration file should be. Name a file, or move it away."""

    code = "E_CFG_NOT_A_FILE"


class ConfigUnreadable(ConfigError):
    """The configuration file cannot be read. Check its permissions and who owns it."""

    code = "E_CFG_UNREADABLE"


class ConfigEncoding(ConfigError):
    """The configuration file is not UTF-8 text. Save it as UTF-8 in your editor."""

    code = "E_CFG_ENCODING"


class ConfigTooLarge(ConfigError):
    """The configuration file is larger than 1 MB. Check that it is the right file."""

    code = "E_CFG_TOO_LARGE"


class ConfigBinary(ConfigError):
    """The configuration file contains NUL bytes, so it is not text. Restore it or write it anew."""

    code = "E_CFG_BINARY"


class SettingsNotChanged(ServerError):
    """This cannot be changed from here. Write it into the configuration file, and start again."""

    code = "E_SERVER_SETTINGS"
