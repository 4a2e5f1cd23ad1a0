"""The configuration file, read with care: its values, and the line that each was written in."""

import os
from dataclasses import dataclass
from typing import Any

from silas.app.settings.draft import Draft
from silas.app.settings.errors import (
    ConfigBinary,
    ConfigEncoding,
    ConfigMissing,
    ConfigNotAFile,
    ConfigSyntax,
    ConfigTooLarge,
    ConfigUnreadable,
)
from silas.app.settings.keys import ROOT, children
from silas.app.settings.locate import Location
from silas.app.settings.origin import Origin, presentable
from silas.app.settings.suggest import did_you_mean
from silas.kernel.errors import ConfigError
from silas.kernel.yaml_positions import YamlDocument, YamlError, load_yaml

_MAX_BYTES = 1_000_000
_TOP = "silas"


@dataclass(frozen=True)
class ConfigText:
    """The content of the file, and who may read and write it."""

    text: str
    mode: int


def read_config(location: Location) -> ConfigText | None:
    """The file's text; None if it is not there and nobody asked for it by name."""
    try:
        with location.path.open("rb") as file:
            raw, mode = file.read(_MAX_BYTES + 1), os.fstat(file.fileno()).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if location.named:
            raise _failure(ConfigMissing, location.shown) from None
        return None
    except IsADirectoryError:
        raise _failure(ConfigNotAFile, location.shown) from None
    except (OSError, ValueError) as error:  # a ValueError is a NUL in the path
        raise _failure(ConfigUnreadable, location.shown) from error
    return ConfigText(_decoded(raw, location), mode)


def _decoded(raw: bytes, location: Location) -> str:
    if len(raw) > _MAX_BYTES:
        raise _failure(ConfigTooLarge, location.shown)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _failure(ConfigEncoding, f"{location.shown}:{line}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _failure(ConfigBinary, f"{location.shown}:{line}")
    return text


def _failure(kind: type[ConfigError], place: str) -> ConfigError:
    return kind(f"{place}: {kind.sentence()}", file=place)


def draft_from(text: str, location: Location) -> Draft:
    """The settings that the file sets, with its lines; `ConfigSyntax` if it is not YAML at all."""
    draft = Draft()
    try:
        document = load_yaml(text)
    except YamlError as error:
        if error.document is None:
            raise _syntax_error(error, location) from None
        document = error.document
        for problem in error.problems:
            origin = Origin("file", location.shown, problem.position.line)
            key = problem.path[1:] if problem.path[:1] == (_TOP,) else ()
            draft.complain(key, _one_line(problem.message), origin=origin)
    _take_over(document, location, draft)
    return draft


def _syntax_error(error: YamlError, location: Location) -> ConfigSyntax:
    first = error.problems[0]
    line, column = first.position.line, first.position.column
    return ConfigSyntax(
        f"{location.shown}:{line}:{column}: {_one_line(first.message)}",
        file=location.shown,
        line=line,
        column=column,
    )


def _one_line(message: str) -> str:
    return message if message.isprintable() else presentable(message, longest=200)


def _take_over(document: YamlDocument, location: Location, draft: Draft) -> None:
    """Move what stands under `silas:` into the draft, and refuse whatever stands beside it."""
    for place, position in (*document.values.items(), *document.keys.items()):
        if place[:1] == (_TOP,):
            draft.origins[place[1:]] = Origin("file", location.shown, position.line)
    content = document.value if document.value is not None else {}
    if not isinstance(content, dict):
        draft.complain((), f"must begin with `{_TOP}:`", origin=_first_line(location))
        return
    for name in content:
        if name != _TOP:
            line = document.key_position((name,)).line
            origin = Origin("file", location.shown, line)
            draft.complain((), _misplaced(name), origin=origin)
    settings = content.get(_TOP)
    if isinstance(settings, dict):
        draft.values = settings
    elif settings is not None:
        draft.complain((), f"`{_TOP}` must be a section with settings below it")


def _misplaced(name: Any) -> str:
    if name in children(ROOT):
        return f"`{name}` belongs under `{_TOP}:`, indented by two spaces"
    near = did_you_mean(name, [_TOP])
    return f"`{presentable(name)}` is not known here; all settings stand under `{_TOP}:`{near}"


def _first_line(location: Location) -> Origin:
    return Origin("file", location.shown, 1)
